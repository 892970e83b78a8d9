"""What ends up in a sample file: the first answers in the order of the questions, each seed once, whatever the server does."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import pytest

from specviz.audit.collection import collect as collecting
from specviz.audit.collection.collect import ROUNDS_PER_TURN, CollectionJob, collect_samples, read_record, record_path
from specviz.audit.collection.size import PROBE_REGION, SEED_REGION, CollectionSize, compute_first_seed
from specviz.audit.profiles.answers import bound_value
from specviz.audit.profiles.base import SampledText, ServerAnswer
from specviz.audit.profiles.recognition import format_changes, list_changes, recognize_server
from specviz.audit.protocol import endpoint as waiting
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError, SettingsError
from specviz.evidence.sampling.sample_files import read_samples
from tests.audit.server import FakeClock, run_server

PLAIN = SamplingRequest("Once upon a time", 4)


def collect_one(
    server, path, samples: int = 40, sampling: SamplingRequest = PLAIN, on_progress=lambda share, doing: None, rate=None, **asked
):
    """One call of ``collect``, as the command makes it."""
    return collect_in_turn([server], [path], samples, sampling, on_progress, rate, **asked)[0]


def collect_in_turn(servers, paths, samples, sampling=PLAIN, on_progress=lambda share, doing: None, rate=None, **asked):
    """The same for several servers: their records."""
    jobs = []
    try:
        for arm, (server, path) in enumerate(zip(servers, paths, strict=True)):
            endpoint = Endpoint(server.url, timeout=5.0, rate=rate)
            who = recognize_server(endpoint)
            profile, _, said = who.profile.settle(endpoint, sampling)
            how = CollectionSize(samples, **{"concurrency": 4, "arm": arm} | asked)
            jobs.append(CollectionJob(endpoint, replace(who, profile=profile), sampling, how, path, (), tuple(said)))
        return collect_samples(jobs, on_progress)
    finally:
        for job in jobs:
            job.endpoint.close()


def list_seeds(path) -> list[int]:
    return [json.loads(line)["settings"]["seed"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llama.cpp", "transformers", "generic"])
def test_a_file_is_what_verify_reads_and_each_seed_is_used_once(dialect, tmp_path):
    path = tmp_path / "samples.jsonl"
    with run_server(dialect=dialect) as server:
        record = collect_one(server, path)
    file = read_samples(path)
    assert len(file.samples) == 40 == record.samples and file.prompt == PLAIN.prompt
    assert file.settings == {"temperature": 1.0, "max_tokens": 4}
    assert file.tokens == (dialect in ("vllm", "sglang", "llama.cpp"))
    assert list_seeds(path) == [compute_first_seed(7, 0) + number for number in range(40)]
    assert read_record(path) == record and "secret" not in record_path(path).read_text()
    stored = json.loads(record_path(path).read_text())
    assert {"manner", "asked", "at_once", "traps", "began", "ended", "seen"} <= stored.keys(), "records keep their names"
    assert {"stripped", "uncounted", "alone", "retried", "refused", "broken", "late"} <= stored["seen"].keys()


def test_answers_stand_in_the_order_of_the_questions_though_they_come_in_another(tmp_path):
    """Samples that end early come early: a file in the order of arrival would hold too many of them when it is stopped."""
    with run_server(slow=lambda number: 0.05 if number % 5 == 0 else 0.0) as server:
        collect_one(server, tmp_path / "a.jsonl")
    with run_server() as server:
        collect_one(server, tmp_path / "b.jsonl", concurrency=1)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_no_more_requests_are_under_way_than_were_allowed(tmp_path):
    with run_server(slow=lambda number: 0.01) as server:
        collect_one(server, tmp_path / "s.jsonl", concurrency=3)
        assert 2 <= server.seen.most <= 3


def test_a_limited_rate_is_kept(tmp_path, monkeypatch):
    """A probe and twenty requests at 50 per second, all at one moment: the first goes at once, and the next 0.02 s after the one before it."""
    clock = FakeClock(monkeypatch, is_still=True)
    with run_server() as server:
        collect_one(server, tmp_path / "s.jsonl", samples=20, rate=50.0)
    assert sorted(clock.waits) == pytest.approx([number / 50 for number in range(21)])


def test_work_that_is_stopped_keeps_a_first_part_and_goes_on_with_fresh_seeds(tmp_path):
    path = tmp_path / "s.jsonl"

    def stop(share: float, doing: str) -> None:
        if share >= 0.25:
            raise KeyboardInterrupt

    with run_server() as server:
        with pytest.raises(KeyboardInterrupt):
            collect_one(server, path, on_progress=stop)
        kept = path.read_bytes()
        count = kept.count(b"\n")
        assert 10 <= count < 40 and kept.endswith(b"\n") and read_record(path).samples == count
        record = collect_one(server, path)
    assert path.read_bytes().startswith(kept) and record.samples == 40
    assert list_seeds(path) == [compute_first_seed(7, 0) + number for number in range(40)]
    with run_server() as server:
        collect_one(server, tmp_path / "whole.jsonl")
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_line_that_a_crash_cut_off_is_dropped_and_asked_for_again(tmp_path):
    path = tmp_path / "s.jsonl"
    with run_server() as server:
        collect_one(server, path, samples=20)
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        collect_one(server, path, samples=20)
    assert path.read_bytes() == whole


def test_more_samples_than_before_continue_the_file(tmp_path):
    path = tmp_path / "s.jsonl"
    with run_server() as server:
        collect_one(server, path, samples=10)
        asked = len(server.seen.bodies)
        collect_one(server, path, samples=10)
        assert len(server.seen.bodies) == asked + 1, "only the request that settles the profile"
        collect_one(server, path, samples=25)
    assert len(set(list_seeds(path))) == 25


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": SamplingRequest("Another text", 4)},
        {"sampling": SamplingRequest(PLAIN.prompt, 3)},
        {"seed": 8},
        {"choices": 2},
    ],
)
def test_a_file_of_other_questions_is_not_continued(change, tmp_path):
    path = tmp_path / "s.jsonl"
    with run_server() as server:
        collect_one(server, path, samples=10)
        before = path.read_bytes()
        with pytest.raises(SettingsError, match="was begun with something else"):
            collect_one(server, path, **change)
    assert path.read_bytes() == before


def test_a_file_of_another_server_is_not_continued(tmp_path):
    path = tmp_path / "s.jsonl"
    with run_server() as server:
        collect_one(server, path, samples=10)
    with (
        run_server(version="0.33.0") as server,
        pytest.raises(SettingsError, match=r'description of itself: version was "0.32.0" and now is "0.33.0"'),
    ):
        collect_one(server, path)
    assert read_record(path).samples == 10


def test_a_file_without_a_record_or_with_a_damaged_one_is_left_alone(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("something\n")
    with run_server() as server:
        with pytest.raises(SettingsError, match="without a record of who sampled it"):
            collect_one(server, path)
        record_path(path).write_text('{"schema": "specviz-audit-samples-1"')
        with pytest.raises(SettingsError, match="has a damaged record"):
            collect_one(server, path)
    assert path.read_text() == "something\n"


def test_a_model_that_changes_in_the_middle_ends_the_work_and_the_first_part_is_kept(tmp_path):
    path = tmp_path / "s.jsonl"
    with (
        run_server(becomes=(15, "other")) as server,
        pytest.raises(EndpointError, match=r'model was "table" and now is "other"\.') as error,
    ):
        collect_one(server, path, concurrency=1)
    kept = len(path.read_text().splitlines())
    assert kept == 13 == read_record(path).samples and "13 samples of the first one are kept" in str(error.value)
    assert len(read_samples(path).samples) == 13  # one of the 14 settled the profile


def test_a_fingerprint_that_changes_in_the_middle_ends_the_work_and_names_both(tmp_path):
    path = tmp_path / "s.jsonl"
    with (
        run_server(fingerprint=lambda number: "fp_1" if number < 15 else "fp_2") as server,
        pytest.raises(
            EndpointError, match=r'system_fingerprint was "fp_1" and now is "fp_2"\. 13 samples of the first one are kept'
        ),
    ):
        collect_one(server, path, concurrency=1)
    assert len(read_samples(path).samples) == 13 == read_record(path).samples


CHANGED = {
    "version of vLLM": ("vllm", {"version": "0.33.0"}, 'version was "0.32.0" and now is "0.33.0"'),
    "build of llama.cpp": ("llama.cpp", {"version": "b2"}, 'version was "0.32.0" and now is "b2"'),
    "version of an unknown server": ("generic", {"version": "2"}, 'version was "0.32.0" and now is "2"'),
    "version that is gone": ("generic", {"version": ""}, 'version was "0.32.0" and now is nothing'),
    "id": ("generic", {"becomes": (0, "table"), "model": "other"}, r'models\[1\].id was "table" and now is "other"'),
    "root": ("vllm", {"root": "/models/new"}, r'models\[1\].root was nothing and now is "/models/new"'),
    "meta": ("llama.cpp", {"meta": {"n_params": 8}}, r"models\[1\].meta.n_params was 7 and now is 8"),
    "created": ("vllm", {"created": lambda: 5}, "created.table was 4 and now is 5"),
    "kind": ("vllm", {"dialect": "generic"}, 'kind of server was "vLLM" and now is "an OpenAI-compatible server"'),
}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("what", CHANGED)
def test_a_server_that_describes_itself_in_another_way_is_noticed_and_old_and_new_are_named(what, tmp_path, monkeypatch):
    dialect, then, sentence = CHANGED[what]
    path = tmp_path / "s.jsonl"
    monkeypatch.setattr(collecting, "IDENTITY_SECONDS", 0.0)
    monkeypatch.setattr(collecting, "CLOCK_TICK", 0.01)

    with run_server(dialect=dialect, meta={"n_params": 7}, created=lambda: 4, slow=lambda number: 0.005) as server:

        def restart(share: float, doing: str) -> None:
            if share > 0.5:
                for name, value in then.items():
                    setattr(server.switches, name, value)

        with pytest.raises(EndpointError, match=f"describes itself in another way than when the work began: .*{sentence}"):
            collect_one(server, path, on_progress=restart)
    assert 20 <= read_record(path).samples <= 40


@pytest.mark.parametrize("ticks", [1e6, 50.0])
def test_a_time_of_loading_that_is_the_time_of_the_answer_is_no_change(ticks, tmp_path, monkeypatch):
    """As vLLM and llama.cpp write it. The slower clock stands still between two looks in a row, and has gone on after SECOND."""
    monkeypatch.setattr(collecting, "IDENTITY_SECONDS", 0.0)
    monkeypatch.setattr(collecting, "CLOCK_TICK", 0.05)
    with run_server(created=lambda: int(time.monotonic() * ticks), slow=lambda number: 0.02) as server:
        assert collect_one(server, tmp_path / "s.jsonl", samples=20).samples == 20


def test_what_a_server_says_of_itself_is_kept_in_bounds_and_compared_all_the_same():
    long, deep = {"n": ["x" * 5000]}, json.loads("[" * 900 + "]" * 900)
    kept_of_it = [bound_value(one) for one in (long, {"n": ["x" * 4999 + "y"]}, 7, deep)]
    assert kept_of_it[0] != kept_of_it[1] and all(len(json.dumps(one)) < 4100 for one in kept_of_it) and kept_of_it[2] == 7
    said = format_changes(list_changes({f"k{n}": "\x1b[31m" + "a" * 500 for n in range(9)}, {}))
    assert len(list_changes(deep, json.loads("[" * 900 + "1" + "]" * 900))) == 1
    assert len(said) < 800 and said.isprintable() and "and 6 more" in said


@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp", "transformers"])
def test_a_server_that_gives_fewer_tokens_is_a_sentence_and_no_sample(dialect, tmp_path):
    path = tmp_path / "s.jsonl"
    with (
        run_server(dialect=dialect, most_tokens=2) as server,
        pytest.raises(EndpointError, match="gave 2 tokens where a sample of 4"),
    ):
        collect_one(server, path)
    assert path.read_bytes() == b""


@pytest.mark.parametrize(("most", "choices", "sentence"), [
    (3, 4, "gave 12 tokens in 4 samples where samples of 4 tokens were asked for, and calls that the limit of 4 of them"),
    (1, 4, "gave 1 token where a sample of 4 tokens was asked for"),  # 4 tokens could be one sample's: one is asked for alone
    (2, 2, "gave 2 tokens where a sample of 4"),
])  # fmt: skip
def test_fewer_tokens_are_seen_in_texts_too_though_several_samples_share_a_count(most, choices, sentence, tmp_path):
    path = tmp_path / "s.jsonl"
    with run_server(dialect="generic", most_tokens=most) as server, pytest.raises(EndpointError, match=sentence):
        collect_one(server, path, choices=choices)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("usage", ["total", "first", "none"])
def test_a_count_that_is_no_count_of_all_samples_is_no_fault_and_is_told(usage, tmp_path):
    """The chain ends a text with a probability of 2e-5 per token, so all samples are whole."""
    with run_server(dialect="generic", usage=usage) as server:
        counts = collect_one(server, tmp_path / "s.jsonl", choices=4).counts
    assert (counts.without_count, counts.single_requests) == {"total": (0, 0), "first": (40, 4), "none": (40, 0)}[usage]
    used = [body["seed"] for body in server.seen.bodies]
    assert len(used) == len(set(used)), "single samples have seeds of their own"


def test_too_many_tokens_in_texts_are_seen_too():
    answer = ServerAnswer(tuple(SampledText(None, "a", stop) for stop in ("length", "stop", "length")), completion_tokens=14)
    with pytest.raises(EndpointError, match="gave 14 tokens in 3 samples where samples of 4 tokens were asked for"):
        collecting.refuse_short(answer, PLAIN)
    for count in (13, 9, 8):  # with all that the one that ended may have
        collecting.refuse_short(replace(answer, completion_tokens=count), PLAIN)
    with pytest.raises(EndpointError, match="gave 7 tokens in 3 samples"):
        collecting.refuse_short(replace(answer, completion_tokens=7), PLAIN)
    first = ServerAnswer((SampledText(None, "", "stop"), SampledText(None, "abcd", "length")), completion_tokens=1)
    collecting.refuse_short(first, PLAIN)
    assert not collecting.has_token_count(first, PLAIN), "it may be the first sample's count alone"


@pytest.mark.parametrize("choices", [1, 3])
def test_a_server_that_fails_half_of_the_time_gives_the_same_file(choices, tmp_path, monkeypatch):
    """And lost answers do too: each request has one seed, however often it is sent."""
    monkeypatch.setattr(waiting, "FIRST_BACKOFF", 0.001)
    with run_server() as server:
        collect_one(server, tmp_path / "good.jsonl", choices=choices)
    with run_server(fails=lambda number: 500 if number % 2 else 0) as server:
        record = collect_one(server, tmp_path / "fails.jsonl", choices=choices)
    assert record.counts.error_answers >= 10 and record.counts.retries >= 10
    with run_server(cut=lambda number: number % 3 == 0) as server:
        assert collect_one(server, tmp_path / "cut.jsonl", choices=choices).counts.connection_errors >= 5
    good = (tmp_path / "good.jsonl").read_bytes()
    assert (tmp_path / "fails.jsonl").read_bytes() == good == (tmp_path / "cut.jsonl").read_bytes()
    assert len(set(list_seeds(tmp_path / "good.jsonl"))) == 40


def test_a_server_that_dies_leaves_what_was_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting, "MAX_BACKOFF", 0.001)
    path = tmp_path / "s.jsonl"
    with run_server(fails=lambda number: 500 if number > 20 else 0) as server, pytest.raises(EndpointError, match="status 500"):
        collect_one(server, path, concurrency=1)
    assert len(read_samples(path).samples) == 19 == read_record(path).samples


def test_choices_that_a_server_does_not_give_are_not_counted(tmp_path):
    with run_server(ignores_n=True) as server:
        record = collect_one(server, tmp_path / "s.jsonl", samples=12, choices=4)
    assert record.samples == 12 and record.counts.requests == 12
    assert list_seeds(tmp_path / "s.jsonl") == [compute_first_seed(7, 0) + 4 * number for number in range(12)]


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    ("dialect", "drafts"),
    [("vllm", True), ("vllm", False), ("llama.cpp", True), ("llama.cpp", False), ("sglang", True), ("sglang", False)],
)
def test_drafting_at_work_is_seen_and_so_is_its_absence(dialect, drafts, tmp_path):
    with run_server(dialect=dialect, drafts=drafts) as server:
        record = collect_one(server, tmp_path / "s.jsonl")
    assert record.drafted is drafts and record.counts.drafted == (80 if drafts else 0)


def test_drafting_that_a_server_does_not_show_is_neither(tmp_path):
    with run_server(dialect="transformers", drafts=True) as server:
        assert collect_one(server, tmp_path / "s.jsonl").drafted is None


def test_an_end_token_that_the_server_keeps_to_itself_is_counted(tmp_path):
    with run_server(probs=lambda ids: [0.5, 0.25, 0.25], strips_end=True, encode=lambda text: [1]) as server:
        record = collect_one(server, tmp_path / "s.jsonl")
    file = read_samples(tmp_path / "s.jsonl")
    ended = file.stop_reasons.count("stop")
    assert record.counts.without_end == record.counts.ended == ended > 0


def test_the_seeds_of_two_files_and_of_the_probes_never_meet():
    """Whatever the seed and however many samples: each region begins in its first half and a file fits into the other."""
    for seed in (0, 7, 2**63 - 1):
        starts = [compute_first_seed(seed, region) for region in (0, 1, PROBE_REGION)]
        assert all(region * SEED_REGION < start <= region * SEED_REGION + SEED_REGION // 2 for region, start in enumerate(starts))
        assert starts[-1] + SEED_REGION // 2 < 2**31
    assert compute_first_seed(7, 0) != compute_first_seed(8, 0)


def test_a_file_that_would_be_too_large_is_refused_before_anything_is_asked(tmp_path):
    with run_server() as server:
        with pytest.raises(SettingsError, match="would be larger than 200 MB"):
            collect_one(server, tmp_path / "s.jsonl", samples=1_000_000, sampling=SamplingRequest("word " * 200, 4))
        assert not (tmp_path / "s.jsonl").exists()


# Two servers -------------------------------------------------------------------------------------------------------------------


def list_paths(folder):
    return [folder / "samples.jsonl", folder / "against.jsonl"]


def list_runs(order: list[str]) -> list[tuple[str, int]]:
    return [(name, len(list(same))) for name, same in groupby(order)]


@contextmanager
def run_two_servers(order: list[str], **switches):
    """Two servers that write down when they were asked for a sample."""

    def record_request(name):
        return lambda number: order.append(name) or 0.0

    with run_server(slow=record_request("A"), **switches) as one, run_server(slow=record_request("B"), **switches) as two:
        yield [one, two]


def test_two_servers_are_asked_in_turn_and_neither_always_first(tmp_path):
    """A B B A B A A B ... in batches of TURN rounds: whatever drifts meets both alike. Each server sees no request during the other's turn."""
    order: list[str] = []
    with run_two_servers(order) as servers:
        records = collect_in_turn(servers, list_paths(tmp_path), 10 * ROUNDS_PER_TURN, concurrency=2)
    batch = 2 * ROUNDS_PER_TURN
    assert order[:2] == ["A", "B"], "the requests that settle the profiles"
    assert list_runs(order[2:]) == [
        ("A", batch),
        ("B", 2 * batch),
        ("A", 2 * batch),
        ("B", 2 * batch),
        ("A", 2 * batch),
        ("B", batch),
    ]
    assert [record.samples for record in records] == [10 * ROUNDS_PER_TURN] * 2


