"""How long a visitor waits who is alone: ``python -m tools.load.walk --times 20 --out walk.md``.

Starts the app in hosted mode on this machine, on the shipped pair, and drives Chromium through it as one visitor: the first paint on a cold
and on a warm server, the frames of the front page's race, a key, a live round, a written text, a change of pages, samples with their verdict, and how many bytes come. The
browser computes on the same cores, and its time counts.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from specviz.errors import SpecvizError
from specviz.figures.pages_and_glossary import PAGES
from tools.load import findings
from tools.load.findings import WaitingTimes
from tools.load.server import LoadServer, start_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIMEOUT = 180_000  # ms that anything is waited for
KEY_SCRIPT = """(key) => new Promise((done) => {
    const began = performance.now(), channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now() - began);
    document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    requestAnimationFrame(() => channel.port2.postMessage(0));
})"""
BARS_SCRIPT = """() => {
    const found = (root) => [
        ...root.querySelectorAll(".cells .strip"),
        ...[...root.querySelectorAll("*")].flatMap((one) => (one.shadowRoot ? found(one.shadowRoot) : [])),
    ];
    return found(document).map((bar) => bar.getAttribute("style")).join();
}"""
SHOWS_SCRIPT = """([selector, text]) => {
    const found = (root) => [
        ...root.querySelectorAll(selector),
        ...[...root.querySelectorAll("*")].flatMap((one) => (one.shadowRoot ? found(one.shadowRoot) : [])),
    ];
    return found(document).some((one) => one.checkVisibility() && one.textContent.includes(text));
}"""
FRAMES_SCRIPT = """(seconds) => new Promise((done) => {
    const found = (root) => root.querySelector(".scene-race .strip.target .run")
        ?? [...root.querySelectorAll("*")].map((one) => one.shadowRoot && found(one.shadowRoot)).find(Boolean);
    const strip = found(document), began = performance.now();
    let frames = 0, before = strip.style.clipPath;
    const count = (at) => {
        if (strip.style.clipPath !== before) frames += 1;
        before = strip.style.clipPath;
        if (at - began < 1000 * seconds) requestAnimationFrame(count); else done(1000 * frames / (at - began));
    };
    requestAnimationFrame(count);
})"""
PAINTED = ".scene-race .inside"  # of the front page
MORE = ".moreMenu summary"
DRAWN = ".stage:not(.waiting) .sentence"  # of One round
AT_REST = ".stApp[data-test-script-state=notRunning]"
DRAW_MANY = ".st-key-exactness-draw-10000 button"
VERDICT = ".stage:not(.underway) .told"  # of a histogram, once its bars have arrived
STREAMLIT = ("/static/js/", "/static/css/", "/static/media/")  # of its own front end
ROUNDS = 5  # that are asked of a run: a text may end
VISITS = 5  # in which frames are counted, at most
WATCHED = 5  # s of the race, which lasts longer
MILLION, MANY = 1_000_000, 10_000


class WalkGoal(NamedTuple):
    """A measured quantity, and how many seconds (or bytes) its median may take; of frames a second, how many are wanted."""

    said: str
    most: float


COLD, WARM = WalkGoal("first paint, cold server", 3.0), WalkGoal("first paint, warm server", 1.0)
STEP, LIVE = WalkGoal("a key, until its step is drawn", 0.020), WalkGoal("a further live round", 0.250)
TOKEN, CHANGE = WalkGoal("first token of a written text", 0.400), WalkGoal("another page, all of it", 0.600)
SAMPLES, ALL = WalkGoal("10,000 samples with verdict", 3.0), WalkGoal("a million samples with verdict", 40.0)
GROWS = WalkGoal("the longest time without a change while a million are drawn", 1.0)
LOAD, ROUND = WalkGoal("bytes of a first load beyond Streamlit's own", 1.2e6), WalkGoal("bytes of a round's payload", 60e3)


FRAMES = WalkGoal(f"frames a second of the front page's race, over {WATCHED} s", 60)


class Walk:
    """What one walk has seen: seconds by goal, bytes, and frames a second."""

    def __init__(self) -> None:
        self.seconds: dict[WalkGoal, list[float]] = defaultdict(list)
        self.bytes: dict[WalkGoal, int] = {}
        self.rates: dict[WalkGoal, list[float]] = defaultdict(list)

    @contextmanager
    def time_action(self, goal: WalkGoal) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[goal].append(time.perf_counter() - began)


def wait_for_text(page: Page, selector: str, text: str = "") -> None:
    """Wait until something that a selector finds is visible and has this text in it.

    It is looked for at every frame. A locator looks again only every half second once it has waited for a quarter, which is too coarse here.
    """
    page.wait_for_function(SHOWS_SCRIPT, arg=[selector, text], polling="raf", timeout=TIMEOUT)


def time_first_paint(walk: Walk, goal: WalkGoal, browser: Browser, address: str) -> None:
    """A visitor who was never here opens the front page; painted is its race."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    with walk.time_action(goal):
        page.goto(address, wait_until="commit")
        wait_for_text(page, PAINTED)
    page.close()
    context.close()


