"""State of One round for one visitor. Plain records, no torch.

A request becomes a RunRequest, which the queue computes (work.py) while the last run stays on screen. The ShownRun is frozen and
replaced as a whole: neither an overtaken script run nor work for a replaced request can write into it.
"""

from __future__ import annotations

import secrets
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
from specviz.web.front.state import load_recorded_race
from specviz.web.one_round.opening_run import choose_opening_round
from specviz.web.one_round.payload import build_round_payload, find_origin, read_cursor, write_cursor

AHEAD = 2  # rounds that a new run starts with
LINK_ROUNDS = 192  # rounds that a link can ask for: any one of a passage on the page Whole text

LINK_LENGTH = 16_000  # characters; servers and messengers cut longer addresses
NAMES = (
    "pair",
    "proposer",
    "rule",
    "draft_length_policy",
    "source_text",
    "device",
    "dtype",
)  # looked up; a link's wrong one falls back
NOTHING = {"id": "none", "pair": "", "status": [], "prompt": "", "edits": [], "rounds": [], "more": False}


@dataclass
class RunRequest:
    """A run that is to be computed.

    Attributes:
        settings: Of the run.
        rounds: How many it needs in all.
        earlier: Rounds that are known.
        cursor: Round and step to show first.
        uniform: (position, purpose) of the random number whose step is shown first instead.
        notes: Sentences to show with the run.
        from_link: Whether a link asked for it.
    """

    settings: Settings
    rounds: int
    earlier: tuple[Round, ...] = ()
    cursor: dict[str, int] = field(default_factory=lambda: {"round": 0, "step": 0})
    uniform: tuple[int, str] | None = None
    notes: list[str] = field(default_factory=list)
    from_link: bool = False


@dataclass(frozen=True)
class ShownRun:
    """A run on screen.

    Attributes:
        settings: Of the run.
        trace: None before the first run.
        payload: The trace as the component draws it.
        mode: "recorded" or "live".
        cursor: Round and step to show.
    """

    settings: Settings
    trace: Trace | None
    payload: dict[str, Any]
    mode: str
    cursor: dict[str, int]


_recorded: tuple[Trace, dict[str, Any]] | None = None


def build_recorded_payload(recording: Trace) -> dict[str, Any]:
    """The payload of the recorded run, built once for all visitors. Shared: do not change it."""
    global _recorded
    known = _recorded
    if known is None or known[0] is not recording:
        known = _recorded = recording, build_round_payload(recording, at_once=True)
    return known[1]


