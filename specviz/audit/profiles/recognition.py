"""Recognize the server at an address, and name what has changed about it since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specviz.audit.profiles.answers import bound_value, pick_fields
from specviz.audit.profiles.base import PROFILES, ServerFacts, ServerProfile, fetch_optional
from specviz.audit.protocol.endpoint import Endpoint
from specviz.errors import MAX_SHOWN, EndpointError, SettingsError

REFUSALS = (400, 404, 422)  # statuses of an answer that says that a request is wrong
MAX_MODELS = 20  # of those that a server lists
MODEL_FIELDS = ("id", "root", "owned_by", "max_model_len", "meta")  # of each model that a server lists
SHOWN_MODELS = 5  # of these, in a sentence
MAX_CHANGES, MAX_VALUE_LENGTH, MAX_LEVELS = 3, 80, 6  # changes that are named, characters of a value, and levels of a description


@dataclass(frozen=True, slots=True)
class RecognizedServer:
    """A server's profile, and its description, which should not change while it is sampled.

    Attributes:
        created: Of each model that it lists: when it was loaded, or only what time it is now.
    """

    profile: ServerProfile
    about: dict[str, Any]
    created: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        version = self.about.get("version", "")
        return f"{self.profile.name}{f' {version}' if version else ''}"


def recognize_server(endpoint: Endpoint) -> RecognizedServer:
    """Who answers at an address: the first registered profile that recognizes it, else the one of an unknown server.

    Raises EndpointError where nothing answers.
    """
    models = list_models(endpoint)
    facts = ServerFacts(endpoint, frozenset(str(one.get("owned_by", "")).lower() for one in models))
    about: dict[str, Any] = {"models": [pick_fields(one, MODEL_FIELDS) for one in models]}
    kinds: list[type[ServerProfile]] = sorted(PROFILES.load_all().values(), key=lambda one: one.priority)
    kinds.append(ServerProfile)
    for profile in kinds:
        if (found := profile.recognize(facts)) is not None:
            return RecognizedServer(profile(), about | found, get_creation_times(models))
    raise AssertionError("the profile of an unknown server recognizes every server")


def list_models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The models that a server lists, the first ones."""
    models = fetch_optional(endpoint, "/models")
    found = models.get("data") if isinstance(models, dict) else None
    return [one for one in found if isinstance(one, dict)][:MAX_MODELS] if isinstance(found, list) else []


def refuse_unknown_model(endpoint: Endpoint, model: str, error: EndpointError, option: str = "model") -> None:
    """Check, after a server has refused a request because of its model, which models it has.

    The list is read only after a refusal: a server may know names that it does not list.

    Args:
        endpoint: Of the server.
        model: As the request named it; empty: not named.
        error: The refusal.
        option: That names the model.

    Raises SettingsError with the models that the server lists, unless it lists none, or this one.
    """
    reason = str(error).rpartition(" answered with ")[2].lower()
    if error.status not in REFUSALS or "model" not in reason:
        return
    try:
        names = [name for one in list_models(endpoint) if isinstance(name := one.get("id"), str)]
    except EndpointError:
        return
    if not names or model in names:
        return
    shown = ", ".join(_shorten(json.dumps(name)) for name in names[:SHOWN_MODELS])
    more = f" and {len(names) - SHOWN_MODELS} more" if len(names) > SHOWN_MODELS else ""
    raise SettingsError(option, model, f"one that the server lists ({shown}{more})") from error


def get_creation_times(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """When each model was loaded, as the server has it."""
    return {str(one.get("id"))[:MAX_SHOWN]: bound_value(one["created"]) for one in models if "created" in one}


def list_changes(earlier: Any, later: Any, name: str = "", levels: int = MAX_LEVELS) -> list[str]:
    """What differs between two descriptions, a clause each: name, old and new value. levels: below which values are shown whole."""
    if levels and isinstance(earlier, Mapping) and isinstance(later, Mapping):
        keys = [key for key in {**earlier, **later} if earlier.get(key) != later.get(key)]
        return [
            one for key in keys for one in list_changes(earlier.get(key), later.get(key), f"{name}.{key}".strip("."), levels - 1)
        ]
    if levels and isinstance(earlier, list) and isinstance(later, list) and len(earlier) == len(later):
        pairs = enumerate(zip(earlier, later, strict=True), 1)
        return [one for number, (a, b) in pairs if a != b for one in list_changes(a, b, f"{name}[{number}]", levels - 1)]
    old, new = ("nothing" if one in (None, "") else _shorten(json.dumps(one)) for one in (earlier, later))
    return [f"{_shorten(json.dumps(name)[1:-1])} was {old} and now is {new}"]


def format_changes(changes: Sequence[str]) -> str:
    """Changes as part of a sentence: the first ones."""
    more = f"; and {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
    return "; ".join(changes[:MAX_CHANGES]) + more


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + "…"
