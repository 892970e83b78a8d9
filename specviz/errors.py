"""Exceptions of the package. Their messages are complete sentences for users; programming errors are assertions.

The command line prints a ``SpecvizError`` and exits with its ``exit_code``; a page shows it as text. ``CancelledError`` ends cancelled work.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

MEMORY_MESSAGES = (
    "not enough memory",
    "out of memory",
    "can't allocate memory",
    "can't start new thread",
    "MemoryError",  # in the traceback of another process
)  # of torch and Python
CLOSE = 0.5  # similarity from which a name is suggested
MAX_SHOWN = 200  # characters of a value that a message repeats: it may come from any link or file


def suggest(value: object, names: Iterable[str]) -> str:
    """`` (did you mean NAME?)`` for the name nearest to a value; empty where none is near."""
    near = get_close_matches(str(value)[:MAX_SHOWN], list(names), n=1, cutoff=CLOSE)
    return f" (did you mean {near[0]}?)" if near else ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. torch raises RuntimeError for that, so its message is read."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in MEMORY_MESSAGES)
    )


class CancelledError(Exception):
    """Raised inside cancelled work, so that it ends. The message, if any, names what is left of it."""


class SpecvizError(Exception):
    """Base class. The message has what is wrong, the value, and what is allowed. exit_code: of a command that it ends."""

    exit_code = 2


class Described(str):
    """A value in words, such as a number of characters, which a message repeats without quotes."""

    def __repr__(self) -> str:
        return str(self)


class SettingsError(SpecvizError):
    """A setting out of range. sentence: in place of "NAME must be ALLOWED, got VALUE", where that reads badly; it names all three."""

    def __init__(self, name: str, value: object, allowed: str, sentence: str = ""):
        self.name, self.value, self.allowed, self.sentence = name, value, allowed, sentence
        super().__init__(self.explain(name))

    def explain(self, subject: str) -> str:
        """The sentence about a subject: the option for a command line, a noun for a page."""
        if self.sentence:
            return self.sentence
        shown = "nothing" if self.value is None or self.value == "" else repr(self.value)
        return f"{subject} must be {self.allowed}, got {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + ' …'}."

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.name, self.value, self.allowed, self.sentence)


class TooLongError(SettingsError):
    """A text that is too long. unit: of both numbers; reason: what sets the limit, after a comma."""

    def __init__(self, name: str, size: int, most: int, unit: str = "characters", reason: str = ""):
        self.size, self.most, self.unit, self.reason = size, most, unit, reason
        super().__init__(name, Described(f"{size:,} {unit}"), f"at most {most:,} {unit} long")

    def explain(self, subject: str) -> str:
        subject = f"The {subject}" if subject == self.name else subject
        return f"{subject} is too long: {self.size:,} {self.unit}, at most {self.most:,}{self.reason and f', {self.reason}'}."

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.name, self.size, self.most, self.unit, self.reason)


class ModelError(SpecvizError):
    """A model or pair that cannot be used."""


class UnsupportedModelError(ModelError):
    """A model family that this decoder cannot run correctly."""


class DamagedModelError(ModelError):
    """Weights or tokenizer files that are incomplete or altered."""


class TraceError(SpecvizError):
    """A recorded trace that cannot be read."""


class TrainingError(SpecvizError):
    """A corpus or checkpoint that cannot be used."""


class EvidenceError(SpecvizError):
    """Samples, a distribution or a test from which nothing can be concluded."""


class TrapError(EvidenceError):
    """A server whose samples would show nothing, or something else than they seem to: it is greedy, filters tokens, does not draft, ..."""

    exit_code = 7


class PluginError(SpecvizError):
    """A proposer, rule, warper, server profile or test statistic of another package that cannot be loaded."""


class EndpointError(SpecvizError):
    """A server that cannot be reached, or whose answers cannot be used. status: of its HTTP response, 0 without one."""

    exit_code = 6

    def __init__(self, sentence: str, status: int = 0):
        self.status = status
        super().__init__(sentence)


class ClusterError(SpecvizError):
    """Workers or a cluster that cannot be reached, must not be used, or lose jobs."""


class BusyError(SpecvizError):
    """A request beyond the capacity of this server. It may be repeated later."""
