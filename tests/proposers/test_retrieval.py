"""Draft tokens copied from a text: 'the tokens that followed the longest matching ending' (Saxena 2023, prompt lookup; He et al.
2024, REST). The suffix index is held against a plain search. Texts: every bad one is a sentence, and a link can name none but the
bundled ones.
"""

import random

import numpy as np
import pytest

from specviz.errors import SettingsError
from specviz.proposers import retrieval, source_texts
from specviz.proposers.copied import CopiedTokens, follow_own_text
from specviz.proposers.request import open_proposer
from specviz.proposers.retrieval import SHORTEST, TOKENS_MIN, SuffixIndex
from specviz.proposers.teaching import ReversedDraft, build_uniform_distribution, build_word_frequencies
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import LOOKUP_TOKENS, Settings
from specviz.verification.draft_tree import build_empty_tree
from tests.helpers.proposer_cases import TablePair
from tests.helpers.toy_tables import model, pair

# The text so far ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "copied"),
    (
        ((7, 8, 9, 7, 8), [9, 7, 8]),  # "7 8" stood before: what followed it
        ((1, 2, 3, 4, 9, 2, 3, 5, 2, 3), [5, 2, 3]),  # the latest of two places
        ((5, 1, 2, 6, 9, 1, 2, 5, 1, 2), [6, 9, 1]),  # a longer ending counts for more than a later place
        ((4, 4), [4, 4, 4]),  # a repeated token goes on repeating
        ((1, 2, 1, 2), [1, 2, 1]),
        ((1, 2, 3), []),
        ((1,), []),
    ),
)
def test_prompt_lookup_by_hand(ids, copied):
    assert follow_own_text(ids, 3) == copied


def common(ids: tuple[int, ...], end: int) -> int:
    """How many tokens before ``end`` are those that the text ends with, LOOKUP_TOKENS at most."""
    count = 0
    while count < min(LOOKUP_TOKENS, end) and ids[end - 1 - count] == ids[-1 - count]:
        count += 1
    return count


def test_prompt_lookup_finds_what_a_plain_search_finds():
    """300 random texts of three letters: what stands at the latest earlier place with the longest common ending."""
    dice = random.Random(0)
    for _ in range(300):
        ids = tuple(dice.randrange(3) for _ in range(dice.randrange(2, 30)))
        longest, place = max((common(ids, end), end) for end in range(1, len(ids)))
        assert follow_own_text(ids, 1) == ([ids[place]] if longest else [])


def test_a_copied_chain_is_certain_and_asks_for_no_number():
    rows = [Prefix((0, 1, 2, 0, 1), 2, 9), Prefix((0, 1, 2), 0, 9), Prefix((1, 1), 0, 3)]
    block = CopiedTokens("ngram", follow_own_text, 4, 3).propose(rows, randomness=None)
    assert block.tokens == ((2, 0, 1, 2), (), (1, 1)) and block.u_draft == ((None,) * 4, (), (None,) * 2)
    assert block.q[0].argmax(-1).tolist() == [2, 0, 1, 2] and block.q[0].sum(-1).tolist() == [1.0] * 4 and block.q[1] is None
    assert block.source == "ngram"


# A given text -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def index():
    dice = random.Random(1)
    return SuffixIndex([dice.randrange(4) for _ in range(400)])


def test_the_index_finds_every_place_of_every_phrase(index):
    text = index.tokens.tolist()
    for length in range(1, 7):
        for start in range(0, 400 - length, 7):
            phrase = text[start : start + length]
            assert sorted(index.find_places(phrase)) == [i for i in range(401 - length) if text[i : i + length] == phrase]
    assert len(index.find_places([9])) == len(index.find_places([0, 9])) == 0
    assert len(index.find_places(text)) == 1


def test_suffixes_stand_in_the_order_of_what_they_say(index):
    suffixes = [index.tokens[start:].tolist() for start in index.order]
    assert suffixes == sorted(suffixes) and sorted(index.order) == list(range(400))


@pytest.mark.parametrize("tokens", ([0] * 40, [0, 1] * 20, list(range(40)), [3] * 39 + [0]))
def test_texts_that_repeat_themselves_are_ordered_too(tokens):
    suffixes = [tokens[start:] for start in SuffixIndex(tokens).order]
    assert suffixes == sorted(suffixes)


def test_what_follows_is_the_commonest_next_token_after_the_longest_ending(index):
    """Against counting by hand, token by token, smallest id among equals."""
    text, dice = index.tokens.tolist(), random.Random(2)
    for _ in range(200):
        ids = [dice.randrange(4) for _ in range(dice.randrange(1, 12))]
        held = [n for n in range(SHORTEST, len(ids) + 1) if len(index.find_places(ids[-n:]))]
        expected, ending = [], ids[-max(held) :] if held else []
        while held and len(expected) < 3:
            after = [text[i + len(ending)] for i in index.find_places(ending) if i + len(ending) < 400]
            if not after:
                break
            expected.append(max(range(4), key=lambda x, after=after: (after.count(x), -x)))
            ending = [*ending, expected[-1]]
        assert index.follow(ids, 3) == expected


