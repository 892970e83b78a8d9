"""Everything that fixes a run, in one frozen record. It is the permalink, and every trace and export contains it.

Each field of ``Settings`` is declared once, by ``setting``: its default, range and help, its names in earlier versions, and who may set it.
Made from these declarations are the options of the commands (cli/common/options.py), links, the fields of the pages
(web/common/controls.py), the keyword arguments of ``Pair`` (options.py, a generated file), the commands that exports name, and the tables
of docs/command-line.md. To add a setting, add a field here and the code that reads it; then run ``python tools/generated_docs.py``.

Names of pairs, drafting methods and rules are looked up by the modules that own them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeGuard, TypeVar

from specviz.errors import SettingsError
from specviz.randomness import Purpose

T = TypeVar("T")
LENGTH_MAX = 4096  # tokens of a run, and so positions of a random number
GAMMA_MAX = 16
FASTEST_GAMMA = 3  # of the fixed draft lengths, on the shipped pair; where a page or a command is about speed
PROMPT_MAX = 20_000  # characters; the context limit of the pair is checked in tokens when it is known
TREE_LEVELS, NODES_MAX = 8, 64
SHAPE = "3-2-1"  # of a tree without a given shape or number of nodes: 15 nodes, three levels
EXIT_LAYER_MAX = 1024  # the target's number of layers is checked when it is known
LARGEST_SHOWN = 10**6  # the upper bound of a range that --help names
OFF = "leave it out to switch it off"
ENGINES = ("auto", "reference", "device", "compiled")
SIBLINGS = ("top", "independent", "distinct")
PURPOSES = {"draft": Purpose.DRAFT, "accept": Purpose.ACCEPT, "residual": Purpose.RESIDUAL, "bonus": Purpose.BONUS}
MAX_UNIFORM_NOTICES = 5  # unusable random numbers of a link that get a sentence of their own
_TYPES: dict[str, type] = {"int": int, "float": float, "str": str}
_RANGES: dict[type, str] = {int: "a whole number from {low} to {high}", float: "a number from {low} to {high}", str: "text"}
_UNIFORM = re.compile(r"(?P<position>\d{1,6})(:(?P<purpose>[a-z]+))?=(?P<u>[-+.\deE]+)", re.ASCII)
_WARPER = re.compile(r"(?P<name>[A-Za-z][\w-]*)(=(?P<value>[-+.\deE]+))?", re.ASCII)
_TREE = re.compile(r"\d{1,5}(-\d{1,5}){0,30}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

Group = Literal["models", "run", "draft length", "sampling", "drafting"]
Setter = Literal["anyone", "host", "command"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Declaration of one field of ``Settings``.

    Attributes:
        name: Name of the field; ``option`` and ``label`` are its names on the command line and in sentences.
        kind: int, float or str.
        optional: Whether None is allowed and means off or "not chosen".
        help: What it does, without range and default.
        group: The group of options that it belongs to.
        low, high: Range of a number.
        above: Whether ``low`` itself is outside.
        choices: All values of a text, or () for any text.
        allowed: The allowed values in words.
        shown: The default in words; "" where ``help`` names it.
        metavar: What stands for the value in ``--help``.
        setter: Who may set it by a link: anyone, the host of a server for its visitors, or nobody ("command"), because it names a
            folder.
        old: Its name before version 0.2.0, in links and records.
        read_by: Drafting methods or rules of this project that read it; empty: all do.
    """

    name: str
    kind: type
    optional: bool
    default: Any
    help: str
    group: Group
    low: float
    high: float
    above: bool
    choices: tuple[str, ...]
    allowed: str
    shown: str
    metavar: str | None
    setter: Setter
    old: str
    read_by: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")

    @property
    def option(self) -> str:
        return f"--{self.label}"

    @property
    def range(self) -> str:
        """``0 to 16``; empty for a text, and where ``allowed`` says more than a range."""
        return f"{self.low} to {self.high}" if self.allowed == _RANGES[self.kind].format(low=self.low, high=self.high) else ""

    @property
    def description(self) -> str:
        """Help of an option: what it does, range and default."""
        said = f"{self.help}, {self.range}" if self.range and self.high <= LARGEST_SHOWN else self.help
        said = f"for {', '.join(self.read_by)}: {said}" if self.read_by else said
        return f"{said} (default: {self.shown})" if self.shown else said

    def with_changes(self, **changes: Any) -> Setting:
        """The same setting for a command with a default, a help or a range of its own."""
        if "default" in changes:
            changes.setdefault("shown", str(changes["default"]))
        if {"low", "high"} & changes.keys():
            changes.setdefault(
                "allowed", _RANGES[self.kind].format(low=changes.get("low", self.low), high=changes.get("high", self.high))
            )
        return replace(self, **changes)

    def parse(self, text: str) -> Any:
        """The value that a text names, in a link, an option or a field. Raises SettingsError."""
        try:
            value = self.kind(text)
        except (ValueError, OverflowError):
            raise SettingsError(self.label, text, self.allowed) from None
        self.check(value)
        return value

    def check(self, value: object) -> None:
        """Raise SettingsError, with the value and what is allowed, for one that the field cannot have."""
        if value is None and self.optional:
            return
        if self.kind is int:
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            fits = is_number(value) if self.kind is float else isinstance(value, str)
        if fits and self.kind is not str:
            fits = self.low <= value <= self.high and not (self.above and value == self.low)  # type: ignore[operator]
        if not fits or (self.choices and value not in self.choices):
            raise SettingsError(self.label, value, self.allowed)


