"""Options of the server: its mode and limits, read once from the environment and a file.

``SPECVIZ_MODE=hosted SPECVIZ_SESSIONS=200 streamlit run app.py``, or the same in ``specviz.toml`` where the server is started
(``SPECVIZ_FILE`` names another file)::

    mode = "hosted"
    sessions = 200

The environment has priority. docs/how-to/hosting.md is generated from ServerOptions.
"""

from __future__ import annotations

import os
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from specviz.errors import SpecvizError

FILE = "SPECVIZ_FILE"
DEFAULTS: dict[str, dict[str, Any]] = {  # what an option is where nobody says; 0 is no limit
    "local": {
        "own_pairs": True, "places_per_visitor": 0, "prompt_bytes": 0, "upload_mb": 25, "samples_per_minute": 0, "actions_per_second": 0, "sessions": 0,
        "sessions_per_visitor": 0, "away_seconds": 86_400, "memory_mb": 0, "worker_processes": False, "log": "text", "metrics": "loopback",
        "rooms": 0, "rooms_per_visitor": 0, "students_per_room": 0,
    },
    "hosted": {
        "own_pairs": False, "places_per_visitor": 1, "prompt_bytes": 8_000, "upload_mb": 5, "samples_per_minute": 3_000_000,
        "actions_per_second": 10, "sessions": 500, "sessions_per_visitor": 20, "away_seconds": 60, "memory_mb": 3_000, "worker_processes": True, "log": "json",
        "metrics": "loopback", "rooms": 50, "rooms_per_visitor": 5, "students_per_room": 300,
    },
}  # fmt: skip


class ServerOptions(BaseSettings):
    """Options of the server. Raises pydantic's ValidationError, which ``load_options`` turns into a sentence."""

    model_config = SettingsConfigDict(env_prefix="SPECVIZ_", frozen=True, extra="forbid", env_ignore_empty=True)

    mode: Literal["local", "hosted"] = Field("local", description="for you alone, or for visitors from a network")
    own_pairs: bool = Field(description="whether visitors may name folders and hub names of models; never in hosted mode")
    places: int = Field(
        min(2, os.cpu_count() or 1),
        ge=1,
        le=64,
        description="jobs at a time; more than two help only with more cores (default: two, or one on a single core)",
    )
    worker_processes: bool = Field(
        description="whether samples are drawn in processes beside the one that draws pages, one for each place; each takes some 300 MB"
    )
    places_per_visitor: int = Field(ge=0, description="jobs of one visitor at a time; their others wait")
    cluster: str = Field("", description="Ray cluster that does what worker processes do otherwise: auto, or HOST:PORT")
    prompt_bytes: int = Field(ge=0, description="longest text to continue, in bytes")
    upload_mb: int = Field(ge=1, le=200, description="largest uploaded file, in MB")
    samples_per_minute: int = Field(ge=0, description="samples that one visitor may ask for in a minute")
    actions_per_second: int = Field(
        ge=0, description="times a second that one visitor may have a page drawn, after some at once; more wait"
    )
    sessions: int = Field(ge=0, description="open pages at a time, over all visitors")
    sessions_per_visitor: int = Field(ge=0, description="open pages of one visitor at a time")
    away_seconds: int = Field(
        ge=0,
        description="seconds that a page's work is kept after its browser was last heard of; then the page is back by its link",
    )
    memory_mb: int = Field(ge=0, description="memory of this process in MB above which no new page is opened")
    rooms: int = Field(ge=0, description="classrooms at a time; each is there for 24 hours")
    rooms_per_visitor: int = Field(ge=0, description="classrooms of one visitor at a time that have not ended")
    students_per_room: int = Field(ge=0, description="students in one classroom")
    rooms_folder: str = Field(
        "", description="folder of the file in which classrooms are kept (default: the user's folder for state)"
    )
    replica: str = Field(
        "",
        pattern=r"^[A-HJKMNP-Z2-9]?$",
        description="a capital or digit that the codes of this server's classrooms begin with, so that a proxy finds them",
    )
    frame_ancestors: str = Field(
        "'self'",
        pattern=r"^[\w'*:/. -]+$",
        description="sites that may show the app in a frame, as in a Content-Security-Policy",
    )
    log: Literal["text", "json"] = Field(description="how log lines are written")
    metrics: Literal["off", "loopback", "everyone"] = Field(description="who may read /metrics")

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, options: dict[str, Any]) -> dict[str, Any]:
        return DEFAULTS.get(options.get("mode", "local"), {}) | options

    @model_validator(mode="after")
    def _forbid_own_pairs_when_hosted(self) -> ServerOptions:
        if self.mode == "hosted" and self.own_pairs:
            raise ValueError(
                "own_pairs must be false in hosted mode: visitors could make the machine read folders and fetch models"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource, file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        named = os.environ.get(FILE)
        if named and not Path(named).is_file():
            raise SpecvizError(f"{FILE} must name a file, got {named!r}, and there is none.")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, Path(named or "specviz.toml"))


@lru_cache(maxsize=1)
def load_options() -> ServerOptions:
    """Read the options. Raises SpecvizError with the option, its value and what is allowed."""
    try:
        return ServerOptions()  # type: ignore[call-arg]  # the environment and the file fill the fields
    except ValidationError as error:
        raise SpecvizError(" ".join(map(_describe_error, error.errors()))) from None
    except ValueError as error:  # the file is no TOML
        raise SpecvizError(f"{os.environ.get(FILE, 'specviz.toml')} cannot be read: {error}.") from None


def explain_refused_address(address: str | None) -> str:
    """Why this server must not listen on an address, in a sentence; empty if it may. None is every address of the machine."""
    if "mode" in load_options().model_fields_set or is_loopback(address):
        return ""
    return (
        f"This server would listen on {address or 'every address of this machine'}, where others can reach it. Say how it is meant:"
        " SPECVIZ_MODE=hosted for visitors (limits on, no models of their own), or SPECVIZ_MODE=local where you trust the network."
    )


def is_loopback(address: str | None) -> bool:
    """Whether only this machine reaches a server at this address. None is every address of the machine."""
    if address == "localhost":
        return True
    try:
        return ip_address((address or "").strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(address: str | None) -> None:
    """Raise SpecvizError if this server must not listen on an address."""
    if sentence := explain_refused_address(address):
        raise SpecvizError(sentence)


def _describe_error(error: Any) -> str:
    name = ".".join(map(str, error["loc"])) or "options"
    if error["type"] == "extra_forbidden":
        return f"There is no option {name!r} (known: {', '.join(ServerOptions.model_fields)})."
    if error["type"] == "value_error":
        return f"{error['ctx']['error']}."
    return f"{name}: {error['msg'][0].lower()}{error['msg'][1:]}, got {error['input']!r}."
