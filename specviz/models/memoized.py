"""A language model that remembers its distributions: each context is computed once, many contexts in one pass.

Many short samples of one prompt share few contexts, so the engine draws them at little cost, with any proposer and any rule. The
distributions equal those of an uncached pass of the same model, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from specviz.models.attachments.eagle import DraftHead
from specviz.models.cache.fixed import PassTokens
from specviz.models.pairs.loading import LoadedPair
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree, build_empty_tree, build_token_tree, list_node_texts

BATCH = 64  # contexts in one pass
MEMORY_MAX = 400_000_000  # bytes of distributions that are held; above this the memory is emptied

Context = tuple[Any, ...]  # ids of a text; of a draft head (ids, path)


class MemoizedModel:
    """Another model's distributions, each computed once.

    Args:
        source: A CachedModel, or any model of a pair; called for distributions after prefixes only, never for a tree.
        longest: Tokens of the longest context that is computed. After a longer context token 0 has probability 1, which is fine
            where no later token is tested. None: no limit.
        memory: Bytes of distributions to hold, unless a single call needs more.
    """

    def __init__(self, source: Any, longest: int | None = None, memory: int = MEMORY_MAX):
        self.source, self.vocabulary, self.context = source, source.vocabulary, source.context
        self.longest, self.capacity = longest, max(1, memory // (8 * source.vocabulary))
        self._places: dict[Context, int] = {}
        self._table = torch.empty(0, source.vocabulary, dtype=torch.float64)
        self._features: dict[Context, Tensor] = {}
        self._kept = 0  # how many of the first ones are never forgotten

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    def plain(self) -> bool:
        return type(self) is MemoizedModel and getattr(self.source, "plain", False)

    def open_fixed(self, rows: int, columns: int) -> MemoizedFixedModel:
        """The same distributions with the interface of a model with a cache of fixed size. For ``plain`` models."""
        return MemoizedFixedModel(self, rows, columns)

    def __len__(self) -> int:
        """Number of distributions held."""
        return len(self._places)

    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel; one array for all rows with the same contexts."""
        return self._gather_distributions([self._list_contexts(row, tree, index) for index, row in enumerate(rows)])

    def _gather_distributions(self, contexts_by_row: list[list[Context]]) -> Tensor:
        """(B, N, V): the distributions after the contexts of each row; entries beyond a row's own contexts are unspecified."""
        fresh = {ids for contexts in contexts_by_row for ids in contexts if ids not in self._places}
        if len(self._places) + len(fresh) > self.capacity and len(self._places) > self._kept:
            self.forget(self.source)
            fresh = {ids for contexts in contexts_by_row for ids in contexts if ids not in self._places}
        if fresh:
            self._learn(sorted(fresh, key=lambda ids: (len(ids), ids)))
        if contexts_by_row.count(contexts_by_row[0]) == len(contexts_by_row):
            return self._copy_distributions([self._places[ids] for ids in contexts_by_row[0]]).expand(
                len(contexts_by_row), -1, -1
            )
        width = max(map(len, contexts_by_row))
        places = [[self._places[ids] for ids in contexts] + [0] * (width - len(contexts)) for contexts in contexts_by_row]
        return self._copy_distributions([place for row in places for place in row]).view(len(contexts_by_row), width, -1)

    def _copy_distributions(self, places: list[int]) -> Tensor:
        """(n, V): copies, so that a caller cannot change the remembered distributions."""
        return self._table.index_select(0, torch.tensor(places, device=self._table.device))

    def compute_features(self, rows: Sequence[Prefix]) -> Tensor:
        """(B, width), as ``CachedModel.compute_features``."""
        fresh = [ids for ids in dict.fromkeys(row.ids for row in rows) if ids[:-1] not in self._features]
        for first in range(0, len(fresh), BATCH):
            some = fresh[first : first + BATCH]
            found = self.source.compute_features([Prefix(ids, 0, 1, number) for number, ids in enumerate(some)])
            self._features |= {ids[:-1]: one.clone() for ids, one in zip(some, found, strict=True)}
        return torch.stack([self._features[row.ids[:-1]] for row in rows])

    def keep(self, contexts: Sequence[Context]) -> None:
        """Compute the distributions after these texts now, in their order, and never forget them. Call it before any other method."""
        assert not self._places, "what is kept comes first"
        self._learn(list(contexts))
        self._kept = len(self._places)

    def forget(self, source: Any) -> None:
        """Forget all but what is kept, and ask ``source`` from now on. The next distributions take the place of those forgotten."""
        self.source, self._features = source, {}
        self._places = dict(islice(self._places.items(), self._kept))

    def compute_distributions_after(self, contexts: Sequence[Context]) -> Tensor:
        """(n, V) float64: the distribution after each text."""
        return self._gather_distributions([[self._cap_length(ids) for ids in contexts]])[0]

    def _list_contexts(self, row: Prefix, tree: DraftTree, index: int) -> list[Context]:
        """Token ids before each distribution that a row asks for: its prefix, then the prefix and the path to each node."""
        return [self._cap_length(ids) for ids in list_node_texts(row.ids, tree, index)]

    def _cap_length(self, ids: Context) -> Context:
        return () if self.longest is not None and len(ids) > self.longest else ids

    def _read(self, contexts: list[Context]) -> Tensor:
        """(n, V): their distributions, from one pass."""
        rows = [Prefix(ids, 0, 1, number) for number, ids in enumerate(contexts)]
        return self.source.compute_distributions(rows, build_empty_tree(len(rows)))[:, 0]

    def _learn(self, fresh: list[Context]) -> None:
        begin = len(self._places)
        self._grow(begin, begin + len(fresh))
        known = [ids for ids in fresh if ids]
        for first in range(0, len(known), BATCH):
            some = known[first : first + BATCH]
            distributions = self._read(some)
            self._table = self._table.to(distributions.device)
            self._table[begin + first : begin + first + len(some)] = distributions
        self._places |= {ids: begin + number for number, ids in enumerate(known)}
        if len(known) < len(fresh):
            place = self._places[()] = begin + len(known)
            self._table[place] = 0.0
            self._table[place, 0] = 1.0

    def _grow(self, used: int, needed: int) -> None:
        """Make space for ``needed`` distributions. The table doubles each time, up to its capacity."""
        if needed > len(self._table):
            longer = self._table.new_empty(max(needed, min(2 * len(self._table), self.capacity)), self.vocabulary)
            longer[:used] = self._table[:used]
            self._table = longer


