"""The measurement of a GPU runs whole on a CPU, small; a part that hangs or fails does not take the others with it."""

from __future__ import annotations

import json
import queue
import time

import pytest
import torch.nn.functional as F

from specviz.models.fast_llama import fixed_pass
from specviz.speed.benchmarks.gpu import context as context_module
from specviz.speed.benchmarks.gpu import runner
from specviz.speed.benchmarks.gpu.context import Part, PartContext
from specviz.speed.benchmarks.gpu.runner import PARTS, format_gpu, measure_gpu
from specviz.speed.benchmarks.gpu.shipped_pair import compute_allowed


@pytest.mark.parametrize("name", ["machine", "kernels", "attention"])
def test_a_part_runs_dry(name: str) -> None:
    sent = []
    context = PartContext(True, time.monotonic() + 100, lambda record: sent.append(dict(record)))
    PARTS[name].run(context)
    assert sent and "errors" not in context.record


@pytest.mark.parametrize("tokens", [1, 5])
def test_our_pass_has_at_most_60_percent_of_the_librarys_operations(tokens: int, monkeypatch) -> None:
    """Counted as on a GPU, where a norm is one operation of torch (``rms_norm``); the published shape has 615 kernels for 1,805 operations."""
    monkeypatch.setattr(fixed_pass, "apply_rms_norm", lambda x, weight, epsilon: F.rms_norm(x, weight.shape, weight, epsilon))
    context = PartContext(True, time.monotonic() + 100, lambda record: None)
    PARTS["kernels"].run(context)
    counts = context.record["counts"]
    assert counts[f"operations, {tokens} tokens, ours"] <= 0.6 * counts[f"operations, {tokens} tokens, library"]


def test_a_record_is_continued_and_a_table_written(tmp_path, monkeypatch) -> None:
    (tmp_path / "gpu.json").write_text(json.dumps({"parts": {name: {"status": "done"} for name in PARTS}}))
    record = measure_gpu(tmp_path, 0.5, True, lambda line: None)
    assert {part["status"] for part in record["parts"].values()} == {"done"}
    assert (tmp_path / "gpu.txt").read_text().startswith("CPU (dry)")


def test_an_error_in_a_step_is_recorded_and_the_part_goes_on() -> None:
    context = PartContext(True, time.monotonic() + 100, lambda record: None)
    with context.guard("one") as is_on:
        assert is_on
        raise ValueError("broken")
    with context.guard("two", 1000) as is_on:
        assert not is_on
    assert "broken" in context.record["errors"]["one"]
    assert context.record["skipped"] == ["two"]


def test_a_failed_part_is_named_in_the_table(monkeypatch) -> None:
    def fail(context: PartContext) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setitem(PARTS, "machine", Part(fail, 10))
    events: list = []
    runner._run_parts(["machine"], True, 50.0, type("Events", (), {"put": lambda self, event: events.append(event)})())
    assert events[-1][0] == "end"
    record = {"parts": {"machine": events[-1][2]}}
    assert "no such kernel" in format_gpu(record)


class Events(list):
    """Stands for the queue of a worker."""

    put = list.append


def test_a_part_goes_on_in_a_new_process_after_an_error_that_ends_cuda(monkeypatch) -> None:
    """The steps before the error keep their results, the step of the error is left out, the steps behind it and all later parts run."""
    taken, is_usable = [], True

    def measure(context: PartContext) -> None:
        nonlocal is_usable
        for name in ("one", "two", "three"):
            with context.guard(name) as is_on:
                if is_on:
                    with context.guard(f"inside {name}") as is_possible:
                        if is_possible and name == "two":
                            is_usable = False
                            raise RuntimeError("illegal memory access")
                    taken.append(name)
                    context.add("results", {name: len(taken)})

    monkeypatch.setitem(PARTS, "bench", Part(measure, 50))
    monkeypatch.setitem(PARTS, "verify", Part(lambda context: taken.append("verify"), 50))
    for module in (context_module, runner):
        monkeypatch.setattr(module, "is_device_usable", lambda: is_usable)
    events = Events()
    runner._run_parts(["bench", "verify"], False, 100.0, events)
    kind, name, record = events[-1]
    assert (kind, name, taken) == ("device lost", "bench", ["one"])
    is_usable = True
    runner._run_parts(["bench", "verify"], False, 100.0, events, {"bench": record})
    assert taken == ["one", "two", "three", "verify"]
    ended = {name: content for kind, name, content in events if kind == "end"}
    assert ended["bench"]["status"] == "partly done" and [*ended["bench"]["errors"]] == ["inside two"]
    assert [*ended["bench"]["results"]] == ["one", "two", "three"] and ended["verify"]["status"] == "done"


def test_a_part_that_is_lost_is_left_for_the_next_process(tmp_path) -> None:
    class Worker:
        def is_alive(self) -> bool:
            return True

    events: queue.Queue = queue.Queue()
    for event in (("begin", "bench", 10.0), ("device lost", "bench", {"status": "running", "finished": ["one"]})):
        events.put(event)
    record: dict = {"parts": {}}
    left = runner._follow(
        Worker(), events, ["bench", "verify"], time.monotonic() + 100, record, tmp_path / "x.json", lambda line: None
    )
    assert left == ["bench", "verify"] and record["parts"]["bench"]["finished"] == ["one"]


def test_the_share_of_what_costs_allow() -> None:
    case = {
        "baseline": "target only, compiled",
        "ratios": {"compiled": [1.5, 1.4, 1.6], "assisted": [0.2, 0.1, 0.3]},
        "tokens_per_round": {"compiled": 2.5},
        "replay_ms": {"compiled": 1.5, "target only, compiled": 1.0},
    }
    assert compute_allowed(case) == {"compiled": {"speed_up": 1.667, "share": 0.9}}