def count_frames(walk: Walk, browser: Browser, address: str) -> None:
    """How often a second the race is drawn anew, from the moment that it stands: frames in which its strip has moved."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(address, wait_until="commit")
    wait_for_text(page, PAINTED)
    page.locator(AT_REST).wait_for(state="attached")
    walk.rates[FRAMES].append(page.evaluate(FRAMES_SCRIPT, WATCHED))
    context.close()


def open_page(browser: Browser, address: str) -> Page:
    """Open *One round* and wait until it stands. Motion is reduced: how long a picture moves is no wait for the server."""
    page = browser.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce").new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(f"{address}/one_round")
    page.locator(DRAWN).wait_for()
    page.locator(AT_REST).wait_for(state="attached")
    return page


def time_keys_and_rounds(walk: Walk, page: Page, address: str, times: int) -> None:
    """Steps through the recorded round; then further rounds of live runs, each worked out by the server."""
    for n in range(times):
        seconds = page.evaluate(KEY_SCRIPT, "ArrowRight" if n < times // 2 else "ArrowLeft") / 1000
        walk.seconds[STEP].append(seconds)
    choice = page.locator("select[aria-label=round]")
    for n in range(times):
        if n % ROUNDS == 0:
            page.goto(f"{address}/one_round?prompt=Once+upon+a+time&seed={n}")
            page.locator(".status.isLive").wait_for()
            page.locator(AT_REST).wait_for(state="attached")
        before = choice.locator("option").count()
        choice.select_option(index=before - 1, force=True)  # it stands in a menu
        began = time.perf_counter()
        page.keyboard.press("Enter")
        page.wait_for_function(
            "([node, before]) => node.options.length > before", arg=[choice.element_handle(), before], polling="raf"
        )
        walk.seconds[LIVE].append(time.perf_counter() - began)


def time_texts(walk: Walk, page: Page, address: str, times: int) -> None:
    """From the click until a token of the new text is on the screen: each text has a prompt of its own."""
    for n in range(times):
        page.goto(f"{address}/whole_text?prompt=Once+upon+a+time+{n}+bears&length=64")
        page.locator(AT_REST).wait_for(state="attached")
        lanes = page.locator(".stage.whole")
        lanes.wait_for()
        page.get_by_role("button", name="Your own text").click()
        write = page.locator(".st-key-whole_text-write button").first
        write.click(trial=True)  # the panel has opened and stands still
        with walk.time_action(TOKEN):
            write.click()
            page.wait_for_function(
                "([node, n]) => node.isConnected && node.querySelector('.given')?.textContent.includes(`${n} bears`) && node.querySelector('.lane .token')",
                arg=[lanes.element_handle(), n], polling="raf",
            )  # fmt: skip
        page.keyboard.press("Escape")  # closes the panel, which may lie over the button
        stop = page.get_by_role("button", name="Stop")
        if stop.count():
            stop.first.click()
        page.locator(AT_REST).wait_for(state="attached")


def time_page_changes(walk: Walk, page: Page, address: str, times: int) -> None:
    """From the click in the navigation until all of the other page stands and no script runs."""
    page.goto(f"{address}/one_round")
    page.locator(DRAWN).wait_for()
    names = [path for path in PAGES if path != "one_round"]
    for n in range(times + len(names)):
        name = names[n % len(names)]
        page.locator(AT_REST).wait_for(state="attached")
        page.locator("[data-testid=stTopNav]").get_by_text(PAGES[name].group, exact=True).click()
        link = page.locator(f"[data-testid=stTopNavDropdownLink][href*='{name}']")
        link.wait_for()
        began = time.perf_counter()
        link.click()
        wait_for_text(page, f"[class*='st-key-onward-{name}']")
        wait_for_text(page, AT_REST)
        if n >= len(names):  # every page was open once
            walk.seconds[CHANGE].append(time.perf_counter() - began)


def time_samples(walk: Walk, page: Page, address: str, times: int) -> None:
    """Each lot under a seed of its own, until its verdict stands beside the bars; then one million, watched for changes."""
    for n in range(times):
        page.goto(f"{address}/exactness?seed={100 + n}")
        page.locator(DRAW_MANY).wait_for()
        page.locator(AT_REST).wait_for(state="attached")
        page.wait_for_timeout(1500)  # until the distribution is ready
        with walk.time_action(SAMPLES):
            page.locator(DRAW_MANY).click()
            wait_for_text(page, VERDICT, f"{MANY:,} samples")
    page.goto(f"{address}/exactness?seed=99")
    page.get_by_role("button", name="Settings", exact=True).click()
    button = page.get_by_role("button", name="Sample a million")
    button.wait_for()
    page.wait_for_timeout(3000)
    began = last = time.perf_counter()
    seen, longest = "", 0.0
    button.click()
    page.keyboard.press("Escape")
    while True:
        now, drawn = time.perf_counter(), page.evaluate(BARS_SCRIPT)
        if drawn != seen:
            longest, last, seen = max(longest, now - last), now, drawn
        if page.evaluate(SHOWS_SCRIPT, [VERDICT, f"{MILLION:,} samples"]):
            break
        page.wait_for_timeout(50)
    walk.seconds[ALL].append(time.perf_counter() - began)
    walk.seconds[GROWS].append(longest)


class CountingRelay:
    """A port of this machine that hands everything on to a server, and counts what comes back as it is sent: compressed."""

    def __init__(self, address: str):
        self.to = urlsplit(address)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.received = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                browser, _ = self.listening.accept()
                server = socket.create_connection((self.to.hostname or "127.0.0.1", self.to.port or 80))
                for ends in ((browser, server, False), (server, browser, True)):
                    threading.Thread(target=self._relay, args=ends, daemon=True).start()

    def _relay(self, giver: socket.socket, taker: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := giver.recv(1 << 16):
                self.received += len(data) if counted else 0
                taker.sendall(data)
        for one in (giver, taker):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def measure_bytes(walk: Walk, browser: Browser, address: str) -> None:
    """What a first load brings besides Streamlit's own files, and what one more live round brings: as sent, through a relay."""
    relay = CountingRelay(address)
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    client = context.new_cdp_session(page)
    client.send("Network.enable")
    urls: dict[str, str] = {}
    sizes: dict[str, int] = {}
    client.on("Network.responseReceived", lambda event: urls.__setitem__(event["requestId"], event["response"]["url"]))
    client.on("Network.loadingFinished", lambda event: sizes.__setitem__(event["requestId"], int(event["encodedDataLength"])))
    page.goto(relay.address)
    wait_until_idle(page, PAINTED)
    framework = sum(size for number, size in sizes.items() if any(folder in urls.get(number, "") for folder in STREAMLIT))
    walk.bytes[LOAD] = relay.received - framework
    page.goto(f"{relay.address}/one_round")
    wait_until_idle(page)
    page.locator(MORE).click()
    page.get_by_role("button", name="Run it now").click()
    page.locator(".status.isLive").wait_for()
    wait_until_idle(page)
    choice = page.locator("select[aria-label=round]")
    choice.select_option(index=choice.locator("option").count() - 1, force=True)
    before = relay.received
    page.keyboard.press("Enter")
    wait_until_idle(page)
    walk.bytes[ROUND] = relay.received - before
    context.close()
    relay.listening.close()