class OneRoundState(PageState):
    """One visitor's One round.

    Attributes:
        run: On screen.
        request: To be computed.
        problems: Sentences about fields with values that cannot be used.
        offered_request: Of a link with a pair that is unknown here; it waits until the visitor uses that pair.
        applied_fields: Values of the fields that were last applied; None until they are drawn.
        initial_fields: Values that the fields began with.
        opens_playing: Whether the round plays by itself when the page opens: not where a link named a step.
    """

    def __init__(self, recording: Trace | None, queue: FairQueue | None = None):
        super().__init__(None, queue)
        self.recording = recording
        settings = Settings.from_record(recording.settings) if recording else Settings()
        payload = build_recorded_payload(recording) if recording else NOTHING
        opening = choose_opening_round(recording.rounds) if recording else 0
        self.run = ShownRun(settings, recording, payload, "recorded", {"round": opening, "step": 0})
        self.request: RunRequest | None = None if recording else RunRequest(settings, AHEAD)
        self.problems: list[str] = []
        self.opens_playing = True
        self.offered_request: RunRequest | None = None
        self.applied_fields: dict[str, Any] | None = None
        self.initial_fields: dict[str, Any] = {}
        self._worked: RunRequest | None = None  # what the ticket is for
        self._before_edit: ShownRun | None = None  # before the first random number was chosen

    @property
    def progress_line(self) -> str | None:
        """The line about a request that is being computed; None without one."""
        if self.request is None:
            return None
        return self.describe_progress() if self.is_busy else "Starting …"

    @property
    def origin(self) -> str:
        """Where the run on screen comes from, with {n} for the number of a round; empty before the first run."""
        trace, race = self.run.trace, load_recorded_race()
        return "" if trace is None else find_origin(trace, self.run.mode, None if race is None else race.speculative)

    @property
    def notices(self) -> list[str]:
        """Sentences above the picture."""
        standing, trace = [], self.run.trace
        if trace is not None and not trace.settings.get("prompt"):
            token = trace.models.get("start_token")
            begins = "the encoder reads" if trace.encoder_ids else "the text begins with"
            standing = [f"The prompt is empty, so {begins} the start token{f' {token}' if token else ''}."]
        sharing = describe_draftable(trace.models) if trace is not None else ""
        return [*self.problems, *self.notes, *standing, *([sharing] if sharing else [])]

    def submit_request(self, work: Work) -> None:
        """Submit ``work(self, ticket, request)`` for the request unless it is running; work for an earlier request stops."""
        with self.lock:
            request = self.request
            if self.ticket is not None and self._worked is not request:
                self.ticket.cancel()
                self.ticket = None
            if request is None or self.is_busy:
                return
            if self.ticket is not None and self.ticket.state == "failed":
                self.reject_request(self.ticket.sentence, None, request)
                return
            self._worked = request
            try:
                self.ticket = self.queue.submit(
                    lambda ticket: work(self, ticket, request), self.visitor, self.page, is_brief=True
                )
            except SpecvizError as error:
                self.reject_request(str(error), None, request)

    def open_link(self, query: Mapping[str, str], own_pairs: bool = False) -> None:
        """Show what an address asks for. Values that cannot be used fall back one by one, and are named."""
        settings, self.notes = read_link(query, own_pairs)
        wanted = settings
        settings, unknown = resolve_pair(settings, Settings(), own_pairs)
        offered = (
            own_pairs
            and settings.pair != wanted.pair
            and parse_pair_name(wanted.pair) is not None
            and not describe_missing_folder(wanted.pair)
        )
        settings = wanted if offered else settings
        self.notes += unknown
        cursor = read_cursor(query.get("at"))
        self.opens_playing = "at" not in query and "tour" not in query
        if cursor is None and "at" in query:
            self.notes.append(
                f"The link's position was left out: {query['at'][:40]!r} is not of the form ROUND.STEP, such as 2.5."
            )
        start = cursor or {"round": 0, "step": 0}
        rounds = max(AHEAD, min(start["round"] + 1, LINK_ROUNDS))
        request = RunRequest(settings, rounds, self._find_recorded_rounds(settings), start, notes=self.notes, from_link=True)
        asks = settings != Settings() or query.get("prompt") == settings.prompt
        if offered:
            self.offered_request = request
        elif asks and (settings != self.run.settings or self._continues_at(start["round"])):
            self.request = request
        else:
            self.run = self._clamp_cursor(replace(self.run, cursor=cursor or self.run.cursor))

    def apply_fields(
        self, raw: dict[str, Any], read: Callable[[Mapping[str, Any], Settings], tuple[Settings, list[str]]]
    ) -> None:
        """Apply fields that changed; ``read(fields, settings before)`` returns settings and problems."""
        with self.lock:
            if raw == self.applied_fields or self.is_overtaken:
                return
            self.applied_fields = raw
            settings, self.problems = read(raw, self.run.settings)
            self.notes = []
            if not self.problems:
                self.choose(settings)

    def choose(self, question: Settings) -> bool:
        """Request a run of these settings, without the random numbers that were chosen in the run before."""
        settings = question
        if settings == self.run.settings:
            self.request, self.notes = None, []
            return False
        edited = self.run.settings.is_edited
        said = ["Your chosen random numbers were dropped, because this is another run."] if edited else []
        self.request = RunRequest(replace(settings, uniforms={}), AHEAD, notes=said)
        return True

    @property
    def pair(self) -> str:
        """The pair of the request, else of the run on screen."""
        return (self.request or self.run).settings.pair

    def set_pair(self, pair: str) -> None:
        """Run another pair; when a link offered just this one, with everything else that the link asks for."""
        offer, self.offered_request = self.offered_request, None
        if offer is not None and offer.settings.pair == pair:
            self.request = offer
        else:
            self.choose(replace(self.run.settings, pair=pair))

    def fill_prompt(self, prompt: str) -> None:
        """Run another prompt, and show it in the fields."""
        self.choose(replace((self.request or self.run).settings, prompt=prompt))
        self.applied_fields, self.turn = None, self.turn + 1

    def handle_event(self, event: Mapping[str, Any] | None) -> None:
        """Turn an event of the component into a request. Events come from a browser and are validated."""
        trace, settings = self.run.trace, self.run.settings
        if not isinstance(event, Mapping) or trace is None or self.request or self.is_overtaken:
            return
        at = _read_event_cursor(event, trace)
        try:
            match event.get("kind"):
                case "live":
                    self.request = RunRequest(replace(settings, seed=draw_seed(settings.seed), uniforms={}), AHEAD)
                case "next" if self.run.payload["more"]:
                    count = len(trace.rounds)
                    self.request = RunRequest(settings, count + 1, trace.rounds, {"round": count, "step": 0})
                case "uniform":
                    self._request_edit(trace, event.get("position"), event.get("purpose"), event.get("u"), at)
                case "undo":
                    self._undo_edits(trace, at)
        except SettingsError as error:
            self.notes = [str(error)]

    def show_finished(self, trace: Trace, request: RunRequest | None = None, payload: dict[str, Any] | None = None) -> None:
        """Show the run of a request, unless another request has replaced it. ``payload``: of the trace, where it is built already."""
        with self.lock:
            if self.request is None or (request is not None and request is not self.request):
                return
            request, before = self.request, self.run
            settings = request.settings
            if replace(settings, uniforms=before.settings.uniforms) != before.settings or not settings.is_edited:
                self._before_edit = None
            if settings.is_edited and replace(settings, uniforms={}) == before.settings and before.trace is not None:
                self._before_edit = before
            self.notes, self.request, self.is_address_stale = request.notes, None, not request.from_link
            self.run = self._clamp_cursor(
                ShownRun(settings, trace, payload or build_round_payload(trace), "live", request.cursor), request.uniform
            )
            self.version += 1

    def reject_request(self, sentence: str, name: str | None = None, request: RunRequest | None = None) -> RunRequest | None:
        """Drop a request that failed; the run on screen stays. Returns the request without an unknown name of a link, to go on with."""
        with self.lock:
            if self.request is None or (request is not None and request is not self.request):
                return None
            request, self.request = self.request, None
            self.version += 1
            if request.from_link and name in NAMES and getattr(request.settings, name) != getattr(Settings(), name):
                settings = replace(request.settings, **{name: getattr(Settings(), name)})
                said = [*request.notes, f"The link's {name} was left out: {sentence}"]
                self.request = replace(request, settings=settings, notes=said)
                self._worked = self.request if self._worked is request else self._worked
                return self.request
            self.notes = [*(request.notes if request.from_link else ()), sentence]
            self.run = self._clamp_cursor(self.run)
            return None

    def build_link(self) -> dict[str, str]:
        """Query parameters under which someone else sees the same; the recorded run is the page without any."""
        shown = self.run
        at = {"at": write_cursor(shown.cursor["round"], shown.cursor["step"])}
        if shown.trace is self.recording and shown.mode == "recorded":
            return at
        query = shown.settings.to_query() | {"prompt": shown.settings.prompt}
        if len(urlencode(query)) > LINK_LENGTH:
            sentence = f"This prompt is too long for a link (at most {LINK_LENGTH} characters), so the address leaves it out."
            self.notes += [] if sentence in self.notes else [sentence]
            return at
        return query | at

    def _find_recorded_rounds(self, settings: Settings) -> tuple[Round, ...]:
        """What a link that only chooses random numbers in the recorded run shares with it: the rounds before the first of them."""
        if self.recording is None or replace(settings, uniforms={}) != Settings.from_record(self.recording.settings):
            return ()
        return list_rounds_before(self.recording.rounds, *settings.uniforms)

    def _continues_at(self, round_: int) -> bool:
        """Whether a round comes after those on screen, of a run that can go on."""
        return len(self.run.payload["rounds"]) <= round_ < LINK_ROUNDS and self.run.payload["more"]

    def _clamp_cursor(self, shown: ShownRun, uniform: tuple[int, str] | None = None) -> ShownRun:
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
            self.notes.append(f"There is no {place} here. This is round {round_ + 1}, step {cursor['step'] + 1}.")
        return replace(shown, cursor=cursor)

    def _request_edit(self, trace: Trace, position: Any, purpose: Any, u: Any, at: dict[str, int]) -> None:
        if not isinstance(position, int) or not isinstance(purpose, str):
            raise SettingsError(
                "random number", f"{position!r:.40}:{purpose!r:.40}", "at a position and for a purpose of this run"
            )
        settings = self.run.settings.with_uniform(position, purpose, u)
        earlier = list_rounds_before(trace.rounds, (position, purpose))
        self.request = RunRequest(settings, len(earlier) + AHEAD, earlier, at, (position, purpose))

    def _undo_edits(self, trace: Trace, at: dict[str, int]) -> None:
        """Go back to the drawn random numbers: at once where the run before the first edit is in memory."""
        if self._before_edit:
            self.notes, self.is_address_stale = [], True
            self.run, self._before_edit = self._clamp_cursor(replace(self._before_edit, cursor=at)), None
            self.notes = []
            return
        earlier = list_rounds_before(trace.rounds, *self.run.settings.uniforms)
        settings = replace(self.run.settings, uniforms={})
        self.request = RunRequest(settings, max(AHEAD, len(earlier) + 1), earlier, at)


