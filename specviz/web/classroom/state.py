"""The teacher's page of one browser: what a new room will decode, or the room that it steers. Plain records, no torch."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from specviz.errors import SettingsError, SpecvizError
from specviz.settings import Settings, update_names
from specviz.web.classroom.export import build_room_query
from specviz.web.classroom.room.host import open_host
from specviz.web.classroom.room.records import ALLOWED_LENGTHS, LENGTHS, MAX_GAMMA, Room, check_room_settings
from specviz.web.classroom.room.words import TEXTS
from specviz.web.common.links import read_length, read_link
from specviz.web.common.page_state import PageState
from specviz.web.common.pairs import resolve_pair
from specviz.web.hosting.limits import check_text
from specviz.web.hosting.server_options import is_loopback, load_options

OUTSIDE = "192.0.2.1"  # an address that nobody has (RFC 5737)
LENGTH = 2  # tokens of a sample until somebody chooses


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a room decodes. teacher_code: of the room that is open, empty before. Raises SettingsError."""

    settings: Settings
    teacher_code: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_room_settings(self.settings)

    def build_link(self) -> dict[str, str]:
        """Query parameters: of the room that is steered, else of the room that would be opened."""
        return {"steer": self.teacher_code} if self.teacher_code else build_room_query(self.settings)

    @classmethod
    def from_link(cls, query: Mapping[str, str], base: Settings) -> tuple[Lesson, list[str]]:
        """The lesson of a link, from ``base`` where it has no value, and a sentence for each value that was left out."""
        said: list[str] = []
        if code := query.get("steer"):
            if room := open_host().store.find_by_teacher_code(code):
                return cls(room.settings, room.teacher_code), []
            said.append(TEXTS["gone"])
        query, plain = update_names(query), fit_to_room(base)
        if not ({"prompt", "max_new_tokens", *plain.to_query()} - {"pair"}) & set(query):
            settings, unknown = resolve_pair(replace(plain, pair=query.get("pair", plain.pair)), base)
            return cls(fit_to_room(settings)), [*said, *unknown]
        query, refused = read_length(query, LENGTHS, LENGTH, ALLOWED_LENGTHS)
        settings, left_out = read_link(query)
        settings, unknown = resolve_pair(settings, base)
        said += [*refused, *left_out, *unknown]
        try:
            return cls(settings), said
        except SettingsError as error:
            return cls(fit_to_room(settings)), [*said, f"The link asks for what a room does not do: {error}"]


def fit_to_room(settings: Settings) -> Settings:
    """Settings as near to these as a room decodes."""
    kept = {name: getattr(settings, name) for name in ("pair", "prompt", "device", "dtype", *settings.cuts)}
    gamma, temperature = min(max(1, settings.gamma), MAX_GAMMA), settings.temperature or 1.0
    return Settings(gamma=gamma, max_new_tokens=LENGTH, temperature=temperature, **kept)


class DeskState(PageState):
    """A lesson, and the work for its room."""

    @property
    def room(self) -> Room | None:
        """The room that is steered, as it is now; None before one is open, and after it is deleted."""
        return open_host().store.find_by_teacher_code(self.question.teacher_code) if self.question.teacher_code else None

    def set_pair(self, pair: str) -> None:
        """Choose another pair; a room that is open keeps its own."""
        if not self.question.teacher_code:
            super().set_pair(pair)

    def open_room(self) -> None:
        """Open a room for the lesson in the fields. Raises SpecvizError."""
        settings = check_room_settings(self.question.settings)
        check_text("prompt", settings.prompt)
        room = open_host().open_room(settings, self.visitor)
        with suppress(SpecvizError):  # another room may show the same code: it can be shown later
            open_host().show_short_code(room)
        self.choose(Lesson(settings, room.teacher_code))

    def leave_room(self) -> None:
        """Back to the fields of a new room."""
        self.choose(replace(self.question, teacher_code=""))
        self.turn += 1


def is_on_other_replica(code: str) -> bool:
    """Whether a room of this code, if there is one, lives on another replica."""
    return bool(load_options().replica) and code[:1].upper() != load_options().replica


def is_local_address(root: str) -> bool:
    """Whether an address leads every machine to itself, so that a phone finds nothing there."""
    name = urlsplit(root).hostname or ""
    return name == "localhost" or name.endswith(".localhost") or is_loopback(name)


def find_network_address() -> str:
    """Find this computer's address in its network; empty where it has none. Nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((OUTSIDE, 9))
        address = str(probe.getsockname()[0])
        return "" if is_loopback(address) else address
    return ""


def find_root(url: str) -> str:
    """Where this app is served, with a slash at its end, from the address of its page Classroom."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("classroom")
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}/"
