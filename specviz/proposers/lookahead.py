"""Lookahead decoding: the target's predictions of later tokens become n-grams, and those draft tokens (Fu et al. 2024).

Beside the draft tokens, every target pass reads a window of predictions, which Jacobi iteration improves: each prediction is
replaced by the target's most likely token after those before it. A prediction and its replacements make an n-gram. The draft
tokens are those that followed the text's last token in such n-grams, with one-hot distributions.

The window hangs below the prefix as more nodes of the pass, which no draft token sees. Its state is a pure function of the text
and of where the rounds before ended; what was computed in the pass of a round is only remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.base import Proposer
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.proposers.trees.growth import TreeGrowth, add_certain_children, assemble_tree, count_levels
from specviz.randomness import Prefix, Randomness
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree, build_token_tree
from specviz.verification.registry import DraftForm

NAME = "lookahead"
WINDOW = 8  # positions that are predicted
POOL = 8  # n-grams that are kept for each first token, the latest first
STATES_MAX = 4096  # states, and replacements of predictions, that are remembered

Ids = tuple[int, ...]
Rows = tuple[Ids, ...]  # predictions of the last passes, the oldest first: (levels, WINDOW)


@dataclass(frozen=True, slots=True)
class LookaheadState:
    """The window and the n-grams before a round."""

    window: Rows  # predictions of the next positions: row k, column j at position j + k after the text
    pool: dict[int, tuple[Ids, ...]]  # first token -> the tokens that followed it in n-grams, the latest first

    def advance_round(self, fresh: Ids | None, committed: int) -> LookaheadState:
        """The state after a round that wrote ``committed`` tokens. fresh: what replaces the latest predictions; None: nothing was read."""
        window, pool = self.window, self.pool
        if fresh is not None:
            pool = _add_ngrams(pool, zip(*window, fresh, strict=True))
            window = (*window[1:], fresh)
        turn = (committed - 1) % WINDOW  # the first column now stands for a position that is written
        return LookaheadState(tuple((*row[turn:], *row[:turn]) for row in window), pool)


class WindowedTarget:
    """The target, whose passes also read the windows that were announced for their rows. Its distributions are the source's."""

    def __init__(self, source: LanguageModel):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context
        self._announced: dict[tuple, Rows] = {}
        self._found: dict[tuple[Ids, Rows], Ids] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)

    def announce(self, rows: Sequence[Prefix], windows: Sequence[Rows]) -> None:
        """Read these windows beside the draft tokens of these rows in the next pass."""
        self._announced = {(row.ids, row.past): window for row, window in zip(rows, windows, strict=True)}

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel; one pass."""
        windows = [self._announced.get((row.ids, row.past), ()) for row in rows]
        windows = [window if self._fits(row, window) else () for row, window in zip(rows, windows, strict=True)]
        found = self.source.compute_distributions(rows, _attach_windows(tree, windows))
        if len(self._found) > STATES_MAX:
            self._found.clear()
        for index, (row, window) in enumerate(zip(rows, windows, strict=True)):
            if window:
                ends = len(tree.tokens[index]) + 1 + torch.tensor(_list_last_places(window))
                self._found[row.ids, window] = tuple(found[index, ends.to(found.device)].argmax(-1).tolist())
        return found[:, : tree.widest + 1]

    def predict_replacements(self, row: Prefix, window: Rows) -> Ids | None:
        """The target's most likely token after each of the latest predictions; None where the window does not fit into the context.

        A pass is run only if the row's own pass has not read the window.
        """
        if not self._fits(row, window):
            return None
        if (row.ids, window) not in self._found:
            self.announce([row], [window])
            self.compute_distributions([row], build_empty_tree(1, NAME))
        return self._found[row.ids, window]

    def _fits(self, row: Prefix, window: Rows) -> bool:
        return self.context is None or len(row.ids) + WINDOW + len(window) <= self.context


class Lookahead:
    """A tree of at most ``most`` n-grams that began with the text's last token, each of at most ``gamma`` tokens after it."""

    name = NAME

    def __init__(self, target: WindowedTarget, gamma: int, most: int, device: torch.device | str = "cpu"):
        self.target, self.gamma, self.most = target, gamma, most
        self.like = torch.zeros(target.vocabulary, dtype=torch.float64, device=device)
        self._known: dict[tuple[Ids, tuple], LookaheadState] = {}

    def propose(self, rows: Sequence[Prefix], randomness: Randomness) -> DraftTree:
        states = [self.find_state(row) for row in rows]
        self.target.announce(rows, [state.window for state in states])
        trees = [TreeGrowth(row, count_levels(row, self.gamma, self.target.context)) for row in rows]
        for tree, state in zip(trees, states, strict=True):
            for ngram in state.pool.get(tree.row.ids[-1], ())[: self.most]:
                parent = ROOT
                for token in ngram[: tree.levels]:
                    same = [node for node in tree.list_children(parent) if tree.tokens[node] == token]
                    (parent,) = same or add_certain_children(tree, parent, [token], self.like)
        return assemble_tree(trees, self.name, counts_fixed=True)  # nothing is drawn

    def find_state(self, row: Prefix) -> LookaheadState:
        """The state before a row's round: from the text at the start of the run, through each round since."""
        rounds = [row]
        while rounds[-1].past and self._build_key(rounds[-1]) not in self._known:
            committed = rounds[-1].past[-1][1] + 1
            if committed >= len(rounds[-1].ids):
                break
            rounds.append(replace(rounds[-1], ids=rounds[-1].ids[:-committed], past=rounds[-1].past[:-1]))
        first = rounds.pop()
        state = self._known.get(self._build_key(first)) or build_first_state(first.ids, self.gamma)
        self._save_state(first, state)
        for earlier, later in zip([first, *reversed(rounds)], reversed(rounds), strict=False):
            state = state.advance_round(
                self.target.predict_replacements(earlier, state.window), len(later.ids) - len(earlier.ids)
            )
            self._save_state(later, state)
        return state

    def _build_key(self, row: Prefix) -> tuple[Ids, tuple]:
        return row.ids, tuple(accepted for _, accepted in row.past)

    def _save_state(self, row: Prefix, state: LookaheadState) -> None:
        if len(self._known) >= STATES_MAX:
            self._known.clear()
        self._known[self._build_key(row)] = state


