"""What tests of pages share: a first paint where torch cannot be imported, a ticket that nobody holds, a page on the tiny pair."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from streamlit.testing.v1 import AppTest

from specviz.errors import CancelledError
from specviz.models.pairs.catalog import PAIRS
from specviz.settings import Settings
from specviz.web.exactness.state import ExactnessQuestion, ExactnessState
from specviz.web.hosting import cache
from tests.helpers.fresh_process import REFUSE_TORCH, run_fresh

ROOT = Path(__file__).resolve().parents[2]
NO_TORCH = """
import json, sys
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("pages/PAGE.py", default_timeout=60)
for key, value in json.loads(sys.argv[1]).items():
    app.query_params[key] = value
app.run()
given = [json.loads(one.proto.mixed.json or one.proto.json) for one in app.get("bidi_component")]
found = {"errors": len(app.exception), "heavy": [name for name in ("torch", "transformers") if name in sys.modules],
         "text": [one.value for one in app.text], "buttons": [one.label for one in app.button],
         "figures": len(app.get("plotly_chart")), "said": [one.value for one in app.markdown]}
print(json.dumps(found | {MORE}))
"""
BASE = Settings(prompt="Once upon", gamma=2)
PROMPT = '"prompt": app.text_area[0].value'


def draw_first_paint(page: str, query: dict[str, str], more: str = PROMPT) -> dict:
    """What a page shows at first, in a process of its own. more: entries of a dictionary, as Python; ``given`` is what components were given."""
    code = REFUSE_TORCH + NO_TORCH.replace("PAGE", page).replace("MORE", more)
    done = run_fresh(code, json.dumps(query))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class FreeTicket:
    """A ticket that nobody stops, unless a number of ticks is given after which it ends."""

    visitor, is_unwanted = None, False

    def __init__(self, ticks: float = float("inf")):
        self.left, self.shares, self.is_discarded = ticks, [], False

    def tick(self, share=None, doing=None):
        self.left -= 1
        if share is not None:
            self.shares.append(share)
        if self.left < 0:
            raise CancelledError

    def expect(self, seconds):
        self.expected = seconds


def open_on_tiny_pair(page: str, folders, monkeypatch) -> AppTest:
    """The page after its first run and the work that it begins; ``storybook`` stands for the tiny pair."""
    return settle(run_first(page, folders, monkeypatch), page)


def run_first(page: str, folders, monkeypatch) -> AppTest:
    """The page after its first run; what it begins may be under way."""
    places = dict(zip(("target", "draft"), map(str, folders), strict=True))
    cache.load_weights.cache_clear()  # of the shipped pair, where an earlier test loaded it
    monkeypatch.setitem(PAIRS, "storybook", replace(PAIRS["storybook"], is_shipped=False, **places))
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    app.query_params["prompt"] = "Once upon"
    return app.run()


def settle(app: AppTest, page: str) -> AppTest:
    """Until no work is left."""
    for _ in range(9000):
        if not app.session_state[page].is_busy:
            return app.run()
        time.sleep(0.01)
    raise AssertionError("the work did not end")


def open_panel(app: AppTest, page: str = "one_round") -> AppTest:
    """The page with the panel Models open."""
    app.session_state[f"models-fold-{page}"] = True
    return app.run()


def check_pair_in_panel(app: AppTest, target: object, draft: object, rounded: bool = False, page: str = "one_round") -> AppTest:
    """The panel, open, after its check of a pair."""
    open_panel(app, page)
    turn = app.session_state["models"].turn
    app.text_input(key=f"models-target-{turn}").set_value(str(target))
    app.text_input(key=f"models-draft-{turn}").set_value(str(draft))
    app.checkbox(key=f"models-rounded-{turn}").set_value(rounded).run()
    app.button(key="models-check").click().run()
    return settle(app, "models")


def build_exactness_state(length: int = 2, source: str = "speculative", **options) -> ExactnessState:
    """A question of Exactness test, nothing drawn for it yet."""
    return ExactnessState(ExactnessQuestion(replace(BASE, max_new_tokens=length, **options), source))
