"""Options that several commands share, and the settings made of them."""

from __future__ import annotations

import argparse
from typing import Any

from specviz.errors import SettingsError
from specviz.models.pairs.names import Places
from specviz.proposers.trees.node_count import with_paying_nodes
from specviz.settings import LENGTH_MAX, NODES_MAX, PROPOSER_FIELDS, SHAPE, SIBLINGS, TREE_LEVELS, Settings, read_uniform

_DEFAULTS = Settings()
PROPOSERS = "draft, tree, several, medusa, early-exit, ngram, retrieval, unigram, uniform, adversarial, oracle, none"
LENGTHS = "fixed, heuristic, entropy, gain, ceiling"


def pair_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pair", help="name of a pair that comes with the project (default: storybook)")
    parser.add_argument("--target", metavar="T", help="folder or hub name of the target; needs --draft")
    parser.add_argument("--draft", metavar="D", help="folder or hub name of the draft; needs --target")
    parser.add_argument(
        "--draft-bits",
        type=int,
        help="8: round the draft's weights to 8 bits, faster for Llama-style drafts on a CPU (default: as they are)",
    )
    parser.add_argument("--device", default="auto", help="auto (default: cuda, then mps, then cpu), cuda, mps or cpu")
    parser.add_argument("--dtype", default="auto", help="auto (default: bfloat16 on cuda, else float32) or a float type")


def sampling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gamma", type=int, default=_DEFAULTS.gamma, help="tokens drafted per round, 0 to 16 (default: 4)")
    cut_options(parser)


def cut_options(parser: argparse.ArgumentParser) -> None:
    """Temperature and cuts: what the distribution is made of."""
    parser.add_argument("--temperature", type=float, default=_DEFAULTS.temperature, help="0 (greedy) to 5 (default: 1)")
    parser.add_argument("--top-k", type=int, help="keep the k most probable tokens (default: off)")
    parser.add_argument("--top-p", type=float, help="keep the fewest tokens that reach this mass (default: off)")
    parser.add_argument("--min-p", type=float, help="drop tokens below this share of the largest (default: off)")


def proposer_options(parser: argparse.ArgumentParser) -> None:
    """Who draft tokens and which rule decides. Names are looked up later: the lists of names need torch."""
    add, shape = parser.add_argument, f"1 to {TREE_LEVELS} levels, at most {NODES_MAX} nodes"
    add("--proposer", default=_DEFAULTS.proposer, metavar="NAME", help=f"who drafts: {PROPOSERS} (default: draft)")
    add("--rule", default=_DEFAULTS.rule, metavar="NAME", help="who decides: token (default), block, k-seq; typical is lossy")
    add("--tree", default=_DEFAULTS.tree, metavar="SHAPE", help=f"children per level, such as {SHAPE}: {shape}")
    add("--siblings", default=_DEFAULTS.siblings, metavar="HOW", help=f"{', '.join(SIBLINGS)} (default: distinct)")
    grown = f"let the tree grow where the draft tokens are sure, up to N nodes, 1 to {NODES_MAX}"
    add("--nodes", type=int, metavar="N", help=f"{grown} (default: as many as pay by the recorded curve, unless --tree is given)")
    add("--drafts", type=int, default=_DEFAULTS.drafts, metavar="N", help="chains of several, 1 to 8 (default: 2)")
    add("--lengths", default=_DEFAULTS.lengths, metavar="NAME", help=f"how far a chain goes: {LENGTHS} (default: fixed)")
    add(
        "--text", default=_DEFAULTS.text, metavar="TEXT", help="what retrieval and unigram read: dorothy (default) or a text file"
    )
    add("--typical", type=float, default=_DEFAULTS.typical, metavar="E", help="epsilon of typical acceptance (default: 0.09)")
    add("--heads", default=_DEFAULTS.heads, metavar="DIR", help="folder of Medusa heads (default: the pair's own)")
    add("--exit", default=_DEFAULTS.exit, metavar="DIR", help="folder of a trained early exit (default: the pair's own)")
    add(
        "--exit-layer",
        type=int,
        metavar="N",
        help="how many layers of the target draft token (default: those below the trained exit)",
    )


