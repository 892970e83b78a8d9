"""A byte-level BPE tokenizer: every text can be tokenized, and every token is a sequence of bytes."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import END_OF_TEXT


def train_tokenizer(works: list[str], vocabulary: int = 4096) -> Tokenizer:
    """Train byte-level BPE (Sennrich et al. 2016, on bytes) with ``vocabulary`` entries; id 0 ends a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((line for work in works for line in work.splitlines(keepends=True)), trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json`` and its configuration for transformers. The end-of-text token also starts a text."""
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END_OF_TEXT, eos_token=END_OF_TEXT).save_pretrained(folder)
