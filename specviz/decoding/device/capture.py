"""Rounds that are kept for later requests: recorded once as a CUDA graph where the device has one, and replayed for every round.

A round is a function of one table of numbers (round.py). Its shapes, addresses and operations are the same for every prompt, length
and seed, so one recording serves all requests with the same models, sampling settings, rows and columns. Recordings are kept with the
target model, at most ``MAX_KEPT`` of them, and go with it. A recording in use belongs to one request; a second request of the same
kind at the same time gets one of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.errors import ModelError

WARM_UPS = 3  # calls before the recording, in which libraries allocate their workspaces and kernels are compiled
READ_CHUNK = 64  # tokens of a text that one recorded call reads: a prompt of usual length, and hardly dearer than one token
MAX_KEPT = 8  # recordings of one target model
RECOMPILE_LIMIT = 64  # shapes of pass, over all pairs of the process, for which torch compiles one function
_STORE = "_specviz_programs"  # attribute of a target model
_recording = Lock()  # one recording at a time in a process


def release_workspaces() -> None:
    """Let the next product of each stream allocate its cuBLAS workspace anew.

    torch keeps one workspace for each stream and drops them all whenever another graph is recorded by torch.compile
    ("reduce-overhead", which transformers takes for a static cache), or a graph of the same stream is destroyed. A graph that was
    recorded with such a workspace then writes into memory that is no longer its own. A workspace that is allocated while a graph is
    recorded belongs to the graph's own memory.
    """
    torch._C._cuda_clearCublasWorkspaces()


def record_graph(function: Callable[[Tensor], Tensor], packet: Tensor) -> tuple[Callable[[], None], Tensor]:
    """Record a call of ``function`` as a CUDA graph.

    Args:
        function: Runs on the device alone, with shapes that never change. It is called ``WARM_UPS`` times before.
        packet: Its argument; a replay reads the numbers that the tensor then holds.

    Returns:
        What replays the call, and the result, whose numbers each replay overwrites.
    """
    stream, current = torch.cuda.Stream(packet.device), torch.cuda.current_stream(packet.device)
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(packet)
    current.wait_stream(stream)
    torch.cuda.synchronize(packet.device)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            release_workspaces()  # so that the graph's are its own
            result = function(packet)
    finally:
        release_workspaces()  # so that no later work takes the graph's
    return graph.replay, result


class ProgramNotReadyError(Exception):
    """No program of the wanted kind is free, and none is to be made."""


@contextmanager
def _explain_failure(work: str) -> Iterator[None]:
    """Turn any error into a ModelError that says what could not be done: compilers and drivers raise many unrelated types."""
    try:
        yield
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:200]
        raise ModelError(f"The round could not be {work}: {first or type(error).__name__}") from error


class RoundProgram:
    """A round's function on its device, recorded or not.

    Args:
        kernel: Has ``round``, the function; its caches and texts are the program's.
        packet: A table of numbers with which a call is harmless, (B, C) float64 on the host.
        compiler: Arguments of torch.compile; None: not compiled.

    Raises:
        ModelError: The function cannot be compiled here.
    """

    def __init__(self, kernel: Any, packet: np.ndarray, compiler: dict[str, Any] | None):
        self.kernel, self.is_recorded, self.is_compiled = kernel, False, bool(compiler)
        self._harmless = packet
        self._read_replay: Callable[[], None] | None = None
        if compiler:
            with _explain_failure("compiled"):
                torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, RECOMPILE_LIMIT)
                kernel.compile(compiler)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Call the function once, so that the compiler does its work. Raises ModelError where it cannot."""
        with _explain_failure("compiled"):
            self.kernel.round(torch.from_numpy(self._harmless).to(self.kernel.device))

    @torch.inference_mode()
    def record(self) -> RoundProgram:
        """Record the function as a CUDA graph, and return the program. Raises ModelError where that fails."""
        with _explain_failure("recorded"), _recording:
            self._packet = torch.from_numpy(self._harmless).to(self.kernel.device)
            self._replay, self._result = record_graph(self.kernel.round, self._packet)
            if self.kernel.can_read:
                self._chunk = torch.zeros(1, 1 + READ_CHUNK, dtype=torch.int64, device=self.kernel.device)
                self._read_replay, _ = record_graph(self.kernel.read_chunk, self._chunk)
        self.is_recorded = True
        return self

    @torch.inference_mode()
    def run(self, packet: np.ndarray, work_meanwhile: Callable[[], None] | None = None) -> np.ndarray:
        """One round: what ``kernel.round`` returns for this table.

        work_meanwhile: What the host does while a recorded round runs on the device.
        """
        table = torch.from_numpy(packet)
        if not self.is_recorded:
            return self.kernel.round(table.to(self.kernel.device)).cpu().numpy()
        self._packet.copy_(table)
        self._replay()
        if work_meanwhile:
            work_meanwhile()
        return self._result.cpu().numpy()

    @torch.inference_mode()
    def read(self, ids: Sequence[int]) -> bool:
        """Read a text into the caches of the only row. False where that is not recorded, or the text is too long for it."""
        if self._read_replay is None or -(-len(ids) // READ_CHUNK) * READ_CHUNK > self.kernel.ids.shape[1]:
            return False
        for begin in range(0, len(ids), READ_CHUNK):
            part = ids[begin : begin + READ_CHUNK]
            chunk = np.zeros((1, 1 + READ_CHUNK), dtype=np.int64)
            chunk[0, 0], chunk[0, 1 : 1 + len(part)] = begin, part
            self._chunk.copy_(torch.from_numpy(chunk))
            self._read_replay()
        return True


class ProgramStore:
    """Programs of one target model, the most recently used last.

    Attributes:
        seconds: Of a round or token, as choice.py measured them, by program key and engine.
        compilations: Programs that were or are compiled in the background, by key (compilation.py).
    """

    def __init__(self) -> None:
        self._free: list[tuple[Hashable, RoundProgram]] = []
        self._lock = RLock()
        self.seconds: dict[Hashable, dict[str, float]] = {}
        self.compilations: dict[Hashable, Any] = {}

    @classmethod
    def find_store(cls, model: Any) -> ProgramStore:
        """Return the store of a transformers model, made at the first call."""
        return model.__dict__.setdefault(_STORE, cls())

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramStore:
        return ProgramStore()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return ProgramStore, ()

    def lease(self, key: Hashable, user: object, build: Callable[[], RoundProgram] | None) -> RoundProgram:
        """A program of this key that is ``user``'s until ``user`` is collected: a free one, or a new one.

        Raises ProgramNotReadyError where none is free and there is no ``build``.
        """
        with self._lock:
            place = next((place for place, (other, _) in enumerate(self._free) if other == key), None)
            program = None if place is None else self._free.pop(place)[1]
        if program is None:
            if build is None:
                raise ProgramNotReadyError
            program = build()
        weakref.finalize(user, self.keep, key, program).atexit = False
        return program

    def keep(self, key: Hashable, program: RoundProgram) -> None:
        """Keep a program for later requests; the one that was used longest ago goes if there are too many."""
        with self._lock:
            self._free.append((key, program))
            del self._free[:-MAX_KEPT]

    def find_compilation(self, key: Hashable) -> tuple[Any, RoundProgram | None]:
        """The compilation of this key, or None; and its program at the first call after it is ready."""
        with self._lock:
            compilation = self.compilations.get(key)
            return compilation, compilation.take_program() if compilation else None

    def start_compilation(self, key: Hashable, start: Callable[[], Any]) -> None:
        """Start a compilation unless one of this key is under way; the oldest goes if there are too many."""
        with self._lock:
            if (known := self.compilations.get(key)) and not known.wait(0):
                return
            if compilation := start():
                self.compilations.pop(key, None)
                self.compilations[key] = compilation
                while len(self.compilations) > MAX_KEPT:
                    del self.compilations[next(iter(self.compilations))]

    def list_free(self) -> list[tuple[Hashable, RoundProgram]]:
        """Keys and programs that no request uses."""
        with self._lock:
            return [*self._free]

    def __len__(self) -> int:
        return len(self._free)

    def clear(self) -> None:
        """Forget all programs that no request uses."""
        with self._lock:
            self._free.clear()