def proposer_fields(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of Settings that these options give. Paths are admitted here, for this process."""
    if options.text:
        from specviz.proposers.texts import admit

        admit(options.text)
    if options.heads or options.exit:
        from specviz.models.attachments.kinds import admit as admit_attached

        admit_attached(options)
    return {name: getattr(options, name) for name in PROPOSER_FIELDS}


def refuse_proposer(options: argparse.Namespace, beside: str) -> None:
    """Raises SettingsError where a proposer or rule is chosen for something that brings its own."""
    for name in PROPOSER_FIELDS:
        if (value := getattr(options, name)) != getattr(_DEFAULTS, name):
            raise SettingsError(name.replace("_", "-"), value, f"left out with {beside}, which brings its own")


def refuse_unknown(settings: Settings) -> None:
    """Names of proposer, policy and rule are looked up before any weights are read. Raises SettingsError listing those there are."""
    from specviz.proposers import registry
    from specviz.proposers.adaptive.policies import LENGTHS
    from specviz.verification.registry import rule_of

    registry.named("proposer", settings.proposer, registry.PROPOSERS)
    registry.named("lengths", settings.lengths, LENGTHS)
    rule_of(settings)


def in_words(settings: Settings) -> str:
    """A line on proposer and rule where they are not the usual ones, else nothing; a rule that is lossy says so."""
    from specviz.proposers.registry import CHAINS
    from specviz.verification.registry import rule_of

    if (settings.proposer, settings.rule, settings.lengths) == ("draft", "token", "fixed"):
        return ""
    length = f", lengths {settings.lengths}" if settings.lengths != "fixed" and settings.proposer in CHAINS else ""
    length += f", at most {settings.nodes} nodes" if settings.nodes is not None else ""
    return f"proposer {settings.proposer}{length}; rule {rule_of(settings).title}\n"


def run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", default="", help="text to continue (default: the start token alone)")
    parser.add_argument("--max-new-tokens", type=int, default=_DEFAULTS.length, metavar="N", help="1 to 4096 (default: 32)")
    parser.add_argument("--seed", type=int, default=_DEFAULTS.seed, help="fixes every draw (default: 7)")
    parser.add_argument(
        "--uniform",
        action="append",
        default=[],
        metavar="POS=U",
        help="choose the accept random number at output position POS (0: first generated token); POS:draft|residual|bonus=U for the "
        "others; may be repeated",
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """Settings of the options above; a tree that is given neither a shape nor a number of nodes gets as many as pay.

    Raises SettingsError with the value and what is allowed.
    """
    if not 1 <= options.max_new_tokens <= LENGTH_MAX:
        raise SettingsError("max-new-tokens", options.max_new_tokens, f"a whole number from 1 to {LENGTH_MAX}")
    uniforms: dict[tuple[int, str], float] = {}
    for text in options.uniform:
        key, u = read_uniform(text)
        if key[0] >= options.max_new_tokens:
            raise SettingsError(
                "random number position", key[0], f"below {options.max_new_tokens}, the number of tokens to generate"
            )
        if key in uniforms:
            raise SettingsError("coin", text, "given once for each position and purpose")
        uniforms[key] = u
    settings = Settings(
        pair=pair_name(options),
        prompt=options.prompt,
        gamma=options.gamma,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        seed=options.seed,
        length=options.max_new_tokens,
        uniforms=uniforms,
        device=options.device,
        dtype=options.dtype,
        **proposer_fields(options),
    )
    return with_paying_nodes(settings)


def pair_name(options: argparse.Namespace) -> str:
    """``--pair``, or the name that models/places.py gives two folders."""
    bits = getattr(options, "draft_bits", None)
    if bits not in (None, 8):
        raise SettingsError("draft-bits", bits, "8, or left out for weights as they are")
    if (options.target is None) != (options.draft is None):
        missing = "--draft" if options.draft is None else "--target"
        raise SettingsError("pair", f"no {missing}", "--pair NAME, or --target and --draft together")
    if options.target is not None:
        if options.pair is not None:
            raise SettingsError("pair", options.pair, "left out when --target and --draft are given")
        return Places(options.target, options.draft, bits == 8).name
    if bits is not None:
        raise SettingsError(
            "draft-bits", bits, "given with --target and --draft; of the pairs that ship, storybook-8bit has such a draft"
        )
    return options.pair or _DEFAULTS.pair