def draw_seed(before: int) -> int:
    """A new seed of four digits, for a person to read; another one than before."""
    return (before + 1 + secrets.randbelow(9_998)) % 10_000


def _read_event_cursor(event: Mapping[str, Any], trace: Trace) -> dict[str, int]:
    at = event.get("at")
    numbers = [at.get(key) for key in ("round", "step")] if isinstance(at, Mapping) else []
    valid = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 10_000]
    if len(valid) < 2:
        return {"round": 0, "step": 0}
    return {"round": min(valid[0], len(trace.rounds) - 1), "step": valid[1]}


def list_rounds_before(rounds: tuple[Round, ...], *uniforms: tuple[int, str]) -> tuple[Round, ...]:
    """The rounds that depend on none of these random numbers, each (position, purpose); positions count generated tokens from 0."""
    end = 0
    for index, round_ in enumerate(rounds):
        start, end = end, end + len(round_.committed)
        reach = {"draft": max(end, start + len(round_.proposals))}
        if any(position < reach.get(purpose, end) for position, purpose in uniforms):
            return rounds[:index]
    return rounds


def find_uniform(rounds: list[dict[str, Any]], position: int, purpose: str) -> dict[str, int] | None:
    """Round and step that show what a random number decides."""
    kind = {"accept": "uniform", "residual": "draw", "bonus": "bonus", "draft": "draft"}[purpose]
    for r, round_ in enumerate(rounds):
        for m, step in enumerate(round_["steps"]):
            if step["kind"] != kind:
                continue
            about = round_["ending"] if kind in ("draw", "bonus") else round_["chips"][step["node"]]
            if about["position"] == position:
                return {"round": r, "step": m}
    return None
