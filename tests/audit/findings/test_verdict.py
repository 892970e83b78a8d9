"""What an audit says of samples: the verdict of ``verify``, what speculation and precision have to do with it, and how to show it again.

A correct decoder is rejected once in 1,000 seeds. The mistakes here are missed in less than one seed of a million.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from specviz.audit.findings import verdict
from specviz.audit.findings.first_difference import (
    FirstDifference,
    FrequencyShift,
    find_first_difference_of_two,
    find_text_difference,
)
from specviz.audit.findings.reproduction import (
    ReproducibleRequest,
    TokenCounts,
    count_needed,
    count_needed_of_each,
    plan_reproduction,
    write_model_script,
)
from specviz.audit.findings.verdict import PrecisionDistance
from specviz.audit.profiles.llama_cpp import LlamaCppProfile
from specviz.audit.profiles.sglang import SglangProfile
from specviz.audit.profiles.transformers_serve import TransformersProfile
from specviz.audit.profiles.vllm import VllmProfile
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EvidenceError
from specviz.evidence.sampling.certificate import ALTERED, check_certificate
from specviz.export.report import build_commands
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.speed.records.server_commands import locate_models
from tests.audit.of_pair import compute_next_probs
from tests.audit.served import PROMPT, build_sample_file, build_settings, draw_mistaken_samples
from tests.audit.server import run_server

REQUEST = ReproducibleRequest.from_profile("http://localhost:8000/v1/completions", VllmProfile(), SamplingRequest(PROMPT, 3))
SECOND = ReproducibleRequest.from_profile("http://localhost:8001/v1/completions", VllmProfile(), SamplingRequest(PROMPT, 3))
N = 800  # samples of a file
COMMAND = ["specviz", "audit", "http://localhost:8000/v1", "--prompt", PROMPT]


def judge_samples(pair, name: str, drafted=True, on_progress=lambda share, doing: None, **settings) -> dict:
    file = build_sample_file(draw_mistaken_samples(name, pair, N), **settings)
    asked = {"settings": build_settings(pair), "tv": 0.3, "seed": 3, "drafted": [drafted], "command": COMMAND}
    return verdict.build_verdict(file, pair=pair, on_progress=on_progress, requests=[REQUEST], **asked)


@pytest.fixture(scope="module")
def exact_report(pair):
    return judge_samples(pair, "speculative", drafted=False)


@pytest.fixture(scope="module")
def progress():
    return []


@pytest.fixture(scope="module")
def rejected_report(pair, progress):
    on_progress = lambda share, doing: progress.append((share, doing))  # noqa: E731
    return judge_samples(pair, "R18", on_progress=on_progress, temperature=1.0, max_tokens=3, model="tiny")


def test_a_correct_decoder_is_consistent_and_nothing_is_diagnosed(exact_report):
    assert exact_report["verdict"] == "consistent"
    assert exact_report["audit"]["diagnosis"] is None and exact_report["audit"]["reproduction"] is None
    assert "Consistent with the target's distribution" in verdict.format_verdict(exact_report)


def test_a_mistake_is_rejected_named_and_reduced_to_one_token(rejected_report, pair):
    audit = rejected_report["audit"]
    assert rejected_report["verdict"] == "rejected" and audit["diagnosis"]["named"] == ["R18"]
    assert "part first at position 1" in audit["where"]
    again = audit["reproduction"]
    assert again["position"] == 1 and again["prompt_ids"] == list(pair.encode(PROMPT)) and again["prefix_ids"] == []
    assert again["reaching"] == again["samples"] > 0, "every sample has the empty prefix"
    said = verdict.format_verdict(rejected_report)
    assert "Looks like R18, random number stuck at 0" in said and again["script"].splitlines()[0] in said


def test_that_speculation_was_not_seen_is_a_verdict_of_its_own(exact_report, rejected_report):
    assert exact_report["audit"]["speculation"]["verdict"] == "speculation was not seen at work"
    assert "Speculation was not seen at work" in verdict.format_verdict(exact_report)
    assert rejected_report["audit"]["speculation"]["drafted"] is True and "seen at work" in verdict.format_verdict(
        rejected_report
    )


def test_the_report_is_a_certificate_whose_command_is_the_audits(exact_report, rejected_report):
    for report in (exact_report, rejected_report):
        stored = json.loads(json.dumps(report, allow_nan=False))
        assert stored == report, "JSON keeps it as it is"
        assert [line for line in check_certificate(stored) if line.state == ALTERED] == []
        assert build_commands(stored) == [
            f"specviz audit http://localhost:8000/v1 --prompt '{PROMPT}'",
            "python -m specviz check report.json",
        ]
    changed = json.loads(json.dumps(rejected_report))
    changed["audit"]["diagnosis"]["named"] = []
    assert [line.field for line in check_certificate(changed) if line.state == ALTERED] == ["audit"]


def test_what_precision_alone_explains_is_computed(exact_report, rejected_report):
    for report in (exact_report, rejected_report):
        found = report["audit"]["precision"]
        assert (found["reference"], found["other"]) == ("float32", "bfloat16") and 0.0 < found["tv"] < 0.1
    assert exact_report["audit"]["precision"]["verdict_in_other"] is None
    assert rejected_report["audit"]["precision"]["verdict_in_other"] == "rejected"
    assert "rounding does not explain them" in verdict.format_verdict(rejected_report)


def test_a_p_value_that_float64_cannot_hold_is_said_to_be_below_it(pair):
    """Chi-square of thousands on tens of degrees of freedom: the server writes three texts for all."""
    three = draw_mistaken_samples("target", pair, 3)
    stuck = build_sample_file(replace(three, tokens=three.tokens.repeat(500, 0)))
    found = verdict.build_verdict(
        stuck, pair=pair, settings=build_settings(pair), tv=0.3, seed=3, drafted=[True], command=COMMAND
    )
    assert "p < 1e-300 after correction" in found["sentence"] and "p = 0 " not in verdict.format_verdict(found)


def test_two_files_are_compared_without_weights(pair):
    on, off, other = (
        build_sample_file(draw_mistaken_samples(name, pair, N, seed=seed), f"{name}.jsonl")
        for name, seed in (("speculative", 1), ("target", 2), ("R18", 3))
    )
    asked = {"settings": build_settings(pair), "tv": 0.4, "seed": 3, "drafted": [True, False], "command": COMMAND}
    same = verdict.build_verdict(on, against=off, **asked)
    assert same["verdict"] == "consistent" and same["audit"]["precision"] is None
    assert same["audit"]["where"] is None
    wrong = verdict.build_verdict(other, against=off, **asked)
    assert wrong["verdict"] == "rejected" and wrong["audit"]["diagnosis"] is None
    first, frequent = wrong["audit"]["where"], Counter(sample[0] for sample in other.samples).most_common(1)[0]
    assert first.startswith(
        f"The samples part first at position 1, the first of {N:,} samples"
    ) and first in verdict.format_verdict(wrong)
    assert f"\u201c{frequent[0]}\u201d comes too often ({frequent[1] / N:.3f}, on the second server " in first
    assert [
        line for line in check_certificate(same) if line.state == ALTERED
    ] == [] and "one distribution" in verdict.format_verdict(same)
    assert wrong["audit"]["reproduction"] is None, "no server is known"
    named = verdict.build_verdict(other, against=off, requests=(REQUEST, SECOND), **asked)
    again, said = named["audit"]["reproduction"], verdict.format_verdict(named)
    counts = {one["token"]: (one["first"], one["second"]) for one in again["counts"]}
    seen = [Counter(sample[0] for sample in file.samples) for file in (other, off)]
    assert counts == {token: (seen[0][token], seen[1][token]) for token in counts} and again["token"] in counts
    assert (again["n"], again["m"]) == (N, N) and again["samples"] == again["reaching"] > 0
    assert again["sentence"] in said and again["script"].rstrip() in said
    assert all(server.address in again["script"] for server in (REQUEST, SECOND))
    assert json.loads(json.dumps(named, allow_nan=False)) == named and not [
        x for x in check_certificate(named) if x.state == ALTERED
    ]
    assert same["audit"]["reproduction"] is None
    with pytest.raises(EvidenceError, match="nothing to compare the samples with"):
        verdict.build_verdict(on, **asked)


def test_two_servers_part_at_the_earliest_prefix_that_differs():
    """200 samples each. Both begin with 1 or 2 equally often; after 1 one goes on with 3, the other with 4."""
    first, second = [(1, 3), (2, 5)] * 100, [(1, 4), (2, 5)] * 100
    found = find_first_difference_of_two(first, second)
    assert (found.position, found.prefix, found.samples) == (2, (1,), 100) and found.p_value < 1e-9
    assert [(one.text, one.observed, one.expected) for one in found.gains] == [("3", 1.0, 0.0)]
    assert [(one.text, one.observed, one.expected) for one in found.loses] == [("4", 0.0, 1.0)]
    read = find_first_difference_of_two(first, second, lambda ids: "".join(f" token{one}" for one in ids))
    assert (read.text, read.gains[0].text, read.loses[0].text) == (" token1", " token3", " token4")
    assert find_first_difference_of_two(first, first) is None and find_first_difference_of_two(first[:4], second[:4]) is None
    assert (found.second_samples, found.gains[0].token, found.loses[0].token) == (100, 3, 4)
    texts = find_first_difference_of_two([" a b"] * 50 + [" c"] * 50, [" a b"] * 100)
    assert (texts.position, texts.prefix) == (1, ()) and [one.text for one in texts.gains] == [" c"]


def test_of_texts_those_are_named_that_come_too_often_and_too_rarely():
    cells = [
        {"begins": ids, "count": count, "mass": mass} for ids, count, mass in (((), 20, 0.3), ((5,), 70, 0.4), ((6,), 10, 0.3))
    ]
    found = find_text_difference(cells, 1e-5, lambda ids: f"text {ids[0]}")
    assert (
        "\u201ctext 5\u201d comes too often (0.700, exact 0.400), \u201ctext 6\u201d too rarely (0.100, exact 0.300)"
        in found.describe()
    )
    assert "token ids, which this server does not give" in found.describe()
    assert find_text_difference([cells[0] | {"count": 30}, {"begins": (5,), "count": 70, "mass": 0.7}], 1e-5, str) is None
    made = plan_reproduction(
        found,
        PROMPT,
        (3, 4),
        [100],
        [ReproducibleRequest.from_profile("http://h/v1/completions", TransformersProfile(), SamplingRequest(PROMPT, 3), False)],
    )
    assert '[answer["choices"][0]["text"]]' in made.script and "the text is \u201ctext" in made.sentence
    assert f"prefix, token, n, hits, reached, exact = [], {made.text!r}, {made.samples}, 0, 0, {made.expected!r}" in made.script


def test_a_key_is_read_from_its_variable_and_never_written():
    made = plan_reproduction(PARTING, PROMPT, (3, 4), [1000], [replace(REQUEST, variable="SERVER_KEY")])
    assert '"Authorization": "Bearer " + os.environ[\'SERVER_KEY\']' in made.script
    assert "environ" not in plan_reproduction(PARTING, PROMPT, (3, 4), [1000], [REQUEST]).script


@pytest.mark.parametrize(
    ("drafted", "words"),
    (([True], "Speculation was seen at work:"), ([False], "not seen at work"), ([None], "is not known"),
     ([True, False], "on the first server alone"), ([False, True], "on the second server alone"),
     ([True, True], "on both servers, so a mistake that both make does not show"), ([False, False], "not seen at work"), ([None, False], "is not known")),
)  # fmt: skip
def test_of_two_servers_it_is_told_which_one_drafts(drafted, words):
    found = verdict.describe_speculation(drafted)
    assert words in found["sentence"] and found["drafted"] is (True if True in drafted else None if None in drafted else False)


def test_what_the_servers_records_say_stands_in_the_verdict(exact_report):
    trap = {
        "name": "default filters",
        "state": "caught",
        "sentence": "The filters are on: 6 tokens are reachable.",
        "stops": True,
    }
    servers = [
        {
            "traps": [trap, trap | {"stops": False, "sentence": "harmless"}],
            "seen": {"stripped": 2},
            "samples": 9,
            "manner": {"max_tokens": 2},
        },
        {"traps": [], "seen": {"stripped": 0, "uncounted": 0, "alone": 0}, "samples": 9, "manner": {"max_tokens": 2}},
    ]
    said = verdict.format_verdict(exact_report | {"audit": exact_report["audit"] | {"servers": servers}})
    assert "First server: The filters are on: 6 tokens are reachable." in said and "harmless" not in said
    assert "First server: The end token was left out of 2 samples" in said and "Second server" not in said
    servers[1]["seen"]["uncounted"] = 40
    unseen = verdict.list_server_remarks({"servers": servers})[-1]
    assert unseen.startswith("Second server: Whether 40 samples have as many tokens as were asked for could not be seen")
    servers[1]["seen"]["alone"] = 4
    assert "4 requests of one sample each had as many as were asked for" in verdict.list_server_remarks({"servers": servers})[-1]
    alone = verdict.format_verdict(exact_report | {"audit": exact_report["audit"] | {"servers": servers[:1]}})
    assert "\nThe filters are on" in alone and "First server" not in alone


def test_samples_of_the_other_precision_are_told_to_be_rounding(pair, monkeypatch):
    """The other precision stands in as the pair with target and draft exchanged, from whose target the samples are drawn."""
    other = replace(pair, target=pair.draft, draft=pair.target)
    samples = build_sample_file(draw_mistaken_samples("target", other, N))
    monkeypatch.setattr(verdict, "convert_precision", lambda pair: other)
    monkeypatch.setattr(verdict, "_measure_distance", lambda *given: PrecisionDistance("float32", "bfloat16", 0.2))
    report = verdict.build_verdict(
        samples, settings=build_settings(pair), pair=pair, tv=0.3, seed=3, drafted=[None], command=COMMAND
    )
    assert report["verdict"] == "rejected" and report["audit"]["precision"]["verdict_in_other"] == "consistent"
    assert "give --dtype bfloat16 if the server uses it" in verdict.format_verdict(report)


def test_progress_goes_up_and_says_what_is_done(rejected_report, progress):
    shares = [share for share, _ in progress]
    assert rejected_report and shares == sorted(shares) and shares[-1] == 1.0
    assert {"testing", "another precision", "known mistakes"} <= {doing for _, doing in progress}


# The reproduction --------------------------------------------------------------------------------------------------------------

SHIFT = FrequencyShift(439, " there", 0.9, 0.6)
PARTING = FirstDifference(2, (5,), " was", 400, 1e-9, (SHIFT, FrequencyShift(1, "a", 0.01, 0.009)), ())


@pytest.mark.parametrize(("exact", "seen"), ((0.6, 0.9), (0.1, 0.875), (0.448, 0.561), (0.077, 0.027), (0.01, 0.03)))
def test_the_fewest_samples_detect_the_difference_nearly_always(exact, seen):
    """The power of the exact binomial test of level 0.001 with that many samples, and with half of them: near 99%, and far from it."""
    powers = []
    for n in (count_needed(FrequencyShift(1, "a", seen, exact)), count_needed(FrequencyShift(1, "a", seen, exact)) // 2):
        low, high = stats.binom.ppf(0.0005, n, exact), stats.binom.isf(0.0005, n, exact)
        powers.append(stats.binom.cdf(low - 1, n, seen) + stats.binom.sf(high, n, seen))
    assert powers[0] > 0.97 and powers[1] < 0.9


def test_a_token_that_the_model_never_writes_needs_only_to_come_once():
    assert count_needed(replace(SHIFT, expected=0.0)) == 2  # 0.1^2 = 1%


def test_the_samples_count_those_that_do_not_reach_the_prefix():
    """400 of 1,000 do, so more than 2.5 times as many are asked for; the token that needs fewest is counted."""
    made = plan_reproduction(PARTING, PROMPT, (3, 4), [1000], [REQUEST])
    assert made.token == 439 and made.prefix_ids == (5,)
    assert 2.5 * made.samples_with_prefix < made.samples < 5 * made.samples_with_prefix
    assert f"{made.samples:,} samples show a difference of this size with power 99%" in made.sentence


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("chat", "dialect", "profile"), ((0, "vllm", VllmProfile), (1, "vllm", VllmProfile), (0, "llama.cpp", LlamaCppProfile), (1, "llama.cpp", LlamaCppProfile), (0, "sglang", SglangProfile)))  # fmt: skip
def test_the_script_asks_each_server_in_its_own_way_and_counts_what_the_report_says(chat, dialect, profile, tmp_path):
    """Run as it stands. The test's server gives the same ids to the same seed, so the counts are known without the script."""
    with run_server(dialect=dialect) as server:
        endpoint, sampling = Endpoint(server.url, timeout=10.0), SamplingRequest("Once upon a time", 3, chat=bool(chat))
        path, samples = profile().select_path(sampling), []
        for seed in range(1, 41):
            answer = profile().read_answer(endpoint.request_json(path, profile().build_body(sampling, seed)))
            samples.append(answer.samples[0].tokens)
        prefix, token = samples[0][:1], samples[0][1]
        shift, share = FrequencyShift(token, "a", 0.9, 0.6), sum(ids[:1] == prefix for ids in samples)
        made = plan_reproduction(
            FirstDifference(2, prefix, "b", share, 1e-9, (shift,), ()),
            PROMPT,
            (3, 4),
            [40],
            [ReproducibleRequest.from_profile(endpoint.build_address(path), profile(), sampling)],
        )
        endpoint.close()
        script = made.script.replace(f", {made.samples}, 0, 0", ", 40, 0, 0")
        assert script != made.script
        (tmp_path / "again.py").write_text(script)
        done = subprocess.run([sys.executable, tmp_path / "again.py"], capture_output=True, text=True, timeout=60)
    hits = sum(ids[:2] == (*prefix, token) for ids in samples)
    assert 0 < hits <= share < 40
    assert done.stdout.strip() == f"{hits} of {share}: {hits / share:.3f}, the model's own distribution says 0.600"
    assert done.returncode == int(stats.norm.sf((abs(hits - 0.6 * share) - 0.5) / (0.24 * share) ** 0.5) * 2 < 0.001)


