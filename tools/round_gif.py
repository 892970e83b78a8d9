"""The animation in the README: the recorded round on the real page, one frame for each step.

    python tools/round_gif.py [OUT]     (default: assets/round.gif)

Starts the app on a free port of this machine, opens *One round* in Chromium, steps through the first round with the right arrow key,
and writes the frames as a GIF. Needs requirements-test.txt and the chromium on the path, or the one that CHROMIUM names.
"""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SIZE = {"width": 1120, "height": 700}
SECONDS = 2.2  # for a frame
LAST = 4.5  # for the last one
COLORS = 64
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def frames(page: Page) -> list[Image.Image]:
    """Screenshots of the first round, one for each step."""
    stage = page.locator(".stage").first
    stage.wait_for()
    page.wait_for_timeout(1500)  # the font, and the first step's transitions
    taken = [shot(stage)]
    while True:
        before = stage.locator(".sentence").first.inner_text()
        stage.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(900)
        after = stage.locator(".sentence").first.inner_text()
        if after == before or "round=2" in page.url or page.url.endswith("at=2.1"):
            return taken
        taken.append(shot(stage))


def shot(stage) -> Image.Image:
    return Image.open(io.BytesIO(stage.screenshot(animations="disabled"))).convert("RGB")


def main(out: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.address=localhost"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.5)
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce", color_scheme="light")
            page.goto(f"http://localhost:{port}/", wait_until="networkidle")
            taken = frames(page)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=20)
    width, height = max(one.width for one in taken), max(one.height for one in taken)
    sheets = []
    for one in taken:
        sheet = Image.new("RGB", (width, height), "white")
        sheet.paste(one, (0, 0))
        sheets.append(sheet.quantize(COLORS, dither=Image.Dither.NONE))
    times = [int(1000 * SECONDS)] * (len(sheets) - 1) + [int(1000 * LAST)]
    sheets[0].save(out, save_all=True, append_images=sheets[1:], duration=times, loop=0, optimize=True)
    print(f"{out}: {len(sheets)} frames, {width} x {height}, {out.stat().st_size >> 10} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "round.gif")
