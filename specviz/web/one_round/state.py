"""One visitor's run: what is shown, what was asked for, what the address says. Plain records, no torch.

What is asked for becomes a RunRequest, which is worked off in the queue (work.py) while the last good run stays on screen. What is
shown is one frozen ShownRun, replaced whole: neither a script run that was overtaken nor work for a request that was replaced can
write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from specviz.errors import SettingsError, SpecvizError
from specviz.jobs.queue import FairQueue
from specviz.models.pairs.names import describe_draftable, parse_pair_name
from specviz.settings import Settings
from specviz.trace import Round, Trace
from specviz.web.common.links import read_link
from specviz.web.common.page_state import PageState, Work
from specviz.web.common.pairs import describe_missing_folder, resolve_pair
from specviz.web.one_round.payload import build_round_payload, read_cursor, write_cursor

AHEAD = 2  # rounds that a new run starts with
LINK_ROUNDS = 192  # rounds that a link can ask for: any one of a passage on the page Whole text

LINK_LENGTH = 16_000  # characters; servers and messengers cut longer addresses
NAMES = ("pair", "proposer", "rule", "draft_length_policy", "text", "device", "dtype")  # looked up; a link's wrong one falls back
NOTHING = {"id": "none", "pair": "", "status": [], "prompt": "", "edits": [], "rounds": [], "more": False}


@dataclass
class RunRequest:
    """A run that was asked for and is not there yet.

    rounds   how many it needs in all; earlier  those that are known
    cursor   where to stand when it is there; uniform  (position, purpose) of the random number to stand at instead
    said     sentences to show with the run; from_link  whether a link asked
    """

    settings: Settings
    rounds: int
    earlier: tuple[Round, ...] = ()
    cursor: dict[str, int] = field(default_factory=lambda: {"round": 0, "step": 0})
    uniform: tuple[int, str] | None = None
    said: list[str] = field(default_factory=list)
    from_link: bool = False


@dataclass(frozen=True)
class ShownRun:
    """A run on screen and where to stand in it.

    trace  None before the first run; payload  the trace as the stage draws it; mode  recorded or live
    """

    settings: Settings
    trace: Trace | None
    payload: dict[str, Any]
    mode: str
    cursor: dict[str, int]


class OneRoundState(PageState):
    """What one visitor sees on One round.

    shown      what is on screen
    request    what was asked for and is not there yet
    problems   sentences about fields that hold what cannot be used
    offer      what a link asks for that names a pair that is not known here: done only when the visitor says so
    seen       the values of the fields that were last acted on; None until they are drawn; start: those they began with
    """

    def __init__(self, recording: Trace | None, queue: FairQueue | None = None):
        super().__init__(None, queue)
        self.recording = recording
        settings = Settings.from_record(recording.settings) if recording else Settings()
        payload = build_round_payload(recording) if recording else NOTHING
        self.shown = ShownRun(settings, recording, payload, "recorded", {"round": 0, "step": 0})
        self.request: RunRequest | None = None if recording else RunRequest(settings, AHEAD)
        self.problems: list[str] = []
        self.offer: RunRequest | None = None
        self.seen: dict[str, Any] | None = None
        self.start: dict[str, Any] = {}
        self._worked: RunRequest | None = None  # what the ticket is for
        self._before_edit: ShownRun | None = None  # before the first random number was chosen

    @property
    def waiting(self) -> str | None:
        """The line about a request that lets a person wait."""
        if self.request is None:
            return None
        return self.progress() if self.is_busy else "Starting …"

    @property
    def notices(self) -> list[str]:
        """Everything that has to be said above the stage."""
        standing, trace = [], self.shown.trace
        if trace is not None and not trace.settings.get("prompt"):
            token = trace.models.get("start_token")
            begins = "the encoder reads" if trace.encoder_ids else "the text begins with"
            standing = [f"The prompt is empty, so {begins} the start token{f' {token}' if token else ''}."]
        sharing = describe_draftable(trace.models) if trace is not None else ""
        return [*self.problems, *self.said, *standing, *([sharing] if sharing else [])]

    def begin(self, work: Work) -> None:
        """Have the request worked off by ``work(self, ticket, request)``, unless that goes on; work for one before it stops."""
        with self.lock:
            request = self.request
            if self.ticket is not None and self._worked is not request:
                self.ticket.cancel()
                self.ticket = None
            if request is None or self.is_busy:
                return
            if self.ticket is not None and self.ticket.state == "failed":
                self.fail(self.ticket.sentence, None, request)
                return
            self._worked = request
            try:
                self.ticket = self.queue.submit(
                    lambda ticket: work(self, ticket, request), self.visitor, self.page, is_brief=True
                )
            except SpecvizError as error:
                self.fail(str(error), None, request)

    def open_link(self, query: Mapping[str, str], own_pairs: bool = False) -> None:
        """Show what an address asks for. Values that cannot be used fall back one by one, and are named."""
        settings, self.said = read_link(query, own_pairs)
        wanted = settings
        settings, unknown = resolve_pair(settings, Settings(), own_pairs)
        offered = (
            own_pairs
            and settings.pair != wanted.pair
            and parse_pair_name(wanted.pair) is not None
            and not describe_missing_folder(wanted.pair)
        )
        settings = wanted if offered else settings
        self.said += unknown
        cursor = read_cursor(query.get("at"))
        if cursor is None and "at" in query:
            self.said.append(
                f"The link's position was left out: {query['at'][:40]!r} is not of the form ROUND.STEP, such as 2.5."
            )
        start = cursor or {"round": 0, "step": 0}
        rounds = max(AHEAD, min(start["round"] + 1, LINK_ROUNDS))
        request = RunRequest(settings, rounds, self._recorded_rounds(settings), start, said=self.said, from_link=True)
        asks = settings != Settings() or query.get("prompt") == settings.prompt
        if offered:
            self.offer = request
        elif asks and settings != self.shown.settings:
            self.request = request
        else:
            self.shown = self._settled(replace(self.shown, cursor=cursor or self.shown.cursor))

    def take(self, raw: dict[str, Any], read: Callable[[Mapping[str, Any], Settings], tuple[Settings, list[str]]]) -> None:
        """Act on fields that changed. read  (fields, settings before) -> settings and sentences"""
        with self.lock:
            if raw == self.seen or self.is_overtaken:
                return
            self.seen = raw
            settings, self.problems = read(raw, self.shown.settings)
            self.said = []
            if not self.problems:
                self.choose(settings)

    def choose(self, settings: Settings) -> None:
        """Run other settings. Chosen random numbers belong to the run they were chosen in, and are not taken along."""
        if settings == self.shown.settings:
            self.request, self.said = None, []
            return
        edited = self.shown.settings.is_edited
        said = ["Your chosen random numbers were dropped, because this is another run."] if edited else []
        self.request = RunRequest(replace(settings, uniforms={}), AHEAD, said=said)

    @property
    def pair(self) -> str:
        """Of what was asked for, else of what is shown."""
        return (self.request or self.shown).settings.pair

    def set_pair(self, pair: str) -> None:
        """Run another pair; when a link offered just this one, with everything else that the link asks for."""
        offer, self.offer = self.offer, None
        if offer is not None and offer.settings.pair == pair:
            self.request = offer
        else:
            self.choose(replace(self.shown.settings, pair=pair))

    def fill(self, prompt: str) -> None:
        """Run another prompt, and show it in the fields."""
        self.choose(replace((self.request or self.shown).settings, prompt=prompt))
        self.seen, self.turn = None, self.turn + 1

    def hear(self, event: Mapping[str, Any] | None) -> None:
        """Turn what the stage asks for into a request. Events come from a browser: nothing in them is trusted."""
        trace, settings = self.shown.trace, self.shown.settings
        if not isinstance(event, Mapping) or trace is None or self.request or self.is_overtaken:
            return
        at = self._at(event)
        try:
            match event.get("kind"):
                case "live":
                    self.request = RunRequest(settings, max(AHEAD, at["round"] + 1), cursor=at)
                case "next" if self.shown.payload["more"]:
                    count = len(trace.rounds)
                    self.request = RunRequest(settings, count + 1, trace.rounds, {"round": count, "step": 0})
                case "uniform":
                    self._edit(event.get("position"), event.get("purpose"), event.get("u"), at)
                case "undo":
                    self._undo(at)
        except SettingsError as error:
            self.said = [str(error)]

    def advance(self, trace: Trace, request: RunRequest | None = None, payload: dict[str, Any] | None = None) -> None:
        """The request is done: show the run. Nothing happens where another request has taken its place since.

        payload  what the stage shows of it, where it is known already
        """
        with self.lock:
            if self.request is None or (request is not None and request is not self.request):
                return
            request, before = self.request, self.shown
            settings = request.settings
            if replace(settings, uniforms=before.settings.uniforms) != before.settings or not settings.is_edited:
                self._before_edit = None
            if settings.is_edited and replace(settings, uniforms={}) == before.settings and before.trace is not None:
                self._before_edit = before
            self.said, self.request, self.moved = request.said, None, not request.from_link
            self.shown = self._settled(
                ShownRun(settings, trace, payload or build_round_payload(trace), "live", request.cursor), request.uniform
            )
            self.version += 1

    def fail(self, sentence: str, name: str | None = None, request: RunRequest | None = None) -> RunRequest | None:
        """The request cannot be done. What is on screen stays; a link's unknown name falls back and the rest, which is returned, goes on."""
        with self.lock:
            if self.request is None or (request is not None and request is not self.request):
                return None
            request, self.request = self.request, None
            self.version += 1
            if request.from_link and name in NAMES and getattr(request.settings, name) != getattr(Settings(), name):
                settings = replace(request.settings, **{name: getattr(Settings(), name)})
                said = [*request.said, f"The link's {name} was left out: {sentence}"]
                self.request = replace(request, settings=settings, said=said)
                self._worked = self.request if self._worked is request else self._worked
                return self.request
            self.said = [*(request.said if request.from_link else ()), sentence]
            self.shown = self._settled(self.shown)
            return None

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else sees the same; the recorded run is the page without any."""
        shown = self.shown
        at = {"at": write_cursor(shown.cursor["round"], shown.cursor["step"])}
        if shown.trace is self.recording and shown.mode == "recorded":
            return at
        query = shown.settings.to_query() | {"prompt": shown.settings.prompt}
        if len(urlencode(query)) > LINK_LENGTH:
            sentence = f"This prompt is too long for a link (at most {LINK_LENGTH} characters), so the address leaves it out."
            self.said += [] if sentence in self.said else [sentence]
            return at
        return query | at

    def _recorded_rounds(self, settings: Settings) -> tuple[Round, ...]:
        """What a link that only chooses random numbers in the recorded run shares with it: the rounds before the first of them."""
        if self.recording is None or replace(settings, uniforms={}) != Settings.from_record(self.recording.settings):
            return ()
        return count_rounds_before(self.recording.rounds, *settings.uniforms)

    def _settled(self, shown: ShownRun, uniform: tuple[int, str] | None = None) -> ShownRun:
        """At a step that exists, that of the chosen random number where one was chosen; says so where a place is not there."""
        rounds = shown.payload["rounds"]
        if not rounds:
            return shown
        wanted = (find_uniform(rounds, *uniform) if uniform else None) or shown.cursor
        round_ = min(wanted["round"], len(rounds) - 1)
        last = len(rounds[round_]["steps"]) - 1
        cursor = {"round": round_, "step": min(wanted["step"], last) if round_ == wanted["round"] else last}
        if cursor != wanted:
            place = f"round {wanted['round'] + 1}, step {wanted['step'] + 1}"
            self.said.append(f"There is no {place} here. This is round {round_ + 1}, step {cursor['step'] + 1}.")
        return replace(shown, cursor=cursor)

    def _at(self, event: Mapping[str, Any]) -> dict[str, int]:
        at = event.get("at")
        numbers = [at.get(key) for key in ("round", "step")] if isinstance(at, Mapping) else [None]
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 10_000 for n in numbers):
            return {"round": 0, "step": 0}
        return {"round": min(numbers[0], len(self.shown.trace.rounds) - 1), "step": numbers[1]}

    def _edit(self, position: Any, purpose: Any, u: Any, at: dict[str, int]) -> None:
        if not isinstance(position, int) or not isinstance(purpose, str):
            raise SettingsError(
                "random number", f"{position!r:.40}:{purpose!r:.40}", "at a position and for a purpose of this run"
            )
        settings = self.shown.settings.with_uniform(position, purpose, u)
        earlier = count_rounds_before(self.shown.trace.rounds, (position, purpose))
        self.request = RunRequest(settings, len(earlier) + AHEAD, earlier, at, (position, purpose))

    def _undo(self, at: dict[str, int]) -> None:
        """Every random number as it was drawn: at once where the run before the first edit is still at hand."""
        if self._before_edit:
            self.said, self.moved = [], True
            self.shown, self._before_edit = self._settled(replace(self._before_edit, cursor=at)), None
            self.said = []
            return
        earlier = count_rounds_before(self.shown.trace.rounds, *self.shown.settings.uniforms)
        settings = replace(self.shown.settings, uniforms={})
        self.request = RunRequest(settings, max(AHEAD, len(earlier) + 1), earlier, at)


def count_rounds_before(rounds: tuple[Round, ...], *uniforms: tuple[int, str]) -> tuple[Round, ...]:
    """The rounds that depend on none of these random numbers, each (position, purpose); positions count generated tokens from 0."""
    end = 0
    for index, round_ in enumerate(rounds):
        start, end = end, end + len(round_.committed)
        reach = {"draft": max(end, start + len(round_.proposals))}
        if any(position < reach.get(purpose, end) for position, purpose in uniforms):
            return rounds[:index]
    return rounds


def find_uniform(rounds: list[dict[str, Any]], position: int, purpose: str) -> dict[str, int] | None:
    """Where the stage shows what a random number does."""
    kind = {"accept": "uniform", "residual": "draw", "bonus": "bonus", "draft": "draft"}[purpose]
    for r, round_ in enumerate(rounds):
        for m, step in enumerate(round_["steps"]):
            if step["kind"] != kind:
                continue
            about = round_["ending"] if kind in ("draw", "bonus") else round_["chips"][step["node"]]
            if about["position"] == position:
                return {"round": r, "step": m}
    return None