def test_nothing_is_drafted_where_the_text_ends_or_holds_no_two_tokens_of_the_ending():
    index = SuffixIndex(range(20))
    assert index.follow([17, 18, 19], 4) == [] and index.follow([3, 3], 4) == [] and index.follow([5], 4) == []
    assert index.follow([9, 16, 17], 4) == [18, 19]


# Texts by name --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(monkeypatch):
    """The known texts, and what a test adds to them."""
    monkeypatch.setattr(source_texts, "TEXTS", dict(source_texts.TEXTS))


def open_retrieval(name: str):
    return open_proposer(TablePair(0), Settings(proposer="retrieval", source_text=name))


def test_the_bundled_text_is_read_without_a_name(folder):
    block = open_retrieval("")[1].propose([Prefix((0, 1, 2, 0, 1), 0, 9)], PhiloxRandomness(0))
    assert len(block.tokens[0]) == 4 and block.source == "retrieval"


def test_an_index_is_made_once_for_each_tokenizer_and_text(folder, monkeypatch):
    made = []
    monkeypatch.setattr(retrieval, "SuffixIndex", lambda tokens, name: made.append(name) or SuffixIndex(tokens, name))
    one = TablePair(0)
    for _ in range(3):
        open_proposer(one, Settings(proposer="retrieval"))
    assert made == ["dorothy"]


def test_a_link_can_name_no_file(folder, tmp_path):
    """Only the command line admits a path; then it is known by that name."""
    path = tmp_path / "mine.txt"
    path.write_text("abc" * 40)
    settings, said = Settings.from_query({"proposer": "retrieval", "source_text": str(path)})
    assert said == []
    for proposer in ("retrieval", "unigram"):
        with pytest.raises(SettingsError, match="text must be one of dorothy, got "):
            open_proposer(TablePair(0), Settings.from_record(settings.to_record() | {"proposer": proposer}))
    assert source_texts.allow_path(str(path)) == str(path)
    assert open_retrieval(str(path))[1].propose([Prefix((1, 2), 0, 9)], PhiloxRandomness(0)).tokens[0]


@pytest.mark.parametrize(
    ("content", "said"),
    (
        (b"", "is empty; give a text with words in it"),
        (b" \n\t\n", "is empty; give a text with words in it"),
        (b"\xff\xfe\x00", "it is no UTF-8 text"),
        (b"x" * 2000, "a file of at most"),
    ),
)
def test_a_bad_text_is_a_sentence_before_it_is_admitted(folder, tmp_path, monkeypatch, content, said):
    monkeypatch.setattr(source_texts, "SIZE_MAX", 1000)
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=said):
        source_texts.allow_path(str(path))
    assert list(source_texts.TEXTS) == ["dorothy"]


@pytest.mark.parametrize("name", ("", "nowhere.txt", "/", "."))
def test_what_is_no_file_is_a_sentence(folder, name):
    with pytest.raises(SettingsError, match="It must be one of dorothy, or on the command line the path of a text file"):
        source_texts.allow_path(name)


def test_a_text_too_short_to_look_anything_up_in_is_a_sentence(folder, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("word")
    source_texts.allow_path(str(path))
    with pytest.raises(SettingsError, match=f"a text of at least {TOKENS_MIN} tokens .it has 4."):
        open_retrieval(str(path))


# Drafts that are there to be understood -------------------------------------------------------------------------------


def first_distribution(source):
    return source.compute_distributions([Prefix((0,), 0, 9)], build_empty_tree(1))[0, 0].tolist()


def test_unigram_counts_words_and_uniform_knows_none():
    assert first_distribution(build_word_frequencies(np.array([0, 0, 2, 0]), 4, Settings())) == pytest.approx([0.75, 0, 0.25, 0])
    assert first_distribution(build_word_frequencies(np.array([0, 0, 2, 0]), 4, Settings(temperature=0.0))) == [1, 0, 0, 0]
    assert first_distribution(build_word_frequencies(np.array([0, 0, 2, 0]), 4, Settings(temperature=0.5))) == pytest.approx(
        [0.9, 0, 0.1, 0]
    )
    assert first_distribution(build_uniform_distribution(3, 4, Settings())) == pytest.approx([1 / 3] * 3 + [0])
    assert first_distribution(build_uniform_distribution(3, 4, Settings(temperature=0.0))) == [1, 0, 0, 0]


def test_the_adversarial_draft_likes_best_what_the_draft_likes_least():
    """From the negated logits: probabilities in proportion to 1 / q; impossible tokens stay impossible."""
    draft = model(lambda ids: (0.5, 0.25, 0.25, 0.0), 4)
    assert first_distribution(ReversedDraft(draft, Settings())) == pytest.approx([0.2, 0.4, 0.4, 0.0])
    assert first_distribution(ReversedDraft(draft, Settings(temperature=0.0))) == [0, 1, 0, 0]
    table = pair("random", 3, 5, 1000)[1]
    assert (
        np.argsort(first_distribution(ReversedDraft(model(table, 5), Settings()))).tolist()
        == np.argsort([-float(x) for x in table((0,))]).tolist()
    )
