"""Keyword arguments of the methods of ``specviz.Pair``: the settings, with their ranges and defaults.

Generated from settings.py and assets/settings.toml by ``python tools/generated_docs.py``; edit those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class PairOptions(TypedDict, total=False):
    """Every field of ``Settings`` that is not of the pair."""

    uniforms: Mapping[tuple[int, str], float]  # random numbers that you choose: (position, purpose) -> u in [0, 1)
    proposer: str  # drafting method (default: draft)
    rule: str  # acceptance rule (default: token)
    gamma: int  # draft length (vLLM: num_speculative_tokens): draft tokens per round, 0 to 16 (default: 4)
    temperature: float  # sampling temperature, 0 (greedy) to 5 (default: 1)
    top_k: int | None  # keep the K most probable tokens (default: off)
    top_p: float | None  # keep the fewest most probable tokens that reach a total probability of P (default: off)
    min_p: float | None  # drop tokens below P times the largest probability (default: off)
    warpers: str  # warpers of installed packages to apply after these, NAME or NAME=NUMBER, separated by commas (default: none)
    seed: int  # seed of all random numbers (default: 7)
    max_new_tokens: int  # most tokens to generate, 1 to 4096 (default: 32)
    # what runs a round: reference; device, where it stays on the models' device; compiled, the same through
    # torch.compile; auto (default: on cuda the fastest of these where the method allows, and compiled in the background
    # while a text is repeated; else reference)
    engine: str
    # for eagle, medusa, tree: children per level, such as 3-2-1; 1 to 8 levels, at most 64 nodes (default: the method's
    # own shape, or tree-budget)
    tree: str
    # for eagle, medusa, tree: how siblings of a tree are chosen: top (most probable tokens), independent draws, or
    # distinct (draws without replacement) (default: distinct)
    siblings: str
    # for eagle, medusa, tree: grow the tree where the draft is confident, up to N nodes, 1 to 64 (default: the fastest
    # number on the recorded cost curve, unless tree is given)
    tree_budget: int | None
    num_chains: int  # for lookahead, several: number of chains drafted side by side, 1 to 8 (default: 2)
    # for draft, adversarial, early-exit, oracle, uniform, unigram: policy that sets the draft length of a chain: fixed,
    # heuristic, entropy, gain or ceiling (default: fixed)
    draft_length_policy: str
    source_text: str  # for retrieval, unigram: the text that the method reads: dorothy, or a text file (default: dorothy)
    typical_epsilon: float  # for typical: epsilon of typical acceptance (default: 0.09)
    heads: str  # for medusa: folder of Medusa heads, or hub name (default: the pair's own)
    early_exit: str  # for early-exit: folder of a trained exit, or hub name (default: the pair's own)
    # for early-exit: number of target layers that draft, 1 to 1024 (default: those below the trained exit)
    exit_layer: int | None
    eagle: str  # for eagle: folder of a draft head, or hub name (default: the pair's own)
