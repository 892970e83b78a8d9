"""One visitor's run: what is shown, what was asked for, what the address says. Plain records, no torch.

A request becomes a Job; the job is worked off in the queue (work.py) while the last good run stays on screen. What is shown is one
frozen Scene, replaced whole: neither a script run that was overtaken nor work for a job that was replaced can write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from specviz.errors import SettingsError, SpecvizError
from specviz.figures.one_round.stage import read_cursor, stage_payload, write_cursor
from specviz.models.pairs.catalogue import PAIRS
from specviz.models.pairs.names import Places, places_of
from specviz.settings import Settings
from specviz.trace import Round, Trace
from specviz.web.common.access import linked
from specviz.web.common.page import PageState, Work, known_pair
from specviz.web.common.queue import Queue

AHEAD = 2  # rounds that a new run starts with
LINK_ROUNDS = 192  # rounds that a link can ask for: any one of a passage on the page Whole text

LINK_LENGTH = 16_000  # characters; servers and messengers cut longer addresses
NAMES = ("pair", "proposer", "rule", "lengths", "text", "device", "dtype")  # looked up; a link's wrong one falls back
OFFER = (  # links are clicked unread: one must not make this machine look for a folder or fetch a model
    "This link asks for its own pair of models, {}. Nothing was loaded. Look at it under “Your own text”, "
    "and press “Load this pair” there if you trust it."
)
NOTHING = {"id": "none", "headline": "", "status": [], "prompt": "", "edits": [], "rounds": [], "more": False}


@dataclass
class Job:
    """A run that was asked for and is not there yet.

    rounds   how many it needs in all; earlier  those that are known
    cursor   where to stand when it is there; coin  (position, purpose) of the coin to stand at instead
    said     sentences to show with the run; from_link  whether a link asked
    """

    settings: Settings
    rounds: int
    earlier: tuple[Round, ...] = ()
    cursor: dict[str, int] = field(default_factory=lambda: {"round": 0, "motion": 0})
    coin: tuple[int, str] | None = None
    said: list[str] = field(default_factory=list)
    from_link: bool = False


@dataclass(frozen=True)
class Scene:
    """What is on screen: a run and where to stand in it. trace is None before the first run; mode: recorded or live."""

    settings: Settings
    trace: Trace | None
    mode: str = "recorded"
    cursor: dict[str, int] = field(default_factory=lambda: {"round": 0, "motion": 0})

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The trace as the stage draws it, worked out once."""
        return NOTHING if self.trace is None else stage_payload(self.trace)


