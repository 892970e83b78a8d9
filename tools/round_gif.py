"""The animation in the README: the recorded round on the real page, one frame for each step.

    python tools/round_gif.py [OUT]     (default: assets/round.gif)

Starts the app on a free port of this machine, opens *One round* in Chromium, steps through the first round with the right arrow key,
and writes the frames as a GIF. Needs the packages of ``specviz[test]`` and the chromium on the path, or the one that CHROMIUM names.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.browser.chromium import CHROMIUM, FLAGS
from tools.processes import find_free_port, run_server

ROOT = Path(__file__).resolve().parents[1]
SIZE = {"width": 1120, "height": 700}
SECONDS = 2.2  # for a frame
LAST = 4.5  # for the last one
COLORS = 64


def take_frames(page: Page) -> list[Image.Image]:
    """Screenshots of the first round, one for each step."""
    stage = page.locator(".stage").first
    stage.wait_for()
    page.wait_for_timeout(1500)  # the font, and the first step's transitions
    frames = [take_frame(stage)]
    while True:
        before = stage.locator(".sentence").first.inner_text()
        stage.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(900)
        after = stage.locator(".sentence").first.inner_text()
        if after == before or "round=2" in page.url or page.url.endswith("at=2.1"):
            return frames
        frames.append(take_frame(stage))


def take_frame(stage: Locator) -> Image.Image:
    """A screenshot of the stage."""
    return Image.open(io.BytesIO(stage.screenshot(animations="disabled"))).convert("RGB")


def main(out: Path) -> None:
    """Write the animation."""
    port = find_free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.address=localhost"]
    health = f"http://localhost:{port}/_stcore/health"
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(command, health, Path(folder) / "log.txt", 60, cwd=ROOT),
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce", color_scheme="light")
        page.goto(f"http://localhost:{port}/", wait_until="networkidle")
        frames = take_frames(page)
        browser.close()
    width, height = max(one.width for one in frames), max(one.height for one in frames)
    sheets = []
    for one in frames:
        sheet = Image.new("RGB", (width, height), "white")
        sheet.paste(one, (0, 0))
        sheets.append(sheet.quantize(COLORS, dither=Image.Dither.NONE))
    times = [int(1000 * SECONDS)] * (len(sheets) - 1) + [int(1000 * LAST)]
    sheets[0].save(out, save_all=True, append_images=sheets[1:], duration=times, loop=0, optimize=True)
    print(f"{out}: {len(sheets)} frames, {width} x {height}, {out.stat().st_size >> 10} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "round.gif")