def test_the_script_of_the_model_computes_the_exact_probability(pair, pair_folders, capsys):
    """Run as it stands, against the tiny target, whose probabilities are known."""
    prompt, settings = tuple(pair.encode(PROMPT)), Settings(pair=pair.name, prompt=PROMPT, temperature=0.7)
    made = plan_reproduction(PARTING, PROMPT, prompt, [1000], [REQUEST])
    cooled = compute_next_probs(pair.target, (*prompt, *made.prefix_ids)) ** (1 / 0.7)
    made = replace(made, token=int(cooled.argmax()))
    exec(write_model_script(made, settings, str(pair_folders[0])), {})
    assert capsys.readouterr().out.strip().endswith(f"says {cooled.max() / cooled.sum():.4f}")
    assert (
        write_model_script(made, replace(settings, top_k=5), "T")
        == write_model_script(made, replace(settings, temperature=0.0), "T")
        == ""
    )


def test_the_script_of_the_model_runs_in_any_folder_and_a_record_has_no_folder_of_this_machine():
    made = plan_reproduction(PARTING, PROMPT, (3, 4), [1000], [REQUEST])
    script = write_model_script(made, Settings(prompt=PROMPT), locate_models("storybook").target)
    assert str(ASSETS) not in script
    (shown,) = re.findall(r"from_pretrained\('(.*)', dtype", verdict.locate_target(script, "storybook"))
    assert Path(shown) == (ASSETS / "models" / "storybook" / "target").resolve() and Path(shown).is_dir()
    assert verdict.locate_target("from_pretrained('a/b')", "a/b|c/d") == "from_pretrained('a/b')", "a hub name"