def _describe_lookahead(settings: Settings) -> DraftForm:
    """One n-gram is a chain. Of several, siblings have one-hot distributions of their own; nothing is drawn."""
    return DraftForm(branches=settings.num_chains > 1, shares_q=False)


def _open_windowed_models(pair: LoadedPair, settings: Settings) -> tuple[LanguageModel, LanguageModel]:
    """The target, whose passes read windows as well, and the draft."""
    target, draft = pair.open(settings)
    return WindowedTarget(target), draft


@register_proposer(
    "lookahead",
    title="lookahead decoding",
    form=_describe_lookahead,
    reads=("gamma", "num_chains"),
    open_models=_open_windowed_models,
)
def _build_lookahead(request: DraftingRequest) -> Proposer:
    """N-grams from the target's own predictions: at most ``drafts`` of them, of gamma tokens."""
    settings = request.settings
    if not settings.gamma:
        return NoDraft()
    assert isinstance(request.target, WindowedTarget), "opened by open_windowed_models"
    return Lookahead(request.target, settings.gamma, settings.num_chains, request.device)


def build_first_state(ids: Ids, levels: int) -> LookaheadState:
    """The state before a run: the predictions are the text's last tokens, the n-grams those of the text."""
    last = [ids[(len(ids) - WINDOW + place) % len(ids)] for place in range(WINDOW)]
    window = tuple((*last[level % WINDOW :], *last[: level % WINDOW]) for level in range(levels))
    ngrams = (ids[place : place + levels + 1] for place in range(len(ids) - levels))
    return LookaheadState(window, _add_ngrams({}, ngrams))


def _add_ngrams(pool: dict[int, tuple[Ids, ...]], ngrams: Iterable[Ids]) -> dict[int, tuple[Ids, ...]]:
    """The pool with more n-grams."""
    pool = dict(pool)
    for first, *rest in ngrams:
        others = (other for other in pool.get(first, ()) if other != tuple(rest))
        pool[first] = (tuple(rest), *others)[:POOL]
    return pool


def _attach_windows(tree: DraftTree, windows: Sequence[Rows]) -> DraftTree:
    """The tree with each row's window after its nodes: the oldest predictions as a chain, and below each of them the later ones."""
    tokens, parents = [], []
    for drafted, above, window in zip(tree.tokens, tree.parents, windows, strict=True):
        first, width = len(drafted), WINDOW if window else 0
        begins = [ROOT if not place else first + place - 1 for place in range(width)]
        below = [first + place for place in range(width * (len(window) - 1))] if window else []
        tokens.append((*drafted, *(token for row in window for token in row)))
        parents.append((*above, *begins, *below))
    return build_token_tree(tokens, parents, tree.source)


def _list_last_places(window: Rows) -> list[int]:
    """Places of the latest predictions among a window's nodes."""
    return [*range((len(window) - 1) * WINDOW, len(window) * WINDOW)]
