"""Everything that fixes a run, in one frozen record. It is the permalink, and every trace and export contains it.

A setting is a field of ``Settings`` with its type and default, and a table of assets/settings.toml with its help, range and names. Made
from both are the options of the commands (cli/common/command_options.py), links, the fields of the pages (web/common/controls.py), the keyword
arguments of ``Pair`` (pair_options.py, a generated file), the commands that exports name, and the tables of docs/reference/command-line.md.
To add a setting, add both and the code that reads it; then run ``python tools/generated_docs.py``.

Names of pairs, drafting methods and rules are looked up by the modules that own them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeGuard, TypeVar

from specviz.errors import Described, SettingsError, TooLongError, suggest
from specviz.randomness import Purpose
from specviz.records import RECORDED_SEED, load_toml

Value = TypeVar("Value")
FASTEST_GAMMA = 3  # of the fixed draft lengths, on the shipped pair; where a page or a command is about speed
PROMPT_MAX = 20_000  # characters; the context limit of the pair is checked in tokens when it is known
TREE_LEVELS = 8
DEFAULT_TREE_SHAPE = "3-2-1"  # of a tree without a given shape or number of nodes: 15 nodes, three levels
SWITCH_OFF = "leave it out to switch it off"
MAX_SHOWN_BOUND = 10**6  # the upper bound of a range that --help names
PURPOSES = {"draft": Purpose.DRAFT, "accept": Purpose.ACCEPT, "residual": Purpose.RESIDUAL, "bonus": Purpose.BONUS}
MAX_UNIFORM_NOTICES = 5  # unusable random numbers of a link that get a sentence of their own
_TYPES: dict[str, type] = {"int": int, "float": float, "str": str}
_RANGES: dict[type, str] = {int: "a whole number from {low} to {high}", float: "a number from {low:g} to {high:g}", str: "text"}
_UNIFORM = re.compile(r"(?P<position>\d{1,6})(:(?P<purpose>[a-z]+))?=(?P<u>[-+.\deE]+)", re.ASCII)
_WARPER = re.compile(r"(?P<name>[A-Za-z][\w-]*)(=(?P<value>[-+.\deE]+))?", re.ASCII)
_TREE = re.compile(r"\d{1,5}(-\d{1,5}){0,30}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

Group = Literal["models", "run", "draft length", "sampling", "drafting", "effort"]
Setter = Literal["anyone", "host", "command"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Declaration of one field of ``Settings``, or of another record (``declare_count`` and the like)."""

    name: str  # ``option`` and ``label`` are its names on the command line and in sentences
    kind: type  # int, float or str
    optional: bool  # whether None is allowed and means off or "not chosen"
    default: Any
    help: str  # what it does, without range and default
    group: Group  # of options that it belongs to
    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # whether ``low`` itself is outside the range
    choices: tuple[str, ...] = ()  # all values of a text, or () for any text
    allowed: str = ""  # the allowed values in words; "": made from the choices or the range
    shown: str | None = None  # the default in words, "" where ``help`` names it; None: the default itself
    metavar: str | None = None  # what stands for the value in ``--help``
    setter: Setter = "anyone"  # who may set it by a link; "command": nobody, because it names a folder or code
    old: str = ""  # its name before version 0.2.0, in links and records
    noun: str = ""  # what a page calls it in a sentence; "": its label
    zero: str = ""  # what 0 stands for, where it is allowed below ``low``

    def __post_init__(self) -> None:
        allowed = f"one of {', '.join(self.choices)}" if self.choices else _RANGES[self.kind].format(low=self.low, high=self.high)
        object.__setattr__(self, "allowed", self.allowed or allowed)
        object.__setattr__(self, "noun", self.noun or self.label)
        object.__setattr__(self, "shown", str(self.default) if self.shown is None else self.shown)

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")

    @property
    def option(self) -> str:
        return write_option(self.name)

    @property
    def range(self) -> str:
        """``0 to 16``; empty for a text, and where ``allowed`` is more than a range."""
        return f"{self.low} to {self.high}" if self.allowed == _RANGES[self.kind].format(low=self.low, high=self.high) else ""

    def describe(self, readers: Sequence[str] = ()) -> str:
        """Help of an option: what it does, range and default. readers: drafting methods or rules that read it; none: all do."""
        said = f"{self.help}, {self.range}" if self.range and self.high <= MAX_SHOWN_BOUND else self.help
        said = f"for {', '.join(readers)}: {said}" if readers else said
        return f"{said} (default: {self.shown})" if self.shown else said

    def with_changes(self, **changes: Any) -> Setting:
        """The same setting for a command with a default, a help or a range of its own."""
        derived: dict[str, Any] = {"shown": None} if "default" in changes else {}
        return replace(self, **derived | ({"allowed": ""} if {"low", "high"} & changes.keys() else {}) | changes)

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
        if (value is None and self.optional) or (self.zero and value == 0):
            return
        if self.kind is int:
            fits = isinstance(value, int) and not isinstance(value, bool)
        else:
            fits = is_number(value) if self.kind is float else isinstance(value, str)
        if fits and self.kind is not str:
            fits = self.low <= value <= self.high and not (self.above and value == self.low)  # type: ignore[operator]
        if not fits or (self.choices and value not in self.choices):
            raise SettingsError(self.label, value, self.allowed + suggest(value, self.choices))


