"""What a part of the GPU measurement works with: its time, its record, and how calls on the device are timed."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from specviz.models.pairs.loading import LoadedPair, load_pair

PAIR = "storybook"


class DeviceLostError(Exception):
    """An error after which CUDA works no more in this process. The step that failed is in the record."""


@dataclass(slots=True)
class PartContext:
    """What a part works with.

    Attributes:
        dry: Whether everything is small and on the CPU.
        until: Time by ``time.monotonic`` at which the part should end.
        send: Called with the part's record so far.
        record: What the part has measured, in an earlier process too.
    """

    dry: bool
    until: float
    send: Callable[[dict[str, Any]], None]
    record: dict[str, Any] = field(default_factory=dict)
    _open_steps: int = 0  # steps that contain the present one

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    def save(self, **values: Any) -> None:
        """Add to the record and hand it on."""
        self.record |= values
        self.send(self.record)

    def add(self, field_name: str, rows: Mapping[str, Any]) -> None:
        """Add entries to a table of the record, and hand it on."""
        self.save(**{field_name: self.record.get(field_name, {}) | rows})

    def has_time(self, seconds: float) -> bool:
        """Whether so many seconds are left."""
        return time.monotonic() + seconds < self.until

    @contextmanager
    def guard(self, name: str, seconds: float = 1.0) -> Iterator[bool]:
        """A step of the part: skipped where its time is over; an error in it is recorded, and the part goes on.

        Yields whether to take the step; it checks that. A step that failed in an earlier process, or an outermost one that was
        finished there, is not taken again.

        Raises:
            DeviceLostError: The step's error, or that of a step within it, made CUDA unusable.
        """
        finished = self.record.setdefault("finished", [])
        if name in self.record.get("errors", {}) or (not self._open_steps and name in finished):
            yield False
            return
        if not self.has_time(seconds):
            skipped = self.record.setdefault("skipped", [])
            skipped.extend([name] * (name not in skipped))
            yield False
            return
        self._open_steps += 1
        try:
            yield True
        except DeviceLostError:
            raise
        except Exception as error:  # whatever a driver or compiler raises
            text = f"{type(error).__name__}: {error}".strip()
            self.record.setdefault("errors", {})[name] = (
                text[:600] + "\n" + "".join(traceback.format_tb(error.__traceback__)[-3:])
            )
            self.send(self.record)
            if not self.dry and not is_device_usable():
                raise DeviceLostError(name) from error
        else:
            if self._open_steps == 1:
                finished.append(name)
        finally:
            self._open_steps -= 1
        self.send(self.record)


def is_device_usable() -> bool:
    """Whether CUDA still works in this process: an illegal access, for one, ends it for good."""
    try:
        torch.cuda.synchronize()
        return bool(torch.ones(1, device="cuda").item())
    except Exception:  # every call raises then, under several names
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the measurement.

    Attributes:
        run: Measures, and saves into the context.
        seconds: Most seconds it may take on a GPU.
    """

    run: Callable[[PartContext], None]
    seconds: int


def load_storybook(context: PartContext, dtype: str) -> LoadedPair:
    """The shipped pair on the part's device."""
    return load_pair(PAIR, context.device, dtype)


def estimate_record(measured: Any) -> list[float]:
    """Median, and the ends of its 95% interval."""
    return [round(float(number), 3) for number in (measured.value, measured.low, measured.high)]


def wait(context: PartContext) -> None:
    """Wait for the device."""
    if not context.dry:
        torch.cuda.synchronize()


@torch.inference_mode()
def time_calls(context: PartContext, call: Callable[[], object], repeats: int = 20, series: int = 5) -> float:
    """Milliseconds of one call, median over several series of calls."""
    count, repeats = (min(series, 2), 2) if context.dry else (series, repeats)
    call()
    times = []
    for _ in range(count):
        wait(context)
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        wait(context)
        times.append(1e3 * (time.perf_counter() - began) / repeats)
    return statistics.median(times)
