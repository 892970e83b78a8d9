"""Everything that fixes a run, in one frozen record. It is the permalink, and every trace and export contains it.

Ranges are checked here. Names (pair, proposer, rule) are looked up by the modules that own them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeGuard, TypeVar

from specviz.errors import SettingsError
from specviz.randomness import Purpose

T = TypeVar("T")
LENGTH_MAX = 4096  # tokens of a run, and so positions of a random number
NAMED = 5  # unusable random numbers of a link that get a sentence of their own
PURPOSES = {"draft": Purpose.DRAFT, "accept": Purpose.ACCEPT, "residual": Purpose.RESIDUAL, "bonus": Purpose.BONUS}
_UNIFORM = re.compile(r"(?P<position>\d{1,6})(:(?P<purpose>[a-z]+))?=(?P<u>[-+.\deE]+)", re.ASCII)
GAMMA_MAX = 16
FASTEST_GAMMA = 3  # of the fixed draft lengths, on the shipped pair; where a page or a command is about speed
PROMPT_MAX = 20_000  # characters; the context limit of the pair is checked in tokens when it is known
OFF = "leave it out to switch it off"
TREE_LEVELS, NODES_MAX = 8, 64
SHAPE = "3-2-1"  # of a tree without a given shape or number of nodes: 15 nodes, three levels
EXIT_LAYER_MAX = 1024  # the target's number of layers is checked when it is known
DRAFTING_FIELDS = (
    *(
        "proposer",
        "rule",
        "tree",
        "siblings",
        "tree_budget",
        "num_chains",
        "draft_length_policy",
        "text",
        "typical_epsilon",
        "heads",
        "early_exit",
        "exit_layer",
        "eagle",
    ),
)
WORDS = (
    "pair",
    "prompt",
    "proposer",
    "rule",
    "device",
    "dtype",
    "engine",
    "tree",
    "siblings",
    "draft_length_policy",
    "text",
    "heads",
    "early_exit",
    "eagle",
    "warpers",
)
ENGINES = ("auto", "reference", "device", "compiled")
SIBLINGS = ("top", "independent", "distinct")
OLD_NAMES = {  # of fields, in links and records written before 0.2.0
    "length": "max_new_tokens",
    "nodes": "tree_budget",
    "drafts": "num_chains",
    "lengths": "draft_length_policy",
    "typical": "typical_epsilon",
    "exit": "early_exit",
}
_WARPER = re.compile(r"(?P<name>[A-Za-z][\w-]*)(=(?P<value>[-+.\deE]+))?", re.ASCII)
_TREE = re.compile(r"\d{1,5}(-\d{1,5}){0,30}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Settings:
    """What fixes a run. None for top_k, top_p or min_p means off.

    pair         name in the catalog, or "target|draft" as folders or hub names
    prompt       text to continue; if empty, a start token is used
    gamma        draft tokens per round, 0 to 16 (0: target-only)
    temperature  0 to 5; 0 is greedy
    top_k        at least 1
    top_p, min_p above 0, at most 1
    warpers      warpers of other packages that are applied after these, in order: NAME or NAME=NUMBER, separated by commas
    seed         0 to 2**63 - 1; with the addresses of randomness.py it fixes every random number
    max_new_tokens  most tokens to generate, 1 to 4096
    uniforms     random numbers chosen by a person: (position, purpose name) -> u in [0, 1)
    engine       what runs a round: reference, device (it stays on the models' device), compiled (the same through torch.compile),
                 or auto (decoding/device/choice.py)

    Only the proposers and rules that need the following settings read them:

    tree         children per level, such as 3-2-1: 1 to 8 levels, at most 64 nodes; empty: SHAPE, or a budget if ``tree_budget``
                 is given
    siblings     how the children of a node are chosen: top (most likely, not drawn), independent draws, or distinct draws
    tree_budget  nodes of a tree that grows where the draft is sure, 1 to 64 nodes
    num_chains   chains drafted side by side, 1 to 8
    draft_length_policy  how many tokens to draft: the name of a policy
    text         the text that retrieval reads, by name
    typical_epsilon  epsilon of typical acceptance, above 0 and at most 1
    heads        folder of Medusa heads, only from the command line; empty: the pair's own
    early_exit   folder of a trained early exit, likewise
    exit_layer   number of the target's layers that draft under early exit, 1 to 1024; None: those below the trained exit
    eagle        folder of an EAGLE head, likewise
    """

    pair: str = "storybook"
    prompt: str = ""
    proposer: str = "draft"
    rule: str = "token"
    gamma: int = 4
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    warpers: str = ""
    seed: int = 7
    max_new_tokens: int = 32
    uniforms: Mapping[tuple[int, str], float] = field(default_factory=dict)
    device: str = "auto"
    dtype: str = "auto"
    engine: str = "auto"
    tree: str = ""
    siblings: str = "distinct"
    tree_budget: int | None = None
    num_chains: int = 2
    draft_length_policy: str = "fixed"
    text: str = ""
    typical_epsilon: float = 0.09
    heads: str = ""
    early_exit: str = ""
    exit_layer: int | None = None
    eagle: str = ""

    def __post_init__(self) -> None:
        check_whole("gamma", self.gamma, 0, GAMMA_MAX)
        check_whole("max-new-tokens", self.max_new_tokens, 1, LENGTH_MAX)
        check_whole("seed", self.seed, 0, 2**63 - 1)
        check_number("temperature", self.temperature, 0.0, 5.0, "a number from 0 (greedy) to 5")
        if self.top_k is not None:
            check_whole("top-k", self.top_k, 1, 10**7, f"a whole number from 1; {OFF}")
        for name, value in (("top-p", self.top_p), ("min-p", self.min_p)):
            if value is not None:
                check_number(name, value, 0.0, 1.0, f"above 0 and at most 1; {OFF}", above=True)
        check_whole("num-chains", self.num_chains, 1, 8)
        if self.tree_budget is not None:
            check_whole("tree-budget", self.tree_budget, 1, NODES_MAX)
        if self.exit_layer is not None:
            check_whole("exit-layer", self.exit_layer, 1, EXIT_LAYER_MAX)
        check_number("typical-epsilon", self.typical_epsilon, 0.0, 1.0, "above 0 and at most 1", above=True)
        for name in WORDS:
            if not isinstance(getattr(self, name), str):
                raise SettingsError(name, getattr(self, name), "text")
        if self.siblings not in SIBLINGS:
            raise SettingsError("siblings", self.siblings, f"one of {', '.join(SIBLINGS)}")
        if self.engine not in ENGINES:
            raise SettingsError("engine", self.engine, f"one of {', '.join(ENGINES)}")
        read_tree_shape(self.tree)
        read_warpers(self.warpers)
        if len(self.prompt) > PROMPT_MAX:
            raise SettingsError("prompt", f"{len(self.prompt)} characters", f"at most {PROMPT_MAX} characters long")
        if found := _CONTROL.search(self.prompt):
            where = f"U+{ord(found[0]):04X} at character {found.start() + 1}"
            raise SettingsError("prompt", where, "text without control characters (line breaks and tabs are fine)")
        try:
            self.prompt.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SettingsError("prompt", f"a lone surrogate at character {error.start + 1}", "valid Unicode text") from error
        for (position, purpose), u in self.uniforms.items():
            check_uniform(position, purpose, u)

    @property
    def edits(self) -> dict[tuple[int, Purpose], float]:
        """The chosen random numbers, as randomness.EditedRandomness takes them."""
        return {(position, PURPOSES[name]): u for (position, name), u in self.uniforms.items()}

    @property
    def is_edited(self) -> bool:
        """Whether a person chose some of the random numbers. Then the run is no sample of the target's distribution."""
        return bool(self.uniforms)

    def with_uniform(self, position: int, purpose: str, u: float | None) -> Settings:
        """The same settings with one random number chosen, or with u None taken from the seed again."""
        others = {key: value for key, value in self.uniforms.items() if key != (position, purpose)}
        return replace(self, uniforms=others if u is None else others | {(position, purpose): u})

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON; random numbers as the strings that ``--uniform`` takes."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        return record | {"uniforms": [write_uniform(key, u) for key, u in sorted(self.uniforms.items())]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Settings:
        """The inverse of ``to_record``. Raises SettingsError for values out of range and unknown names."""
        record = update_names(record)
        if unknown := set(record) - {f.name for f in fields(cls)}:
            raise SettingsError("settings", sorted(unknown), f"among {', '.join(f.name for f in fields(cls))}")
        uniforms = record.get("uniforms", ())
        if not isinstance(uniforms, list | tuple) or not all(isinstance(text, str) for text in uniforms):
            raise SettingsError("uniforms", uniforms, "a list of strings such as 3=0.71")
        return cls(**{**record, "uniforms": dict(map(read_uniform, uniforms))})

    def to_query(self) -> dict[str, str]:
        """The query parameters of a link: only settings that differ from their defaults."""
        plain = Settings().to_record()
        changed = {key: value for key, value in self.to_record().items() if value != plain[key]}
        return {key: ",".join(value) if key == "uniforms" else str(value) for key, value in changed.items()}

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> tuple[Settings, list[str]]:
        """The settings of a link, and a sentence for each value that could not be used, for which the default applies."""
        query = update_names(query)
        settings, notices = cls(), []
        for name, read in _READERS.items():
            if name not in query:
                continue
            try:
                settings = replace(settings, **{name: read(query[name])})
            except (SettingsError, ValueError, OverflowError) as error:
                allowed = str(error) if isinstance(error, SettingsError) else f"{query[name][:60]!r} cannot be read."
                notices.append(f"The link's {name.replace('_', '-')} was left out: {allowed}")
        uniforms, left_out = read_uniforms(query.get("uniforms", ""))
        return replace(settings, uniforms=uniforms), notices + left_out


def update_names(values: Mapping[str, T]) -> dict[str, T]:
    """The settings of a link or record under their present names. Values under a present name win over those under an old one."""
    renamed = {OLD_NAMES[name]: value for name, value in values.items() if name in OLD_NAMES}
    return renamed | {name: value for name, value in values.items() if name not in OLD_NAMES}


def read_tree_shape(tree: str) -> tuple[int, ...]:
    """``3-2-1`` -> (3, 2, 1): children of every node, level by level. An empty text gives no levels.

    Raises SettingsError beyond TREE_LEVELS levels or NODES_MAX nodes.
    """
    if not tree:
        return ()
    if not _TREE.fullmatch(tree):
        raise SettingsError("tree", tree[:60], "children per level, such as 3-2-1")
    levels = tuple(map(int, tree.split("-")))
    nodes = sum(math.prod(levels[: depth + 1]) for depth in range(len(levels)))
    if len(levels) > TREE_LEVELS or 0 in levels or nodes > NODES_MAX:
        raise SettingsError("tree", tree, f"1 to {TREE_LEVELS} levels with at least one child each and {NODES_MAX} nodes at most")
    return levels


def read_warpers(text: str) -> tuple[tuple[str, float], ...]:
    """``typical-p=0.9,no-repeat`` -> (("typical-p", 0.9), ("no-repeat", nan)). Raises SettingsError for any other text."""
    found = []
    for part in text.split(",") if text else ():
        match = _WARPER.fullmatch(part.strip())
        try:
            found.append((match["name"], float(match["value"] or "nan"))) if match else None
        except ValueError:
            match = None
        if match is None:
            raise SettingsError("warpers", text, "NAME or NAME=NUMBER, several separated by commas, such as typical-p=0.9")
    return tuple(found)


def _command_line_only(name: str, metavar: str = "DIR") -> Callable[[str], str]:
    """A reader that refuses every value: links must not open folders."""

    def refuse(folder: str) -> str:
        raise SettingsError(name, folder[:60], f"given on the command line only: --{name} {metavar}")

    return refuse


_READERS: dict[str, Any] = {
    "pair": str,
    "prompt": str,
    "proposer": str,
    "rule": str,
    "gamma": int,
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "seed": int,
    "max_new_tokens": int,
    "device": str,
    "dtype": str,
    "engine": str,
    "tree": str,
    "siblings": str,
    "tree_budget": int,
    "num_chains": int,
    "draft_length_policy": str,
    "text": str,
    "typical_epsilon": float,
    "warpers": _command_line_only("warpers", "NAMES"),
    "heads": _command_line_only("heads"),
    "early_exit": _command_line_only("early-exit"),
    "exit_layer": int,
    "eagle": _command_line_only("eagle"),
}


# Range checks: each raises SettingsError with the value and what is allowed.


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_whole(name: str, value: object, low: int, high: int, allowed: str | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, allowed or f"a whole number from {low} to {high}")


def check_number(name: str, value: object, low: float, high: float, allowed: str, above: bool = False) -> None:
    if not is_number(value) or not low <= value <= high or (above and value == low):
        raise SettingsError(name, value, allowed)


# Chosen random numbers, as written in options and links.


def read_uniform(text: str) -> tuple[tuple[int, str], float]:
    """``POS=U`` or ``POS:draft|accept|residual|bonus=U`` -> ((position, purpose), u). Raises SettingsError for any other text."""
    match = _UNIFORM.fullmatch(text.strip())
    if not match:
        raise SettingsError("random number", text, "written POS=U or POS:draft|residual|bonus=U, such as 3=0.71")
    purpose = match["purpose"] or "accept"
    if purpose not in PURPOSES:
        raise SettingsError("random number purpose", purpose, f"one of {', '.join(PURPOSES)}")
    try:
        u = float(match["u"])
    except ValueError:
        raise SettingsError("random number", text, "written POS=U with a number U, such as 3=0.71") from None
    if not 0.0 <= u < 1.0:
        raise SettingsError("random number", match["u"], "at least 0 and below 1")
    return (int(match["position"]), purpose), u


def read_uniforms(text: str) -> tuple[dict[tuple[int, str], float], list[str]]:
    """The random numbers of a link, ``POS=U,POS:residual=U,...``, and a sentence for each that had to be left out.

    At most NAMED sentences, and one more that counts the others, so that a damaged link does not fill the page.
    """
    uniforms, left_out = {}, []
    for part in text.split(",") if text else ():
        try:
            key, u = read_uniform(part)
            check_uniform(*key, u)
            uniforms[key] = u
        except SettingsError as error:
            left_out.append(f"The link's random number {part[:40]!r} was left out: {error}")
    if (more := len(left_out) - NAMED) > 0:
        left_out[NAMED:] = [f"More of the link's random numbers were left out: {more} that cannot be used either."]
    return uniforms, left_out


def write_uniform(key: tuple[int, str], u: float) -> str:
    """The inverse of ``read_uniform``, to the last bit."""
    position, purpose = key
    return f"{position}={u!r}" if purpose == "accept" else f"{position}:{purpose}={u!r}"


def check_uniform(position: int, purpose: str, u: float) -> None:
    """Raises SettingsError for a position, purpose or value that no random number of a run can have."""
    check_whole("random number position", position, 0, LENGTH_MAX, "0 (the first generated token) or more")
    if purpose not in PURPOSES:
        raise SettingsError("random number purpose", purpose, f"one of {', '.join(PURPOSES)}")
    if not (is_number(u) and 0.0 <= u < 1.0):
        raise SettingsError(f"random number {position}:{purpose}", u, "at least 0 and below 1")
