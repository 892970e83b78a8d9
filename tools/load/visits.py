"""What visitors do in load tools: live rounds, samples, every page, an upload, an export. Each returns the seconds it took."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tools.load.client import StreamlitClient
from tools.load.findings import ShownTrace, TraceContent

MAX_PAUSE = 3.0  # s, the longest between two actions
PROMPTS = ("Once upon a time", "The old man", "It was late when", "She opened the door and")
FILLED = {  # page -> the field whose text is changed, to have the page drawn for another question
    "whole_text": "whole_text-prompt-0", "exactness": "exactness-prompt-0", "mistakes": "mistakes-prompt-0",
    "serving_limits": "serving_limits-prompt-0", "speed": "speed-text-0", "drafting_methods": "drafting_methods-prompt-0",
}  # fmt: skip
LINKS = {"mistakes": "mistake=R4"}  # page -> the link that has that field
ANSWERED = '"answer":{"mark"'  # of a histogram with its verdict
FILE, DRAWN = "A file of samples", "Speculative decoding"
FIRST, LIVE, NEXT, CHANGE, SHORT = "first paint", "live round", "next round", "other settings", "10,000 samples"


@dataclass
class Visitor(StreamlitClient):
    """A client that works on every page. seconds: what each kind of action took; traces: what the stage showed."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    traces: list[ShownTrace] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.luck = random.Random(self.number)

    async def pause(self, longest: float = MAX_PAUSE) -> None:
        await asyncio.sleep(self.luck.uniform(0, longest))

    async def enter(self) -> None:
        """Open the page. The time counts until it is drawn, whatever it still waits for."""
        with self.time_action(FIRST):
            await self.settle()

    def time_action(self, what: str) -> StepTimer:
        return StepTimer(self, what)

    async def run_live(self) -> None:
        """The recorded run, live, as the stage's button asks for it: later ones for other settings from the fold."""
        with self.time_action(LIVE):
            await self.settle(lambda: self.ask("live"))
            await self.run_until(lambda: self.has_live_run(rounds=2))
        self.remember()

    async def request_round(self) -> None:
        """One more round, where the text has not ended."""
        if not self.stage["payload"]["more"]:
            return
        rounds = len(self.stage["payload"]["rounds"])
        with self.time_action(NEXT):
            await self.settle(lambda: self.ask("next"))
            await self.run_until(lambda: self.has_live_run(rounds=rounds + 1))
        self.remember()

    async def change_settings(self) -> None:
        """Another seed in the fold."""
        seed = self.luck.randrange(10**6, 10**7)
        with self.time_action(CHANGE):
            await self.settle(lambda: self.put("fold-seed-0", str(seed)))
            await self.run_until(lambda: self.has_live_run(rounds=1) and f"seed {seed}" in self.stage["payload"]["status"])
        await self.run_until(lambda: f"seed={seed}" in self.query)  # the address follows the page
        self.remember()

    async def use_page(self, page: str) -> None:
        """Open a page in the same tab, and ask something else where it has a text to fill."""
        with self.time_action(page):
            await self.open_page(page, LINKS.get(page, ""))
        if page in FILLED:
            await self.wait_for_field(FILLED[page])
            await self.pause()
            with self.time_action(page):
                await self.settle(lambda: self.put(FILLED[page], f"{self.luck.choice(PROMPTS)} {self.number}"))

    async def sample(self, count: int, written: str, what: str) -> None:
        """Draw samples on Exactness test with a question of one's own, until the page says that they are there."""
        await self.open_page("exactness")
        await self.run_until(lambda: self.can_press(f"exactness-draw-{count}"))
        with self.time_action(what):
            await self.settle(lambda: self.press(f"exactness-draw-{count}"))
            await self.run_until(lambda: any(written in one for one in self.written))

    async def send_file(self) -> None:
        """Upload a file of samples, until the page has judged it."""
        await self.open_page("exactness")
        await self.wait_for_field("exactness-source-0")
        await self.settle(lambda: self.put("exactness-source-0", [FILE], "string_array_value"))
        await self.wait_for_field("exactness-file-0")
        lines = [{"prompt": PROMPTS[0], "tokens": [259 + self.luck.randrange(9), self.luck.randrange(300)]} for _ in range(400)]
        with self.time_action("uploaded file"):
            await self.upload("exactness-file-0", "samples.jsonl", "\n".join(map(json.dumps, lines)).encode())
            await self.run_until(lambda: any(ANSWERED in one for one in self.written))
        self.widgets.pop(FILLED["exactness"], None)
        await self.settle(lambda: self.put("exactness-source-0", [DRAWN], "string_array_value"))
        await self.wait_for_field(FILLED["exactness"])

    async def wait_for_field(self, field: str) -> None:
        """A visitor fills what they see: a run that the page had begun by itself may have ended before the one that draws the field."""
        await self.run_until(lambda: field in self.widgets)

    async def export(self) -> None:
        """The zip of One round."""
        with self.time_action("export"):
            await self.settle(lambda: self.put("export-fold-one_round", True, "bool_value"))
            content = await self.download("export-zip-one_round")
        if not content.startswith(b"PK"):
            raise ConnectionError("the export of One round is no zip")

    def ask(self, kind: str) -> None:
        """What the stage's buttons ask of the server, standing at its last round."""
        at = {"round": len(self.stage["payload"]["rounds"]) - 1, "step": 0} if kind == "next" else {"round": 0, "step": 0}
        self.tell("one_round-component", "ask", {"kind": kind, "at": at})

    def has_live_run(self, rounds: int) -> bool:
        """Whether a live run of so many rounds stands there, and nothing is awaited."""
        stage = self.stage
        return stage.get("mode") == "live" and not stage["busy"] and len(stage["payload"]["rounds"]) >= rounds

    def remember(self) -> None:
        """What the stage shows, and the address that says what it should be."""
        payload = self.stage["payload"]
        self.traces.append(ShownTrace(self.number, self.query, len(payload["rounds"]), TraceContent.from_payload(payload)))


@dataclass
class StepTimer:
    """Notes the seconds of what ends well under a visitor's actions of one kind."""

    guest: Visitor
    what: str

    def __enter__(self) -> None:
        self.began = time.monotonic()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.guest.seconds[self.what].append(time.monotonic() - self.began)


def build_link(luck: random.Random) -> str:
    """An address with a run of one's own."""
    return urlencode({"prompt": luck.choice(PROMPTS), "seed": luck.randrange(10**6)})