# Fields of other records that a command and a method of ``Pair`` share, such as the number of samples. Each is declared where it stands.


def declare_count(default: int, low: int, high: int, help: str, zero: str = "") -> Any:
    """A field of a dataclass: a whole number."""
    span = f"{low} to {high:,}" if high > 9999 else f"{low} to {high}"
    allowed = f"a whole number from {span}{f', or 0 {zero}' if zero else ''}"
    help = help if allowed == _RANGES[int].format(low=low, high=high) else f"{help}, {span}"  # else the range is added to it
    declared = Setting(
        "", int, False, default, help, "effort", low, high, allowed=allowed, shown=f"{default:,}", metavar="N", zero=zero
    )
    return field(default=default, metadata={"setting": declared})


def declare_number(default: float | None, high: float, help: str, metavar: str, unit: str = "", shown: str | None = None) -> Any:
    """A field of a dataclass: a number above 0 and at most ``high``. unit: what follows the bound, such as " seconds"."""
    allowed = f"above 0 and at most {high:,.10g}{unit}" if high < math.inf else f"above 0{unit}"
    shown = f"{default:g}" if shown is None else shown
    declared = Setting(
        "", float, default is None, default, help, "effort", 0.0, high, above=True, allowed=allowed, shown=shown, metavar=metavar
    )
    return field(default=default, metadata={"setting": declared})


def declare_choice(choices: tuple[str, ...], help: str) -> Any:
    """A field of a dataclass: one of several words, by default the first."""
    declared = Setting("", str, False, choices[0], help, "effort", choices=choices, shown="", metavar=",".join(choices))
    return field(default=choices[0], metadata={"setting": declared})


def list_declared(record: Any) -> dict[str, Setting]:
    """The declarations of a dataclass, or of one of its objects, by the names of its fields."""
    declared = {one.name: one.metadata["setting"] for one in fields(record) if "setting" in one.metadata}
    return {name: replace(one, name=one.name or name) for name, one in declared.items()}


