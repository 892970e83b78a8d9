"""A recorded round is the reference's round. A stand-in for the CUDA graph refuses what a recording refuses (tests/helpers/fake_device.py)."""

from __future__ import annotations

import gc
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from unittest import mock

import pytest
import torch

from specviz.decoding.device import capture
from specviz.decoding.device.capture import MAX_KEPT, READ_CHUNK, ProgramStore
from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.errors import ModelError
from specviz.models.cache.fixed import FixedModel
from specviz.settings import Settings
from tests.decoding.test_device_round import EOS, SHAPES, assert_same, build_close_pair, build_openings, build_steps, iterate_both
from tests.helpers import fake_device

RECORD_GRAPH = capture.record_graph


@pytest.fixture(autouse=True)
def recorder(monkeypatch):
    monkeypatch.setattr(capture, "record_graph", fake_device.record_on_host)
    fake_device.recordings.clear()


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("length", [12, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SHAPES)
def test_a_replay_is_the_references_round(name: str, length: int) -> None:
    """Rows come and go, and the last rounds reach the end of the text or an end token."""
    count, models = 0, build_close_pair(seed=11)
    for seed in range(1 if length == 12 else 2):
        settings = Settings(max_new_tokens=length)
        reference, device = build_steps(models, settings, name, rows=8, seed=seed, records=True)
        for _, one, other in iterate_both(reference, device, build_openings(settings, rows=8)):
            assert_same(one, other, 1e-11)
            count += 1
        del device
    assert count > length
    assert len(fake_device.recordings) == 1


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("length", [1, 2, pytest.param(READ_CHUNK - 1, marks=pytest.mark.slow), READ_CHUNK, READ_CHUNK + 26])
def test_a_text_is_read_by_recorded_calls(length: int) -> None:
    """Of a single row; what a call writes behind the text's end changes nothing."""
    settings, prompt = Settings(max_new_tokens=20), tuple(1 + place % 9 for place in range(length))
    reference, device = build_steps(build_close_pair(), settings, "chain, token", rows=1, records=True)
    assert len(fake_device.recordings) == 2, "a round and a chunk of text"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FixedModel, "read", None)
        for _, one, other in iterate_both(reference, device, build_openings(settings, prompt, rows=1)):
            assert_same(one, other, 1e-11)


def test_another_prompt_length_or_seed_records_nothing() -> None:
    models = build_close_pair()
    for seed, prompt, length in ((1, (3, 4), 10), (2, (7,), 30), (3, (5, 6, 1, 2), 20)):
        settings = Settings(max_new_tokens=length, seed=seed)
        reference, device = build_steps(models, settings, "chain, token", seed=seed, records=True)
        for _, one, other in iterate_both(reference, device, build_openings(settings, prompt)):
            assert_same(one, other, 1e-11)
        del device
    assert len(fake_device.recordings) == 1
    for changes in ({"temperature": 0.5}, {"top_k": 4}):
        build_steps(models, Settings(**changes), "chain, token", records=True)
    assert len(fake_device.recordings) == 3


def test_two_requests_at_once_have_a_recording_each() -> None:
    """Their rounds alternate, and neither sees the other's rows."""
    models, settings = build_close_pair(), Settings(max_new_tokens=24)
    pairs = [build_steps(models, settings, "tree, distinct", seed=seed, records=True) for seed in (1, 2)]
    assert len(fake_device.recordings) == 2
    rows = [build_openings(settings, prompt) for prompt in ((3, 4, 9), (8, 1))]
    for _ in range(5):
        for index, (reference, device) in enumerate(pairs):
            rounds = step(rows[index], *reference)
            for one, other in zip(rounds, device(rows[index]), strict=True):
                assert_same(one, other, 1e-11)
            after = [advance_prefix(row, one) for row, one in zip(rows[index], rounds, strict=True)]
            rows[index] = [row for row in after if row.remaining > 0 and row.ids[-1] not in EOS] or rows[index]


