"""Everything that only a GPU can tell, in one run of a few minutes: parts in the order of importance, each with its own time limit.

A second process does the work, so that a part which hangs or crashes ends without the others: it is killed and the next part begins
in a new one. After an error that leaves CUDA unusable the same part goes on in a new process, with the step after the one that failed.
Results are written to one JSON file after each step. A second run into the same folder skips the parts that are done. With ``dry``
all parts run small on the CPU.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from queue import Empty
from typing import Any

import torch
import transformers

from specviz.records import write
from specviz.speed.benchmarks.gpu.context import DeviceLostError, Part, PartContext, is_device_usable
from specviz.speed.benchmarks.gpu.passes import SHAPES, compare_attention, count_kernels, measure_batches, measure_passes
from specviz.speed.benchmarks.gpu.shipped_pair import (
    bench_pair,
    compare_engines,
    compare_methods,
    measure_live_rounds,
    run_verify,
    sample_by_rounds,
)
from specviz.speed.records.gpu_costs import GpuCosts

RECORD = "gpu.json"
TABLE = "gpu.txt"
COSTS = "costs.json"  # what ships of the record, in assets/gpus/


def measure_machine(context: PartContext) -> None:
    """Names and versions, and the rates that bound everything else."""
    found = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
    }
    if not context.dry:
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "cuda": torch.version.cuda, "memory": properties.total_memory}
    context.save(**found)


PARTS = {  # in the order of importance
    "machine": Part(measure_machine, 30),
    "bench": Part(bench_pair, 180),
    "verify": Part(run_verify, 45),
    "live rounds": Part(measure_live_rounds, 45),
    "methods": Part(compare_methods, 45),
    "batches": Part(measure_batches, 40),
    "passes": Part(measure_passes, 120),
    "kernels": Part(count_kernels, 15),
    "rounds of many rows": Part(sample_by_rounds, 30),
    "engines": Part(compare_engines, 60),
    "attention": Part(compare_attention, 15),
}
GRACE = 25.0  # seconds after a part's time limit before its process is killed
STARTING = 15.0  # seconds that a process needs before its first part
DRY_SECONDS = 20


def measure_gpu(out: Path, minutes: float, dry: bool, log: Callable[[str], None], only: Sequence[str] = ()) -> dict[str, Any]:
    """Run all parts that are not done yet, and return the record.

    Args:
        out: Folder of the record; a record in it is continued.
        minutes: Time for all parts.
        dry: Small, on the CPU.
        log: Called with a line about each part.
        only: Parts to run; empty: all.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / RECORD
    record: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"parts": {}}
    record["dry"] = dry
    until = time.monotonic() + 60 * minutes
    waiting = [name for name in only or PARTS if record["parts"].get(name, {}).get("status") != "done"]
    methods = multiprocessing.get_context("spawn")
    while waiting and time.monotonic() + STARTING < until:
        events = methods.Queue()
        begun = {name: record["parts"][name] for name in waiting if name in record["parts"]}
        worker = methods.Process(target=_run_parts, args=(waiting, dry, until - time.monotonic(), events, begun), daemon=True)
        worker.start()
        waiting = _follow(worker, events, waiting, until, record, path, log)
        if worker.is_alive():
            worker.kill()
        worker.join(10)
    for name in waiting:
        record["parts"].setdefault(name, {"status": "no time left"})
    write(path, json.dumps(record, indent=1, default=str), over=True)
    (out / TABLE).write_text(format_gpu(record) + "\n")
    costs = GpuCosts.from_measurement(record, time.strftime("%Y-%m-%d"))
    (out / COSTS).write_text(costs.to_json() + "\n")
    for name, model in costs.build_cost_models({name: shape.layers for name, shape in list(SHAPES.items())[:2]}).items():
        (out / f"costs-{name.lower()}.json").write_text(model.to_json() + "\n")
    return record


def _follow(
    worker: Any, events: Any, waiting: list[str], until: float, record: dict[str, Any], path: Path, log: Callable[[str], None]
) -> list[str]:
    """Write down what a worker sends until it ends or a part's time is over. Returns the parts that are left for another process."""
    left, current, deadline = [*waiting], "", time.monotonic() + 120
    while left:
        try:
            kind, name, content = events.get(timeout=0.5)
        except Empty:
            if worker.is_alive() and time.monotonic() < min(deadline, until + GRACE):
                continue
            why = (
                f"stopped after its time limit of {PARTS[current].seconds} s"
                if worker.is_alive() and current
                else "its process ended"
            )
            if current:
                record["parts"].setdefault(current, {})["status"] = why
                log(f"{current}: {why}")
                left.remove(current)
            elif time.monotonic() + STARTING < until:
                record["parts"].setdefault(left[0], {})["status"] = "its process did not start"
                left.pop(0)
            break
        if kind == "begin":
            current, deadline = name, time.monotonic() + content + GRACE
            record["parts"][name] = record["parts"].get(name, {}) | {"status": "running"}
        elif kind == "device lost":
            if name:
                record["parts"][name] = content
                log(f"{name}: CUDA is unusable after an error; it goes on in a new process")
            write(path, json.dumps(record, indent=1, default=str), over=True)
            break
        elif kind == "record":
            record["parts"][name] = content | {"status": "running"}
        else:
            record["parts"][name] = content
            log(f"{name}: {content['status']}, {content['seconds']:.0f} s")
            left.remove(name)
            current, deadline = "", time.monotonic() + 60
        write(path, json.dumps(record, indent=1, default=str), over=True)
    return left


