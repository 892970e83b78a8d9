"""The app on a tiny pair: ``python -m tests.browser.serve PORT FOLDER [flags of the app]``.

FOLDER holds target/, draft/ and opening.json, a run recorded from them. Only the catalog's entry and the recording are
other ones; app.py is what runs. With "shipped" as FOLDER those are the app's own.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from streamlit.web import cli

from specviz.models.pairs.catalog import PAIRS
from specviz.web.hosting import cache

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = Path("shipped")


def use_pair(folder: Path) -> None:
    """Let the catalog's pair and the opening run be those of a folder."""
    places = {"target": str(folder / "target"), "draft": str(folder / "draft")}
    PAIRS["storybook"] = replace(PAIRS["storybook"], is_shipped=False, **places)
    cache.RECORDING = folder / "opening.json"
    cache.load_recording.cache_clear()


if __name__ == "__main__":
    port, place, *flags = sys.argv[1:]
    if Path(place) != SHIPPED:
        use_pair(Path(place))
    sys.argv = ["streamlit", "run", str(ROOT / "app.py"), "--server.port", port, "--server.address", "127.0.0.1", "--", *flags]
    cli.main()
