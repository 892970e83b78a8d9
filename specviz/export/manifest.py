"""What every export says of where it comes from: settings, seed, models, versions, permalink, commands; and the end of its captions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from specviz.models.pairs.names import format_options
from specviz.proposers.trees.node_count import is_sized_by_curve
from specviz.records import list_versions
from specviz.settings import CUT_FIELDS, DEFAULT_TREE_SHAPE, DRAFTING_FIELDS, SAMPLING_FIELDS, Settings, update_names

SAMPLING = ("gamma", *SAMPLING_FIELDS)
EDITED = "Some random numbers of this run were chosen by hand: it is an illustration, not a random sample."


def build_facts(
    settings: Settings, models: Mapping[str, Any], page: str, link: Mapping[str, str], commands: Sequence[str], **fields: Any
) -> dict[str, Any]:
    """Of a manifest. ``page``: the page's path; ``fields``: n, tests and whatever a page has found."""
    return {
        "page": page,
        "sample": not settings.is_edited,
        **({"note": EDITED} if settings.is_edited else {}),
        "settings": settings.to_record(),
        "seed": settings.seed,
        **fields,
        "models": dict(models),
        "versions": list_versions(),
        "permalink": f"{page}?{urlencode(link)}",
        "commands": list(commands),
    }


def describe_conditions(settings: Settings, models: Mapping[str, Any]) -> str:
    """The end of a caption: pair, number type, settings, version; and that random numbers were chosen by hand, where they were."""
    ending = describe_recorded_conditions(settings.to_record(), {**models, "pair": settings.pair}, list_versions()["specviz"])
    return f"{ending} {EDITED}" if settings.is_edited else ending


def describe_recorded_conditions(settings: Mapping[str, Any], models: Mapping[str, Any], version: str) -> str:
    """The same from a record of settings and models, which may lack any of its keys."""
    settings = update_names(settings)
    values = {key: settings[key] for key in (*SAMPLING, "seed") if settings.get(key) not in (None, "")} | find_drafting_changes(
        settings
    )
    words = ", ".join(f"{key.replace('_', '-')} {value}" for key, value in values.items())
    dtype = f", {models['dtype']}" if models.get("dtype") else ""
    return f"Pair {models.get('pair', 'no models')}{dtype}; {words}. specviz {version}."


def build_decode_command(settings: Settings, models: Mapping[str, Any]) -> str:
    """The command line that decodes the same run."""
    plain, record = Settings().to_record(), settings.to_record()
    words: list[Any] = ["python", "-m", "specviz", "decode", "--format", "json", *format_options(settings.pair)]
    words += [f"--prompt={settings.prompt}", "--max-new-tokens", settings.max_new_tokens, "--seed", settings.seed]
    changed = {name: value for name, value in record.items() if value != plain[name]}
    if "gamma" in changed and "proposer" in changed and "gamma" in _find_unread(settings):
        del changed["gamma"]
    words += build_sampling_options(changed)
    words += build_drafting_options(record)
    words += [word for key in ("device", "dtype") if models.get(key) for word in (f"--{key}", models[key])]
    words += [word for uniform in record["uniforms"] for word in ("--uniform", uniform)]
    return shlex.join(map(str, words))


def build_sampling_options(record: Mapping[str, Any]) -> list[Any]:
    """Command-line options for what a record says of sampling, without cuts that have no effect, which a command refuses."""
    unread = CUT_FIELDS if record.get("temperature") == 0.0 else ()
    given = [key for key in SAMPLING if record.get(key) not in (None, "") and key not in unread]
    return [word for key in given for word in (f"--{key.replace('_', '-')}", record[key])]


def find_drafting_changes(record: Mapping[str, Any]) -> dict[str, Any]:
    """The drafting settings of a record that are not at their default."""
    plain, record = Settings().to_record(), update_names(record)
    return {name: record[name] for name in DRAFTING_FIELDS if record.get(name, plain[name]) != plain[name]}


def build_drafting_options(record: Mapping[str, Any]) -> list[str]:
    """The same as command-line options, without those that have no effect, which a command refuses.

    A tree without a shape or a number of nodes gets SHAPE, or the command would choose its size.
    """
    found = find_drafting_changes(record)
    if {*found} - {"proposer", "rule"}:
        known = {name: value for name, value in update_names(record).items() if name in DRAFTING_FIELDS}
        unread = _find_unread(Settings(**known))
        found = {name: value for name, value in found.items() if name not in unread}
    if is_sized_by_curve(found.get("proposer", "")) and not {"tree", "tree_budget"} & found.keys():
        found["tree"] = DEFAULT_TREE_SHAPE
    return [word for name, value in found.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def _find_unread(settings: Settings) -> Mapping[str, list[str]]:
    from specviz.decoding.method_checks import find_unread  # here, because it needs torch

    return find_unread(settings)
