"""Hashes of the weights and the tokenizer in memory, independent of where they were loaded from."""

from __future__ import annotations

import hashlib

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair


def hash_weights(model: PreTrainedModel) -> str:
    """SHA-256 over the names, dtypes, shapes and bytes of all parameters, in order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.named_parameters()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy())  # read in place
    return digest.hexdigest()


def hash_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 over the vocabulary, each token with its id."""
    digest = hashlib.sha256()
    for token, number in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1]):
        digest.update(f"{number} {token}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def hash_pair(pair: LoadedPair) -> dict[str, str]:
    """Hashes that tell whether another machine has the same models."""
    found = {
        "target_sha256": hash_weights(pair.target),
        "draft_sha256": hash_weights(pair.draft),
        "tokenizer_sha256": hash_tokenizer(pair.tokenizer),
    }
    if isinstance(pair, MappedPair):
        found["draft_tokenizer_sha256"] = hash_tokenizer(pair.draft_tokenizer)
    return found
