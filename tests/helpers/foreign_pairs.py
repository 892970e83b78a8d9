"""Tiny pairs whose models have tokenizers of their own: byte-level BPE of other sizes and texts, and a table read through a map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from specviz.models.pairs.mapped import MappedDraft
from specviz.models.pairs.token_map import TokenMap
from specviz.models.table import TableModel
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.training.corpus import END_OF_TEXT, save_tokenizer, train_tokenizer
from specviz.verification.draft_tree import DraftTree
from tests.helpers.tiny_pairs import TEXT, build_tiny_model

OTHER = [
    "The children ran down to the brook to sail their boats. It was a warm summer day, and the sun was shining on the river.\n"
]


def write_foreign_pair(folder: Path, context: int = 128) -> tuple[Path, Path]:
    """Folders of a target and a draft with tokenizers of their own; either has tokens that the other lacks. context: the draft's."""
    for name, text, size, layers, seed in (("target", TEXT, 330, 2, 0), ("draft", OTHER, 300, 1, 1)):
        tokenizer = train_tokenizer(text, size)
        model = build_tiny_model(tokenizer.get_vocab_size(), layers, seed, 128 if name == "target" else context, spread=0.1)
        model.save_pretrained(folder / name)
        save_tokenizer(tokenizer, folder / name)
    return folder / "target", folder / "draft"


def train_byte_level(text: list[str], size: int, end: str = END_OF_TEXT, begin: str | None = None) -> PreTrainedTokenizerBase:
    """A byte-level tokenizer whose end-of-text token has this name; with ``begin`` it puts a token of that name before every text."""
    made = train_tokenizer(text, size)
    record = made.to_str().replace(END_OF_TEXT, end)
    made = Tokenizer.from_str(record)
    if begin is not None:
        made.add_special_tokens([begin])
        number = made.token_to_id(begin)
        made.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, number)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=begin or end, eos_token=end)


def build_word_pieces() -> PreTrainedTokenizerBase:
    """A SentencePiece tokenizer as Llama 2 has it: spaces are part of tokens, one is put before a text, other bytes fall back."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    for piece in ("\u2581", "a", "b", "e", "r", "i", "t", "\u2581a", "ab", "\u2581the", "\u2581r", "it", "abb"):
        vocabulary[piece] = len(vocabulary)
    merges = [("\u2581", "a"), ("a", "b"), ("\u2581", "r"), ("i", "t"), ("ab", "b")]
    made = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(["<s>", "</s>"])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


class TableLogits:
    """A table in the draft's own ids, as logits: what MappedDraft asks of a network."""

    context = None

    def __init__(self, table, vocabulary: int):
        self.model = TableModel(table, vocabulary)

    def compute_logits(self, rows: Sequence[Prefix], tree: DraftTree) -> Tensor:
        return self.model.compute_distributions(rows, tree).log()


SHARED = {0: 3, 2: 0}  # token of a target with three -> token of a draft with four
UNSHARED = (1, 2)  # how the draft spells the target's token 1


def spell(ids: tuple[int, ...]) -> tuple[int, ...]:
    """A target's text in the draft's ids: its tokens one by one, token 1 as two of the draft's."""
    return tuple(one for token in ids for one in ((SHARED[token],) if token in SHARED else UNSHARED))


def build_mapped_table(table, settings: Settings | None = None) -> MappedDraft:
    """A draft of four tokens, given as a table in its own ids, for a target of three."""
    ids = (torch.tensor(side) for side in zip(*SHARED.items(), strict=True))
    return MappedDraft(TableLogits(table, 4), TokenMap(*ids, spell, 3, 4), settings or Settings(), 3)
