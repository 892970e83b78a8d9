"""Options that several commands share, and the settings and models made from them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from specviz.errors import SettingsError
from specviz.models.pairs.names import PairPlaces
from specviz.proposers.registry import PROPOSERS
from specviz.proposers.trees.node_count import choose_node_count
from specviz.settings import DRAFTING_FIELDS, LENGTH_MAX, NODES_MAX, SHAPE, TREE_LEVELS, Settings, check_whole, read_uniform
from specviz.verification.registry import RULES
from specviz.verification.warpers import find_warpers

if TYPE_CHECKING:
    from specviz.models.pairs.loading import LoadedPair

_DEFAULTS = Settings()
_SAME_NAME = {"prompt", "gamma", "temperature", "top_k", "top_p", "min_p", "warpers", "seed", "device", "dtype", "engine"}
LENGTHS = "fixed, heuristic, entropy, gain, ceiling"


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("models").add_argument
    add("--pair", help="name of a pair that comes with the project (default: storybook)")
    add("--target", metavar="T", help="folder or hub name of the target; needs --draft")
    add("--draft", metavar="D", help="folder or hub name of the draft; needs --target")
    add(
        "--draft-bits",
        type=int,
        metavar="8",
        help="8: round the draft's weights to 8 bits, which is faster for large Llama-style drafts on a CPU (default: do not round)",
    )
    add("--device", default="auto", help="auto (default: cuda, then mps, then cpu), cuda, mps or cpu")
    add("--dtype", default="auto", help="auto (default: bfloat16 on cuda, else float32) or a float type")
    add(
        "--engine",
        default="auto",
        metavar="HOW",
        help="what runs a round: reference; device, where it stays on the models' device; compiled, the same through torch.compile; "
        "auto (default: device on cuda where no distributions are kept and the method allows, else reference)",
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gamma",
        type=int,
        default=_DEFAULTS.gamma,
        metavar="N",
        help="draft length: draft tokens per round, 0 to 16; vLLM: num_speculative_tokens (default: 4)",
    )
    add_sampling_options(parser)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Temperature, top-k, top-p and min-p, which define the sampling distribution."""
    add = parser.add_argument_group("sampling").add_argument
    add("--temperature", type=float, default=_DEFAULTS.temperature, metavar="T", help="0 (greedy) to 5 (default: 1)")
    add("--top-k", type=int, metavar="K", help="keep the K most probable tokens (default: off)")
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="keep the fewest most probable tokens that reach a total probability of P (default: off)",
    )
    add("--min-p", type=float, metavar="P", help="drop tokens below P times the largest probability (default: off)")
    add(
        "--warpers",
        default="",
        metavar="NAMES",
        help="warpers of installed packages to apply after these, NAME or NAME=NUMBER, separated by commas (default: none)",
    )


def add_drafting_options(parser: argparse.ArgumentParser) -> None:
    """Drafting method and acceptance rule. Names are looked up later, because the registries need torch."""
    add = parser.add_argument_group("drafting and acceptance").add_argument
    add("--proposer", metavar="NAME", help=f"drafting method: {', '.join(PROPOSERS)} (default: draft)")
    add("--rule", metavar="NAME", help=f"acceptance rule: {', '.join(RULES)} (default: token); typical is lossy")
    add(
        "--tree",
        metavar="SHAPE",
        help=f"for tree, medusa and eagle: children per level, such as {SHAPE}; 1 to {TREE_LEVELS} levels, at most {NODES_MAX} nodes",
    )
    add(
        "--siblings",
        metavar="HOW",
        help="how siblings of a tree are chosen: top (most probable tokens), independent draws, or distinct (draws without "
        "replacement; default)",
    )
    add(
        "--tree-budget",
        type=int,
        metavar="N",
        help=f"grow the tree where the draft is confident, up to N nodes, 1 to {NODES_MAX} (default: the fastest number on the "
        "recorded cost curve, unless --tree is given)",
    )
    add("--num-chains", type=int, metavar="N", help="for several and lookahead: number of chains, 1 to 8 (default: 2)")
    add("--draft-length-policy", metavar="NAME", help=f"policy that sets the draft length of a chain: {LENGTHS} (default: fixed)")
    add("--text", metavar="TEXT", help="for retrieval and unigram: the text that they read, dorothy (default) or a text file")
    add("--typical-epsilon", type=float, metavar="E", help="for the typical rule: epsilon of typical acceptance (default: 0.09)")
    add("--heads", metavar="DIR", help="for medusa: folder of heads, or hub name (default: the pair's own)")
    add("--eagle", metavar="DIR", help="for eagle: folder of a draft head, or hub name (default: the pair's own)")
    add("--early-exit", metavar="DIR", help="for early-exit: folder of a trained exit, or hub name (default: the pair's own)")
    add(
        "--exit-layer",
        type=int,
        metavar="N",
        help="for early-exit: number of target layers that draft (default: those below the trained exit)",
    )
    parser.set_defaults(**{name: getattr(_DEFAULTS, name) for name in DRAFTING_FIELDS})


