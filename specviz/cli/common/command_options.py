"""Options that several commands share, made from the declarations in settings.py, and the settings and models made from them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from specviz.cli.common.progress import log_line
from specviz.decoding.method_checks import build_rule, check_methods, list_readers, refuse_unread_cuts
from specviz.errors import SettingsError
from specviz.models.pairs.names import PairPlaces, check_place
from specviz.proposers.registry import PROPOSERS
from specviz.settings import DEFAULTS, DRAFTING_FIELDS, SAMPLING_FIELDS, SETTINGS, Setting, Settings, list_declared, read_uniform
from specviz.verification.registry import RULES

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair

AddArgument = Callable[..., argparse.Action]
NO_LIMIT = 2**63  # of a whole number without an upper bound
DRAFT_BITS = Setting(
    "draft-bits",
    str,
    True,
    None,
    "8: round the draft's weights to 8 bits, which is faster for large Llama-style drafts on a CPU (default: do not round)",
    "models",
    choices=("8",),
    allowed="8, or left out",
    shown="",
    metavar="8",
)


def add_setting(add: AddArgument, setting: str | Setting, **changes: Any) -> None:
    """Add the option of a setting. changes: what differs for this command, as for ``Setting.with_changes``."""
    declared = SETTINGS[setting] if isinstance(setting, str) else setting
    declared = declared.with_changes(**changes) if changes else declared
    metavar = {"metavar": declared.metavar} if declared.metavar else {}
    add(declared.option, type=declared.parse, default=declared.default, help=_describe(declared), **metavar)


def _describe(declared: Setting) -> str:
    """The help of an option; of the drafting method and the rule with all names, those of other packages too."""
    registered: dict[str, Iterable[str]] = {"proposer": PROPOSERS, "rule": RULES}
    if declared.name in registered:
        declared = replace(declared, help=f"{declared.help}: {', '.join(registered[declared.name])}")
    return declared.describe(list_readers(declared.name))


def add_count(add: AddArgument, name: str, low: int, high: int, help: str, default: int | None = None, **arguments: Any) -> None:
    """Add an option that takes a whole number from ``low`` to ``high``; its help ends with the default, if there is one."""
    shown = "" if default is None else f" (default: {default:,})"
    declared = Setting(name, int, True, default, help, "run", low, high, allowed=f"{low} or more" if high == NO_LIMIT else "")
    add(declared.option, type=declared.parse, **{"metavar": "N", "default": default, "help": help + shown} | arguments)


def add_number(add: AddArgument, name: str, high: float, help: str, metavar: str, default: float | None = None) -> None:
    """Add an option that takes a number above 0 and at most ``high``."""
    allowed = f"above 0 and at most {high:g}"
    declared = Setting(name, float, True, default, help, "run", 0.0, high, above=True, allowed=allowed)
    add(declared.option, type=declared.parse, default=default, metavar=metavar, help=help)


def add_choice(
    add: AddArgument, name: str, choices: Sequence[str], help: str, default: str | None = None, **arguments: Any
) -> None:
    """Add an option that takes one of several words."""
    declared = Setting(name, str, True, default, help, "run", choices=tuple(choices))
    add(declared.option, type=declared.parse, default=default, metavar=",".join(choices), help=help, **arguments)


def add_declared(add: AddArgument, record: type[Any], *names: str, **changes: Any) -> None:
    """Add the options of fields that are declared in a record, in this order. changes: as for ``add_setting``, of all of them."""
    declared = list_declared(record)
    for name in names:
        add_setting(partial(add, dest=name), declared[name], **changes)


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose and load a pair."""
    add = parser.add_argument_group("models").add_argument
    add("--pair", help=f"name of a pair that comes with the project (default: {DEFAULTS.pair})")
    add("--target", metavar="T", help="folder, GGUF file or hub name of the target; needs --draft")
    add("--draft", metavar="D", help="folder, GGUF file or hub name of the draft; needs --target")
    add_setting(add, DRAFT_BITS)
    for name in ("device", "dtype", "engine"):
        add_setting(add, name)


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """The draft length and the sampling options."""
    add_setting(parser.add_argument, "gamma")
    add_sampling_options(parser)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """What defines the target's distribution: temperature, top-k, top-p, min-p, warpers."""
    add = parser.add_argument_group("sampling").add_argument
    for name in SAMPLING_FIELDS:
        add_setting(add, name)