class MemoizedFixedModel:
    """Remembered distributions for a round of fixed shapes (decoding/device/round.py): texts take the place of keys and values.

    The distributions are looked up on the host, so such a round is not faster. It shows what the round decides.
    """

    def __init__(self, model: MemoizedModel, rows: int, columns: int):
        self.model, self.vocabulary, self.device = model, model.vocabulary, model.device
        self._ids = torch.zeros(rows, columns, dtype=torch.int64)

    def read(self, row: int, ids: Sequence[int]) -> None:
        self._ids[row, : len(ids)] = torch.tensor(ids)

    def copy(self, source: int, row: int) -> None:
        self._ids[row] = self._ids[source]

    def compute_probs(self, tokens: Tensor, begin: Tensor, fed: PassTokens) -> tuple[Tensor, Tensor]:
        """(B, T, V) and (B, T), as models.cache.fixed.FixedModel gives them."""
        self._ids.scatter_(1, begin.cpu()[:, None] + fed.columns.cpu(), tokens.cpu())
        own = [line.nonzero()[:, 0].tolist() for line in fed.seen.cpu()]
        contexts = []
        for ids, first in zip(self._ids.tolist(), begin.tolist(), strict=True):
            contexts += [(*ids[:first], *(ids[first + column] for column in columns)) for columns in own]
        found = self.model.compute_distributions_after(contexts).to(self.device).view(len(tokens), len(own), -1)
        return found, found[..., 0]

    def move(self, sources: Tensor, columns: Tensor) -> None:
        self._ids.scatter_(1, columns.cpu(), self._ids.gather(1, sources.cpu()))


