"""Which tokens two tokenizers share, and how a text in the target's ids reads in the draft's.

Timor et al. 2025, *Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies*,
token-level intersection: two tokens are one if they stand for the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from specviz.models.pairs.tokens import is_byte, list_special_ids, read_vocabulary_bytes

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TokenMap:
    """The shared tokens of a target and a draft, S of them."""

    # target_ids, draft_ids: (S,) int64: the two ids of each, in the order of the target's, so that ties are cut alike for p and q
    target_ids: Tensor
    draft_ids: Tensor
    read: Callable[[Ids], Ids]  # a text's ids in the target -> the ids that the draft reads for it, at least one; a pure function
    of_target: int  # of_target, of_draft: how many tokens each has
    of_draft: int

    def __len__(self) -> int:
        return len(self.target_ids)

    @property
    def share(self) -> float:
        """Part of the draft's tokens that the target has too, in [0, 1]. It is a count of tokens, not of probability."""
        return len(self) / self.of_draft if self.of_draft else 0.0

    def to_record(self) -> dict[str, int]:
        """JSON-ready: the three counts."""
        return {"shared": len(self), "of_target": self.of_target, "of_draft": self.of_draft}


class Side(NamedTuple):
    """One of the two models, as far as its tokens go."""

    tokenizer: PreTrainedTokenizerBase
    size: int  # number of ids that it predicts
    ends: frozenset[int] = frozenset()  # its end-of-sequence ids
    start: int | None = None  # the id that stands for an empty text

    @property
    def pieces(self) -> dict[int, bytes]:
        """Id -> bytes, for every id that the model predicts and that stands for text."""
        return {token: raw for token, raw in read_vocabulary_bytes(self.tokenizer).items() if token < self.size}


def build_token_map(target: Side, draft: Side) -> TokenMap:
    """The tokens that both sides have: equal bytes, and special tokens that mean the same.

    Special tokens are the same if they have one name and both or neither of them ends a text; end-of-sequence tokens are the same
    under any name. A tokenizer with several ids for the same bytes shares the first that is not a byte fallback.
    """
    pieces = target.pieces, draft.pieces
    ours, theirs = (_index_by_bytes(side.tokenizer, of_side) for side, of_side in zip((target, draft), pieces, strict=True))
    shared = {token: theirs[raw] for raw, token in ours.items() if raw in theirs} | _match_specials(target, draft)
    ids = sorted(shared)
    return TokenMap(
        torch.tensor(ids, dtype=torch.int64),
        torch.tensor([shared[token] for token in ids], dtype=torch.int64),
        TextReader(target, draft, *pieces, shared, theirs),
        *(len(of_side) + len(_list_specials(side)) for side, of_side in zip((target, draft), pieces, strict=True)),
    )


def _index_by_bytes(tokenizer: PreTrainedTokenizerBase, pieces: dict[int, bytes]) -> dict[bytes, int]:
    """Bytes -> the id that usually stands for them."""
    found: dict[bytes, int] = {}
    for token, raw in pieces.items():
        if raw not in found or (is_byte(tokenizer, found[raw]) and not is_byte(tokenizer, token)):
            found[raw] = token
    return found


def _match_specials(target: Side, draft: Side) -> dict[int, int]:
    """Special id of the target -> that of the draft, each at most once."""
    names = [_list_specials(side) for side in (target, draft)]
    same = {
        token: names[1][name]
        for name, token in names[0].items()
        if name in names[1] and (token in target.ends) == (names[1][name] in draft.ends)
    }
    if not target.ends & same.keys():
        ours, theirs = _find_end(target), _find_end(draft)
        if ours is not None and theirs is not None:
            same[ours] = theirs
    return same


def _list_specials(side: Side) -> dict[str, int]:
    """Name -> id."""
    return {side.tokenizer.convert_ids_to_tokens(t): t for t in list_special_ids(side.tokenizer) if t < side.size}


def _find_end(side: Side) -> int | None:
    """The end-of-sequence id that the tokenizer names, if it ends texts; else the smallest that does; None: there is none."""
    usual = side.tokenizer.eos_token_id
    return usual if usual in side.ends else min((token for token in side.ends if token < side.size), default=None)


