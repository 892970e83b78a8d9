"""torch and transformers, imported once, in one thread, after the first page has been drawn.

Two threads that import transformers at the same moment can meet half-initialized modules; and Streamlit collects garbage
after every script run, which walks everything that these libraries made unless it is frozen.
"""

from __future__ import annotations

import gc
import importlib
import logging
import threading
import time

from specviz.web.jobs.server_queue import threads_per_job

HEAVY = ("torch", "transformers", "specviz.models.pairs.loading", "specviz.decoding.run")
DOING = "Loading torch and transformers, once for this server, usually under 20 s"
_PAUSE = 0.3  # seconds; the first page leaves the server before the import takes the interpreter

_lock = threading.Lock()
_thread: threading.Thread | None = None
_done = threading.Event()
_trouble: str | None = None


def start() -> None:
    """Begin the import, unless it was begun before. Returns at once."""
    global _thread
    with _lock:
        if _thread is None:
            thread = threading.Thread(target=_import_all, name="heavy-imports", daemon=True)
            thread.start()
            _thread = thread  # a start that failed may be tried again


def wait(seconds: float) -> bool:
    """Whether the import has ended, waiting for it at most so long."""
    return _done.wait(seconds)


def describe_failure() -> str | None:
    """Why the libraries could not be imported, as a sentence; None when they were, or while it is not known."""
    return _trouble


def _import_all() -> None:
    global _trouble
    time.sleep(_PAUSE)
    try:
        for name in HEAVY:
            importlib.import_module(name)
        share_cores()
        gc.collect()
        gc.freeze()
    except Exception as error:  # whatever stops an import must become a sentence on the page, not a dead thread
        logging.getLogger(__name__).exception("the models' libraries could not be imported")
        _trouble = f"The models cannot run on this machine: importing their libraries failed ({type(error).__name__}: {error})."
    finally:
        _done.set()


def share_cores() -> None:
    """Let the passes of this thread use at most as many threads as its place in the queue has. Imports torch."""
    importlib.import_module("specviz.threads").limit_threads(threads_per_job())
