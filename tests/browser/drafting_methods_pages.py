"""The walked tree without Streamlit: the same script and style, given what the component gets.

``page_html(payload)`` is the page; ``python -m tests.browser.drafting_methods_pages FOLDER`` writes screenshots at three widths.
"""

from __future__ import annotations

import sys
from pathlib import Path

from specviz.web.drafting_methods.state import load_recorded_comparisons
from specviz.web.drafting_methods.tree import build_tree
from tests.browser.chromium import CHROMIUM, FLAGS
from tests.browser.component_pages import COLORS, SIZES, component_page


def page_html(payload: dict, scheme: str = "light", pad: int = 16) -> str:
    """A page that shows this payload."""
    return component_page("drafting_methods/tree", {"payload": payload}, scheme, pad)


def main(folder: str, only: str = "") -> None:
    """Screenshots of every recorded row: in the middle of its walk and at its end, light and dark."""
    from playwright.sync_api import sync_playwright

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for row in load_recorded_comparisons()["1"].rows:
            for size, (width, height) in SIZES.items():
                for scheme in COLORS:
                    for when in ("middle", "end"):
                        tag = f"{row.key}-{size}-{scheme}-{when}"
                        if row.trace is None or (only and not any(part in tag for part in only.split(","))):
                            continue
                        page = browser.new_page(viewport={"width": width, "height": height})
                        page.on("pageerror", lambda error: print(error))
                        page.set_content(page_html(build_tree(row.trace), scheme, pad=16 if width < 700 else 80))
                        page.wait_for_function("window.ready")
                        page.keyboard.press("End")
                        if when == "middle":
                            page.keyboard.press("Home")
                            for _ in range(2):
                                page.keyboard.press("ArrowRight")
                        page.wait_for_timeout(600)
                        page.screenshot(path=out / f"{tag}.png", full_page=True)
                        page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
