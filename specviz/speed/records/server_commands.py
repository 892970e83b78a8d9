"""How a server is started with a pair and a draft length: lines to paste, each in the server's own option names. No torch.

The lines are in assets/texts/server_commands.toml. Their names were checked against the versions that each line's note gives. To test what
such a server answers, use ``specviz verify --sample-file`` (docs/how-to/checking-your-server.md).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import PairPlaces, expand_path, parse_hub_name, parse_pair_name
from specviz.proposers.registry import PROPOSERS, ServerCommands
from specviz.records import ASSETS, load_toml
from specviz.settings import LOOKUP_TOKENS, Settings

DRAFT, MAPPED = "draft", "mapped"  # tables of COMMANDS for a draft model with the target's tokenizer and with another one
MIXED_WINDOWS = "some layers"  # of a plan's draft: which of them have a sliding window
NOT_KNOWN: Mapping[str, Any] = MappingProxyType({})
SERVED_RULE = "token"  # their acceptance rule
COMMANDS = load_toml("texts/server_commands")


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How one server is started.

    Attributes:
        text: A command, or lines of Python.
        language: Of the text: bash or python.
        note: The version that the options were checked against, and what else the line needs.
    """

    server: str
    text: str
    language: str
    note: str


def build_server_commands(
    settings: Settings, gamma: int, draft_model: Mapping[str, Any] = NOT_KNOWN
) -> tuple[ServerCommand, ...]:
    """vLLM, SGLang, transformers and llama.cpp with the pair and the drafting method of the settings, as the method's registration declares.

    Args:
        settings: Pair, proposer, rule and sampling.
        gamma: Draft tokens of a round; 0 for the target alone, which needs no line.
        draft_model: The draft's description in a plan. SGLang and llama.cpp do not take a draft with another tokenizer; vLLM does not start a draft
            that mixes sliding and full attention unless all of its layers get caches of one kind.

    Returns:
        Nothing for a drafting method, or a rule, that servers do not have.
    """
    nothing: ServerCommands = ()
    declared = PROPOSERS.read_argument(settings.proposer, "server_commands", nothing)
    if gamma < 1 or not declared or settings.rule != SERVED_RULE:
        return ()
    places = locate_models(settings.pair)
    (target, revision), (draft, draft_revision) = (_locate_model(place) for place in (places.target, places.draft))
    vllm = {"method": "draft_model", "model": draft, "num_speculative_tokens": gamma}
    vllm |= {"revision": draft_revision} if draft_revision else {}
    ngram = {"method": "ngram", "num_speculative_tokens": gamma, "prompt_lookup_min": 1, "prompt_lookup_max": LOOKUP_TOKENS}
    has_windows = draft_model.get("windows") == MIXED_WINDOWS
    values = {
        "target": shlex.quote(target),
        "draft": shlex.quote(draft),
        "revision": f" --revision {shlex.quote(revision)}" if revision else "",
        "draft_revision": f" --speculative-draft-model-revision {shlex.quote(draft_revision)}" if draft_revision else "",
        "gamma": gamma,
        "gamma_and_one": gamma + 1,
        "longest": LOOKUP_TOKENS,
        "vllm_draft": shlex.quote(json.dumps(vllm)),
        "vllm_mapped": shlex.quote(json.dumps(vllm | {"use_heterogeneous_vocab": True})),
        "vllm_ngram": shlex.quote(json.dumps(ngram)),
        "python_target": _format_location(target, revision),
        "python_draft": _format_location(draft, draft_revision),
        "sampling": _format_sampling(settings),
        "one_cache": " --disable-hybrid-kv-cache-manager" if has_windows else "",
        "windows": " Without the last option it refuses a draft with sliding and full attention." if has_windows else "",
        "rounded": " The draft runs unrounded there: rounding it to 8 bits is this program's own." if places.rounded else "",
    }
    if declared == DRAFT and "tokens" in draft_model:
        declared = MAPPED
    rows = COMMANDS[declared] if isinstance(declared, str) else declared
    return tuple(
        ServerCommand(row["server"], row["text"].format(**values), row["language"], row["note"].format(**values)) for row in rows
    )


def locate_models(pair: str) -> PairPlaces:
    """Folders below the project's own for a pair of the catalog; names to be replaced for models that were handed over in Python."""
    if (entry := PAIRS.get(pair)) is None:
        return parse_pair_name(pair) or PairPlaces("TARGET", "DRAFT")
    return PairPlaces(_shorten(entry.target), _shorten(entry.draft))


def find_target_folder(pair: str) -> Path | None:
    """The absolute folder of a pair's target on this machine; None for a hub name, and where there is none."""
    entry, places = PAIRS.get(pair), parse_pair_name(pair)
    place = entry.target if entry is not None else places.target if places is not None else ""
    folder = Path(expand_path(place)) if place else None
    return folder.resolve() if folder is not None and folder.is_dir() else None


def _shorten(place: str) -> str:
    """A folder that comes with the project, from the project's own folder on: pages do not show where a server has it."""
    path = Path(place)
    return str(path.relative_to(ASSETS.parent)) if path.is_relative_to(ASSETS.parent) else place


def _locate_model(place: str) -> tuple[str, str | None]:
    """A model as servers take it: a folder or a hub name, and its revision."""
    found = parse_hub_name(place)
    return (str(expand_path(place)), None) if found is None else (found.repo, found.revision)


def _format_location(name: str, revision: str | None) -> str:
    return repr(name) + (f", revision={revision!r}" if revision else "")


def _format_sampling(settings: Settings) -> str:
    """All of it, because what is left out comes from the model's own generation_config, and top_k from the library."""
    if settings.temperature == 0.0:
        return "do_sample=False, max_new_tokens=64"
    cuts = f"top_k={settings.top_k or 0}, top_p={settings.top_p or 1.0:g}, min_p={settings.min_p or 0.0:g}"
    return f"do_sample=True, temperature={settings.temperature:g}, {cuts}, max_new_tokens=64"