def check_declared(record: Any) -> None:
    """Raise SettingsError for a declared field of a dataclass that is out of range."""
    for name, declared in list_declared(record).items():
        replace(declared, name=name).check(getattr(record, name))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run. Ranges are checked when it is made; SettingsError names the value and what is allowed."""

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
    # Random numbers that a person chose: (position, purpose name) -> u in [0, 1)
    uniforms: Mapping[tuple[int, str], float] = field(default_factory=dict)
    device: str = "auto"
    dtype: str = "auto"
    engine: str = "auto"
    tree: str = ""
    siblings: str = "distinct"
    tree_budget: int | None = None
    num_chains: int = 2
    draft_length_policy: str = "fixed"
    source_text: str = ""
    typical_epsilon: float = 0.09
    heads: str = ""
    early_exit: str = ""
    exit_layer: int | None = None
    eagle: str = ""

    def __post_init__(self) -> None:
        for name, declared in SETTINGS.items():
            declared.check(getattr(self, name))
        read_tree_shape(self.tree)
        read_warpers(self.warpers)
        _check_prompt(self.prompt)
        for (position, purpose), u in _list_uniforms(self.uniforms):
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

    @property
    def unread_cuts(self) -> dict[str, float]:
        """The cuts that have no effect: at temperature 0 the most probable token is kept, whatever is cut."""
        return self.cuts if self.temperature == 0.0 else {}

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
                notices.append(f"The link's {declared.noun} was left out: {error.explain('it')}")
        uniforms, left_out = read_uniforms(query.get("uniforms", ""))
        return replace(settings, uniforms=uniforms), notices + left_out


def build_shared_settings(opening: Settings) -> Settings:
    """The settings of the records that pages share: text and distribution of the opening run, the default draft length, a seed of their own."""
    return replace(opening, seed=RECORDED_SEED, gamma=Settings().gamma, max_new_tokens=Settings().max_new_tokens)


def update_names(values: Mapping[str, Value]) -> dict[str, Value]:
    """The settings of a link or record under their present names. Values under a present name win over those under an old one.

    ``text`` is the drafting method's source text only beside a method: in a link of *How fast?* it is the text to plan for.
    """
    present = {name: name if name == "text" and "proposer" not in values else OLD_NAMES.get(name, name) for name in values}
    renamed = {present[name]: value for name, value in values.items() if present[name] != name}
    return renamed | {name: value for name, value in values.items() if present[name] == name}


def read_tree_shape(tree: str) -> tuple[int, ...]:
    """``3-2-1`` -> (3, 2, 1): children of every node, level by level. An empty text gives no levels.

    Raises SettingsError beyond TREE_LEVELS levels or NODES_MAX nodes.
    """
    if not tree:
        return ()
    if not _TREE.fullmatch(tree):
        raise SettingsError("tree", tree[:60], f"children per level, such as {DEFAULT_TREE_SHAPE}")
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


def write_option(name: str) -> str:
    """A name as an option of the command line: ``max_new_tokens`` -> ``--max-new-tokens``."""
    return f"--{name.replace('_', '-')}"


def check_whole(name: str, value: object, low: int, high: int, allowed: str | None = None) -> None:
    """Raise SettingsError unless the value is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, allowed or f"a whole number from {low} to {high}")


def check_number(name: str, value: object, low: float, high: float, allowed: str, above: bool = False) -> None:
    """Raise SettingsError unless the value is a number from ``low`` (or ``above`` it) to ``high``."""
    if not is_number(value) or not low <= value <= high or (above and value == low):
        raise SettingsError(name, value, allowed)


def _list_uniforms(uniforms: object) -> list[tuple[tuple[int, str], float]]:
    """The chosen random numbers. Raises SettingsError unless they are a mapping by position and purpose."""
    if not isinstance(uniforms, Mapping) or not all(isinstance(key, tuple) and len(key) == 2 for key in uniforms):
        raise SettingsError("uniforms", uniforms, "a mapping such as {(3, 'accept'): 0.71}")
    return list(uniforms.items())


def _check_prompt(prompt: str) -> None:
    if len(prompt) > PROMPT_MAX:
        raise TooLongError("prompt", len(prompt), PROMPT_MAX)
    if found := _CONTROL.search(prompt):
        where = Described(f"U+{ord(found[0]):04X} at character {found.start() + 1}")
        raise SettingsError("prompt", where, "text without control characters (line breaks and tabs are fine)")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SettingsError(
            "prompt", Described(f"a lone surrogate at character {error.start + 1}"), "valid Unicode text"
        ) from error


# Chosen random numbers, as written in options and links.


def read_uniform(text: str) -> tuple[tuple[int, str], float]:
    """``POS=U`` or ``POS:draft|accept|residual|bonus=U`` -> ((position, purpose), u), checked. Raises SettingsError for any other text."""
    match = _UNIFORM.fullmatch(text.strip())
    if not match:
        raise SettingsError("random number", text, "written POS=U or POS:draft|residual|bonus=U, such as 3=0.71")
    position, purpose = int(match["position"]), match["purpose"] or "accept"
    try:
        u = float(match["u"])
    except ValueError:
        raise SettingsError("random number", text, "written POS=U with a number U, such as 3=0.71") from None
    check_uniform(position, purpose, u)
    return (position, purpose), u


