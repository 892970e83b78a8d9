"""Every token is a sequence of bytes. Joined, they are the text, even where tokens split characters."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from specviz.models.pairs.tokens import format_token_bytes, read_token_bytes

TEXTS = ["Hello, world!\n", "Καλημέρα", "漢字かな", "\U0001f469\u200d\U0001f680 up", "naïve  café\t", "<|endoftext|>x"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_a_texts_tokens_joined_are_the_text(pair, text):
    ids = pair.encode(text)
    assert b"".join(read_token_bytes(pair.tokenizer, token) for token in ids) == text.encode()
    assert pair.decode(ids) == text


def test_a_character_cut_by_tokens_shows_its_bytes(pair):
    table = pair.read_pieces(pair.encode("漢"))
    assert len(pair.encode("漢")) == 3
    assert sorted(table.values()) == sorted(f"{byte:02x}" for byte in "漢".encode())


def test_sentencepiece_spaces_and_byte_fallback_are_bytes_too():
    vocabulary = {"<unk>": 0, "<0xE6>": 1, "\u2581the": 2, "s": 3}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocabulary, [], byte_fallback=True)), unk_token="<unk>"
    )
    tokenizer.backend_tokenizer.decoder = decoders.ByteFallback()
    assert format_token_bytes(tokenizer, [0, 1, 2, 3]) == {0: b"<unk>".hex(), 1: "e6", 2: b" the".hex(), 3: b"s".hex()}


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_that_are_bytes_give_their_byte(text):
    words = ByT5Tokenizer()
    ids = words.encode(text)
    assert b"".join(read_token_bytes(words, token) for token in ids) == text.encode() + b"</s>"


def test_ids_beyond_the_tokenizer_have_no_bytes(pair):
    assert read_token_bytes(pair.tokenizer, 10**6) == b""