class Visit(PageState):
    """What one visitor sees on One round.

    scene      what is on screen
    job        what was asked for and is not there yet
    problems   sentences about fields that hold what cannot be used
    offer      what a link asks for that names a pair of its own: done only when the visitor says so
    seen       the values of the fields that were last acted on; None until they are drawn; start: those they began with
    """

    def __init__(self, recording: Trace | None, queue: Queue | None = None):
        super().__init__(None, queue)
        self.recording = recording
        self.scene = self._first(Scene(Settings.from_record(recording.settings) if recording else Settings(), recording))
        self.job: Job | None = None if recording else Job(self.settings, AHEAD)
        self.problems: list[str] = []
        self.offer: Job | None = None
        self.seen: dict[str, Any] | None = None
        self.start: dict[str, Any] = {}
        self._worked: Job | None = None  # the job that the ticket is for
        self._before_edit: Scene | None = None  # before the first random number was chosen

    @property
    def settings(self) -> Settings:
        return self.scene.settings

    @property
    def trace(self) -> Trace | None:
        return self.scene.trace

    @property
    def mode(self) -> str:
        return self.scene.mode

    @property
    def cursor(self) -> dict[str, int]:
        return self.scene.cursor

    @property
    def payload(self) -> dict[str, Any]:
        return self.scene.payload

    @property
    def waiting(self) -> str | None:
        """The line of a job that lets a person wait."""
        if self.job is None:
            return None
        return self.progress() if self.busy else "Starting …"

    @property
    def notices(self) -> list[str]:
        """Everything that has to be said above the stage."""
        standing, trace = [], self.trace
        if trace is not None and not trace.settings.get("prompt"):
            token = trace.models.get("start_token")
            begins = "the encoder reads" if trace.encoder_ids else "the text begins with"
            standing = [f"The prompt is empty, so {begins} the start token{f' {token}' if token else ''}."]
        return [*self.problems, *self.said, *standing]

    def begin(self, work: Work) -> None:
        """Have the job worked off by ``work(self, ticket, job)``, unless that goes on; work for a job before it stops."""
        with self.lock:
            job = self.job
            if self.ticket is not None and self._worked is not job:
                self.ticket.cancel()
                self.ticket = None
            if job is None or self.busy:
                return
            if self.ticket is not None and self.ticket.state == "failed":
                self.fail(self.ticket.sentence, None, job)
                return
            self._worked = job
            try:
                self.ticket = self.queue.submit(lambda ticket: work(self, ticket, job), self.visitor)
            except SpecvizError as error:
                self.fail(str(error), None, job)

    def open_link(self, query: Mapping[str, str], own_pairs: bool = False) -> None:
        """Show what an address asks for. Values that cannot be used fall back one by one, and are named."""
        settings, self.said = linked(query, own_pairs)
        own = own_pairs and settings.pair not in PAIRS and places_of(settings.pair) is not None
        if not own:
            settings, unknown = known_pair(settings, Settings())
            self.said += unknown
        cursor, asks = self._link_cursor(query), settings != Settings() or query.get("prompt") == settings.prompt
        job = link_job(settings, cursor, self._recorded_rounds(settings), self.said)
        if own:
            self.offer, self.said = job, [*self.said, OFFER.format(settings.pair[:200])]
        elif asks and settings != self.settings:
            self.job = job
        else:
            self.scene = self._settled(replace(self.scene, cursor=cursor or self.cursor))

    def take(self, raw: dict[str, Any], read: Callable[[Mapping[str, Any], Settings], tuple[Settings, list[str]]]) -> None:
        """Act on fields that changed. read  (fields, settings before) -> settings and sentences"""
        with self.lock:
            if raw == self.seen or self.overtaken:
                return
            self.seen = raw
            if self.offer is not None and raw.get("pair") == self.offer.settings.pair:
                raw = {name: value for name, value in raw.items() if name != "pair"}  # offered, and not accepted yet
            settings, self.problems = read(raw, self.settings)
            self.said = []
            if not self.problems:
                self.choose(settings)

    def choose(self, settings: Settings) -> None:
        """Run other settings. Chosen coins belong to the run they were chosen in, and are not taken along."""
        if settings == self.settings:
            self.job, self.said = None, []
            return
        said = ["Your chosen random numbers were dropped, because this is another run."] if self.settings.edited else []
        self.job = Job(replace(settings, uniforms={}), AHEAD, said=said)

    def load_own(self, target: str, draft: str, rounded: bool = False) -> None:
        """Run a pair of the visitor's own; when a link offered just this one, with everything else that the link asks for.

        rounded  whether the draft's weights are to be rounded to 8 bits
        """
        if not target.strip() or not draft.strip() or "|" in target + draft:
            self.said = ["Your own pair needs a target and a draft. Each is a folder or a hub name such as owner/model."]
            return
        pair = Places(target.strip(), draft.strip(), rounded).name
        offer, self.offer = self.offer, None
        if offer is not None and offer.settings.pair == pair:
            self.job = offer
        else:
            self.choose(replace(self.settings, pair=pair))

    def hear(self, event: Mapping[str, Any] | None) -> None:
        """Turn what the stage asks for into a job. Events come from a browser: nothing in them is trusted."""
        if not isinstance(event, Mapping) or self.trace is None or self.job or self.overtaken:
            return
        at = self._at(event)
        try:
            match event.get("kind"):
                case "live":
                    self.job = Job(self.settings, max(AHEAD, at["round"] + 1), cursor=at)
                case "next" if self.payload["more"]:
                    rounds = self.trace.rounds
                    self.job = Job(self.settings, len(rounds) + 1, rounds, {"round": len(rounds), "motion": 0})
                case "coin":
                    self._edit(event.get("position"), event.get("purpose"), event.get("u"), at)
                case "undo":
                    self._undo(at)
        except SettingsError as error:
            self.said = [str(error)]

    def advance(self, trace: Trace, job: Job | None = None) -> None:
        """The job is done: show the run. Nothing happens where another job has taken its place since."""
        with self.lock:
            if self.job is None or (job is not None and job is not self.job):
                return
            job, before = self.job, self.scene
            if replace(job.settings, uniforms=before.settings.uniforms) != before.settings or not job.settings.edited:
                self._before_edit = None
            if job.settings.edited and replace(job.settings, uniforms={}) == before.settings and before.trace is not None:
                self._before_edit = before
            self.said, self.job, self.moved = job.said, None, not job.from_link
            self.scene = self._settled(Scene(job.settings, trace, "live", job.cursor), job.coin)
            self.version += 1

    def fail(self, sentence: str, name: str | None = None, job: Job | None = None) -> Job | None:
        """The job cannot be done. What is on screen stays; a link's unknown name falls back and the rest, which is returned, goes on."""
        with self.lock:
            if self.job is None or (job is not None and job is not self.job):
                return None
            job, self.job = self.job, None
            self.version += 1
            if job.from_link and name in NAMES and getattr(job.settings, name) != getattr(Settings(), name):
                settings = replace(job.settings, **{name: getattr(Settings(), name)})
                self.job = replace(job, settings=settings, said=[*job.said, f"The link's {name} was left out: {sentence}"])
                self._worked = self.job if self._worked is job else self._worked
                return self.job
            self.said = [*(job.said if job.from_link else ()), sentence]
            self.scene = self._settled(self.scene)
            return None

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else sees the same; the recorded run is the page without any."""
        at = {"at": write_cursor(self.cursor["round"], self.cursor["motion"])}
        if self.trace is self.recording and self.mode == "recorded":
            return at
        query = self.settings.to_query() | {"prompt": self.settings.prompt}
        if len(urlencode(query)) > LINK_LENGTH:
            sentence = f"This prompt is too long for a link (at most {LINK_LENGTH} characters), so the address leaves it out."
            self.said += [] if sentence in self.said else [sentence]
            return at
        return query | at

    def _recorded_rounds(self, settings: Settings) -> tuple[Round, ...]:
        """What a link that only chooses luck in the recorded run keeps of it: the rounds before its first chosen coin."""
        if self.recording is None or replace(settings, uniforms={}) != Settings.from_record(self.recording.settings):
            return ()
        earlier = self.recording.rounds
        for position, purpose in settings.uniforms:
            earlier = rounds_before(earlier, position, purpose)
        return earlier

    @staticmethod
    def _first(scene: Scene) -> Scene:
        """At the last motion of the first round: what a visitor meets is a round with its outcome."""
        rounds = scene.payload["rounds"]
        return replace(scene, cursor={"round": 0, "motion": len(rounds[0]["motions"]) - 1 if rounds else 0})

    def _link_cursor(self, query: Mapping[str, str]) -> dict[str, int] | None:
        found = read_cursor(query.get("at"))
        if found is None and "at" in query:
            self.said.append(
                f"The link's position was left out: {query['at'][:40]!r} is not of the form ROUND.MOTION, such as 2.5."
            )
        return found

    def _settled(self, scene: Scene, coin: tuple[int, str] | None = None) -> Scene:
        """At a motion that exists, that of the chosen random number where one was chosen; says so where a place is not there."""
        rounds = scene.payload["rounds"]
        if not rounds:
            return scene
        wanted = (coin_cursor(rounds, *coin) if coin else None) or scene.cursor
        round_ = min(wanted["round"], len(rounds) - 1)
        last = len(rounds[round_]["motions"]) - 1
        cursor = {"round": round_, "motion": min(wanted["motion"], last) if round_ == wanted["round"] else last}
        if cursor != wanted:
            place = f"round {wanted['round'] + 1}, motion {wanted['motion'] + 1}"
            self.said.append(f"There is no {place} here. This is round {round_ + 1}, motion {cursor['motion'] + 1}.")
        found = Scene(scene.settings, scene.trace, scene.mode, cursor)
        found.__dict__["payload"] = scene.payload
        return found

    def _at(self, event: Mapping[str, Any]) -> dict[str, int]:
        at = event.get("at")
        numbers = [at.get(key) for key in ("round", "motion")] if isinstance(at, Mapping) else [None]
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 10_000 for n in numbers):
            return {"round": 0, "motion": 0}
        return {"round": min(numbers[0], len(self.trace.rounds) - 1), "motion": numbers[1]}

    def _edit(self, position: Any, purpose: Any, u: Any, at: dict[str, int]) -> None:
        if not isinstance(position, int) or not isinstance(purpose, str):
            raise SettingsError(
                "random number", f"{position!r:.40}:{purpose!r:.40}", "at a position and for a purpose of this run"
            )
        settings = self.settings.with_uniform(position, purpose, u)
        earlier = rounds_before(self.trace.rounds, position, purpose)
        self.job = Job(settings, len(earlier) + AHEAD, earlier, at, coin=(position, purpose))

    def _undo(self, at: dict[str, int]) -> None:
        """Every coin back to chance: at once where the run before the first edit is still at hand."""
        if self._before_edit:
            self.said, self.moved = [], True
            self.scene, self._before_edit = self._settled(replace(self._before_edit, cursor=at)), None
            self.said = []
            return
        earlier = self.trace.rounds
        for position, purpose in self.settings.uniforms:
            earlier = rounds_before(earlier, position, purpose)
        self.job = Job(replace(self.settings, uniforms={}), max(AHEAD, len(earlier) + 1), earlier, at)


def link_job(settings: Settings, cursor: dict[str, int] | None, earlier: tuple[Round, ...], said: list[str]) -> Job:
    """What a link asks for: enough rounds to stand where it stands, within reason."""
    cursor = cursor or {"round": 0, "motion": 0}
    rounds = max(AHEAD, min(cursor["round"] + 1, LINK_ROUNDS))
    return Job(settings, rounds, earlier, cursor, said=said, from_link=True)


def rounds_before(rounds: tuple[Round, ...], position: int, purpose: str) -> tuple[Round, ...]:
    """The rounds that a coin at this output position has no part in; positions count generated tokens from 0."""
    start = 0
    for index, round_ in enumerate(rounds):
        start, first = start + len(round_.committed), start
        reach = max(start, first + len(round_.proposals)) if purpose == "draft" else start
        if reach > position:
            return rounds[:index]
    return rounds


def coin_cursor(rounds: list[dict[str, Any]], position: int, purpose: str) -> dict[str, int] | None:
    """Where the stage shows what a coin does."""
    kinds = {"accept": ("coin",), "residual": ("draw",), "bonus": ("bonus",), "draft": ("draft",)}[purpose]
    for r, round_ in enumerate(rounds):
        for m, motion in enumerate(round_["motions"]):
            about = round_["ending"] if motion["kind"] in ("draw", "bonus") else None
            about = about or (round_["chips"][motion["node"]] if motion["node"] is not None else {})
            if motion["kind"] in kinds and about.get("position") == position:
                return {"round": r, "motion": m}
    return None