def read_uniforms(text: str) -> tuple[dict[tuple[int, str], float], list[str]]:
    """The random numbers of a link, ``POS=U,POS:residual=U,...``, and a sentence for each that had to be left out.

    At most MAX_UNIFORM_NOTICES sentences, and one more that counts the others, so that a damaged link does not fill the page.
    """
    uniforms, left_out = {}, []
    for part in text.split(",") if text else ():
        try:
            key, u = read_uniform(part)
            uniforms[key] = u
        except SettingsError as error:
            subject = f"its {error.name.removeprefix('random number ')}" if error.name != "random number" else "it"
            left_out.append(f"The link's random number {part[:40]!r} was left out: {error.explain(subject)}")
    if (more := len(left_out) - MAX_UNIFORM_NOTICES) > 0:
        left_out[MAX_UNIFORM_NOTICES:] = [f"More of the link's random numbers were left out: {more} that cannot be used either."]
    return uniforms, left_out


def write_uniform(key: tuple[int, str], u: float) -> str:
    """The inverse of ``read_uniform``, to the last bit."""
    position, purpose = key
    return f"{position}={u!r}" if purpose == "accept" else f"{position}:{purpose}={u!r}"


def check_uniform(position: int, purpose: str, u: float) -> None:
    """Raise SettingsError for a position, purpose or value that no random number of a run can have."""
    check_whole("random number position", position, 0, LENGTH_MAX, f"from 0 (the first generated token) to {LENGTH_MAX}")
    if purpose not in PURPOSES:
        raise SettingsError("random number purpose", purpose, f"one of {', '.join(PURPOSES)}")
    if not (is_number(u) and 0.0 <= u < 1.0):
        raise SettingsError("random number", u, "at least 0 and below 1")


def _read_declarations() -> Iterator[Setting]:
    declared = load_toml("settings")
    for one in fields(Settings):
        if one.name != "uniforms":
            kind, _, none = str(one.type).partition(" | ")
            table: dict[str, Any] = {}  # of Setting's fields; their types are checked by tests
            for key, value in declared.pop(one.name).items():
                table[key] = tuple(value) if isinstance(value, list) else value
            yield Setting(one.name, _TYPES[kind], bool(none), one.default, **table)
    assert not declared, f"assets/settings.toml declares {', '.join(declared)}, which are no fields of Settings"


def _list_group(group: Group) -> tuple[str, ...]:
    return tuple(name for name, one in SETTINGS.items() if one.group == group)


SETTINGS: dict[str, Setting] = {one.name: one for one in _read_declarations()}  # every field but ``uniforms``
SAMPLING_FIELDS = _list_group("sampling")  # with the pair and the prompt they define the target's distribution
CUT_FIELDS = tuple(name for name in SAMPLING_FIELDS if SETTINGS[name].optional)  # top_k, top_p and min_p; None: off
DRAFTING_FIELDS = _list_group("drafting")  # drafting method, acceptance rule, and what they read
OLD_NAMES = {one.old: name for name, one in SETTINGS.items() if one.old}
RENAMED = OLD_NAMES | {  # options and keyword arguments of earlier versions -> their present names
    "tv": "min_tv",
    "go_on": "ignore_checks",
    "coin": "uniform",
    "laws": "probs",
    "draws": "samples",
    "texts": "continuations",
    "max_tokens": "request_tokens",
}
FOREIGN_NAMES = {  # names in transformers, vLLM, SGLang and llama.cpp -> what has this meaning here
    **dict.fromkeys(("model", "model_path", "target_model"), "target"),
    **dict.fromkeys(("draft_model", "assistant_model", "speculative_model", "model_draft"), "draft"),
    **dict.fromkeys(("num_speculative_tokens", "num_assistant_tokens", "num_draft_tokens", "draft_max"), "gamma"),
    **dict.fromkeys(("max_tokens", "n_predict", "num_tokens", "length"), "max_new_tokens"),
    **dict.fromkeys(("torch_dtype", "precision"), "dtype"),
}
GAMMA_MAX = int(SETTINGS["gamma"].high)
LOOKUP_TOKENS = 3  # most tokens of a text's ending that copied drafting looks up
LENGTH_MAX = int(SETTINGS["max_new_tokens"].high)  # tokens of a run, and so positions of a random number
SIBLINGS = SETTINGS["siblings"].choices
NODES_MAX = int(SETTINGS["tree_budget"].high)
EXIT_LAYER_MAX = int(SETTINGS["exit_layer"].high)  # the target's number of layers is checked when it is known
DEFAULTS = Settings()
