"""The pictures of the front page: the animation in the README and the preview of links.

    python tools/front_pictures.py      (writes assets/front.gif, assets/front.json and static/preview.png)

Builds the static edition, opens it in Chromium under reduced motion, and steps through its scenes by key. Each step of the race is a
frame that stands for as long as it does on the page, so the animation keeps the measured times. assets/front.json has the sentences and
numbers that the pictures show, so that a test notices when the page has others. Needs the packages of
``specviz[test]`` and the chromium on the path, or the one that CHROMIUM names.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from specviz.figures.preview import PICTURE, SIZE
from specviz.static_site.build import write_site
from specviz.web.front.payload import build_front_payload
from specviz.web.front.state import load_recorded_race
from specviz.web.front.words import TEXTS
from tests.browser.chromium import CHROMIUM, FLAGS

ROOT = Path(__file__).resolve().parents[1]
ANIMATION, PREVIEW = ROOT / "assets" / "front.gif", ROOT / "static" / PICTURE
STAMP = ROOT / "assets" / "front.json"
WINDOW = {"width": 1000, "height": 660}
MARGIN = 28  # px of paper around a frame
COLORS = 128  # grays and other common ones; as many more that are bright
BRIGHT = 40  # between the largest and the smallest part of a bright color
LEAST, RESTS = 50, 2600  # ms: of a frame, since browsers slow down shorter ones; of the last frame of a scene
DRAGS = 34  # steps of a bar of the draft
DRAG = 70  # ms of each
SCALE = 1.5  # of the preview, which is shown small
PLAIN = ".rail, .small, .go, .own, .about, .onto { visibility: hidden !important; } .front .screen { min-height: 0; padding: 0; }"


def build_stamp() -> dict[str, Any]:
    """What both pictures show in words and numbers, and the hash of each file."""
    payload = build_front_payload(load_recorded_race(), recorded=True)
    race, large = payload["race"], payload["large"]
    written = ["".join(token["t"] for one in lane["rounds"] for token in one["tokens"]) for lane in race["lanes"]]
    return {
        "files": {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in (ANIMATION, PREVIEW)},
        "texts": {scene: TEXTS[scene] for scene in ("race", "overlap")},
        "written": written,
        "numbers": {"gain": race["gain"], "average": race["average"]["gain"], "writer": race["writer"], "cost": payload["cost"]},
        "large": f"{large['gain']} {large['says']}",
    }


def open_scene(page: Page, address: str, extra: str = "") -> None:
    """Open the front page without what only serves a visitor."""
    page.goto(address)
    page.locator(".race.finished").wait_for()
    page.add_style_tag(content=".top, footer { display: none; } .site main { padding: 0; }")
    page.evaluate(
        "css => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);"
        " document.querySelector('#front').shadowRoot.adoptedStyleSheets.push(sheet); }",
        PLAIN + extra,
    )
    page.evaluate("document.fonts.ready")


def take_race(page: Page) -> tuple[list[Image.Image], list[int]]:
    """A frame for each moment at which something changes, and how long it stands, in ms."""
    moments = page.evaluate(
        """() => { const { race } = JSON.parse(document.getElementById('data').textContent).data;
        const all = race.lanes.flatMap(({ rounds }) => rounds.flatMap(({ begin, end, drafts }) =>
            [...drafts.map((_, i) => begin + ((end - begin) * (i + 1)) / (drafts.length + 1)), end]));
        return [...new Set(all)].sort((a, b) => a - b).map((at) => 1000 * at * race.factor); }"""
    )
    frames, shown, last = [], [], 0.0
    for at in moments:
        page.keyboard.press("ArrowRight")
        if at - last < LEAST and at != moments[-1]:
            continue  # it is part of the next frame
        frames.append(take_frame(page, ".scene-race .inside"))
        shown.append(at)
        last = at
    stands = [round(after - before) for before, after in pairwise(shown)]
    return frames, [*stands, RESTS]


def take_overlap(page: Page) -> tuple[list[Image.Image], list[int]]:
    """A bar of the draft is raised, step by step."""
    page.keyboard.press("PageDown")
    page.get_by_role("button", name="Usual").click()
    handle = page.get_by_role("slider").last
    frames = [take_frame(page, ".scene-overlap .inside")]
    for _ in range(DRAGS):
        handle.press("ArrowUp")
        handle.press("ArrowUp")
        page.evaluate("document.querySelector('#front').shadowRoot.activeElement?.blur()")
        frames.append(take_frame(page, ".scene-overlap .inside"))
    return frames, [1200, *[DRAG] * (len(frames) - 2), RESTS]


def take_frame(page: Page, selector: str) -> Image.Image:
    """A screenshot of a scene without transitions."""
    return Image.open(io.BytesIO(page.locator(selector).screenshot(animations="disabled"))).convert("RGB")


def put_on_paper(frames: list[Image.Image]) -> list[Image.Image]:
    """Frames of one size, on white paper with a margin."""
    width, height = (max(getattr(one, side) for one in frames) + 2 * MARGIN for side in ("width", "height"))
    sheets = []
    for one in frames:
        sheet = Image.new("RGB", (width, height), "white")
        sheet.paste(one, (MARGIN, MARGIN))
        sheets.append(sheet)
    return sheets


def reduce_colors(frames: list[Image.Image]) -> list[Image.Image]:
    """The same frames with one palette: the commonest colors and the commonest bright ones as they are, every other one replaced by the nearest of them."""
    packed = [np.asarray(one).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32) for one in frames]
    counts: Counter[int] = Counter()
    for one in packed:
        values, times = np.unique(one, return_counts=True)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    order = [value for value, _ in counts.most_common()]
    bright = [value for value in order if max(parts := (value >> 16, value >> 8 & 255, value & 255)) - min(parts) > BRIGHT]
    known = np.array(
        list(dict.fromkeys([*order[:COLORS], *bright[:COLORS]]))[:255], np.uint32
    )  # one is left for pixels that stay
    palette = np.stack([known >> 16, known >> 8 & 255, known & 255], 1).astype(np.int32)
    found = []
    for one in packed:
        values, places = np.unique(one, return_inverse=True)
        rgb = np.stack([values >> 16, values >> 8 & 255, values & 255], 1).astype(np.int32)
        nearest = ((rgb[:, None] - palette[None]) ** 2).sum(2).argmin(1).astype(np.uint8)
        image = Image.fromarray(nearest[places].reshape(one.shape), "P")
        image.putpalette(palette.astype(np.uint8).tobytes())
        found.append(image)
    return found


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        write_site(Path(folder) / "site")
        address = (Path(folder) / "site" / "front.html").as_uri()
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        looks = {"reduced_motion": "reduce", "color_scheme": "light", "bypass_csp": True}  # styles are added
        page = browser.new_page(viewport=WINDOW, **looks)
        open_scene(page, address)
        race, overlap = take_race(page), take_overlap(page)
        frames = reduce_colors(put_on_paper([*race[0], *overlap[0]]))
        times = [*race[1], *overlap[1]]
        frames[0].save(ANIMATION, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True, disposal=1)

        viewport = {"width": round(SIZE[0] / SCALE), "height": round(SIZE[1] / SCALE)}
        page = browser.new_page(viewport=viewport, device_scale_factor=SCALE, **looks)
        open_scene(
            page,
            address,
            ".front .screen { min-height: 100vh; padding: 30px 26px 0; } .front .inside { max-width: none; }"
            " .lede, .race .why, .race .origins { display: none !important; } .front h2 { margin-bottom: 10px; } .race .text { height: 5.68em; }",
        )
        for _ in range(150):
            page.keyboard.press("ArrowRight")
        page.screenshot(path=PREVIEW, animations="disabled")
        browser.close()
    STAMP.write_text(json.dumps(build_stamp(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{ANIMATION}: {len(frames)} frames, {sum(times) / 1000:.1f} s, {ANIMATION.stat().st_size >> 10} kB")
    print(f"{PREVIEW}: {PREVIEW.stat().st_size >> 10} kB")


if __name__ == "__main__":
    main()
