"""Errors as sentences for users.

    SpecvizError                 everything below; the command line prints it and exits with 2, a page shows it as text
    |-- SettingsError            a setting out of range: names it, its value and what is allowed
    |-- ModelError               a pair that cannot be loaded or does not fit together
    |   |-- UnsupportedModel     a family whose cache cannot be rolled back, or that cannot score several tokens in one pass
    |   `-- DamagedModel         files whose hash or content is not as expected
    |-- TraceError               a record that is damaged or of another schema
    |-- TrainingError            a corpus or checkpoint that cannot be used
    |-- EvidenceError            samples or a distribution with which nothing can be tested
    |-- PluginError              a proposer, rule, warper, profile or statistic of another package that cannot be loaded
    |-- EndpointError            a server that cannot be asked, or whose answers cannot be used
    |-- ClusterError             other machines, or other processes, that cannot be worked with
    `-- Busy                     too much is asked of this machine now; the same may be asked again

Outside this tree: CancelledError, which ends work that somebody cancelled, and programming errors, which are assertions.
"""

NO_MEMORY = (
    "not enough memory",
    "out of memory",
    "can't allocate memory",
    "can't start new thread",
    "MemoryError",  # in the traceback of another process
)  # as torch and Python say it
SHOWN = 200  # characters of a value that a sentence repeats: it may come from anybody's link or file


def out_of_memory(error: BaseException) -> bool:
    """Whether memory is what was missing. torch says so in words: its error is a RuntimeError."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(one in str(error) for one in NO_MEMORY))


class CancelledError(Exception):
    """Raised inside work that was cancelled, so that it ends. The message, if any, says what is left of it."""


class SpecvizError(Exception):
    """A sentence for the user: what is wrong, the value, what is allowed."""


class SettingsError(SpecvizError):
    """A setting out of range."""

    def __init__(self, name: str, value: object, allowed: str):
        self.name, self.value, self.allowed = name, value, allowed
        shown = repr(value)
        super().__init__(f"{name} must be {allowed}, got {shown if len(shown) <= SHOWN else shown[:SHOWN] + ' …'}.")

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        return type(self), (self.name, self.value, self.allowed)


class ModelError(SpecvizError):
    """A model or pair that cannot be used."""


class UnsupportedModelError(ModelError):
    """A model family that this decoder would not run correctly, and therefore refuses."""


class DamagedModelError(ModelError):
    """Weights or tokenizer files that are incomplete or altered."""


class TraceError(SpecvizError):
    """A recorded trace that cannot be read."""


class TrainingError(SpecvizError):
    """A corpus or checkpoint that cannot be used."""


class EvidenceError(SpecvizError):
    """Samples, a distribution or a test from which nothing follows."""


class PluginError(SpecvizError):
    """A proposer, rule, warper, server profile or test statistic of another package that cannot be loaded."""


class EndpointError(SpecvizError):
    """A server that cannot be asked, or whose answers cannot be used. status: of its HTTP answer, 0 without one."""

    def __init__(self, sentence: str, status: int = 0):
        self.status = status
        super().__init__(sentence)


class ClusterError(SpecvizError):
    """A cluster that cannot be reached, must not be used, or loses what it is given."""


class BusyError(SpecvizError):
    """Too much is asked of this machine now. The same may be asked again."""
