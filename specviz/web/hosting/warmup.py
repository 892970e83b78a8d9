"""Imports torch and transformers once, in one thread, after the first page has been drawn.

Two threads that import transformers at the same moment can meet half-initialized modules. Streamlit collects garbage after every
script run, which would visit all objects of these libraries if they were not frozen.
"""

from __future__ import annotations

import gc
import importlib
import logging
import threading
import time

from specviz.errors import SpecvizError
from specviz.web.hosting.server_queue import count_threads_per_job

LIBRARIES = ("torch", "transformers", "specviz.models.pairs.loading", "specviz.decoding.run")
DOING = "Loading torch and transformers, once for this server, usually under 20 s"
REQUIRED_WITHIN = 180.0  # seconds
IMPORT_DELAY = 0.3  # seconds in which the first page is sent; the import then holds the GIL

_lock = threading.Lock()
_thread: threading.Thread | None = None
_done = threading.Event()
_failure: str | None = None


def start() -> None:
    """Start the import, unless it was started before. Returns at once."""
    global _thread
    with _lock:
        if _thread is None:
            thread = threading.Thread(target=_import_all, name="heavy-imports", daemon=True)
            thread.start()
            _thread = thread  # after the start, which may fail and be tried again


def wait(seconds: float) -> bool:
    """Wait at most so long for the end of the import. Returns whether it has ended."""
    return _done.wait(seconds)


def require_libraries() -> None:
    """Start the import unless it was, and wait for its end, at most REQUIRED_WITHIN. Raises SpecvizError if it failed.

    Call it before the import of a module that needs torch, wherever no ticket is at hand (``model_loading.wait_for_libraries``).
    """
    start()
    wait(REQUIRED_WITHIN)
    if sentence := describe_failure():
        raise SpecvizError(sentence)


def describe_failure() -> str | None:
    """Why the libraries could not be imported, as a sentence; None if they were, or before the end."""
    return _failure


def _import_all() -> None:
    global _failure
    time.sleep(IMPORT_DELAY)
    try:
        for name in LIBRARIES:
            importlib.import_module(name)
        share_cores()
        gc.collect()
        gc.freeze()
    except Exception as error:  # pages show why the import failed
        logging.getLogger(__name__).exception("the models' libraries could not be imported")
        _failure = f"The models cannot run on this machine: importing their libraries failed ({type(error).__name__}: {error})."
    finally:
        _done.set()


def share_cores() -> None:
    """Let the passes of this thread use at most as many threads as its place in the queue has. Imports torch."""
    importlib.import_module("specviz.threads").limit_threads(count_threads_per_job())