def test_a_slow_server_is_not_left_behind(tmp_path):
    """However unlike their speeds: at every moment the two files differ by less than one batch."""
    apart, paths = [], list_paths(tmp_path)

    def on_progress(share: float, doing: str) -> None:
        apart.append(abs(int.__sub__(*(int(word) for word in doing.split(" of ")[0].split(" and ")))))

    with run_server(slow=lambda number: 0.01) as slow, run_server() as quick:
        collect_in_turn([slow, quick], paths, 5 * ROUNDS_PER_TURN, on_progress=on_progress, concurrency=1)
    assert 0 < max(apart) <= ROUNDS_PER_TURN and apart[-1] == 0


def test_two_files_that_were_stopped_go_on_in_turn_and_become_what_they_would_have_been(tmp_path):
    order: list[str] = []
    kept, whole = tmp_path / "kept", tmp_path / "whole"
    kept.mkdir()
    whole.mkdir()

    def stop(share: float, doing: str) -> None:
        if share >= 0.45:
            raise KeyboardInterrupt

    with run_two_servers(order) as servers:
        with pytest.raises(KeyboardInterrupt):
            collect_in_turn(servers, list_paths(kept), 6 * ROUNDS_PER_TURN, on_progress=stop, concurrency=1)
        first = [path.read_bytes() for path in list_paths(kept)]
        lines = [content.count(b"\n") for content in first]
        assert 5 * ROUNDS_PER_TURN <= sum(lines) < 8 * ROUNDS_PER_TURN and abs(lines[0] - lines[1]) <= ROUNDS_PER_TURN
        assert [read_record(path).samples for path in list_paths(kept)] == lines
    order = []
    with run_two_servers(order) as servers:
        collect_in_turn(servers, list_paths(kept), 6 * ROUNDS_PER_TURN, concurrency=1)
        assert order.count("A") == 1 + 6 * ROUNDS_PER_TURN - lines[0] and order.count("B") == 1 + 6 * ROUNDS_PER_TURN - lines[1]
        assert max(count for _, count in list_runs(order[2:])) <= 2 * ROUNDS_PER_TURN, "the rest is in turn too"
        collect_in_turn(servers, list_paths(whole), 6 * ROUNDS_PER_TURN, concurrency=1)
    for before, path, other in zip(first, list_paths(kept), list_paths(whole), strict=True):
        assert path.read_bytes() == other.read_bytes() and path.read_bytes().startswith(before)