def add_drafting_options(parser: argparse.ArgumentParser) -> None:
    """Drafting method, acceptance rule, and what they read."""
    add = parser.add_argument_group("drafting and acceptance").add_argument
    for name in DRAFTING_FIELDS:
        add_setting(add, name)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of one run."""
    for name in ("prompt", "max_new_tokens", "seed"):
        add_setting(parser.add_argument, name)
    parser.add_argument(
        "--uniform",
        action="append",
        default=[],
        metavar="POS=U",
        help="set the random number u in [0, 1) that decides about the draft token at output position POS (0: the first generated "
        "token); POS:draft=U, POS:residual=U and POS:bonus=U set the numbers that draw a token; may be repeated",
    )


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    """Add the seed."""
    add_setting(parser.add_argument, "seed")


def add_cluster_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a cluster."""
    parser.add_argument(
        "--cluster",
        metavar="WHERE",
        help="work on several cores or machines: auto (the cores of this one), or HOST:PORT of a Ray cluster (docs/how-to/cluster.md)",
    )


def check_cluster(options: argparse.Namespace) -> None:
    """Raise SettingsError or ClusterError for a cluster that cannot be used, before anything is loaded."""
    if options.cluster is not None:
        from specviz.jobs import ray

        ray.check_cluster(options.cluster)


def read_run_settings(options: argparse.Namespace) -> Settings:
    """Settings from the options of a run. A tree without a shape or a number of nodes gets the fastest number of nodes.

    Raises SettingsError with the value and what is allowed.
    """
    from specviz.proposers.trees.node_count import choose_node_count

    uniforms: dict[tuple[int, str], float] = {}
    for text in options.uniform:
        key, u = read_uniform(text)
        if key[0] >= options.max_new_tokens:
            allowed = f"below {options.max_new_tokens}, the number of tokens to generate"
            raise SettingsError("random number position", key[0], allowed)
        if key in uniforms:
            raise SettingsError("random number", text, "given once for each position and purpose")
        uniforms[key] = u
    return choose_node_count(read_settings(options, uniforms=uniforms))


def read_settings(options: argparse.Namespace, all_methods: bool = False, **changes: Any) -> Settings:
    """Settings from the options of their names; ``changes`` add to them or take their place.

    ``all_methods``: every drafting method is run, each with what it reads. Folders and files that the settings name may then be
    read in this process.
    """
    given = {name: value for name, value in vars(options).items() if name in SETTINGS and name != "pair"}
    if "prompt" in given:
        given["prompt"] = given["prompt"].removeprefix("\ufeff")  # a byte order mark, from "$(cat FILE)"
    pair = changes["pair"] if "pair" in changes else read_pair_name(options)
    settings = Settings(**{**given, **changes, "pair": pair})
    refuse_unread_cuts(settings)
    if settings.source_text or settings.heads or settings.early_exit or settings.eagle:
        from specviz.jobs.tasks import allow_paths

        if not all_methods:
            check_methods(settings)
        allow_paths(settings)
    return settings


def read_pair_name(options: argparse.Namespace) -> str:
    """The value of ``--pair``, or the name of ``--target`` and ``--draft`` (models/pairs/names.py)."""
    bits = getattr(options, "draft_bits", None)
    if (options.target is None) != (options.draft is None):
        missing = "--draft" if options.draft is None else "--target"
        allowed = "--pair NAME, or --target and --draft together"
        raise SettingsError("pair", f"no {missing}", allowed, f"{missing} is missing. Give {allowed}.")
    if options.target is not None:
        if options.pair is not None:
            raise SettingsError("pair", options.pair, "left out when --target and --draft are given")
        for role in ("target", "draft"):
            check_place(role, getattr(options, role))
        return PairPlaces(options.target, options.draft, bits is not None).name
    if bits is not None:
        raise SettingsError("draft-bits", bits, "given with --target and --draft")
    return options.pair or DEFAULTS.pair


def load_models(settings: Settings, rules: bool = True) -> LoadedPair:
    """Load the pair that the settings name, and print what is worth knowing of its models on stderr.

    rules: whether the target's generation_config applies.
    """
    from specviz.models.pairs.loading import load_pair

    pair = load_pair(settings.pair, settings.device, settings.dtype)
    pair = pair if rules else pair.without_rules()
    for note in pair.list_notes(settings):
        log_line(note)
    return pair


def describe_drafting(settings: Settings) -> str:
    """A line on drafting method and rule if they are not the default ones, else ''. The title of a lossy rule includes that it is lossy."""
    if (settings.proposer, settings.rule, settings.draft_length_policy) == ("draft", "token", "fixed"):
        return ""
    length = (
        f", lengths {settings.draft_length_policy}"
        if settings.draft_length_policy != "fixed" and "draft_length_policy" in PROPOSERS.find(settings.proposer).reads
        else ""
    )
    length += f", at most {settings.tree_budget} nodes" if settings.tree_budget is not None else ""
    return f"proposer {settings.proposer}{length}; rule {build_rule(settings).title}\n"