def setting(
    default: Any,
    help: str,
    group: Group,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: bool = False,
    choices: tuple[str, ...] = (),
    allowed: str = "",
    shown: str | None = None,
    metavar: str | None = None,
    setter: Setter = "anyone",
    old: str = "",
    read_by: tuple[str, ...] = (),
) -> Any:
    """Declare a field of ``Settings``; see ``Setting``. By default ``allowed`` is made from the range and ``shown`` from the default."""
    declared = {"low": low, "high": high, "above": above, "choices": choices, "allowed": allowed, "help": help, "group": group}
    declared |= {
        "shown": str(default) if shown is None else shown,
        "metavar": metavar,
        "setter": setter,
        "old": old,
        "read_by": read_by,
    }
    return field(default=default, metadata=declared)


@dataclass(frozen=True, slots=True)
class Settings:
    """What fixes a run. Ranges are checked when it is made; SettingsError names the value and what is allowed."""

    pair: str = setting("storybook", "name of a pair in the catalog, or target|draft as folders or hub names", "models")
    prompt: str = setting("", "text to continue", "run", shown="empty, only the start token")
    proposer: str = setting("draft", "drafting method", "drafting", metavar="NAME")
    rule: str = setting("token", "acceptance rule", "drafting", metavar="NAME")
    gamma: int = setting(
        4,
        "draft length (vLLM: num_speculative_tokens): draft tokens per round",
        "draft length",
        low=0,
        high=GAMMA_MAX,
        metavar="N",
    )
    temperature: float = setting(
        1.0,
        "sampling temperature, 0 (greedy) to 5",
        "sampling",
        low=0.0,
        high=5.0,
        allowed="a number from 0 (greedy) to 5",
        shown="1",
        metavar="T",
    )
    top_k: int | None = setting(
        None, "keep the K most probable tokens", "sampling",
        low=1, high=10**7, allowed=f"a whole number from 1; {OFF}", shown="off", metavar="K",
    )  # fmt: skip
    top_p: float | None = setting(
        None, "keep the fewest most probable tokens that reach a total probability of P", "sampling",
        low=0.0, high=1.0, above=True, allowed=f"above 0 and at most 1; {OFF}", shown="off", metavar="P",
    )  # fmt: skip
    min_p: float | None = setting(
        None, "drop tokens below P times the largest probability", "sampling",
        low=0.0, high=1.0, above=True, allowed=f"above 0 and at most 1; {OFF}", shown="off", metavar="P",
    )  # fmt: skip
    warpers: str = setting(
        "", "warpers of installed packages to apply after these, NAME or NAME=NUMBER, separated by commas",
        "sampling", shown="none", metavar="NAMES", setter="command",
    )  # fmt: skip
    seed: int = setting(7, "seed of all random numbers", "run", low=0, high=2**63 - 1, metavar="N")
    max_new_tokens: int = setting(32, "most tokens to generate", "run", low=1, high=LENGTH_MAX, metavar="N", old="length")
    uniforms: Mapping[tuple[int, str], float] = field(default_factory=dict)
    """Random numbers that a person chose: (position, purpose name) -> u in [0, 1)."""
    device: str = setting("auto", "auto (default: cuda, then mps, then cpu), cuda, mps or cpu", "models", shown="", setter="host")
    dtype: str = setting(
        "auto", "auto (default: bfloat16 on cuda, else float32) or a float type", "models", shown="", setter="host"
    )
    engine: str = setting(
        "auto",
        "what runs a round: reference; device, where it stays on the models' device; compiled, the same through torch.compile; "
        "auto (default: device on cuda where no distributions are kept and the method allows, else reference)",
        "models", choices=ENGINES, shown="", metavar="HOW", setter="host",
    )  # fmt: skip
    tree: str = setting(
        "",
        f"children per level, such as {SHAPE}; 1 to {TREE_LEVELS} levels, at most {NODES_MAX} nodes",
        "drafting", shown="the method's own shape, or --tree-budget", metavar="SHAPE", read_by=("tree", "medusa", "eagle"),
    )  # fmt: skip
    siblings: str = setting(
        "distinct",
        "how siblings of a tree are chosen: top (most probable tokens), independent draws, or distinct (draws without replacement)",
        "drafting", choices=SIBLINGS, metavar="HOW", read_by=("tree", "medusa", "eagle"),
    )  # fmt: skip
    tree_budget: int | None = setting(
        None,
        "grow the tree where the draft is confident, up to N nodes",
        "drafting", low=1, high=NODES_MAX, metavar="N", old="nodes",
        shown="the fastest number on the recorded cost curve, unless --tree is given", read_by=("tree", "medusa", "eagle"),
    )  # fmt: skip
    num_chains: int = setting(
        2,
        "number of chains drafted side by side",
        "drafting",
        low=1,
        high=8,
        metavar="N",
        old="drafts",
        read_by=("several", "lookahead"),
    )
    draft_length_policy: str = setting(
        "fixed", "policy that sets the draft length of a chain: fixed, heuristic, entropy, gain or ceiling", "drafting",
        metavar="NAME", old="lengths", read_by=("draft", "early-exit", "unigram", "uniform", "adversarial", "oracle"),
    )  # fmt: skip
    text: str = setting(
        "",
        "the text that the method reads: dorothy, or a text file",
        "drafting",
        shown="dorothy",
        metavar="TEXT",
        read_by=("retrieval", "unigram"),
    )
    typical_epsilon: float = setting(
        0.09, "epsilon of typical acceptance", "drafting",
        low=0.0, high=1.0, above=True, allowed="above 0 and at most 1", metavar="E", old="typical", read_by=("typical",),
    )  # fmt: skip
    heads: str = setting(
        "",
        "folder of Medusa heads, or hub name",
        "drafting",
        shown="the pair's own",
        metavar="DIR",
        setter="command",
        read_by=("medusa",),
    )
    early_exit: str = setting(
        "",
        "folder of a trained exit, or hub name",
        "drafting",
        shown="the pair's own",
        metavar="DIR",
        setter="command",
        old="exit",
        read_by=("early-exit",),
    )
    exit_layer: int | None = setting(
        None, "number of target layers that draft", "drafting",
        low=1, high=EXIT_LAYER_MAX, shown="those below the trained exit", metavar="N", read_by=("early-exit",),
    )  # fmt: skip
    eagle: str = setting(
        "",
        "folder of a draft head, or hub name",
        "drafting",
        shown="the pair's own",
        metavar="DIR",
        setter="command",
        read_by=("eagle",),
    )

    def __post_init__(self) -> None:
        for name, declared in SETTINGS.items():
            declared.check(getattr(self, name))
        read_tree_shape(self.tree)
        read_warpers(self.warpers)
        _check_prompt(self.prompt)
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

    @property
    def cuts(self) -> dict[str, float]:
        """Those of top_k, top_p and min_p that are on, by name."""
        return {name: value for name in CUT_FIELDS if (value := getattr(self, name)) is not None}

    def without_cuts(self, **changes: Any) -> Settings:
        """The same settings with nothing but the temperature to shape the distribution, and with other changes."""
        plain = {name: SETTINGS[name].default for name in SAMPLING_FIELDS if name != "temperature"}
        return replace(self, **plain | changes)

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
        """The inverse of ``to_record``; names of earlier versions are read. Raises SettingsError for values out of range and unknown names."""
        record = update_names(record)
        if unknown := set(record) - {f.name for f in fields(cls)}:
            raise SettingsError("settings", sorted(unknown), f"among {', '.join(f.name for f in fields(cls))}")
        uniforms = record.get("uniforms", ())
        if not isinstance(uniforms, list | tuple) or not all(isinstance(text, str) for text in uniforms):
            raise SettingsError("uniforms", uniforms, "a list of strings such as 3=0.71")
        return cls(**{**record, "uniforms": dict(map(read_uniform, uniforms))})

    def to_query(self) -> dict[str, str]:
        """The query parameters of a link: only settings that differ from their defaults."""
        plain = DEFAULTS.to_record()
        changed = {key: value for key, value in self.to_record().items() if value != plain[key]}
        return {key: ",".join(value) if key == "uniforms" else str(value) for key, value in changed.items()}

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> tuple[Settings, list[str]]:
        """The settings of a link, and a sentence for each value that could not be used, for which the default applies."""
        query, settings, notices = update_names(query), cls(), []
        for name, declared in SETTINGS.items():
            if name not in query:
                continue
            try:
                if declared.setter == "command":  # a link must not open a folder or run the code of a package
                    allowed = f"given on the command line only: {declared.option} {declared.metavar}"
                    raise SettingsError(declared.label, query[name][:60], allowed)
                settings = replace(settings, **{name: declared.parse(query[name])})
            except SettingsError as error:
                notices.append(f"The link's {declared.label} was left out: {error}")
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
        raise SettingsError("tree", tree[:60], f"children per level, such as {SHAPE}")
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


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_whole(name: str, value: object, low: int, high: int, allowed: str | None = None) -> None:
    """Raise SettingsError unless the value is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, allowed or f"a whole number from {low} to {high}")


def check_number(name: str, value: object, low: float, high: float, allowed: str, above: bool = False) -> None:
    """Raise SettingsError unless the value is a number from ``low`` (or ``above`` it) to ``high``."""
    if not is_number(value) or not low <= value <= high or (above and value == low):
        raise SettingsError(name, value, allowed)


def _check_prompt(prompt: str) -> None:
    if len(prompt) > PROMPT_MAX:
        raise SettingsError("prompt", f"{len(prompt)} characters", f"at most {PROMPT_MAX} characters long")
    if found := _CONTROL.search(prompt):
        where = f"U+{ord(found[0]):04X} at character {found.start() + 1}"
        raise SettingsError("prompt", where, "text without control characters (line breaks and tabs are fine)")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SettingsError("prompt", f"a lone surrogate at character {error.start + 1}", "valid Unicode text") from error


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

    At most MAX_UNIFORM_NOTICES sentences, and one more that counts the others, so that a damaged link does not fill the page.
    """
    uniforms, left_out = {}, []
    for part in text.split(",") if text else ():
        try:
            key, u = read_uniform(part)
            check_uniform(*key, u)
            uniforms[key] = u
        except SettingsError as error:
            left_out.append(f"The link's random number {part[:40]!r} was left out: {error}")
    if (more := len(left_out) - MAX_UNIFORM_NOTICES) > 0:
        left_out[MAX_UNIFORM_NOTICES:] = [f"More of the link's random numbers were left out: {more} that cannot be used either."]
    return uniforms, left_out