def test_addresses_are_the_same_at_every_replay() -> None:
    settings = Settings(max_new_tokens=40)
    _, device = build_steps(build_close_pair(), settings, "tree, distinct", records=True)
    program, rows = device.program, build_openings(settings)

    def addresses() -> list[int]:
        caches = [
            whole
            for model in (device.kernel.target, device.kernel.draft)
            for layer in model._cache.layers
            for whole in layer.stored
        ]
        return [tensor.data_ptr() for tensor in (*caches, device.kernel.ids, program._packet, program._result)]

    before = addresses()
    for _ in range(6):
        rows = [advance_prefix(row, round_) for row, round_ in zip(rows, device(rows), strict=True)]
        assert addresses() == before


def test_no_tensor_survives_a_replay() -> None:
    settings = Settings(max_new_tokens=60)
    _, device = build_steps(build_close_pair(), settings, "chain, token", records=True)

    def count() -> int:
        gc.collect()
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    rows = build_openings(settings)
    rows = [advance_prefix(row, round_) for row, round_ in zip(rows, device(rows), strict=True)]
    before = count()
    for _ in range(3):
        rows = [advance_prefix(row, round_) for row, round_ in zip(rows, device(rows), strict=True)]
    assert count() <= before


def test_programs_are_bounded_and_go_with_the_model() -> None:
    models = build_close_pair()
    for number in range(MAX_KEPT + 3):
        build_steps(models, Settings(temperature=0.5 + 0.01 * number), "one token", records=True)
    gc.collect()
    store = ProgramStore.find_store(models[0])
    assert len(store) == MAX_KEPT
    gone = []
    import weakref

    weakref.finalize(models[0], gone.append, True)
    del models, store
    gc.collect()
    assert gone


def test_a_round_that_waits_for_the_host_is_not_recorded(monkeypatch) -> None:
    from specviz.decoding.device.round import RoundKernel

    whole = RoundKernel.round
    monkeypatch.setattr(RoundKernel, "round", lambda self, packet: whole(self, packet + float(packet.sum()) * 0))
    with pytest.raises(ModelError, match="could not be recorded"):
        build_steps(build_close_pair(), Settings(), "chain, token", records=True)


def test_a_cancelled_request_leaves_a_program_that_the_next_one_uses() -> None:
    models, settings = build_close_pair(), Settings(max_new_tokens=30)
    _, device = build_steps(models, settings, "tree, distinct", records=True)
    device(build_openings(settings))
    del device
    reference, device = build_steps(models, settings, "tree, distinct", records=True)
    first = [replace(build_first_prefix((2, 2), settings, 128), draw=draw) for draw in range(3)]
    for _, one, other in iterate_both(reference, device, first):
        assert_same(one, other, 1e-11)
    assert len(fake_device.recordings) == 1


def test_a_graphs_workspaces_are_its_own(monkeypatch) -> None:
    """Dropped at the start of a recording, so that it allocates its own, and after it, so that nothing else takes them."""
    events: list[str] = []

    @contextmanager
    def record(graph, stream, capture_error_mode):
        events.append("begin")
        yield
        events.append("end")

    for name in ("Stream", "current_stream", "CUDAGraph", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, mock.Mock())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(capture, "release_workspaces", lambda: events.append("release"))

    def multiply(packet):
        events.append("call")
        return packet

    RECORD_GRAPH(multiply, torch.zeros(1))
    assert events == ["call"] * capture.WARM_UPS + ["begin", "release", "call", "end", "release"]


@pytest.mark.gpu
def test_a_graph_outlives_torchs_workspaces() -> None:
    """torch.compile's own graphs drop these; their memory is then another's, and none of it may be written."""
    a, b = torch.randn(5, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
    packet = torch.zeros(1, device="cuda")  # held, as a program holds it: a replay reads it
    replay, result = RECORD_GRAPH(lambda packet: torch.nn.functional.linear(a + packet, b), packet)
    replay()
    before = result.clone()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    others = [torch.full((2**24,), float("nan"), device="cuda") for _ in range(8)]
    replay()
    assert result.equal(before)
    assert all(bool(other.isnan().all()) for other in others)
