"""The stage without Streamlit: a page that loads the same JavaScript and CSS and hands them what the component gets.

``page_html(payload)`` is the page; ``python -m tests.browser.component_pages FOLDER`` writes screenshots of the decisive steps.
In the page, ``window.asked`` lists the events, ``window.give(changes)`` hands over new data, ``window.stage`` is the shadow root.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from specviz.figures.components import load_component
from specviz.web.one_round.payload import build_round_payload, select_texts
from tests.browser.chromium import CHROMIUM, FLAGS
from tests.helpers import hand_made_traces

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"390": (390, 844), "1366": (1366, 768), "1920": (1920, 1080)}
COLORS = {
    "light": {"background-color": "#ffffff", "secondary-background-color": "#f5f7fa", "text-color": "#1a1f26"},
    "dark": {"background-color": "#0e1217", "secondary-background-color": "#171c23", "text-color": "#e8ecf1"},
}
PAGE = """<!doctype html><html style="color-scheme:SCHEME"><meta charset="utf-8"><title>stage</title>
<style>FACE html{VARIABLES} body{margin:0;background:var(--st-background-color);padding:76px PADpx 0}</style>
<body><div id="host"></div><script type="module">
const code = DATA.js, css = DATA.css;
const root = document.getElementById("host").attachShadow({mode: "open"});
const style = document.createElement("style"); style.textContent = css; root.append(style);
const module = await import(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
window.asked = []; window.stage = root; let data = DATA.data;
window.give = (changes) => { data = {...data, ...changes};
  window.close_ = module.default({parentElement: root, data, setStateValue() {}, setTriggerValue: (name, value) => window.asked.push([name, value])}); };
window.give({}); window.ready = true;
</script></body></html>"""


def page_html(payload: dict, scheme: str = "light", cursor: tuple[int, int] = (0, 0), pad: int = 16, **data) -> str:
    """A page that shows this payload; ``data`` overrides mode, busy, notices."""
    full = {
        **select_texts("token"),
        "mode": "recorded",
        "busy": None,
        "notices": [],
    } | data
    full |= {"payload": payload, "cursor": {"round": cursor[0], "step": cursor[1]}}
    return component_page("one_round", full, scheme, pad)


def component_page(name: str, data: dict, scheme: str = "light", pad: int = 16) -> str:
    """A page with one component and nothing of Streamlit's: script, style sheet and data are what the component gets."""
    packed = json.dumps(load_component(name) | {"data": data}).replace("</", "<\\/").replace("<!--", "<\\!--")
    variables = "".join(f"--st-{key}:{value};" for key, value in COLORS[scheme].items())
    font = base64.b64encode((ROOT / "static" / "inter-latin.woff2").read_bytes()).decode()
    face = f"@font-face{{font-family:Inter;font-weight:100 900;src:url(data:font/woff2;base64,{font})}}"
    page = PAGE.replace("FACE", face).replace("SCHEME", scheme).replace("VARIABLES", variables).replace("PAD", str(pad))
    return page.replace("const code", f"const DATA = {packed};\nconst code")


def find_step(payload: dict, kind: str, round_: int = 0, node: int | None = None) -> int:
    """Index of the last step of a kind (and chip) in a round."""
    rows = payload["rounds"][round_]["steps"]
    return max(i for i, row in enumerate(rows) if row["kind"] == kind and node in (None, row["node"]))


def main(folder: str, only: str = "") -> None:
    """Screenshots at three widths in both schemes, full page, of the steps that matter."""
    from playwright.sync_api import sync_playwright

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, payload, cursor in scenes():
            for size, (width, height) in SIZES.items():
                for scheme in COLORS:
                    tag = f"{name}-{size}-{scheme}"
                    if only and not any(part in tag for part in only.split(",")):
                        continue
                    page = browser.new_page(viewport={"width": width, "height": height})
                    page.set_content(page_html(payload, scheme, cursor, pad=16 if width < 700 else 80))
                    page.wait_for_function("window.ready")
                    page.wait_for_timeout(1500)
                    page.screenshot(path=out / f"{tag}.png", full_page=True)
                    page.close()
        browser.close()


def scenes() -> list[tuple[str, dict, tuple[int, int]]]:
    """(name, payload, cursor) of the moments worth looking at."""
    story = build_round_payload(hand_made_traces.build_story())
    found = [
        (kind, story, (0, find_step(story, kind))) for kind in ("pass", "look", "uniform", "lift", "residual", "draw", "tally")
    ]
    found += [
        ("draft", story, (0, 1)),
        ("bonus", story, (1, find_step(story, "bonus", 1))),
    ]
    for name in hand_made_traces.UNUSUAL:
        payload = build_round_payload(hand_made_traces.TRACES[name]())
        found.append((name, payload, (0, find_step(payload, "uniform" if name == "build_edited" else "tally"))))
    return found


def sentence(page) -> str:
    return page.locator(".sentence").inner_text()


def step_through(page, count: int) -> list[str]:
    """The sentences of the next steps, each followed by one press of the right arrow."""
    script = """(count) => Array.from({length: count}, () => {
        const said = window.stage.querySelector(".sentence").textContent;
        document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true}));
        return said;
    })"""
    return page.evaluate(script, count)


def standings(page) -> list[str]:
    return page.locator(".chip").evaluate_all("chips => chips.map(chip => chip.dataset.is)")


if __name__ == "__main__":
    main(*sys.argv[1:])


def open_more(page) -> None:
    """Open the menu of One round with what is needed now and then."""
    page.locator(".moreMenu summary").click()