def add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--prompt", default="", help="text to continue (default: empty, only the start token)")
    add(
        "--max-new-tokens",
        type=int,
        default=_DEFAULTS.max_new_tokens,
        metavar="N",
        help=f"most tokens to generate, 1 to {LENGTH_MAX} (default: 32)",
    )
    add_seed_option(parser)
    add(
        "--uniform",
        action="append",
        default=[],
        metavar="POS=U",
        help="set the random number u in [0, 1) that decides about the draft token at output position POS (0: the first generated "
        "token); POS:draft=U, POS:residual=U and POS:bonus=U set the numbers that draw a token; may be repeated",
    )


def add_seed_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=_DEFAULTS.seed, help="seed of all random numbers (default: 7)")


def add_cluster_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        metavar="WHERE",
        help="work on several cores or machines: auto (the cores of this one), or HOST:PORT of a Ray cluster (docs/how-to/cluster.md)",
    )


def check_cluster(options: argparse.Namespace) -> None:
    """Raises SettingsError or ClusterError for a cluster that cannot be used, before anything is loaded."""
    if options.cluster is not None:
        from specviz.jobs import ray

        ray.check_cluster(options.cluster)


def read_run_settings(options: argparse.Namespace) -> Settings:
    """Settings from the options of a run. A tree without a shape or a number of nodes gets the fastest number of nodes.

    Raises SettingsError with the value and what is allowed.
    """
    check_whole("max-new-tokens", options.max_new_tokens, 1, LENGTH_MAX)
    uniforms: dict[tuple[int, str], float] = {}
    for text in options.uniform:
        key, u = read_uniform(text)
        if key[0] >= options.max_new_tokens:
            allowed = f"below {options.max_new_tokens}, the number of tokens to generate"
            raise SettingsError("random number position", key[0], allowed)
        if key in uniforms:
            raise SettingsError("random number", text, "given once for each position and purpose")
        uniforms[key] = u
    fields = proposer_fields(options)
    return choose_node_count(read_settings(options, max_new_tokens=options.max_new_tokens, uniforms=uniforms, **fields))


def read_settings(options: argparse.Namespace, **more: Any) -> Settings:
    """Settings from the pair and from the options that have the name of a setting; ``more`` adds to them or takes their place."""
    same = {name: value for name, value in vars(options).items() if name in _SAME_NAME}
    return Settings(**{"pair": read_pair_name(options)} | same | more)


def read_pair_name(options: argparse.Namespace) -> str:
    """The value of ``--pair``, or the name of ``--target`` and ``--draft`` (models/pairs/names.py)."""
    bits = getattr(options, "draft_bits", None)
    if bits not in (None, 8):
        raise SettingsError("draft-bits", bits, "8, or left out")
    if (options.target is None) != (options.draft is None):
        missing = "--draft" if options.draft is None else "--target"
        raise SettingsError("pair", f"no {missing}", "--pair NAME, or --target and --draft together")
    if options.target is not None:
        if options.pair is not None:
            raise SettingsError("pair", options.pair, "left out when --target and --draft are given")
        return PairPlaces(options.target, options.draft, bits == 8).name
    if bits is not None:
        raise SettingsError("draft-bits", bits, "given with --target and --draft")
    return options.pair or _DEFAULTS.pair


def proposer_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Fields of Settings from these options. Folders and files that they name may then be read in this process."""
    if options.text:
        from specviz.proposers.source_texts import allow_path

        allow_path(options.text)
    if options.heads or options.early_exit or options.eagle:
        from specviz.models.attachments.kinds import allow_attachments as admit_attached

        admit_attached(options)
    return {name: getattr(options, name) for name in DRAFTING_FIELDS}


def refuse_drafting_options(options: argparse.Namespace, beside: str) -> None:
    """Raise SettingsError if a proposer or rule is chosen for something that brings its own."""
    for name in DRAFTING_FIELDS:
        if (value := getattr(options, name)) != getattr(_DEFAULTS, name):
            raise SettingsError(name.replace("_", "-"), value, f"left out with {beside}, which brings its own")


def check_methods(settings: Settings) -> None:
    """Look up the names of proposer, policy and rule before any weights are read. Raises SettingsError, which lists the names."""
    from specviz.decoding.methods import build_rule
    from specviz.proposers.adaptive.policies import find_policy

    PROPOSERS.find(settings.proposer)
    find_policy(settings.draft_length_policy)
    find_warpers(settings.warpers)
    build_rule(settings)


def load_models(settings: Settings) -> LoadedPair:
    from specviz.models.pairs.loading import load_pair

    return load_pair(settings.pair, settings.device, settings.dtype)


def describe_drafting(settings: Settings) -> str:
    """A line on proposer and rule if they are not the default ones, else ''. A lossy rule says so."""
    from specviz.decoding.methods import build_rule

    if (settings.proposer, settings.rule, settings.draft_length_policy) == ("draft", "token", "fixed"):
        return ""
    length = (
        f", lengths {settings.draft_length_policy}"
        if settings.draft_length_policy != "fixed" and "draft_length_policy" in PROPOSERS.find(settings.proposer).reads
        else ""
    )
    length += f", at most {settings.tree_budget} nodes" if settings.tree_budget is not None else ""
    return f"proposer {settings.proposer}{length}; rule {build_rule(settings).title}\n"
