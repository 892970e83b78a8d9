"""Which implementation of a round runs: the setting is followed, the default is sensible, and the trace says which it was."""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from specviz.decoding.device import capture, choice, compilation
from specviz.decoding.device.choice import EngineChoice, choose_engine
from specviz.decoding.device.compilation import QUEUE_MAX, Compilation, CompilerThread
from specviz.decoding.device.round import DeviceSteps, RoundKernel
from specviz.decoding.method_checks import build_rule
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, sample_with_engine
from specviz.errors import ModelError, SettingsError
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import load_pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from tests.helpers.fake_device import fake_device, fetched, sent
from tests.helpers.tiny_pairs import build_tiny_model


def choose(engine: str, rule=None, place=None, **more) -> EngineChoice:
    settings = Settings()
    target, draft = (CachedModel(build_tiny_model(40).to(place or "cpu"), settings) for _ in range(2))
    return choose_engine(engine, target, DraftModel(draft, 2), rule or TokenRule(), PhiloxRandomness(1), **more)


def test_by_default_the_reference_runs_on_a_processor_and_the_faster_engine_on_a_gpu(monkeypatch) -> None:
    assert choose("auto").name == "reference"
    for seconds, faster in (({"reference": 2.0, "device": 1.0}, "device"), ({"reference": 1.0, "device": 2.0}, "reference")):
        alone = iter((seconds["reference"], seconds["device"], 0.5) * 2)
        with monkeypatch.context() as patched, fake_device() as place:
            patched.setattr(choice, "_time_rounds", lambda steps, rows, alone=alone: next(alone))
            found = choose("auto", place=place)
            assert found.name == faster
            assert isinstance(found.steps, DeviceSteps) == (faster == "device")
            assert found.explain_loss(1.9).startswith("The target alone is faster here: 500.00 ms a token")
            assert not found.explain_loss(2.1)
            assert choose("auto", place=place, bars=3).name == faster
            assert "k-seq" in choose("auto", SequentialRule(), place=place).note
            assert choose("reference", place=place).name == "reference"


def test_a_probe_is_made_once_for_a_pair(monkeypatch) -> None:
    probes = []
    with fake_device() as place:
        monkeypatch.setattr(choice, "_time_rounds", lambda steps, rows: probes.append(rows) or float(len(probes)))
        models = [build_tiny_model(40).to(place) for _ in range(2)]
        for seed in (1, 2):
            settings = Settings(seed=seed, max_new_tokens=10 * seed)
            target, draft = (CachedModel(model, settings) for model in models)
            choose_engine("auto", target, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(seed), columns=20 * seed)
    assert len(probes) == 3


class Compilations:
    """``auto`` on a device that is none, with a compiler that only counts; what is compiled waits until ``finish``."""

    def __init__(self, monkeypatch, seconds: dict[str, float], fails: bool = False):
        self.waiting: list[Compilation] = []
        self.seconds, self.compiled, self.models = seconds, 0, [build_tiny_model(40) for _ in range(2)]
        monkeypatch.setattr(choice, "has_triton", lambda: True)
        monkeypatch.setattr(choice.compiler_thread, "start", self.start)
        monkeypatch.setattr(choice, "_time_rounds", self.time_rounds)
        monkeypatch.setattr(RoundKernel, "compile", self.fail if fails else self.count)

    def start(self, build) -> Compilation:
        self.waiting.append(Compilation(build))
        return self.waiting[-1]

    def time_rounds(self, steps, rows: int) -> float:
        if not isinstance(steps, DeviceSteps):
            return self.seconds["reference"]
        if not steps.shape.parents:
            return self.seconds["target only"]
        return self.seconds["compiled" if steps.program.is_compiled else "device"]

    def count(self, compiler: dict) -> None:
        self.compiled += 1

    def fail(self, compiler: dict) -> None:
        raise RuntimeError("no working compiler\nmore")

    def finish(self) -> None:
        for one in self.waiting:
            one.run()
        self.waiting.clear()

    def choose(self, place, seed: int = 1, **more) -> EngineChoice:
        settings = Settings(seed=seed)
        target, draft = (CachedModel(model.to(place), settings) for model in self.models)
        return choose_engine("auto", target, DraftModel(draft, 2), TokenRule(), PhiloxRandomness(seed), **more)


SECONDS = {"reference": 3.0, "device": 2.0, "compiled": 1.0, "target only": 0.75}


