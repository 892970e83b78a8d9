"""Turn one text file into a stream of token ids: a tokenizer is trained, works are split, shuffled and packed.

The file holds one paragraph per line; every work ends with a line ``<|endoftext|>``. A ``.xz`` file is decompressed.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specviz.errors import TrainingError

END_OF_TEXT = "<|endoftext|>"


def read_works(path: Path) -> list[str]:
    """The works of a corpus file, in file order, each without its end mark.

    Raises TrainingError if the file is missing, is not UTF-8 or holds no work.
    """
    if not path.is_file():
        raise TrainingError(
            f"There is no corpus at '{path}'. Training reads one text file: one paragraph per line, each work closed by a line "
            f"{END_OF_TEXT}. The shipped pair was trained on the children's books in MANIFEST.csv beside its model card, "
            "listed by Project Gutenberg number."
        )
    try:
        raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        text = raw.decode("utf-8")
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise TrainingError(f"'{path}' is not readable as UTF-8 text: {error}.") from error
    works = [work.strip("\n") for work in text.split(END_OF_TEXT)]
    works = [work for work in works if work]
    if not works:
        raise TrainingError(f"'{path}' holds no text. It must hold one paragraph per line, each work closed by {END_OF_TEXT}.")
    return works


def encode_works(works: list[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """Token ids of each work, closed by the end-of-text id, as uint16."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    return [np.array([*e.ids, end], dtype=np.uint16) for e in tokenizer.encode_batch(works)]


def order_epoch(works: list[np.ndarray], seed: int, epoch: int) -> np.ndarray:
    """All works once, in an order drawn from (seed, epoch). A pure function, so that a resumed run continues exactly."""
    order = np.random.Generator(np.random.Philox(key=seed, counter=epoch)).permutation(len(works))
    return np.concatenate([works[i] for i in order])


class Batches:
    """Batches as a pure function of their number: shuffled windows of ``context + 1`` ids, epoch after epoch."""

    def __init__(self, works: list[np.ndarray], rows: int, context: int, seed: int):
        self.works, self.rows, self.context, self.seed = works, rows, context, seed
        total = sum(len(w) for w in works)
        self.per_epoch = (total - 1) // context // rows
        if self.per_epoch < 1:
            raise TrainingError(f"The corpus has {total} tokens; one batch needs {rows * context + 1}.")
        self._epoch, self._windows = -1, np.empty(0)

    def __getitem__(self, n: int) -> np.ndarray:
        """(rows, context + 1) int64 ids of batch n."""
        epoch, index = divmod(n, self.per_epoch)
        if epoch != self._epoch:
            self._stream = order_epoch(self.works, self.seed, epoch)
            starts = np.arange((len(self._stream) - 1) // self.context) * self.context
            self._starts = np.random.Generator(np.random.Philox(key=self.seed + 1, counter=epoch)).permutation(starts)
            self._epoch = epoch
        chosen = self._starts[index * self.rows : (index + 1) * self.rows]
        return np.stack([self._stream[s : s + self.context + 1] for s in chosen]).astype(np.int64)


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