def write_uniform(key: tuple[int, str], u: float) -> str:
    """The inverse of ``read_uniform``, to the last bit."""
    position, purpose = key
    return f"{position}={u!r}" if purpose == "accept" else f"{position}:{purpose}={u!r}"


def check_uniform(position: int, purpose: str, u: float) -> None:
    """Raise SettingsError for a position, purpose or value that no random number of a run can have."""
    check_whole("random number position", position, 0, LENGTH_MAX, "0 (the first generated token) or more")
    if purpose not in PURPOSES:
        raise SettingsError("random number purpose", purpose, f"one of {', '.join(PURPOSES)}")
    if not (is_number(u) and 0.0 <= u < 1.0):
        raise SettingsError(f"random number {position}:{purpose}", u, "at least 0 and below 1")


def _list_declared() -> Iterator[Setting]:
    for one in fields(Settings):
        if not one.metadata:
            continue
        declared, (kind, _, none) = dict(one.metadata), str(one.type).partition(" | ")
        choices = declared["choices"]
        allowed = f"one of {', '.join(choices)}" if choices else _RANGES[_TYPES[kind]].format(**declared)
        declared["allowed"] = declared["allowed"] or allowed
        yield Setting(one.name, _TYPES[kind], bool(none), one.default, **declared)


def _list_group(group: Group) -> tuple[str, ...]:
    return tuple(name for name, one in SETTINGS.items() if one.group == group)


SETTINGS: dict[str, Setting] = {one.name: one for one in _list_declared()}  # every field but ``uniforms``
SAMPLING_FIELDS = _list_group("sampling")  # with the pair and the prompt they define the target's distribution
CUT_FIELDS = tuple(name for name in SAMPLING_FIELDS if SETTINGS[name].optional)  # top_k, top_p and min_p; None: off
DRAFTING_FIELDS = _list_group("drafting")  # drafting method, acceptance rule, and what they read
OLD_NAMES = {one.old: name for name, one in SETTINGS.items() if one.old}
DEFAULTS = Settings()