def test_the_second_request_has_the_round_compiled_and_a_later_one_takes_it(monkeypatch) -> None:
    with fake_device() as place:
        found = Compilations(monkeypatch, SECONDS)
        assert found.choose(place).name == "device"
        assert not found.waiting, "a single request compiles nothing"
        assert [found.choose(place, may_compile=False).name for _ in range(2)] == ["device"] * 2
        assert not found.waiting, "a measurement compiles nothing"
        assert [found.choose(place, seed).name for seed in (2, 3)] == ["device"] * 2
        assert len(found.waiting) == 1, "nobody waits, and it is compiled once"
        found.finish()
        taken = found.choose(place, seed=4)
        assert (taken.name, found.compiled) == ("compiled", 1)
        assert taken.explain_loss(1.3).startswith("The target alone is faster here: 750.00 ms a token")
        assert not taken.explain_loss(1.4)
        assert found.choose(place, seed=5, may_compile=False).name == "device", "the one that was compiled is in use"
        del taken
        gc.collect()
        assert found.choose(place, seed=6, may_compile=False).name == "compiled"
        assert found.choose(place, rows=3).name == "device"
        assert found.choose(place, rows=3).name == "device"
        assert not found.waiting, "rounds of several rows are not compiled"


def test_a_compiled_round_that_is_slower_is_not_taken(monkeypatch) -> None:
    with fake_device() as place:
        found = Compilations(monkeypatch, SECONDS | {"compiled": 2.5})
        for _ in range(2):
            found.choose(place)
        found.finish()
        assert [found.choose(place).name for _ in range(2)] == ["device"] * 2
        assert found.compiled == 1 and not found.waiting


def test_where_compiling_fails_the_recorded_round_goes_on(monkeypatch, caplog) -> None:
    with fake_device() as place:
        found = Compilations(monkeypatch, SECONDS, fails=True)
        for _ in range(2):
            found.choose(place)
        found.finish()
        taken = [found.choose(place) for _ in range(2)]
        assert [one.name for one in taken] == ["device"] * 2 and not found.waiting
    assert caplog.messages == [
        "A round could not be compiled, so the recorded one stays in use: The round could not be compiled: no working compiler"
    ]


def test_compilations_take_turns_in_one_thread_and_a_long_queue_is_refused() -> None:
    thread, may_go, order = CompilerThread(), threading.Event(), []

    class Program:
        def __init__(self, name: int):
            self.name = name

        def warm_up(self) -> None:
            may_go.wait(30)
            order.append(self.name)

    first = thread.start(lambda: Program(0))
    while thread._waiting.qsize():  # until the thread has taken it
        time.sleep(0.01)
    later = [thread.start(lambda name=name: Program(name)) for name in range(1, QUEUE_MAX + 2)]
    assert later[-1] is None and all(later[:-1])
    assert first.take_program() is None
    may_go.set()
    assert all(one.wait(30) for one in (first, *later[:-1]))
    assert order == list(range(QUEUE_MAX + 1))
    assert (first.take_program().name, first.take_program()) == (0, None)


def test_compilations_that_nobody_claims_are_bounded_and_none_is_started_twice() -> None:
    store, started = capture.ProgramStore(), []

    def start() -> Compilation:
        started.append(Compilation(lambda: None))
        return started[-1]

    for key in (*range(capture.MAX_KEPT + 3), capture.MAX_KEPT + 2):
        store.start_compilation(key, start)
    assert len(started) == capture.MAX_KEPT + 3
    assert [*store.compilations] == [*range(3, capture.MAX_KEPT + 3)]


def test_after_the_end_has_begun_no_part_is_compiled(monkeypatch) -> None:
    monkeypatch.setattr(compilation, "_stopping", threading.Event())
    compilation._stopping.set()
    with pytest.raises(Exception, match="CompilationStoppedError"):
        torch.compile(lambda x: x + 1, **compilation.COMPILER)(torch.zeros(2))
    assert CompilerThread().start(lambda: None) is None


def test_without_triton_nothing_is_compiled_for_a_gpu(monkeypatch) -> None:
    with fake_device() as place:
        found = Compilations(monkeypatch, SECONDS)
        monkeypatch.setattr(choice, "has_triton", lambda: False)
        assert [found.choose(place).name for _ in range(3)] == ["device"] * 3
        assert not found.waiting
        with pytest.raises(SettingsError, match="compiling for a GPU needs triton"):
            choose("compiled", place=place)