class MemoizedHeadDraft(MemoizedModel):
    """As MemoizedModel, for a draft head: its distributions depend on which tokens of a text are draft tokens.

    A context is a prefix and a path below it, (ids, path).
    """

    def _list_contexts(self, row: Prefix, tree: DraftTree, index: int) -> list[Context]:
        found = [(row.ids, path) for path in list_node_texts((), tree, index)]
        return [() if self.longest is not None and len(ids) + len(path) > self.longest else (ids, path) for ids, path in found]

    def _read(self, contexts: list[Context]) -> Tensor:
        rows = [Prefix(ids, 0, len(path) + 1, number) for number, (ids, path) in enumerate(contexts)]
        paths = [path for _, path in contexts]
        chains = build_token_tree(paths, [tuple(range(-1, len(path) - 1)) for path in paths])
        return self.source.compute_distributions(rows, chains)[
            torch.arange(len(rows)), torch.tensor([len(path) for path in paths])
        ]


class MemoizedPair:
    """A pair whose models remember their distributions, for many samples of one prompt. Everything else is the pair's own.

    Requests with the same prompt, sampling settings, exit layer and draft head share one memory. Not thread-safe.
    """

    def __init__(self, pair: LoadedPair, longest: int | None = None):
        self._pair, self._longest = pair, longest
        self._opened: dict[tuple, tuple[MemoizedModel, ...]] = {}
        self._kept: Settings | None = None  # the request whose distributions are partly kept

    def open(self, settings: Settings) -> tuple[MemoizedModel, MemoizedModel]:
        """Target and draft, each with its memory."""
        return self._open_once(settings, lambda: self._memoize_each(self._pair.open(settings)))

    def open_layered(self, settings: Settings) -> tuple[MemoizedModel, MemoizedModel]:
        """The same target, and its early exit as the draft."""
        (lower,) = self._open_once(
            settings, lambda: self._memoize_each(self._pair.open_layered(settings)[1:]), settings.early_exit, settings.exit_layer
        )
        return self.open(settings)[0], lower

    def open_head(self, head: DraftHead, target: MemoizedModel, settings: Settings) -> MemoizedHeadDraft:
        """A draft head over a target of this pair, with its memory."""
        return self._open_once(settings, lambda: self._open_memoized_head(head, settings), head)[0]

    def _open_memoized_head(self, head: DraftHead, settings: Settings) -> tuple[MemoizedHeadDraft]:
        """The head over the pair's own target, whose states come in batches."""
        made = self._pair.open_head(head, self._pair.open(settings)[0], settings)
        return (MemoizedHeadDraft(made, self._longest),)

    def _memoize_each(self, models: Sequence[Any]) -> tuple[MemoizedModel, ...]:
        return tuple(MemoizedModel(model, self._longest) for model in models)

    def _open_once(self, settings: Settings, make: Callable[[], tuple], *key_parts: object) -> tuple:
        key = settings.prompt, settings.temperature, settings.top_k, settings.top_p, settings.min_p, settings.warpers, *key_parts
        if key not in self._opened:
            self._opened[key] = make()
        return self._opened[key]

    def keep(self, settings: Settings, contexts: Sequence[Context]) -> None:
        """Let target and draft of a request compute the distributions after these texts now and never forget them. For one request."""
        assert self._kept is None and not self._opened, "what is kept comes first"
        self._kept = settings
        for model in self.open(settings):
            model.keep(contexts)

    def forget(self) -> None:
        """Begin anew with what is kept. The caches are emptied too: in float32 a distribution depends a little on what they hold."""
        kept = self.open(self._kept) if self._kept else ()
        self._opened.clear()
        if self._kept:
            for model, source in zip(kept, self._pair.open(self._kept), strict=True):
                model.forget(source)
            self._open_once(self._kept, lambda: kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pair, name)
