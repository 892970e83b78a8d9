"""A model that is asked about the same few contexts again and again: each distribution is computed once, many contexts in one pass.

Short continuations of one prompt meet few contexts. With this in the model's place the engine itself, any proposer and any rule
included, draws many of them: what it is handed are the distributions of an uncached pass of the same model, equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import Pair
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, empty_tree, texts

TOGETHER = 64  # contexts in one pass
MOST = 400_000_000  # bytes of distributions that are kept; beyond them the memory starts anew

Context = tuple[int, ...]


class RememberedModel:
    """Another source's distributions, each computed once.

    source   asked for the distribution after a row alone, never about a block
    longest  tokens of the longest context that is asked about; after longer ones token 0 is certain. For draws of which nothing so
             late is looked at; None: no limit
    most     bytes of distributions that are kept, unless a single call needs more
    """

    def __init__(self, source: CachedModel, longest: int | None = None, most: int = MOST):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context
        self.longest, self.room = longest, max(1, most // (8 * source.vocabulary))
        self._places: dict[Context, int] = {}
        self._table = torch.empty(0, source.vocabulary, dtype=torch.float64)
        self._features: dict[Context, Tensor] = {}

    def __len__(self) -> int:
        """How many distributions are held."""
        return len(self._places)

    def distributions(self, rows: Sequence[Prefix], block: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as models.base.LawSource says; one array for all rows where they ask for the same."""
        wanted = [self._contexts(row, block, index) for index, row in enumerate(rows)]
        fresh = {ids for contexts in wanted for ids in contexts if ids not in self._places}
        if len(self._places) + len(fresh) > self.room and self._places:
            self._places, self._table = {}, self._table[:0]
            fresh = {ids for contexts in wanted for ids in contexts}
        if fresh:
            self._learn(sorted(fresh, key=lambda ids: (len(ids), ids)))
        if wanted.count(wanted[0]) == len(rows):
            return self._at([self._places[ids] for ids in wanted[0]]).expand(len(rows), -1, -1)
        width = block.widest + 1  # entries beyond a row's own nodes are unspecified
        places = [[self._places[ids] for ids in contexts] + [0] * (width - len(contexts)) for contexts in wanted]
        return self._at([place for row in places for place in row]).view(len(rows), width, -1)

    def _at(self, places: list[int]) -> Tensor:
        """(n, V): copies, so that nobody writes to what is remembered."""
        return self._table.index_select(0, torch.tensor(places, device=self._table.device))

    def features(self, rows: Sequence[Prefix]) -> Tensor:
        """(B, width): what ``CachedModel.features`` gives."""
        for row in rows:
            if row.ids[:-1] not in self._features:
                self._features[row.ids[:-1]] = self.source.features([Prefix(row.ids, 0, 1)])[0].clone()
        return torch.stack([self._features[row.ids[:-1]] for row in rows])

    def _contexts(self, row: Prefix, block: DraftTree, index: int) -> list[Context]:
        """Token ids before each distribution that a row asks for: its own, and with the path down to each node."""
        found = texts(row.ids, block, index)
        return [() if self.longest is not None and len(ids) > self.longest else ids for ids in found]

    def _learn(self, fresh: list[Context]) -> None:
        begin = len(self._places)
        self._grow(begin, begin + len(fresh))
        known = [ids for ids in fresh if ids]
        for first in range(0, len(known), TOGETHER):
            some = known[first : first + TOGETHER]
            rows = [Prefix(ids, 0, 1, number) for number, ids in enumerate(some)]
            distributions = self.source.distributions(rows, empty_tree(len(rows)))[:, 0]
            self._table = self._table.to(distributions.device)
            self._table[begin + first : begin + first + len(some)] = distributions
        self._places |= {ids: begin + number for number, ids in enumerate(known)}
        if len(known) < len(fresh):
            place = self._places[()] = begin + len(known)
            self._table[place] = 0.0
            self._table[place, 0] = 1.0

    def _grow(self, used: int, needed: int) -> None:
        """Room for ``needed`` distributions: twice as much each time, up to what may be kept."""
        if needed > len(self._table):
            longer = self._table.new_empty(max(needed, min(2 * len(self._table), self.room)), self.vocabulary)
            longer[:used] = self._table[:used]
            self._table = longer


class RememberingPair:
    """A pair whose models remember, for many draws from one prompt. Everything else is the pair's own.

    Requests of one prompt with equal temperature and cuts share one memory: distributions depend on nothing else, but an early exit's on
    where it stands. Not for two threads at once.
    """

    def __init__(self, pair: Pair, longest: int | None = None):
        self._pair, self._longest = pair, longest
        self._opened: dict[tuple, tuple[RememberedModel, ...]] = {}

    def open(self, settings: Settings) -> tuple[RememberedModel, RememberedModel]:
        """Target and draft, each with what it remembers already."""
        return self._known(settings, lambda: self._pair.open(settings))

    def open_layered(self, settings: Settings) -> tuple[RememberedModel, RememberedModel]:
        """The same target, and its exit."""
        (lower,) = self._known(settings, lambda: self._pair.open_layered(settings)[1:], settings.exit, settings.exit_layer)
        return self.open(settings)[0], lower

    def _known(self, settings: Settings, make: Callable[[], tuple], *more: object) -> tuple[RememberedModel, ...]:
        key = settings.prompt, settings.temperature, settings.top_k, settings.top_p, settings.min_p, *more
        if key not in self._opened:
            self._opened[key] = tuple(RememberedModel(model, self._longest) for model in make())
        return self._opened[key]

    def forget(self) -> None:
        """Give back the memory."""
        self._opened.clear()

    def __getattr__(self, name: str):
        return getattr(self._pair, name)
