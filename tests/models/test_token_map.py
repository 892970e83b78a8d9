"""Timor et al. 2025, token-level intersection: the draft may propose what both vocabularies have. Two tokens are one if they stand
for the same bytes, and a text reads the same in the ids of both. Checklist R30: no start token comes twice."""

from __future__ import annotations

import random
from copy import copy
from functools import cache
from itertools import pairwise

import pytest

from specviz.models.pairs.token_map import Side, build_token_map
from specviz.models.pairs.tokens import is_byte, list_special_ids, read_token_bytes, read_vocabulary_bytes
from tests.helpers.foreign_pairs import OTHER, build_word_pieces, train_byte_level
from tests.helpers.tiny_pairs import TEXT
from tests.models.test_tokens import TEXTS

TEXTS = [*TEXTS[:-1], TEXT[0], OTHER[0]]


def build_side(tokenizer) -> Side:
    return Side(tokenizer, len(tokenizer), frozenset({tokenizer.eos_token_id}), tokenizer.bos_token_id)


TARGET, OTHER_END, WITH_START, WORDS = (
    train_byte_level(TEXT, 330),
    train_byte_level(OTHER, 300, end="</s>"),
    train_byte_level(OTHER, 300, end="</s>", begin="<s>"),
    build_word_pieces(),
)
SIDES = {"other merges": OTHER_END, "a start token": WITH_START, "SentencePiece": WORDS}


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("forward", (True, False), ids=("as draft", "as target"))
def test_shared_tokens_stand_for_the_same_bytes_and_neither_side_has_one_twice(name, forward):
    one, other = (TARGET, SIDES[name]) if forward else (SIDES[name], TARGET)
    found = build_token_map(build_side(one), build_side(other))
    ours, theirs = found.target_ids.tolist(), found.draft_ids.tolist()
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a not in list_special_ids(one)]
    assert len(pairs) > 200 and all(read_token_bytes(one, a) == read_token_bytes(other, b) for a, b in pairs)
    assert len(set(ours)) == len(ours) == len(set(theirs)) == len(found) <= min(found.of_target, found.of_draft)
    both = set(read_vocabulary_bytes(one).values()) & set(read_vocabulary_bytes(other).values())
    assert {read_token_bytes(one, a) for a, _ in pairs} == both, "every token that both have"
    assert ours == sorted(ours)


def test_an_end_of_text_is_one_under_any_name_and_a_name_is_none_where_only_one_of_the_two_ends_a_text():
    found = build_token_map(build_side(TARGET), build_side(OTHER_END))
    assert (TARGET.eos_token_id, OTHER_END.eos_token_id) in set(
        zip(*(x.tolist() for x in (found.target_ids, found.draft_ids)), strict=True)
    )
    same_name = train_byte_level(OTHER, 300)
    goes_on = Side(same_name, len(same_name), frozenset(), same_name.bos_token_id)
    assert same_name.eos_token_id not in build_token_map(build_side(TARGET), goes_on).draft_ids.tolist()


def test_of_two_ids_for_the_same_bytes_the_one_that_is_no_fallback_is_shared():
    found = build_token_map(build_side(TARGET), build_side(WORDS))
    shared = dict(zip(found.target_ids.tolist(), found.draft_ids.tolist(), strict=True))
    letter, line = (TARGET.encode(text)[0] for text in ("a", "\n"))
    assert not is_byte(WORDS, shared[letter]) and is_byte(WORDS, shared[line])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", SIDES)
def test_the_draft_reads_the_same_bytes(name, text):
    tokenizer = SIDES[name]
    read = build_token_map(build_side(TARGET), build_side(tokenizer)).read(tuple(TARGET.encode(text)))
    assert (
        b"".join(read_token_bytes(tokenizer, token) for token in read if token not in list_special_ids(tokenizer))
        == text.encode()
    )


@pytest.mark.parametrize("text", TEXTS)
def test_a_sentencepiece_target_is_read_with_the_space_that_it_begins_with(text):
    read = build_token_map(build_side(WORDS), build_side(OTHER_END)).read(tuple(WORDS.encode(text)))
    assert b"".join(read_token_bytes(OTHER_END, token) for token in read[1:]) == b" " + text.encode()


@pytest.mark.parametrize("ids", ((), (TARGET.bos_token_id,)), ids=("no start token", "a start token"))
def test_a_start_token_comes_once_and_only_at_the_beginning(ids):
    """R30: the draft begins a text as its own tokenizer does, whether or not the target's ids begin with a start token."""
    text = tuple(TARGET.encode("the sun"))
    begin = WITH_START.bos_token_id
    read = build_token_map(build_side(TARGET), build_side(WITH_START)).read((*ids, *text))
    assert read[0] == begin and read.count(begin) == 1
    plain = build_token_map(build_side(TARGET), build_side(OTHER_END)).read((*ids, *text))
    assert plain.count(OTHER_END.bos_token_id) == len(ids), "a draft whose tokenizer adds none reads one only for the target's"


def test_an_empty_text_is_read_as_the_drafts_start_token():
    for tokenizer in SIDES.values():
        found = build_token_map(build_side(TARGET), build_side(tokenizer))
        assert found.read(()) == found.read((TARGET.bos_token_id,)) == (tokenizer.bos_token_id,)


def test_special_tokens_that_the_draft_lacks_are_left_out_and_never_read_as_text():
    target = train_byte_level(TEXT, 330)
    target.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    turn, words = target.convert_tokens_to_ids("<turn>"), tuple(target.encode("the river"))
    read = build_token_map(build_side(target), build_side(OTHER_END)).read
    assert read((turn, *words)) == read(words)


def test_neighbors_that_the_draft_lacks_are_joined_before_its_tokenizer_splits_them():
    found = build_token_map(build_side(TARGET), build_side(OTHER_END))
    ids, shared = tuple(TARGET.encode(TEXT[0])), set(found.target_ids.tolist())
    first, second = next(pair for pair in pairwise(ids) if not shared & set(pair))
    joined = (read_token_bytes(TARGET, first) + read_token_bytes(TARGET, second)).decode()
    assert found.read((first, second)) == tuple(OTHER_END.encode(joined))
    assert len(found.read((first,)) + found.read((second,))) >= len(found.read((first, second)))


@pytest.mark.parametrize("name", SIDES)
def test_a_text_is_read_alike_whatever_was_read_before(name):
    """The reading of a text that goes on is kept: beginnings, continuations and other texts come in any order."""
    dice, read = random.Random(name), build_token_map(build_side(TARGET), build_side(SIDES[name])).read
    ids = [(*((TARGET.bos_token_id,) if start else ()), *TARGET.encode(text)) for text in TEXTS for start in (0, 1)]
    for _ in range(300):
        text = dice.choice(ids)
        some = text[: dice.randrange(len(text) + 1)]
        assert read(some) == open_token_map(name)(some)


@cache
def _build_reader(name: str):
    return build_token_map(build_side(TARGET), build_side(SIDES[name])).read


def open_token_map(name: str):
    """A reader that has read nothing before."""
    reader = copy(_build_reader(name))
    reader.last = ((), reader.opening, b"")
    return reader
