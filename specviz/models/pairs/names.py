"""Names of user-supplied pairs: ``target|draft``, or ``target|draft|8bit``. No torch here: settings, links and commands use it.

Each model is a *place*: a folder that exists, or a name on the model hub, ``owner/model`` or ``owner/model@revision``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from specviz.errors import SettingsError

_ROUNDED = "8bit"


class PairPlaces(NamedTuple):
    """Where the two models of a pair are, each a folder or a hub name."""

    target: str
    draft: str
    rounded: bool = False  # whether the draft's weights are rounded to 8 bits after reading (models/fast_llama/draft_8bit.py)

    @property
    def name(self) -> str:
        return "|".join((self.target, self.draft, *([_ROUNDED] if self.rounded else [])))


def parse_pair_name(name: str) -> PairPlaces | None:
    """The places in a pair's name; None for a name of the catalog, and for anything that does not name a pair."""
    parts = [part.strip() for part in name.split("|")]
    if (len(parts) == 3 and parts.pop() != _ROUNDED) or len(parts) != 2 or not all(parts):
        return None
    return PairPlaces(parts[0], parts[1], rounded=name.count("|") == 2)


def expand_path(place: str) -> Path:
    """A place as a path on this machine, with ``~`` expanded, so that the folder that is checked is the folder that is read."""
    path = Path(place)
    try:
        return path.expanduser()
    except RuntimeError:  # unknown user: the folder does not exist
        return path


def find_folder(place: str) -> Path | None:
    """The folder that a place is; None if there is none of that name."""
    try:
        return path if place.strip() and (path := expand_path(place)).is_dir() else None
    except OSError:  # longer than a name may be
        return None


def find_gguf(place: str) -> Path | None:
    """The GGUF file that a place is; None for anything else."""
    try:
        return path if place.lower().endswith(".gguf") and (path := expand_path(place)).is_file() else None
    except OSError:
        return None


def check_place(role: str, place: str) -> None:
    """Raise SettingsError for a place that cannot be part of a pair's name. role: target or draft."""
    if not place.strip():
        raise SettingsError(role, place, "a folder, a GGUF file or a hub name (owner/model)")
    if "|" in place:
        raise SettingsError(role, place, "a path without |, which separates the models in a pair's name; rename the folder")


class HubName(NamedTuple):
    """A model on the hub."""

    repo: str  # owner/model
    revision: str | None = None  # branch, tag or commit; None: the main branch


_HUB = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*)(?:@([A-Za-z0-9][\w./-]*))?", re.ASCII)
# Names from the time before the hub had owners. Other names without an owner are not asked of a hub: most are misspelled folders.
OWNERS = {
    **dict.fromkeys(("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), "openai-community"),
    "distilgpt2": "distilbert",
    **dict.fromkeys(("t5-small", "t5-base", "t5-large", "t5-3b", "t5-11b"), "google-t5"),
}
_NAME_MAX = 96  # characters of a hub name, as the hub allows


def parse_hub_name(place: str) -> HubName | None:
    """The hub name that a place is; None for a folder that exists, and for whatever cannot be a hub name."""
    owner = OWNERS.get(place.strip().partition("@")[0])
    match = _HUB.fullmatch(f"{owner}/{place.strip()}" if owner else place.strip())
    if (
        match is None
        or expand_path(place).is_dir()
        or ".." in place
        or len(match[1]) > _NAME_MAX
        or match[1].endswith((".", "-", ".git"))
    ):
        return None
    return HubName(match[1], match[2])


def format_options(name: str) -> list[str]:
    """Command-line options that choose this pair."""
    if (places := parse_pair_name(name)) is None:
        return ["--pair", name]
    return ["--target", places.target, "--draft", places.draft, *(["--draft-bits", "8"] if places.rounded else [])]


def hide_folders(name: str) -> str:
    """The name of a pair without the paths of this machine: a folder or a file goes by its own name, as in a record for others."""
    if (places := parse_pair_name(name)) is None:
        return name
    target, draft = (expand_path(one).name if find_folder(one) or find_gguf(one) else one for one in places[:2])
    return PairPlaces(target, draft, places.rounded).name


def describe_short_draft(draft: int, target: int) -> str:
    """A sentence on a draft whose context is shorter than the target's, both in tokens."""
    return f"The draft reads {draft} tokens and the target {target}: beyond {draft} it drafts nothing."


def describe_draftable(description: Mapping[str, Any]) -> str:
    """A sentence on a pair whose tokenizers differ, from its description in a record; '' for any other pair."""
    tokens = description.get("draft", {}).get("tokens")
    if not tokens:
        return ""
    said = f"The tokenizers differ: {tokens['shared']:,} of the draft's {tokens['of_draft']:,} tokens are the target's too"
    share = tokens.get("draftable")
    return f"{said}, and {share:.1%} of the draft's probability could be proposed." if share is not None else f"{said}."