def test_of_two_servers_the_one_that_fails_is_named_and_both_parts_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(waiting, "MAX_BACKOFF", 0.001)
    with (
        run_server() as good,
        run_server(fails=lambda number: 500 if number > 2 * ROUNDS_PER_TURN else 0) as bad,
        pytest.raises(EndpointError, match=r"^Second server: .* status 500"),
    ):
        collect_in_turn([good, bad], list_paths(tmp_path), 6 * ROUNDS_PER_TURN, concurrency=1)
    assert [len(read_samples(path).samples) for path in list_paths(tmp_path)] == [ROUNDS_PER_TURN, 2 * ROUNDS_PER_TURN - 1]


def test_a_second_file_of_other_questions_is_refused_before_the_first_is_written(tmp_path):
    one, two = list_paths(tmp_path)
    two.write_text("something\n")
    with run_server() as server, pytest.raises(SettingsError, match="without a record of who sampled it"):
        collect_in_turn([server, server], [one, two], 10)
    assert not one.exists() and not record_path(one).exists()


def test_each_of_two_servers_keeps_to_its_own_rate(tmp_path, monkeypatch):
    """As for one: a probe and twenty requests to each."""
    clock = FakeClock(monkeypatch, is_still=True)
    with run_server() as one, run_server() as two:
        collect_in_turn([one, two], list_paths(tmp_path), 20, rate=50.0, concurrency=2)
        assert [len(server.seen.bodies) for server in (one, two)] == [21, 21]
    assert sorted(clock.waits) == pytest.approx([number // 2 / 50 for number in range(42)])


def test_what_one_server_drafts_for_two_files_is_counted_for_each(tmp_path):
    """Its counters know nothing of files, so they are read around each turn."""
    with run_server(drafts=True) as server:
        records = collect_in_turn([server, server], list_paths(tmp_path), 40)
    assert [record.counts.drafted for record in records] == [80, 80]


@pytest.mark.parametrize("fields", [{"samples": 0}, {"samples": 10**7}, {"concurrency": 0}, {"choices": 0}])
def test_numbers_out_of_range_are_refused(fields):
    with pytest.raises(SettingsError):
        CollectionSize(**{"samples": 10} | fields)


def test_no_thread_is_left_when_the_work_is_done(tmp_path):
    with run_server() as server:
        collect_one(server, tmp_path / "s.jsonl")
    deadline = time.monotonic() + 5.0
    while any(thread.name.startswith("asking") for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.name.startswith("asking") for thread in threading.enumerate())