# The reproduction of two servers ------------------------------------------------------------------------------------------------


def compute_two_sample_power(n: int, one: float, two: float) -> float:
    """Probability that the script's test of level 0.001 rejects with n samples of each rate, summed over all pairs of counts."""
    hits = np.arange(n + 1)
    mean, per = np.add.outer(hits, hits) / (2 * n), 2.0 / n
    apart = np.maximum(0.0, abs(np.subtract.outer(hits, hits)) / n - per / 2)
    spread = np.sqrt(np.where((mean > 0) & (mean < 1), mean * (1 - mean) * per, 1.0))
    chance = np.multiply.outer(stats.binom.pmf(hits, n, one), stats.binom.pmf(hits, n, two))
    return float(chance[2 * stats.norm.sf(apart / spread) <= 0.001].sum())


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(("exact", "seen"), ((0.6, 0.9), (0.1, 0.875), (0.448, 0.561), (0.01, 0.05), (0.0, 0.3), (0.132, 0.0)))
def test_the_fewest_samples_of_two_servers_detect_the_difference_nearly_always(exact, seen):
    """Computed over all pairs of counts. With half as many the power is far from 99%; two equal servers are told apart once in 1,000."""
    n = count_needed_of_each(FrequencyShift(1, "a", seen, exact))
    assert compute_two_sample_power(n, exact, seen) > 0.98 and compute_two_sample_power(n // 2, exact, seen) < 0.9
    assert max(compute_two_sample_power(n, one, one) for one in (exact, seen)) < 0.0011


def test_of_two_servers_the_one_that_reaches_the_prefix_more_rarely_decides_how_many_are_asked():
    parted = replace(PARTING, second_samples=100)
    made = plan_reproduction(parted, PROMPT, (), (1000, 1000), (REQUEST, SECOND))
    swapped = plan_reproduction(replace(parted, samples=100, second_samples=400), PROMPT, (), (1000, 1000), (REQUEST, SECOND))
    assert made.token == 439 and made.samples_with_prefix == count_needed_of_each(SHIFT) and made.samples == swapped.samples
    assert 10 * made.samples_with_prefix < made.samples < 20 * made.samples_with_prefix
    assert made.counts[0] == TokenCounts(439, " there", 360, 60)
    assert "90.0% of the samples of the first server and in 60.0% of the second" in made.sentence


def test_the_script_of_two_servers_asks_both_with_seeds_of_their_own_and_tests_what_it_counted(tmp_path):
    """Run as it stands. The servers give the same ids to the same seed, so counts and p-value are known without the script."""
    sampling, n = SamplingRequest("Once upon a time", 3), 40
    with run_server() as one, run_server(dialect="llama.cpp", top_k=2) as two:
        samples, requests = [], []
        for number, (server, profile) in enumerate(((one, VllmProfile()), (two, LlamaCppProfile()))):
            endpoint, path = Endpoint(server.url, timeout=10.0), profile.select_path(sampling)
            asked = [profile.build_body(sampling, seed) for seed in range(1 + number * n, n + 1 + number * n)]
            samples.append([profile.read_answer(endpoint.request_json(path, body)).samples[0].tokens for body in asked])
            requests.append(ReproducibleRequest.from_profile(endpoint.build_address(path), profile, sampling))
            endpoint.close()
            server.seen.bodies.clear()
        prefix = Counter(ids[:1] for ids in samples[1]).most_common(1)[0][0]
        reached = [sum(ids[:1] == prefix for ids in arm) for arm in samples]
        token = Counter(ids[1] for ids in samples[1] if ids[:1] == prefix).most_common(1)[0][0]
        parted = FirstDifference(2, prefix, "b", reached[0], 1e-9, (FrequencyShift(token, "a", 0.2, 0.8),), (), False, reached[1])
        made = plan_reproduction(parted, PROMPT, (), (n, n), (requests[0], requests[1]))
        script = made.script.replace(f", {made.samples}, [0, 0]", f", {n}, [0, 0]")
        assert script != made.script
        (tmp_path / "again.py").write_text(script)
        done = subprocess.run([sys.executable, tmp_path / "again.py"], capture_output=True, text=True, timeout=60)
        assert [body["seed"] for body in one.seen.bodies] == list(range(1, n + 1))
        assert [body["seed"] for body in two.seen.bodies] == list(range(n + 1, 2 * n + 1))
    hits = [sum(ids[:2] == (*prefix, token) for ids in arm) for arm in samples]
    lines = [f"server {k + 1}: {hits[k]} of {reached[k]}: {hits[k] / reached[k]:.3f}" for k in (0, 1)]
    table = [[hits[k], reached[k] - hits[k]] for k in (0, 1)]
    p_value = stats.chi2_contingency(table, correction=True).pvalue
    said = done.stdout.splitlines()
    assert min(reached) > 2 and said[:2] == lines and said[2] == f"one rate for both: p = {p_value:.2g}, rejected below 0.001"
    assert done.returncode == int(p_value < 0.001)
