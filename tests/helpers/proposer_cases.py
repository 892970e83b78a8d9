"""Every proposer of the gallery by the settings that name it, and a pair made of two tables to open them on."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import torch

from specviz.decoding.method_checks import build_rule
from specviz.proposers.request import open_proposer
from specviz.settings import Settings
from specviz.verification.registry import RULES
from tests.helpers.toy_tables import model, pair

CHAINS: dict[str, dict] = {
    "none": {"proposer": "none"},
    "draft": {"proposer": "draft"},
    "unigram": {"proposer": "unigram"},
    "uniform": {"proposer": "uniform"},
    "adversarial": {"proposer": "adversarial"},
    "oracle": {"proposer": "oracle"},
    "early exit": {"proposer": "early-exit", "exit_layer": 1},
    "n-gram": {"proposer": "ngram"},
    "retrieval": {"proposer": "retrieval"},
    "lookahead": {"proposer": "lookahead", "num_chains": 1},
    "heuristic": {"proposer": "draft", "draft_length_policy": "heuristic"},
    "entropy": {"proposer": "draft", "draft_length_policy": "entropy"},
    "gain": {"proposer": "draft", "draft_length_policy": "gain"},
    "ceiling": {"proposer": "draft", "draft_length_policy": "ceiling"},
    "uniform, heuristic": {"proposer": "uniform", "draft_length_policy": "heuristic"},
}
SAME_DISTRIBUTION: dict[str, dict] = {  # trees whose siblings are drawn from one distribution
    "several": {"proposer": "several", "num_chains": 2},
    "tree, independent": {"proposer": "tree", "siblings": "independent", "tree": "2-1"},
    "budget, independent": {"proposer": "tree", "siblings": "independent", "tree": "2-2", "tree_budget": 5},
}
TREES: dict[str, dict] = SAME_DISTRIBUTION | {
    "lookahead, two n-grams": {"proposer": "lookahead", "num_chains": 2},
    "tree, distinct": {"proposer": "tree", "siblings": "distinct", "tree": "2-1"},
    "tree, top": {"proposer": "tree", "siblings": "top", "tree": "2-1"},
    "budget, distinct": {"proposer": "tree", "siblings": "distinct", "tree": "2-2", "tree_budget": 4},
    "budget, top": {"proposer": "tree", "siblings": "top", "tree": "2-2", "tree_budget": 5},
}
CASES = CHAINS | TREES


def list_rules(name: str) -> list[str]:
    """The exact rules that can judge a case, by name; k-seq on one chain alone, since on chains it is the token rule."""
    refused = {"block": TREES, "k-seq": CASES.keys() - {"draft", *SAME_DISTRIBUTION}}
    return [rule for rule in RULES if build_rule(Settings(rule=rule)).exact and name not in refused.get(rule, ())]


class Letters:
    """A tokenizer for a vocabulary of V: each letter of a text is a token, by its place in the alphabet modulo V."""

    def __init__(self, vocabulary: int, most: int = 300):
        self.vocabulary, self.most = vocabulary, most

    def __len__(self) -> int:
        return self.vocabulary

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % self.vocabulary for letter in text[: self.most]]


class TablePair:
    """What a proposer's request asks of a pair, made of two random tables with a distribution for every prefix, in sevenths: uneven, some masses 0."""

    def __init__(self, seed: int, vocabulary: int = 3):
        self.tables = pair("random", seed, vocabulary, 7)
        self.tokenizer, self.vocabulary = Letters(vocabulary), vocabulary
        self.target, self.draft = (
            SimpleNamespace(device=torch.device("cpu"), num_parameters=lambda size=size: size) for size in (60, 9)
        )

    def open(self, settings: Settings) -> tuple:
        return tuple(model(table, self.vocabulary, settings) for table in self.tables)

    def open_layered(self, settings: Settings) -> tuple:
        """A table has no layers: the draft's stands for what an exit would say."""
        return self.open(settings)


def build_case_world(name: str, seed: int, vocabulary: int = 3, **more: object) -> tuple:
    """Target and proposer of a case on tables, opened as any request is."""
    case: Mapping = CASES[name]
    return open_proposer(TablePair(seed, vocabulary), Settings(**{"gamma": 2, **case, **more}))


def remove_marks(printed: str) -> str:
    """The text that ``decode`` printed, without its tally and without the marks of residual and bonus tokens."""
    return printed.split("\n\n")[0].translate(dict.fromkeys(map(ord, "[]<>")))
