"""The teacher's page of one browser: what a new room will decode, or the room that it steers. Plain records, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from specviz.classroom.records import GAMMA, Room, check_room_settings
from specviz.errors import SettingsError, SpecvizError
from specviz.settings import Settings
from specviz.web.classroom.host import RoomSession, check_prompt, open_host
from specviz.web.common.links import read_link
from specviz.web.common.page_state import PageState
from specviz.web.common.pairs import resolve_pair
from specviz.web.hosting.options import is_loopback, load_options

LENGTH = 2  # tokens of a sample until somebody chooses
GONE = "There is no room under this link any more: it was deleted, or its 24 hours are over."


@dataclass(frozen=True, slots=True)
class Lesson:
    """settings: what a room decodes; steer: the teacher's code of the room that is open, empty before one is. Raises SettingsError."""

    settings: Settings
    steer: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_room_settings(self.settings)

    def link(self) -> dict[str, str]:
        """Query parameters: of the room that is steered, else of the room that would be opened."""
        if self.steer:
            return {"steer": self.steer}
        return self.settings.to_query() | {"prompt": self.settings.prompt, "max_new_tokens": str(self.settings.max_new_tokens)}

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Lesson, list[str]]:
        """What a link asks for, over ``base`` where it is silent, and a sentence for each value that was left out."""
        said: list[str] = []
        if steer := query.get("steer"):
            if room := open_host().store.steered(steer):
                return cls(room.settings, room.steer), []
            said.append(GONE)
        plain = fit_to_room(base)
        if not ({"prompt", "max_new_tokens", *plain.to_query()} - {"pair"}) & set(query):
            settings, unknown = resolve_pair(replace(plain, pair=query.get("pair", plain.pair)), base)
            return cls(fit_to_room(settings)), [*said, *unknown]
        settings, left_out = read_link({"max_new_tokens": str(LENGTH)} | dict(query))
        settings, unknown = resolve_pair(settings, base)
        said += [*left_out, *unknown]
        try:
            return cls(settings), said
        except SettingsError as error:
            return cls(fit_to_room(settings)), [*said, f"The link asks for what a room does not do: {error}"]


def fit_to_room(settings: Settings) -> Settings:
    """Settings as near to these as a room decodes."""
    return Settings(
        pair=settings.pair, prompt=settings.prompt, gamma=min(max(1, settings.gamma), GAMMA), max_new_tokens=LENGTH,
        temperature=settings.temperature or 1.0, device=settings.device, dtype=settings.dtype, **settings.cuts,
    )  # fmt: skip


class DeskState(PageState):
    """A lesson, and the work for its room."""

    @property
    def room(self) -> Room | None:
        """The room that is steered, as it stands now; None before one is open, and after it is gone."""
        return open_host().store.steered(self.question.steer) if self.question.steer else None

    def hall(self, room: Room) -> RoomSession:
        return open_host().hall(room)

    def set_pair(self, pair: str) -> None:
        """Ask another pair the same; a room that is open keeps its own."""
        if not self.question.steer:
            super().set_pair(pair)

    def open(self) -> None:
        """Open a room for the lesson that the fields ask for. Raises SpecvizError."""
        settings = check_prompt(check_room_settings(self.question.settings))
        room = open_host().open(settings, self.visitor)
        with suppress(SpecvizError):  # another room may show the same code: it can be shown later
            open_host().show(room)
        self.choose(Lesson(settings, room.steer))

    def leave(self) -> None:
        """Back to the fields of a new room."""
        self.choose(replace(self.question, steer=""))
        self.turn += 1


def is_on_other_replica(code: str) -> bool:
    """Whether a room of this code, if there is one, lives on another replica."""
    return bool(load_options().replica) and code[:1].upper() != load_options().replica


def is_local_address(root: str) -> bool:
    """Whether an address is one that a machine has for itself, which leads a phone to the phone."""
    name = urlsplit(root).hostname or ""
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def find_root(url: str) -> str:
    """Where this app is served, with a slash at its end, from the address of its page Classroom."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("classroom")
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}/"
