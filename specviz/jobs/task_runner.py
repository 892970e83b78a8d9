"""What runs in a worker, wherever it is: it begins a task once, then does its pieces one after the other."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from typing import Any

import torch

from specviz.errors import ClusterError, SpecvizError
from specviz.jobs.tasks import Task


class Stopped(Exception):
    """The piece under way is no longer wanted."""


class StatusBoard:
    """What is said beside a piece. done: the share of it, in [0, 1]; unwanted: the number of a piece to leave."""

    done, unwanted = 0.0, 0


class TaskRunner:
    """On one core, and so one thread, unless it is told otherwise.

    board  where it says how far it is, and is told what to leave
    """

    def __init__(self, board: Any = None):
        self.board = board or StatusBoard()

    def begin(self, folder: str, threads: int = 1) -> int:
        """folder: of the command that asks, for relative names. Returns the number of this process on its machine."""
        gc.freeze()  # the libraries stay, so the collector need not scan them again and again
        torch.set_num_threads(threads)
        with suppress(OSError):  # another machine may not have it; a folder with a relative name is then not found
            os.chdir(folder)
        self.begun: tuple[Task, Any] | None = None
        self.number = 0
        return os.getpid()

    def do(self, number: int, task: Task, piece: Any) -> Any:
        """The result of a piece. Raises ClusterError for every error that has a sentence.

        number: of this call, counted up from 1
        """
        self.number, self.board.done = number, 0.0
        try:
            if self.begun is None or self.begun[0] != task:
                self.begun = None  # what it holds must not stay beside the next one's
                self.begun = task, task.begin()
            return self.begun[1](piece, self._watch)
        except SpecvizError as error:
            raise ClusterError(f"A worker stopped: {error}") from None

    def share(self) -> float:
        """How much of the piece under way is done, in [0, 1]. Called beside ``do``."""
        return self.board.done

    def stop(self, number: int) -> None:
        """Leave a piece at its next look, if it is still the one under way. Called beside ``do``."""
        self.board.unwanted = number

    def _watch(self, share: float) -> None:
        self.board.done = share
        if self.board.unwanted == self.number:
            raise Stopped