def _run_parts(
    names: list[str], dry: bool, seconds: float, events: Any, begun_records: Mapping[str, dict[str, Any]] | None = None
) -> None:
    """Run parts one after the other, in a process of their own, until CUDA is unusable.

    begun_records: Records of parts that an earlier process began.
    """
    warnings.filterwarnings("ignore")  # kernels that are tried and not taken
    for library in ("torch", "transformers"):
        logging.getLogger(library).setLevel(logging.ERROR)
    until = time.monotonic() + seconds
    for name in names:
        part, began, record = PARTS[name], time.monotonic(), dict((begun_records or {}).get(name, {}))
        if began + 3 > until:
            return
        if record.get("status") != "running":  # one that ended with errors is begun anew
            record = {}
        before = record.get("seconds", 0.0)
        limit = min((DRY_SECONDS if dry else part.seconds) - before, until - began)
        events.put(("begin", name, limit))
        context = PartContext(dry, began + limit, lambda found, name=name: events.put(("record", name, deepcopy(found))), record)  # type: ignore[misc]
        try:
            part.run(context)
            status = "done" if not context.record.get("skipped") and not context.record.get("errors") else "partly done"
        except DeviceLostError:
            done = {"status": "running", "seconds": before + time.monotonic() - began}
            events.put(("device lost", name, context.record | done))
            return
        except Exception as error:  # a part's failure is a result
            text = traceback.format_exc(limit=-4)
            status = f"failed: {type(error).__name__}: {str(error)[:300]}"
            context.save(traceback=text[-1500:])
        context.record.pop("finished", None)
        if not dry:
            context.record["peak_bytes"] = torch.cuda.max_memory_allocated()
        events.put(("end", name, context.record | {"status": status, "seconds": before + time.monotonic() - began}))
        if not dry and not is_device_usable():
            events.put(("device lost", "", {}))
            return


def format_gpu(record: dict[str, Any]) -> str:
    """The record as a table."""
    parts = record["parts"]
    machine = parts.get("machine", {})
    rows = [f"{machine.get('gpu', 'CPU (dry)')}, torch {machine.get('torch')}, transformers {machine.get('transformers')}", ""]
    rows += [f"{name:<22}{part.get('status', '?')[:90]}" for name, part in parts.items()]
    for name, equal in parts.get("engines", {}).get("equal", {}).items():
        rows.append(f"  {name:<44}{equal}")
    for case, found in parts.get("bench", {}).get("cases", {}).items():
        rows += ["", f"{case}: tokens per second, median and 95% interval; baseline: {found['baseline']}"]
        for name, (value, low, high) in found["rates"].items():
            ratio = found["ratios"].get(name)
            times = f"   {ratio[0]:.2f} times the baseline" if ratio else ""
            cost, replay = found["round_ms"].get(name), found.get("replay_ms", {}).get(name)
            allowed = found.get("allowed", {}).get(name)
            share = f"   {allowed['share']:.0%} of the {allowed['speed_up']:.2f} that its costs allow" if allowed else ""
            costs = f"{share}{f'   round {cost:.2f} ms' if cost else ''}{f', of it the device {replay:.2f} ms' if replay else ''}"
            rows.append(f"  {name:<26}{value:8.0f}  ({low:.0f} to {high:.0f}){times}{costs}")
        if by_passes := found.get("allowed_by_passes"):
            rows.append(
                f"  device over target only, device: {by_passes['share']:.0%} of the {by_passes['speed_up']:.2f} that its passes allow"
            )
    for name, found in parts.get("passes", {}).get("shapes", {}).items():
        rows += ["", name]
        for key, values in found.items():
            rows.append(f"  {key}: {json.dumps(values)}")
    for name in ("attention", "rounds of many rows", "verify", "live rounds", "batches", "methods", "kernels"):
        if name in parts:
            rows += ["", name, f"  {json.dumps({k: v for k, v in parts[name].items() if k != 'status'}, default=str)[:3000]}"]
    return "\n".join(rows)
