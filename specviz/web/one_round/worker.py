"""What a worker does for One round. Nothing here comes from Streamlit, so that no worker imports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specviz.decoding.run import record_run
from specviz.progress import ProgressCallback
from specviz.settings import Settings
from specviz.trace import Round, Trace
from specviz.web.one_round.payload import build_round_payload

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair


def run_rounds(
    pair: LoadedPair, settings: Settings, rounds: int, earlier: Sequence[Round], on_progress: ProgressCallback
) -> tuple[Trace, dict[str, Any]]:
    """A run of so many rounds and its payload. It takes a moment, so ``on_progress`` is not called."""
    if not earlier:
        record_run(pair, settings, 1, bars=0)  # first passes are slow; the times on the stage are those of a warm pair
    trace = record_run(pair, settings, rounds, earlier)
    return trace, build_round_payload(trace, load=os.getloadavg()[0] / (os.cpu_count() or 1))
