"""One visitor's run: what is shown, what was asked for, what the address says. Plain records; the page puts them on screen.

A request becomes a Job; the job is worked off piece by piece (cache.py) while the last good run stays on screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from specviz.errors import SettingsError
from specviz.figures.one_round.stage import open_ended, read_cursor, stage_payload, write_cursor
from specviz.models.pairs.catalogue import PAIRS
from specviz.models.pairs.names import Places, places_of
from specviz.settings import Settings
from specviz.trace import Round, Trace
from specviz.web.common.access import linked
from specviz.web.one_round.jobs import AHEAD, Job, link_job, rounds_before, uniform_cursor

LINK_LENGTH = 16_000  # characters; servers and messengers cut longer addresses
NAMES = ("pair", "proposer", "rule", "lengths", "text", "device", "dtype")  # looked up; a link's wrong one falls back
OFFER = (  # links are clicked unread: one must not make this machine look for a folder or fetch a model
    "This link asks for a pair of its own, {}. Nothing was loaded: look at it under “Your own text”, "
    "and press “Load this pair” there if you trust it."
)
NOTHING = {"id": "none", "headline": "", "status": [], "prompt": "", "edits": [], "rounds": [], "more": False}


@dataclass
class Fields:
    """The fold of one visit: the values that its fields began with, and those that were last acted on."""

    start: dict[str, Any]
    seen: dict[str, Any]


class Visit:
    """What one visitor sees.

    settings, trace, mode  the run on screen, recorded or live; trace is None before the first one
    said       sentences about the last thing that was asked
    problems   sentences about fields that hold what cannot be used
    offer      what a link asks for that names a pair of its own: done only when the visitor says so
    moved      whether the address is behind what is shown
    address    the address's parameters as this visit last read or wrote them, without the place
    turn       how many visits this session had before; each has fields of its own
    fields     what the fold shows and has seen; None until it is drawn
    """

    def __init__(self, recording: Trace | None):
        self.recording = self.trace = recording
        self.settings = Settings.from_record(recording.settings) if recording else Settings()
        self.mode = "recorded"
        self.job: Job | None = None if recording else Job(self.settings, AHEAD)
        self.said: list[str] = []
        self.problems: list[str] = []
        self.offer: Job | None = None
        self.moved = False
        self.turn = 0
        self.address: dict[str, str] = {}
        self.fields: Fields | None = None
        self._before_luck: tuple[Settings, Trace, str] | None = None
        self._drawn: tuple[Trace | None, dict[str, Any]] = (None, NOTHING)
        self.cursor = self._finished()

    @property
    def payload(self) -> dict[str, Any]:
        """The trace as the stage draws it, worked out once."""
        if self._drawn[0] is not self.trace:
            self._drawn = self.trace, stage_payload(self.trace)
        return self._drawn[1]

    @property
    def busy(self) -> str | None:
        """The line of a job that lets a person wait."""
        return self.job.line or None if self.job else None

    @property
    def notices(self) -> list[str]:
        """Everything that has to be said above the stage."""
        standing = []
        if self.trace is not None and not self.trace.settings.get("prompt"):
            token = self.trace.models.get("start_token")
            begins = "the encoder reads" if self.trace.encoder_ids else "the text begins with"
            standing = [f"The prompt is empty, so {begins} the start token{f' {token}' if token else ''}."]
        return [*self.problems, *self.said, *standing]

    def open_link(self, query: Mapping[str, str], own_pairs: bool = False) -> None:
        """Show what an address asks for. Values that cannot be used fall back one by one, and are named."""
        settings, self.said = linked(query, own_pairs)
        own = own_pairs and settings.pair not in PAIRS and places_of(settings.pair) is not None
        if not own:
            settings = self._known_pair(settings)
        cursor, asks = self._link_cursor(query), settings != Settings() or query.get("prompt") == settings.prompt
        job = link_job(settings, cursor, self._recorded_rounds(settings), self.said)
        if own:
            self.offer, self.said = job, [*self.said, OFFER.format(settings.pair[:200])]
        elif asks and settings != self.settings:
            self.job = job
        else:
            self.cursor = cursor or self.cursor
            self._settle()

    def choose(self, settings: Settings) -> None:
        """Run other settings. Chosen random numbers belong to the run they were chosen in, and are not taken along."""
        if settings == self.settings:
            self.job, self.said = None, []
            return
        said = (
            ["The random numbers that you chose were given back to chance: this is another run."] if self.settings.edited else []
        )
        self.job = Job(replace(settings, uniforms={}), AHEAD, said=said)

    def load_own(self, target: str, draft: str, rounded: bool = False) -> None:
        """Run a pair of the visitor's own; when a link offered just this one, with everything else that the link asks for.

        rounded  whether the draft's weights are to be rounded to 8 bits
        """
        if not target.strip() or not draft.strip() or "|" in target + draft:
            self.said = ["A pair of your own needs a target and a draft, each a folder or a hub name such as owner/model."]
            return
        pair = Places(target.strip(), draft.strip(), rounded).name
        offer, self.offer = self.offer, None
        if offer is not None and offer.settings.pair == pair:
            self.job = offer
        else:
            self.choose(replace(self.settings, pair=pair))

    def hear(self, event: Mapping[str, Any] | None) -> None:
        """Turn what the stage asks for into a job. Events come from a browser: nothing in them is trusted."""
        if not event or self.trace is None or self.job:
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

    def advance(self, trace: Trace) -> None:
        """A piece of the job is done: go on, or show the run."""
        job = self.job
        if open_ended(trace) and len(job.earlier) < len(trace.rounds) < job.rounds:
            job.earlier = trace.rounds
            job.line = f"Working out round {len(trace.rounds) + 1} of {job.rounds} …"
            return
        if replace(job.settings, uniforms=self.settings.uniforms) != self.settings or not job.settings.edited:
            self._before_luck = None
        if job.settings.edited and replace(job.settings, uniforms={}) == self.settings and self.trace is not None:
            self._before_luck = self.settings, self.trace, self.mode
        self.settings, self.trace, self.mode, self._drawn = job.settings, trace, "live", (trace, stage_payload(trace))
        self.cursor, self.said, self.job, self.moved = job.cursor, job.said, None, not job.from_link
        self._settle(job.uniform)

    def fail(self, sentence: str, name: str | None = None) -> None:
        """The job cannot be done. What is on screen stays; a link's unknown name falls back and the rest goes on."""
        job, self.job = self.job, None
        if job.from_link and name in NAMES and getattr(job.settings, name) != getattr(Settings(), name):
            settings = replace(job.settings, **{name: getattr(Settings(), name)})
            self.job = replace(job, settings=settings, said=[*job.said, f"The link's {name} was left out: {sentence}"])
            return
        self.said = [*(job.said if job.from_link else ()), sentence]
        self._settle()

    def link(self) -> dict[str, str]:
        """Query parameters under which someone else sees the same; the recorded run is the page without any."""
        at = {"at": write_cursor(self.cursor["round"], self.cursor["motion"])}
        if self.trace is self.recording and self.mode == "recorded":
            return at
        query = self.settings.to_query() | {"prompt": self.settings.prompt}
        if len(urlencode(query)) > LINK_LENGTH:
            sentence = f"This prompt is too long for a link (at most {LINK_LENGTH} characters): the address leaves it out."
            self.said += [] if sentence in self.said else [sentence]
            return at
        return query | at

    def _known_pair(self, settings: Settings) -> Settings:
        if settings.pair in PAIRS:
            return settings
        known = ", ".join(PAIRS)
        self.said.append(f"The link's pair was left out: {settings.pair[:200]!r} is not in the catalogue (known: {known}).")
        return replace(settings, pair=Settings().pair)

    def _recorded_rounds(self, settings: Settings) -> tuple[Round, ...]:
        """What a link that only chooses luck in the recorded run keeps of it: the rounds before its first chosen random number."""
        if self.recording is None or replace(settings, uniforms={}) != Settings.from_record(self.recording.settings):
            return ()
        earlier = self.recording.rounds
        for position, purpose in settings.uniforms:
            earlier = rounds_before(earlier, position, purpose)
        return earlier

    def _finished(self) -> dict[str, int]:
        """The last motion of the first round: what a visitor meets is a round with its outcome."""
        rounds = self.payload["rounds"]
        return {"round": 0, "motion": len(rounds[0]["motions"]) - 1 if rounds else 0}

    def _link_cursor(self, query: Mapping[str, str]) -> dict[str, int] | None:
        found = read_cursor(query.get("at"))
        if found is None and "at" in query:
            self.said.append(f"The link's place was left out: {query['at'][:40]!r} is not written ROUND.MOTION, such as 2.5.")
        return found

    def _settle(self, uniform: tuple[int, str] | None = None) -> None:
        """Bring the cursor to a motion that exists, the random number's own where one was edited; say when a place is not there."""
        rounds = self.payload["rounds"]
        if not rounds:
            return
        if uniform:
            self.cursor = uniform_cursor(rounds, *uniform) or self.cursor
        wanted = self.cursor
        round_ = min(wanted["round"], len(rounds) - 1)
        last = len(rounds[round_]["motions"]) - 1
        motion = min(wanted["motion"], last) if round_ == wanted["round"] else last
        self.cursor = {"round": round_, "motion": motion}
        if self.cursor != wanted:
            place = f"round {wanted['round'] + 1}, motion {wanted['motion'] + 1}"
            self.said.append(f"There is no {place} here; shown is round {round_ + 1}, motion {motion + 1}.")

    def _at(self, event: Mapping[str, Any]) -> dict[str, int]:
        at = event.get("at")
        numbers = [at.get(key) for key in ("round", "motion")] if isinstance(at, Mapping) else [None]
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 10_000 for n in numbers):
            return {"round": 0, "motion": 0}
        return {"round": min(numbers[0], len(self.trace.rounds) - 1), "motion": numbers[1]}

    def _edit(self, position: Any, purpose: Any, u: Any, at: dict[str, int]) -> None:
        if not isinstance(position, int) or not isinstance(purpose, str):
            raise SettingsError("coin", f"{position!r:.40}:{purpose!r:.40}", "at a position and for a purpose of this run")
        settings = self.settings.with_uniform(position, purpose, u)
        earlier = rounds_before(self.trace.rounds, position, purpose)
        self.job = Job(settings, len(earlier) + AHEAD, earlier, at, uniform=(position, purpose))

    def _undo(self, at: dict[str, int]) -> None:
        """Every random number back to chance: at once where the run before the first edit is still at hand."""
        if self._before_luck:
            self.settings, self.trace, self.mode = self._before_luck
            self._before_luck, self.moved, self.cursor = None, True, at
            self._settle()
            self.said = []
            return
        earlier = self.trace.rounds
        for position, purpose in self.settings.uniforms:
            earlier = rounds_before(earlier, position, purpose)
        self.job = Job(replace(self.settings, uniforms={}), max(AHEAD, len(earlier) + 1), earlier, at)
