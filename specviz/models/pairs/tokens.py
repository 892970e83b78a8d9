"""Tokens as bytes. Every id stands for a sequence of bytes, which need not be a whole character."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from transformers import ByT5Tokenizer, PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

_BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}
_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")


def read_token_bytes(tokenizer: PreTrainedTokenizerBase, token: int) -> bytes:
    """The bytes of one token id. A special token gives its name; an id beyond the tokenizer gives nothing.

    Reads byte-level BPE (GPT-2, Llama 3, Qwen), SentencePiece (T5; with byte fallback Llama 2, Mistral, Gemma) and bytes (ByT5).
    """
    text = tokenizer.convert_ids_to_tokens(token) if token < len(tokenizer) else None
    if text is None:
        return b""
    return text.encode() if token in tokenizer.all_special_ids else _spell_token(text, tokenizer, _stores_text(tokenizer))


def read_vocabulary_bytes(tokenizer: PreTrainedTokenizerBase) -> dict[int, bytes]:
    """Id -> bytes, for every token that stands for text, in the order of ids. Special tokens and empty ones are left out."""
    special, stored_as_text = list_special_ids(tokenizer), _stores_text(tokenizer)
    texts = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    found = {
        token: _spell_token(text, tokenizer, stored_as_text)
        for token, text in enumerate(texts)
        if text is not None and token not in special
    }
    return {token: raw for token, raw in found.items() if raw}


def list_special_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Ids that stand for no text: those with a role (start, end, padding), and added tokens that are marked as special."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {token for token, entry in added.items() if entry.special}


def is_byte(tokenizer: PreTrainedTokenizerBase, token: int) -> bool:
    """Whether an id is a byte that SentencePiece falls back to, such as <0x41>."""
    return bool(_FALLBACK.fullmatch(tokenizer.convert_ids_to_tokens(token) or ""))


def _spell_token(text: str, tokenizer: PreTrainedTokenizerBase, stored_as_text: bool) -> bytes:
    """The bytes of a token that is not special, from its entry in the vocabulary."""
    if isinstance(tokenizer, ByT5Tokenizer):  # its tokens are the bytes themselves
        return text.encode("latin-1")
    if match := _FALLBACK.fullmatch(text):
        return bytes([int(match[1], 16)])
    if not stored_as_text and all(character in _BYTE_OF for character in text):
        return bytes(_BYTE_OF[character] for character in text)
    return text.replace("\u2581", " ").encode()


def _stores_text(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens are stored as text. If so, an accented e is a letter, not the name of a byte."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return backend is not None and "ByteLevel" not in str(backend.decoder)


def format_token_bytes(tokenizer: PreTrainedTokenizerBase, ids: Iterable[int]) -> dict[int, str]:
    """Id -> bytes as hex, for each distinct id."""
    return {token: read_token_bytes(tokenizer, token).hex() for token in sorted(set(ids))}


def describe_difference(tokenizer: PreTrainedTokenizerBase, other_tokenizer: PreTrainedTokenizerBase) -> str | None:
    """How two tokenizers differ, as part of a sentence; None if they are the same.

    Compared: vocabulary, merges and other parts of the tokenizer proper, special tokens.
    """
    if tokenizer is other_tokenizer:
        return None
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        mine, others = tokenizer.get_vocab(), other_tokenizer.get_vocab()
        if len(mine) != len(others):
            return f"their vocabularies have {len(mine)} and {len(others)} entries"
        apart = sum(others.get(text) != index for text, index in mine.items())
        return f"{apart} of {len(mine)} vocabulary entries differ"
    if tokenizer.special_tokens_map != other_tokenizer.special_tokens_map:
        return f"their special tokens differ ({tokenizer.special_tokens_map} and {other_tokenizer.special_tokens_map})"
    sample = "The quick brown fox, 1234!\n  naïve Ωmega 漢字 \U0001f469\u200d\U0001f680 it's don't"
    if _read_rules(tokenizer) != _read_rules(other_tokenizer) or tokenizer.encode(sample) != other_tokenizer.encode(sample):
        return "they split the same text differently (other merges or pre-processing)"
    return None


def _read_rules(tokenizer: PreTrainedTokenizerBase) -> object:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return type(tokenizer).__name__
    record = json.loads(backend.to_str())
    return {key: record.get(key) for key in ("normalizer", "pre_tokenizer", "model")}
