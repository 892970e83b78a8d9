"""Calls to a model hub through its own client library: addresses and folders, retries, refusals as sentences.

The environment is read at each call: HF_ENDPOINT (another hub, or a mirror), HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME. The library
reads a token from HF_TOKEN or from ``hf auth login``.
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
from specviz.records import load_toml

HUB = "https://huggingface.co"
TIMEOUT = 10.0  # seconds without a byte
RETRY_DELAYS = (0.5, 1.0, 2.0, 4.0)  # seconds before each further attempt
MAX_DELAY = 60.0  # longest delay, in seconds, that is waited for; the message names a longer one
ON = ("1", "true", "yes", "on")

REFUSALS = (  # errors of the client that have a sentence in assets/texts/hub_refusals.toml; the first that fits counts
    *(
        OfflineModeIsEnabled,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
        EntryNotFoundError,
        DisabledRepoError,
    ),
    HFValidationError,
)

T = TypeVar("T")


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


def wait(seconds: float, on_wait: Callable[[], None]) -> None:
    """Sleep for so many seconds. ``on_wait`` is called several times a second; what it raises ends the sleep."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        on_wait()
        time.sleep(min(0.1, left))


def call_hub(
    name: HubName,
    call: Callable[[], T],
    on_wait: Callable[[], None] = lambda: None,
    count_bytes: Callable[[], int] = lambda: 0,
) -> T:
    """Call the hub and return the result. Cut connections, 408, 429 and errors of the server are retried.

    Attempts between which bytes arrived, by ``count_bytes``, are not counted. ``on_wait`` is called while it waits for the next
    attempt, and may raise to stop. Raises ModelError with a sentence if the hub refuses, cannot be reached or answers as no hub
    does.
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
            delay = _find_retry_delay(error, attempt)
            is_remote = isinstance(error, (HTTPError, OfflineModeIsEnabled))
            if isinstance(error, OSError) and error.errno is not None and not is_remote:
                raise  # this machine's disk
            if delay is None:
                raise explain_refusal(name, error) from error
            wait(delay, on_wait)
            attempt += 1


def _find_retry_delay(error: Exception, attempt: int) -> float | None:
    """Seconds until the next attempt; None: there is none."""
    if attempt >= len(RETRY_DELAYS) or not isinstance(error, HTTPError):
        return None
    if not isinstance(error, HfHubHTTPError):
        return RETRY_DELAYS[attempt]
    status = error.response.status_code
    if status not in (408, 429) and status < 500:
        return None
    wait = max(RETRY_DELAYS[attempt], _read_retry_after(error) or 0.0)
    return wait if wait <= MAX_DELAY else None


def _read_retry_after(error: HfHubHTTPError) -> float | None:
    seconds = error.response.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else None


def explain_refusal(name: HubName, error: Exception) -> ModelError:
    """A sentence for what the hub, its client or the network answered: what is wrong and what to do."""
    key, status, wait = next((kind.__name__ for kind in REFUSALS if isinstance(error, kind)), ""), 0, None
    if not key and isinstance(error, HfHubHTTPError):
        status, wait = error.response.status_code, _read_retry_after(error)
        key = {429: "too_many", 401: "account", 403: "account"}.get(status, "server" if status >= 500 else "other_status")
    elif not key:
        key = "network" if isinstance(error, (HTTPError, OSError)) else "no_hub"
    values = {
        "repo": name.repo,
        "hub": find_hub(),
        "revision": name.revision or "main",
        "status": status,
        "when": f"in {wait:.0f} seconds" if wait else "in some minutes",
        "kind": type(error).__name__,
        "message": (str(error).strip() or type(error).__name__)[:120],
    }
    return ModelError(load_toml("texts/hub_refusals")[key].format(**values))