def wait_until_idle(page: Page, drawn: str = DRAWN) -> None:
    """Drawn, and nothing more comes."""
    wait_for_text(page, drawn)
    page.locator(AT_REST).wait_for(state="attached")
    page.wait_for_timeout(2000)


def run_walk(times: int, cold: int, parts: set[str], log: Callable[[str], None]) -> Walk:
    """Start the servers and measure the parts."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import CHROMIUM, FLAGS

    if not CHROMIUM:
        raise SpecvizError("neither chromium-headless-shell nor chromium is on the path; install one, or name one in CHROMIUM.")
    walk = Walk()
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for n in range(cold if "paint" in parts else 0):
            with start_server(Path(folder) / f"cold-{n}.log") as server:
                time_first_paint(walk, COLD, browser, server.address)
            log(f"cold {n + 1} of {cold}")
        with start_server(Path(folder) / "warm.log") as server:
            page = open_page(browser, server.address)
            server.wait_for_workers()
            for part, work in list_parts(walk, browser, page, server, times).items():
                if part in parts:
                    work()
                    log(part)
            if server.count_tracebacks():
                raise SpecvizError(
                    f"the server wrote {server.count_tracebacks()} tracebacks: see what it logs with `specviz app`."
                )
        browser.close()
    return walk


def list_parts(walk: Walk, browser: Browser, page: Page, server: LoadServer, times: int) -> dict[str, Callable[[], Any]]:
    """The parts by name, each as a call."""
    address = server.address
    return {
        "paint": lambda: [time_first_paint(walk, WARM, browser, address) for _ in range(times)],
        "frames": lambda: [count_frames(walk, browser, address) for _ in range(min(times, VISITS))],
        "bytes": lambda: measure_bytes(walk, browser, address),
        "keys": lambda: time_keys_and_rounds(walk, page, address, times),
        "pages": lambda: time_page_changes(walk, page, address, times),
        "texts": lambda: time_texts(walk, page, address, times),
        "samples": lambda: time_samples(walk, page, address, times),
    }


PARTS = ("paint", "frames", "bytes", "keys", "pages", "texts", "samples")


def list_rows(walk: Walk) -> list[tuple[str, ...]]:
    """A row for each goal that was measured: median, p95, how often, and what is wanted."""
    rows = []
    for goal, seconds in walk.seconds.items():
        times = WaitingTimes.from_seconds(goal.said, seconds)
        rows.append((goal.said, f"{times.median:.3f} s", f"{times.p95:.3f} s", f"{times.seen}", f"below {goal.most:g} s"))
    for goal, size in walk.bytes.items():
        rows.append((goal.said, f"{size / 1000:,.1f} kB", "", "1", f"below {goal.most / 1000:,.0f} kB"))
    for goal, rates in walk.rates.items():
        rows.append((goal.said, f"{median(rates):.1f}", f"lowest {min(rates):.1f}", f"{len(rates)}", f"{goal.most:g}"))
    return rows


LIMITS = {
    "times": (20, 200, "how often each thing is done"),
    "cold": (20, 200, "servers that are started for the first paint of a cold one"),
}


def main(words: list[str] | None = None) -> int:
    """Run the tool and return its exit code."""

    def add_parts(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", action="append", choices=PARTS, help="measure only this part; may be repeated")

    def measure(options: argparse.Namespace, machine: str) -> tuple[str, bool]:
        parts = set(options.only or PARTS)
        walk = run_walk(options.times, options.cold, parts, lambda line: print(line, file=sys.stderr, flush=True))
        return f"{machine}\n\n{findings.format_table(('what', 'median', 'p95', 'times', 'wanted'), list_rows(walk))}", True

    return findings.run_tool("walk", __doc__, LIMITS, measure, words, add_parts)


if __name__ == "__main__":
    sys.exit(main())
