"""A tiny pair with a run recorded from it, in one folder: what the page's tests open with."""

from __future__ import annotations

from pathlib import Path

PROMPT = "Once upon a time the old bear"
SEED = 3


def write_opening(folder: Path, rounds: int = 4) -> Path:
    """Write target/, draft/ and opening.json into a folder. The recording goes under the name of the catalog's pair."""
    from specviz.decoding.run import record_run
    from specviz.models.pairs.loading import load_pair
    from specviz.settings import Settings
    from specviz.trace import Trace
    from tests.helpers.tiny_pairs import write_pair

    target, draft = write_pair(folder)
    settings = Settings(prompt=PROMPT, seed=SEED, max_new_tokens=64)
    trace = record_run(load_pair(f"{target}|{draft}", device="cpu"), settings, rounds)
    assert isinstance(trace, Trace)
    (folder / "opening.json").write_text(trace.to_json(), encoding="utf-8")
    return folder