class TextReader:
    """Reads a text's ids in the target as the draft's ids for the same text.

    A token that both have becomes its counterpart. A run of tokens that the draft lacks is joined to its bytes and encoded by the
    draft's tokenizer. Special tokens without a counterpart are left out. The text begins as the draft's tokenizer begins one; the
    target's start token stands for that. How well the draft reads a text affects the speed only.

    Args:
        target: The target's tokens.
        draft: The draft's tokens.
        ours: Bytes of each id of the target.
        theirs: Bytes of each id of the draft.
        shared: Id of the draft by id of the target, special ids included.
        by_bytes: Id of the draft by its bytes.
    """

    def __init__(
        self,
        target: Side,
        draft: Side,
        ours: dict[int, bytes],
        theirs: dict[int, bytes],
        shared: dict[int, int],
        by_bytes: dict[bytes, int],
    ):
        self.tokenizer, self.by_bytes, self.pieces = draft.tokenizer, by_bytes, theirs
        self.lacking = {token: raw for token, raw in ours.items() if raw not in by_bytes}
        self.counterpart = {token: by_bytes[raw] for token, raw in ours.items() if raw in by_bytes} | shared
        self.starts = {target.start, target.tokenizer.bos_token_id} - {None}
        self.opening = _find_opening(draft.tokenizer)
        self.start = draft.start if draft.start is not None else next(iter(by_bytes.values()), 0)
        self.longest = max(map(len, by_bytes), default=0)
        self.known: dict[bytes, Ids] = {}
        self.last: tuple[Ids, Ids, bytes] = ((), self.opening, b"")  # a text, what was read of it, and the run at its end

    def __call__(self, ids: Ids) -> Ids:
        text, read, run = self.last  # of a text that goes on, only the new tokens are read
        rest = ids[len(text) :]
        if ids[: len(text)] != text:
            read, run, rest = self.opening, b"", ids
        found = list(read)
        if len(rest) == len(ids) and ids and ids[0] in self.starts:
            found, rest = found or [self.start], ids[1:]
        for token in rest:
            if (mapped := self.counterpart.get(token)) is None:
                run += self.lacking.get(token, b"")
                continue
            if run:
                found += self._encode(run)
                run = b""
            found.append(mapped)
        self.last = ids, tuple(found), run
        return (*found, *self._encode(run)) or (self.start,)

    def _encode(self, run: bytes) -> Ids:
        """The draft's tokens for these bytes: as its tokenizer splits them, if it spells exactly these bytes; else greedily."""
        if run not in self.known:
            self.known[run] = next((ids for ids in self._splits(run) if self._spells(ids) == run), ()) or self._encode_greedily(
                run
            )
        return self.known[run]

    def _splits(self, run: bytes) -> list[Ids]:
        """The tokenizer's own ways to split a run. SentencePiece adds a space before a text, so one may have to be taken off."""
        try:
            text = run.decode()
        except UnicodeDecodeError:  # a character cut in two
            return []
        texts = [text, text[1:]] if text.startswith(" ") else [text]
        return [tuple(self.tokenizer.encode(one, add_special_tokens=False)) for one in texts if one]

    def _spells(self, ids: Ids) -> bytes | None:
        parts = [self.pieces.get(token) for token in ids]
        return None if None in parts else b"".join(part for part in parts if part)

    def _encode_greedily(self, run: bytes) -> Ids:
        """Longest tokens first; a byte that no token begins with is left out."""
        found, at = [], 0
        while at < len(run):
            sizes = range(min(self.longest, len(run) - at), 0, -1)
            size = next((size for size in sizes if run[at : at + size] in self.by_bytes), 0)
            found += [self.by_bytes[run[at : at + size]]] if size else []
            at += size or 1
        return tuple(found)


def _find_opening(tokenizer: PreTrainedTokenizerBase) -> Ids:
    """The special ids that a tokenizer puts before a text."""
    plain, whole = (tokenizer.encode("a", add_special_tokens=add) for add in (False, True))
    found = (tuple(whole[:at]) for at in range(len(whole)) if whole[at : at + len(plain)] == plain)
    return next(found, ()) if plain else ()
