"""What visitors share: the recorded run, the weights, and two places at the machine. Nothing of a visitor's run is here."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st

from specviz.errors import SpecvizError
from specviz.records import ASSETS, of_file
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.common import loads, warmup
from specviz.web.one_round.jobs import Job
from specviz.web.one_round.state import Visit

if TYPE_CHECKING:
    from specviz.models.pairs.loading import Pair

RECORDING = ASSETS / "traces" / "opening.json"
PLACES = 2  # runs at a time; more would only slow each other down
CHUNK = 3  # rounds between two looks at who else waits
PATIENCE = 2.0  # seconds between two progress lines; each one costs a script run while others want the machine
_places = threading.BoundedSemaphore(PLACES)
_seconds: dict[tuple[str, str, str], float] = {}  # what the last piece of work took on a pair that is loaded


@lru_cache(maxsize=1)
def recording() -> Trace | None:
    """The run that the page opens with; None where the file is missing or damaged."""

    def read(text: str) -> Trace:
        trace = Trace.from_json(text)
        Settings.from_record(trace.settings)
        return trace

    return of_file(RECORDING, read, None)


@st.cache_resource(max_entries=3, show_spinner=False)
def weights(pair: str, device: str, dtype: str) -> Pair:
    """Both models, read-only, one copy for all visitors. Raises ModelError with a sentence."""
    from specviz.models.pairs.loading import load_pair

    return load_pair(pair, device, dtype)


@st.cache_data(max_entries=8, show_spinner=False)
def identity(pair: str, device: str, dtype: str) -> dict[str, Any]:
    """What an export says of a pair: names, sizes, and the hashes of weights and tokenizer."""
    from specviz.models.pairs.fingerprint import fingerprints

    found = weights(pair, device, dtype)
    return found.describe() | fingerprints(found)


def work_on(visit: Visit) -> None:
    """Take a visitor's job one piece further: a wait, a load, or some rounds. What is left stands in ``visit.job``.

    Whatever goes wrong becomes a sentence, and the state before it stays.
    """
    job = visit.job
    warmup.start()  # a page that opens with a job ends before the app itself begins the import
    try:
        if not warmup.wait(PATIENCE):
            job.line = warmup.progress()
        elif sentence := warmup.trouble():
            visit.fail(sentence)
        elif not job.line and (line := _warning(job.settings)):
            job.line = line  # goes on screen before the work begins
        else:
            _run(visit, job)
    except SpecvizError as error:
        visit.fail(str(error), getattr(error, "name", None))
    except Exception as error:  # a page must outlive what a library throws
        logging.getLogger(__name__).exception("a run failed")
        visit.fail(f"The run failed ({type(error).__name__}). What was shown before is still here.")


def _run(visit: Visit, job: Job) -> None:
    load = loads.begun(_key(job.settings), weights)
    if not load.ready(PATIENCE):
        job.line = f"Loading the pair {job.settings.pair}: {time.monotonic() - load.began:.0f} s so far …"
        return
    pair = load.outcome.result()
    _seconds.setdefault(_key(job.settings), 0.0)
    if not _places.acquire(timeout=PATIENCE):
        job.line = f"{PLACES} other runs are being worked out; this one is next in line …"
        return
    began = time.monotonic()
    try:
        from specviz.decoding.run import run

        trace = run(pair, job.settings, min(job.rounds, len(job.earlier) + CHUNK), job.earlier)
    finally:
        _places.release()
        _seconds[_key(job.settings)] = time.monotonic() - began
    visit.advance(trace)


def _key(settings: Settings) -> tuple[str, str, str]:
    return settings.pair, settings.device, settings.dtype


def _warning(settings: Settings) -> str:
    """What to tell before work that takes long; empty where the answer comes at once."""
    took = _seconds.get(_key(settings))
    if took is None:
        return f"Loading the pair {settings.pair} …"
    return "The pair is working …" if took > 1.0 else ""
