"""What every page's export says of itself: settings, seed, models, versions, the link, the command; the same in few words for captions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from specviz.models.pairs.names import as_options
from specviz.records import versions
from specviz.settings import PROPOSER_FIELDS, SHAPE, TREES, Settings

DISTRIBUTIONS = ("gamma", "temperature", "top_k", "top_p", "min_p", "seed")
EDITED = "Some random numbers of this run were chosen by hand: it is an illustration, not a random sample."


def facts(
    settings: Settings, models: Mapping[str, Any], page: str, link: Mapping[str, str], commands: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Of a manifest. ``page``: the page's path, '' for the first; ``more``: n, tests and whatever a page has found."""
    return {
        "page": page or "step",
        "sample": not settings.edited,
        **({"note": EDITED} if settings.edited else {}),
        "settings": settings.to_record(),
        "seed": settings.seed,
        **more,
        "models": dict(models),
        "versions": versions(),
        "permalink": f"{page}?{urlencode(link)}",
        "commands": list(commands),
    }


def conditions(settings: Settings, models: Mapping[str, Any]) -> str:
    """The end of a caption: pair, type of its numbers, settings, version; and that luck was chosen, where it was."""
    record = settings.to_record()
    distributions = ", ".join(f"{key.replace('_', '-')} {record[key]}" for key in DISTRIBUTIONS if record[key] is not None)
    distributions += "".join(f", {key.replace('_', '-')} {value}" for key, value in proposing(record).items())
    dtype = f", {models['dtype']}" if models.get("dtype") else ""
    edited = f" {EDITED}" if settings.edited else ""
    return f"Pair {settings.pair}{dtype}; {distributions}. specviz {versions()['specviz']}.{edited}"


def decode_command(settings: Settings, models: Mapping[str, Any]) -> str:
    """What writes the same run without the page."""
    plain = Settings()
    words: list[Any] = ["python", "-m", "specviz", "decode", "--format", "json"]
    words += as_options(settings.pair)
    words += [f"--prompt={settings.prompt}", "--max-new-tokens", settings.length, "--seed", settings.seed]
    for name in DISTRIBUTIONS[:-1]:
        if getattr(settings, name) != getattr(plain, name):
            words += [f"--{name.replace('_', '-')}", getattr(settings, name)]
    words += proposer_options(settings.to_record())
    for key in ("device", "dtype"):
        if models.get(key):
            words += [f"--{key}", models[key]]
    for uniform in settings.to_record()["uniforms"]:
        words += ["--uniform", uniform]
    return shlex.join(map(str, words))


def proposing(record: Mapping[str, Any]) -> dict[str, Any]:
    """What of a record's proposer and rule is not as usual."""
    plain = Settings().to_record()
    return {name: record[name] for name in PROPOSER_FIELDS if record.get(name, plain[name]) != plain[name]}


def proposer_options(record: Mapping[str, Any]) -> list[str]:
    """The same for a command line, where a tree without a shape or a number of nodes would get the number that pays."""
    found = proposing(record)
    if found.get("proposer") in TREES and not {"tree", "nodes"} & found.keys():
        found["tree"] = SHAPE
    return [word for name, value in found.items() for word in (f"--{name.replace('_', '-')}", str(value))]
