"""A target and a draft with tokenizers of their own: the draft proposes only tokens that both have.

Token-level intersection (Timor et al. 2025). The draft reads the text in its own ids. Its logits are restricted to the shared
tokens, warped, and put at the target's ids. That is q, and draft tokens are drawn from it, so the rule's proof holds as for any
other draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.pairs.pair import LoadedPair
from specviz.models.pairs.token_map import Ids, TokenMap
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import ROOT, DraftTree, build_empty_tree, build_token_tree, list_node_texts
from specviz.verification.warp import warp


@dataclass(frozen=True, slots=True)
class MappedPair(LoadedPair):
    """Two models whose tokenizers differ. Texts, records and rules use the target's ids."""

    draft_tokenizer: PreTrainedTokenizerBase  # the draft's own
    tokens: TokenMap  # what both have, and how the draft reads a text

    @property
    def vocabulary(self) -> int:
        """The target's: nothing else can be written."""
        return self.target.config.get_text_config().vocab_size

    def open_draft(self, settings: Settings) -> MappedDraft:
        """The draft on the target's ids, with a fresh cache, for one request."""
        return MappedDraft(SteppingModel(self.draft, settings), self.tokens, settings, self.vocabulary)

    def _describe_context(self, settings: Settings) -> list[str]:
        return []  # of a longer text the draft reads the end

    def describe(self) -> dict[str, Any]:
        """As a LoadedPair's, and how many tokens the two share."""
        found = LoadedPair.describe(self)
        return found | {"draft": found["draft"] | {"tokens": self.tokens.to_record()}}


class LogitsSource(Protocol):
    """A network opened for one request that reads and writes the draft's own ids, as models/cache/decoder.py."""

    context: int | None

    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor: ...


class MappedDraft:
    """The draft's distributions, restricted to the shared tokens and put at the target's ids.

    ``source`` reads the draft's own ids; temperature and cuts of the settings are applied to the restricted logits. Where no
    shared token is possible a row is all zero, and nothing is drafted there. Of a text that exceeds the draft's context it reads
    the end.
    """

    context: int | None = None

    def __init__(self, source: LogitsSource, tokens: TokenMap, settings: Settings, vocabulary: int):
        self.source, self.tokens, self.settings, self.vocabulary = source, tokens, settings, vocabulary
        self._mass, self._places = 0.0, 0

    @property
    def draftable(self) -> float | None:
        """Mean mass of the shared tokens in the draft's distributions so far, before cuts, in [0, 1]; None before the first."""
        return float(self._mass) / self._places if self._places else None

    @torch.inference_mode()
    def compute_distributions(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        """(B, N + 1, V) float64, as in models.base.LanguageModel; rows of zeros where no shared token is possible."""
        read = [[self._read(ids) for ids in list_node_texts(row.ids, tree, index)] for index, row in enumerate(rows)]
        logits = self._compute_logits(rows, read, tree.widest + 1)
        shared = logits.index_select(-1, self.tokens.draft_ids.to(logits.device))
        silent = shared.amax(-1) == -torch.inf
        self._note(logits, shared, silent, list(map(len, read)))
        if some_silent := bool(silent.any()):
            shared = shared.masked_fill(silent[..., None], 0.0)
        probs = warp(shared, self.settings)
        found = probs.new_zeros(*probs.shape[:-1], self.vocabulary)
        found.index_copy_(-1, self.tokens.target_ids.to(probs.device), probs)
        return found.masked_fill_(silent[..., None].to(probs.device), 0.0) if some_silent else found

    def _read(self, ids: Ids) -> Ids:
        return keep_last(self.tokens.read(ids), self.source.context)

    def _compute_logits(self, rows: Sequence[Prefix], read: list[list[Ids]], width: int) -> Tensor:
        """(B, N + 1, v): after each text. The texts of a row become a tree below what they have in common."""
        trees = [_merge_texts(line) for line in read]
        if not all(shared for shared, *_ in trees):  # texts of one row without a common beginning
            alone = [Prefix(ids, 0, 1, number) for number, ids in enumerate(ids for line in read for ids in line)]
            flat = iter(self.source.compute_logits(alone, build_empty_tree(len(alone)))[:, 0])
            lines = [[next(flat) for _ in line] for line in read]
            return torch.stack([torch.stack(line + line[:1] * (width - len(line))) for line in lines])
        own = [Prefix(shared, row.start, row.remaining, row.draw) for row, (shared, *_) in zip(rows, trees, strict=True)]
        _, tokens, parents, places = zip(*trees, strict=True)
        if not any(tokens):
            return self.source.compute_logits(own, build_empty_tree(len(rows)))[:, [0] * width]
        logits = self.source.compute_logits(own, build_token_tree(tokens, parents))
        wanted = torch.tensor([line + [0] * (width - len(line)) for line in places], device=logits.device)
        return logits.gather(1, wanted[..., None].expand(-1, -1, logits.shape[-1]))

    def _note(self, logits: Tensor, shared: Tensor, silent: Tensor, counts: list[int]) -> None:
        """Add the shared tokens' mass at the requested places."""
        temperature = self.settings.temperature
        if temperature == 0.0:
            masses = (shared.amax(-1) == logits.amax(-1)).float()
        else:
            whole, part = ((one.float() / temperature).logsumexp(-1) for one in (logits, shared))
            masses = (part - whole).exp()
        masses = masses.masked_fill(silent, 0.0)
        asked = torch.arange(masses.shape[1], device=masses.device) < torch.tensor(counts, device=masses.device)[:, None]
        self._mass = self._mass + masses.where(asked, 0.0).sum()
        self._places += sum(counts)


def keep_last(ids: Ids, context: int | None) -> Ids:
    """The last ids, as many as a context holds. Their begin moves in steps of a quarter, because after a step all are read again."""
    if context is None or len(ids) <= context:
        return ids
    step = max(1, context // 4)
    return ids[-(-(len(ids) - context) // step) * step :] or ids[-1:]


def find_draftable_share(draft: object) -> float | None:
    """``MappedDraft.draftable`` of a proposer's draft; None for any other draft."""
    source = getattr(draft, "source", None) if not isinstance(draft, MappedDraft) else draft
    return source.draftable if isinstance(source, MappedDraft) else None


def add_draftable_share(description: dict[str, Any], share: float | None) -> dict[str, Any]:
    """A pair's description with the mass that could be drafted in a run, in [0, 1]; as it is where there is none."""
    if share is None:
        return description
    draft = description["draft"]
    return description | {"draft": draft | {"tokens": draft["tokens"] | {"draftable": share}}}


def _merge_texts(line: list[Ids]) -> tuple[Ids, Ids, Ids, list[int]]:
    """Merge texts into a tree: their common beginning, tokens and parents of its nodes, and each text's place (1 + its node, or 0)."""
    if len(line) == 1:
        return line[0], (), (), [0]
    least, most = min(line), max(line)
    shared = next((at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b), min(len(least), len(most)))
    tokens: list[int] = []
    parents: list[int] = []
    nodes: dict[tuple[int, int], int] = {}
    places = []
    for ids in line:
        node = ROOT
        for token in ids[shared:]:
            if (node, token) not in nodes:
                nodes[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
            node = nodes[node, token]
        places.append(node + 1)
    return line[0][:shared], tuple(tokens), tuple(parents), places
