"""The hub's own client library, asked one request at a time: where the hub and its cache are, what is tried again, refusals as sentences.

The environment is read at each call: HF_ENDPOINT (another hub, or a mirror), HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME. A token comes
from HF_TOKEN or from ``hf auth login``, as everywhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from huggingface_hub import constants
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from specviz.errors import CancelledError, ModelError
from specviz.models.pairs.names import HubName

HUB = "https://huggingface.co"
TIMEOUT = 10.0  # seconds without a byte
WAITS = (0.5, 1.0, 2.0, 4.0)  # seconds before each further attempt
PATIENCE = 60.0  # longest wait, in seconds, that a hub may ask for; beyond it the sentence says how long
ON = ("1", "true", "yes", "on")

T = TypeVar("T")


def build_cancelled_error(repo: str) -> CancelledError:
    """The error that ends a cancelled download."""
    return CancelledError(
        f"The download of '{repo}' was stopped. What has arrived is kept, and the next download goes on from there."
    )


def find_hub() -> str:
    """Address of the hub, without a slash at its end."""
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or HUB


def find_cache_folder() -> Path:
    """Folder in which the hub's clients keep what they download."""
    for name, below in (("HF_HUB_CACHE", "."), ("HF_HOME", "hub")):
        if value := os.environ.get(name):
            return Path(os.path.expandvars(value)).expanduser() / below
    return Path(constants.HF_HUB_CACHE)


def is_offline() -> bool:
    """Whether nothing may be asked of a hub."""
    return constants.is_offline_mode() or os.environ.get("HF_HUB_OFFLINE", "").lower() in ON


def never() -> bool:
    """Not cancelled."""
    return False


def wait_unless_cancelled(seconds: float, is_cancelled: Callable[[], bool]) -> None:
    """Wait, but not for a wait that was cancelled."""
    end = time.monotonic() + seconds
    while not is_cancelled() and (left := end - time.monotonic()) > 0:
        time.sleep(min(0.1, left))


def call_hub(
    name: HubName,
    call: Callable[[], T],
    is_cancelled: Callable[[], bool] = never,
    count_bytes: Callable[[], int] = lambda: 0,
) -> T:
    """What a call to the hub returns. What may pass by itself is tried again: cut connections, 408, 429 and errors of the server.

    ``moved``: bytes that arrived so far: attempts between which some arrived are not counted.

    Raises ModelError with a sentence if the hub refuses, cannot be reached or answers as no hub does.
    """
    attempt, before = 0, count_bytes()
    while True:
        try:
            if is_offline():
                raise OfflineModeIsEnabled
            return call()
        except (CancelledError, ModelError):
            raise
        except Exception as error:  # the client's own, its transport's, and whatever it makes of an answer that is not the hub's
            if count_bytes() > before:
                attempt, before = 0, count_bytes()
            wait = _retry_delay(error, attempt)
            if (
                isinstance(error, OSError)
                and error.errno is not None
                and not isinstance(error, (HTTPError, OfflineModeIsEnabled))
            ):
                raise  # this machine's disk
            if wait is None:
                raise explain_refusal(name, error) from error
            wait_unless_cancelled(wait, is_cancelled)
            if is_cancelled():
                raise build_cancelled_error(name.repo) from error
            attempt += 1


def _retry_delay(error: Exception, attempt: int) -> float | None:
    """Seconds until the next attempt; None: there is none."""
    if attempt >= len(WAITS) or not isinstance(error, HTTPError):
        return None
    if not isinstance(error, HfHubHTTPError):
        return WAITS[attempt]
    status = error.response.status_code
    if status not in (408, 429) and status < 500:
        return None
    wait = max(WAITS[attempt], _retry_after(error) or 0.0)
    return wait if wait <= PATIENCE else None


def _retry_after(error: HfHubHTTPError) -> float | None:
    said = error.response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def explain_refusal(name: HubName, error: Exception) -> ModelError:
    """A sentence for what the hub, its client or the network answered: what is wrong and what to do."""
    repo, hub = name.repo, find_hub()
    log_in = "`hf auth login`, or a token in HF_TOKEN"
    if isinstance(error, OfflineModeIsEnabled):
        return ModelError(
            f"'{repo}' is not complete on this machine, and HF_HUB_OFFLINE forbids to ask the hub. Unset it, or name a folder."
        )
    if isinstance(error, GatedRepoError):
        return ModelError(
            f"'{repo}' is gated: accept its license at {hub}/{repo}, then say who you are on this machine ({log_in})."
        )
    if isinstance(error, RepositoryNotFoundError):
        return ModelError(
            f"{hub} has no model '{repo}', or it is private. Check the spelling; a private model needs its owner's account ({log_in})."
        )
    if isinstance(error, RevisionNotFoundError):
        return ModelError(
            f"'{repo}' has no revision '{name.revision or 'main'}'. Its branches, tags and commits are listed at {hub}/{repo}/tree/main."
        )
    if isinstance(error, EntryNotFoundError):
        return ModelError(f"'{repo}' lists a file that {hub} does not have. Name another revision, or try again later.")
    if isinstance(error, DisabledRepoError):
        return ModelError(f"{hub} has closed '{repo}' to everybody. Name another model.")
    if isinstance(error, HFValidationError):
        return ModelError(f"'{repo}' is not a name on the hub, which has the form owner/model or owner/model@revision.")
    if isinstance(error, HfHubHTTPError):
        return _explain_status(name, error)
    if isinstance(error, (HTTPError, OSError)):
        what = str(error).strip() or type(error).__name__
        return ModelError(
            f"{hub} could not be reached for '{repo}' ({what[:120]}). Check the network and proxy settings, or name a folder of models."
        )
    return ModelError(
        f"{hub} does not answer as a model hub does ({type(error).__name__}: {str(error)[:120]}). Check HF_ENDPOINT and the network."
    )


def _explain_status(name: HubName, error: HfHubHTTPError) -> ModelError:
    status, hub = error.response.status_code, find_hub()
    if status == 429:
        wait = _retry_after(error)
        when = f"in {wait:.0f} seconds" if wait else "in some minutes"
        return ModelError(
            f"{hub} has had too many requests from here (429). Try again {when}; who is logged in (`hf auth login`) may ask for more. "
            "What has arrived is kept."
        )
    if status in (401, 403):
        return ModelError(
            f"{hub} does not let this machine's account read '{name.repo}' ({status}). Check its token: `hf auth whoami`, `hf auth login`."
        )
    if status >= 500:
        return ModelError(
            f"{hub} has an error of its own ({status}) for '{name.repo}'. Try again later; what has arrived is kept."
        )
    return ModelError(f"{hub} refuses '{name.repo}' ({status}). Check HF_ENDPOINT, the name and the network.")
