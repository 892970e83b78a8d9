"""The page Why it is exact without Streamlit: the same script and style, given what the component gets.

``page_html(payload, state)`` is the page; ``python -m tests.browser.one_token_pages FOLDER`` writes screenshots at three widths.
"""

from __future__ import annotations

import sys
from pathlib import Path

from specviz.trace import Trace
from specviz.web.one_token.payload import build_token_payload
from specviz.web.one_token.state import read_state
from tests.browser.chromium import CHROMIUM, FLAGS
from tests.browser.component_pages import COLORS, ROOT, SIZES, component_page
from tests.helpers import hand_made_traces


def page_html(query: dict[str, str] | None = None, trace: Trace | None = None, scheme: str = "light", pad: int = 16) -> str:
    """The page as this address would open it."""
    payload = build_token_payload(trace or hand_made_traces.build_story())
    state, said = read_state(query or {}, [one["id"] for one in payload["positions"]])
    data = {"payload": payload, "state": state, "notices": said}
    return component_page("one_token", data, scheme, pad)


def main(folder: str, only: str = "") -> None:
    """Screenshots of the moments worth looking at, light and dark, full page."""
    from playwright.sync_api import sync_playwright

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    recorded = Trace.from_json((ROOT / "assets" / "traces" / "opening.json").read_text(encoding="utf-8"))
    eight = {"p": "30-20-15-10-10-5-5-5", "q": "5-25-20-10-20-10-5-5"}
    scenes = {
        "usual": {},
        "text": {"from": "1.3"},
        "disjoint": {"preset": "disjoint"},
        "equal": {"preset": "equal"},
        "sure": {"preset": "sure"},
        "misses": {"preset": "misses"},
        "eight": eight,
        "bad": {"preset": "x", "p": "1-2"},
    }
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, query in scenes.items():
            for size, (width, height) in SIZES.items():
                for scheme in COLORS:
                    tag = f"{name}-{size}-{scheme}"
                    if only and not any(part in tag for part in only.split(",")):
                        continue
                    page = browser.new_page(viewport={"width": width, "height": height})
                    page.on("pageerror", lambda error: print(error))
                    page.on("console", lambda message: print(message.text))
                    page.set_content(page_html(query, recorded, scheme, pad=16 if width < 700 else 80))
                    page.wait_for_function("window.ready")
                    if name == "eight":
                        page.locator("details").evaluate_all("nodes => nodes.forEach((node) => { node.open = true; })")
                    page.wait_for_timeout(900)
                    page.screenshot(path=out / f"{tag}.png", full_page=True)
                    page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