def test_where_recording_fails_the_reference_runs_and_a_sentence_says_why(monkeypatch) -> None:
    def fail(function, packet):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    with fake_device() as place:
        monkeypatch.setattr(capture, "record_graph", fail)
        found = choose("auto", place=place)
        assert found.name == "reference"
        assert found.note.endswith("when stream is capturing. The reference runs instead.")
        with pytest.raises(ModelError, match="could not be recorded"):
            choose("device", place=place)


def test_too_little_memory_is_said_with_bytes(monkeypatch) -> None:
    with fake_device() as place:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 1 << 30))
        found = choose("auto", place=place)
    assert "take" in found.note and "1,000 are free on this GPU" in found.note
    assert found.name == "reference"


def test_what_is_asked_for_is_had_or_refused_in_a_sentence(monkeypatch) -> None:
    assert choose("device").name == "device"
    with pytest.raises(SettingsError, match="k-seq is not written for the device"):
        choose("device", SequentialRule())
    with pytest.raises(SettingsError, match="one of auto, reference, device, compiled"):
        Settings(engine="fast")
    monkeypatch.setattr(choice.shutil, "which", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs a C\+\+ compiler"):
        choose("compiled")


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("changes", [{}, {"rule": "block"}, {"proposer": "tree", "tree": "2-1"}, {"temperature": 0.0}])
def test_both_write_the_same_text_and_the_trace_says_which_ran(pair, changes: dict) -> None:
    settings = Settings(prompt="Once upon a time", max_new_tokens=24, **changes)
    one, other = (record_run(pair, replace(settings, engine=engine), bars=0) for engine in ("reference", "device"))
    assert one.output_ids == other.output_ids
    assert [round_.accepted_path for round_ in one.rounds] == [round_.accepted_path for round_ in other.rounds]
    assert (one.models["engine"], other.models["engine"]) == ("reference", "device")


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rule": "block"},
        {"proposer": "tree", "tree": "2-2", "siblings": "distinct"},
        {"proposer": "none"},
        {"temperature": 0.0},
    ],
    ids=str,
)
def test_both_keep_the_same_distributions(pair, changes: dict) -> None:
    settings = Settings(prompt="Once upon a time", max_new_tokens=9, gamma=3, **changes)
    whole: list[list] = [[], []]
    one, other = (
        record_run(pair, replace(settings, engine=engine), on_round=lambda round_, mine=mine: mine.append(round_.full))
        for engine, mine in zip(("reference", "device"), whole, strict=True)
    )
    assert one.output_ids == other.output_ids
    for left, right in zip(one.rounds, other.rounds, strict=True):
        assert [d.replacement_if_rejected for d in left.proposals] == [d.replacement_if_rejected for d in right.proposals]
        for here, there in zip(left.distributions, right.distributions, strict=True):
            assert here.tokens == there.tokens
            assert here.p == pytest.approx(there.p, abs=1e-6)
    for here, there in zip(*whole, strict=True):
        assert torch.allclose(here.p, there.p, atol=1e-6)
        assert (here.q is None and there.q is None) or torch.allclose(here.q, there.q, atol=1e-6)


def test_a_live_round_on_a_gpu_is_two_transfers(pair_folders) -> None:
    """The host sends one table and fetches one: decisions and whole distributions. The first round also sends the prompt."""
    with fake_device():
        pair = load_pair("|".join(map(str, pair_folders)), "cuda", "float32")
        settings, counts = Settings(prompt="Once upon a time", max_new_tokens=16, gamma=3, engine="device"), []
        record_run(pair, settings, rounds=2)
        fetched.clear(), sent.clear()
        trace = record_run(pair, settings, on_round=lambda round_: counts.append((len(sent), len(fetched))))
    assert all(round_.distributions for round_ in trace.rounds) and len(counts) >= 4
    assert {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(counts)} == {(1, 1)}


def test_samples_in_batches_are_the_same_by_both(pair) -> None:
    def samples(engine: str):
        settings = Settings(max_new_tokens=5, gamma=3, engine=engine)
        target, proposer = open_proposer(pair, settings)
        ids = pair.encode("Once upon a time")
        shard = Shard(target, proposer, build_rule(settings), PhiloxRandomness(7), settings, ids, pair.eos_token_ids, count=40)
        return sample_with_engine(shard, batch=16).tokens

    assert (samples("reference") == samples("device")).all()
