"""Samples of any server, from a file: correct ones are consistent, wrong ones are rejected, and a bad line is named by its number.

Samples are fixed by their seeds. A correct file is rejected with probability 0.001 over seeds.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.sampling import sample_files
from specviz.evidence.sampling.sample_files import compare_files
from specviz.settings import Settings

PROMPT = "Once upon"


@pytest.fixture(scope="module")
def served_samples(pair):
    """1,500 samples of two tokens at temperature 1, and as many at 0.7, as a server would return them."""

    def draw(**changes) -> list[list[int]]:
        settings = replace(Settings(pair="tiny", prompt=PROMPT, max_new_tokens=2, seed=11), **changes)
        tokens = build_decoder("target", pair, settings, pair.encode(PROMPT)).sample(SHARED, 0, 1500).tokens
        return [[token for token in row if token != NONE] for row in tokens.tolist()]

    return {"right": draw(), "again": draw(seed=12), "cooler": draw(temperature=0.7)}


def build_lines(draws, kind="tokens", prompt=PROMPT, **more) -> list[str]:
    stop = [{"stop": "length"}] * len(draws)
    return [json.dumps({"prompt": prompt, kind: draw} | how | more) for draw, how in zip(draws, stop, strict=True)]


@pytest.fixture
def write_file(tmp_path):
    def write(rows: list[str], name="samples.jsonl") -> str:
        (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture
def verify(pair_folders, capsys):
    def call(*more: str):
        code = main(["verify", "--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--max-new-tokens", "2", *more])
        return code, *capsys.readouterr()

    return call


@pytest.mark.usefixtures("no_pictures")
def test_exact_samples_are_consistent_with_the_distribution_and_the_report_is_a_certificate(
    write_file, verify, served_samples, tmp_path, capsys
):
    path = write_file(build_lines(served_samples["right"], settings={"temperature": 1, "max_tokens": 2}))
    code, out, _ = verify("--sample-file", path, "--min-tv", "0.2", "--format", "json", "--out", str(tmp_path / "out"))
    record = json.loads(out)
    assert code == 0 and record["verdict"] == "consistent" and record["decoder"] == "samples.jsonl"
    assert record["files"][0]["draws"] == 1500 and record["settings"]["prompt"] == PROMPT
    assert main(["check", str(tmp_path / "out" / "report.json")]) == 4
    assert "Not redrawn: its samples came from a file." in capsys.readouterr().out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert "--sample-file samples.jsonl" in manifest["commands"][0] and manifest["permalink"] == ""


def test_samples_at_another_temperature_are_rejected(write_file, verify, served_samples):
    code, out, _ = verify("--sample-file", write_file(build_lines(served_samples["cooler"])), "--min-tv", "0.2")
    assert code == 1 and "Rejected: 1,500 samples do not follow the target's distribution" in out


def test_a_file_that_names_its_temperature_is_not_compared_with_another(write_file, verify, served_samples):
    path = write_file(build_lines(served_samples["cooler"], settings={"temperature": 0.7}))
    code, _, error = verify("--sample-file", path)
    assert code == 2 and "temperature must be 0.7, as 'samples.jsonl' says, got 1.0" in error


def test_two_files_of_one_distribution_are_consistent_and_of_two_distributions_rejected_without_weights(
    write_file, served_samples, capsys
):
    one, two, three = (write_file(build_lines(served_samples[name]), f"{name}.jsonl") for name in served_samples)
    assert main(["compare", one, two, "--min-tv", "0.3"]) == 0
    assert "Consistent with one distribution: 1,500 and 1,500 samples" in capsys.readouterr().out
    assert main(["compare", one, three, "--min-tv", "0.3"]) == 1
    assert main(["compare", one, two, "--min-tv", "0.01"]) == 3
    assert "of each." in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_texts_are_compared_as_texts(write_file, pair, served_samples, capsys, tmp_path):
    texts = {name: [pair.decode(draw) for draw in draws] for name, draws in served_samples.items()}
    one, two, three = (write_file(build_lines(texts[name], "text"), f"{name}.jsonl") for name in served_samples)
    out = tmp_path / "out"
    assert main(["compare", one, two, "--min-tv", "0.3", "--out", str(out)]) == 0
    assert main(["compare", one, three, "--min-tv", "0.3"]) == 1
    capsys.readouterr()
    assert main(["check", str(out / "report.json")]) == 4
    assert "tests-1-two-files.svg" in json.loads((out / "manifest.json").read_text())["files"]
    changed = json.loads((out / "report.json").read_text())
    changed["answers"][0]["tests"][0]["adjusted_p"] = 0.5
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert main(["check", str(tmp_path / "changed.json")]) == 1


def test_text_without_ids_is_not_compared_with_a_distribution(write_file, verify):
    code, _, error = verify("--sample-file", write_file(build_lines(["a b", "c d"] * 20, "text")))
    assert code == 2 and "text without token ids" in error


def build_sample_file(draws, kind="tokens", **more) -> sample_files.SampleFile:
    return sample_files.parse_samples("\n".join(build_lines(draws, kind, **more)).encode(), "f.jsonl")


def test_more_than_four_thousand_samples_are_also_counted(monkeypatch):
    """The permutation test takes at most 4,000 of each file, and 1,000 here. Two files of 6,000 from one distribution of 40 texts, and one of another distribution at TV 0.1: detected with power far above 0.99."""
    monkeypatch.setattr(sample_files, "MOST", 1000)
    rng = np.random.Generator(np.random.Philox(5))
    probs = np.full(40, 1 / 40)
    other = probs * np.repeat([1.2, 0.8], 20)
    arms = [[[int(a) // 7, int(a) % 7, 3] for a in rng.choice(40, 6000, p=p)] for p in (probs, probs, other)]
    same, different = (compare_files(build_sample_file(arms[0]), build_sample_file(arms[k]), 0.1, 7) for k in (1, 2))
    assert [test["name"] for test in same["tests"]] == ["permutation of two files", "homogeneity of the first 64 tokens"]
    assert same["verdict"] == "consistent" and different["verdict"] == "rejected"
    assert different["tests"][1]["p_value"] < 1e-6


@pytest.mark.parametrize("row", [1, 3])
def test_a_seed_used_again_is_found_and_said(row):
    rng = np.random.Generator(np.random.Philox(6))
    draws = rng.integers(0, 50, (row, 8)).tolist()
    repeated = build_sample_file(draws * (60 // row))
    fresh = build_sample_file(rng.integers(0, 50, (60, 8)).tolist())
    if row == 1:  # without a distribution, one certain text looks the same: it is said, and nothing is called consistent
        assert "all requests used one seed" in compare_files(repeated, repeated, 0.5, 7)["note"]
        assert compare_files(repeated, repeated, 0.5, 7)["verdict"] == "too few samples"
        with pytest.raises(EvidenceError, match="one sample repeated, 60 lines"):
            sample_files.refuse_repeats(repeated, [-3.0] * 60)
    else:
        with pytest.raises(
            EvidenceError, match="a sequence of 3 samples repeated, 60 lines in all: the server got the same seed"
        ):
            compare_files(repeated, fresh, 0.5, 7)


def test_one_sample_repeated_is_refused_against_a_distribution_that_has_others(write_file, verify, served_samples):
    code, _, error = verify("--sample-file", write_file(build_lines([served_samples["right"][0]] * 200)))
    assert code == 2 and "one sample repeated, 200 lines" in error


def test_greedy_samples_may_repeat_since_the_distribution_has_one_text(write_file, verify, pair):
    settings = Settings(pair="tiny", prompt=PROMPT, max_new_tokens=2, temperature=0.0)
    (row,) = build_decoder("target", pair, settings, pair.encode(PROMPT)).sample(SHARED, 0, 1).tokens.tolist()
    code, out, _ = verify(
        "--sample-file", write_file(build_lines([row] * 300)), "--temperature", "0", "--format", "json", "--min-tv", "0.2"
    )
    assert code == 0 and "are the same" in json.loads(out)["note"] and "equality" in json.loads(out)["tests"][0]["note"]


@pytest.mark.parametrize(
    ("draws", "period"),
    [("aaaa", 1), ("abab", 2), ("ababa", 2), ("abcabc", 3), ("abcab", 5), ("abcd", 4), ("a", 1), ("aab", 3), ("aabaab", 3)],
)
def test_the_smallest_period_by_hand(draws, period):
    assert sample_files.find_period(draws) == period


GOOD = json.dumps({"prompt": PROMPT, "tokens": [3, 4], "stop": "length", "settings": {"temperature": 1, "seed": 5}})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (GOOD[:31], "line 3 is not valid JSON; perhaps it is cut off"),
        ("[3, 4]", "line 3 is not a sample"),
        ('{"tokens": [3, 4]}', "line 3 is not a sample"),
        (GOOD.replace("upon", "more"), "line 3 has another prompt"),
        (GOOD.replace("[3, 4]", "[3, -4]"), 'line 3: "tokens" must be a list of ids'),
        (GOOD.replace("[3, 4]", "[3, true]"), 'line 3: "tokens" must be a list of ids'),
        (GOOD.replace("[3, 4]", '"3 4"'), 'line 3: "tokens" must be a list of ids'),
        (GOOD.replace('"tokens": [3, 4]', '"text": "a b"'), "line 3 holds text, the first sample does not"),
        (GOOD.replace('"tokens"', '"token"'), 'line 3 has neither "tokens" nor "text"'),
        (GOOD.replace('"temperature": 1', '"temperature": 0.5'), "line 3 was drawn under other settings"),
        (GOOD.replace('"length"', "7"), 'line 3: "stop" must be text'),
        ("\xff", "line 3 is not valid JSON"),
        ("[" * 50_000, "line 3 is not valid JSON"),
    ],
)
def test_a_bad_line_is_one_sentence_with_its_number(line, said):
    rows = [GOOD, GOOD.replace('"seed": 5', '"seed": 6'), line, GOOD]
    with pytest.raises(EvidenceError) as caught:
        sample_files.parse_samples("\n".join(rows).encode("latin-1"), "f.jsonl")
    assert said in str(caught.value) and "'f.jsonl'" in str(caught.value)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        ({"tokens": [3, 999]}, "line 21 holds the id 999, outside the vocabulary of 300 tokens"),
        ({"tokens": [3]}, "line 21 has 1 token and the stop reason 'length'; 2 are needed"),
    ],
)
def test_a_sample_that_cannot_be_compared_with_the_distribution_is_named(draw, said, pair):
    rows = [GOOD] * 20 + [json.dumps(json.loads(GOOD) | draw)]
    found = sample_files.parse_samples("\n".join(rows).encode(), "f.jsonl")
    with pytest.raises(EvidenceError, match=said):
        sample_files.convert_to_samples(found, Settings(max_new_tokens=2), pair.vocabulary, pair.eos_token_ids)


@pytest.mark.usefixtures("no_pictures")
def test_a_text_that_goes_on_after_its_end_token_is_rejected_with_certainty(served_samples, write_file, verify, tmp_path):
    """Two of 1,500 samples are enough: an exact decoder writes none. The same samples, ended where they end, are consistent."""
    draws = [draw for draw in served_samples["right"] if draw[0] != 0]
    path = write_file(build_lines([*draws, [0], [0]]))
    assert verify("--sample-file", path, "--prompt", PROMPT, "--min-tv", "0.2")[0] == 0
    path = write_file(build_lines([*draws, [0, 5], [0, 0]]))
    code, out, _ = verify("--sample-file", path, "--prompt", PROMPT, "--min-tv", "0.2", "--format", "json")
    report = json.loads(out)
    assert code == 1 and report["verdict"] == "rejected"
    assert report["note"].startswith(f"2 of {len(draws) + 2:,} samples go on after the token that ends a text")
    transform = next(test for test in report["answers"][0]["tests"] if test["name"] == "probability transform")
    assert transform["p_value"] == 0.0 and "2 draws had probability 0" in transform["note"]


def test_a_text_that_ended_by_itself_gets_the_token_that_ends_texts(pair):
    rows = [GOOD] * 20 + [json.dumps(json.loads(GOOD) | {"tokens": [3], "stop": "stop"})]
    found = sample_files.convert_to_samples(
        sample_files.parse_samples("\n".join(rows).encode(), "f"), Settings(max_new_tokens=2), pair.vocabulary, pair.eos_token_ids
    )
    assert found.tokens[-1].tolist() == [3, *pair.eos_token_ids]


def test_files_that_cannot_be_used_as_a_whole_are_one_sentence(tmp_path, capsys, monkeypatch):
    empty, big = tmp_path / "empty.jsonl", tmp_path / "big.jsonl"
    empty.write_text("\n\n")
    big.write_text(GOOD * 50)
    monkeypatch.setattr(sample_files, "LARGEST", 1000)
    for arguments, said in (
        (["--sample-file", str(empty)], "'empty.jsonl' holds no samples"),
        (["--sample-file", str(big)], "'big.jsonl' is too large: at most 0 MB"),
        (["--sample-file", str(tmp_path / "none")], "could not be read (No such file or directory)"),
        (["--sample-file", str(tmp_path)], "could not be read (Is a directory)"),
    ):
        assert main(["verify", *arguments]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_files_of_different_prompts_kinds_or_settings_are_not_compared():
    one = build_sample_file([[1, 2], [3, 4]], settings={"temperature": 1.0})
    for other, said in (
        (build_sample_file([[1, 2]], prompt="Twice"), "different prompts"),
        (build_sample_file(["ab"], "text"), "holds token ids, 'f.jsonl' text"),
        (build_sample_file([[1, 2]], settings={"temperature": 0.5}), "temperature 1.0 and 0.5"),
    ):
        with pytest.raises(EvidenceError, match=said):
            compare_files(one, other, 0.1, 7)
