"""The kind of word that a token belongs to: the start of a sentence, a name, a function word, the inside of a word, or another one.

Decided from the text alone by rules for English, without a model or a dictionary. A token stands for the word that it begins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from specviz.records import load_toml

_TABLES = load_toml("texts/word_kinds")
DESCRIPTIONS: dict[str, str] = _TABLES["descriptions"]
START, NAME, FUNCTION, INSIDE, OTHER, PUNCTUATION = KINDS = tuple(DESCRIPTIONS)
FUNCTIONS = frozenset(_TABLES["function_words"].split())
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_QUOTES = "\"'“”‘’«»([*_-—"
_ABBREVIATED = ("Mr", "Mrs", "Ms", "Dr", "St", "Prof")


def classify_tokens(before: bytes, raws: Sequence[bytes]) -> tuple[str, ...]:
    """One of KINDS for each token.

    Args:
        before: The text that the tokens continue.
        raws: Their bytes, empty for a token that is no text.
    """
    text, edges = _decode_tokens(before, raws)
    words = [match.span() for match in _WORD.finditer(text)]
    begins = [begin for begin, _ in words]
    found = []
    for raw, first, end in zip(raws, edges, edges[1:], strict=False):
        place = _find_first_letter(text, first, end)
        if not raw or place is None:
            found.append(INSIDE if raw and first == end else PUNCTUATION)  # bytes of a character that an earlier token began
            continue
        begin, stop = words[bisect_right(begins, place) - 1]
        found.append(INSIDE if begin < first else _classify_word(text, begin, text[begin:stop]))
    return tuple(found)


def _decode_tokens(before: bytes, raws: Sequence[bytes]) -> tuple[str, list[int]]:
    """The whole text, and the character at which each token begins; one that begins inside a character counts from the next."""
    text = (before + b"".join(raws)).decode("utf-8", "surrogateescape")
    ends, offset = [0], 0  # of each character, in bytes
    for character in text:
        offset += len(character.encode("utf-8", "surrogateescape"))
        ends.append(offset)
    edges, offset = [], len(before)
    for raw in (*raws, b""):
        at = bisect_right(ends, offset) - 1
        edges.append(at if ends[at] == offset else at + 1)
        offset += len(raw)
    return text, edges


def _find_first_letter(text: str, first: int, end: int) -> int | None:
    return next((place for place in range(first, end) if text[place].isalnum()), None)


def _classify_word(text: str, begin: int, word: str) -> str:
    capital = not word[0].islower()
    if capital and _starts_sentence(text[:begin]):
        return START
    if word.lower() in FUNCTIONS or re.split("['’]", word.lower())[0] in FUNCTIONS:
        return FUNCTION
    return NAME if word[0].isupper() else OTHER


def _starts_sentence(before: str) -> bool:
    """Whether a sentence or a quotation begins after this text."""
    bare = before.rstrip()
    if not bare or "\n" in before[len(bare) :] or before[-1] in '"“‘«(':
        return True
    inner = bare.rstrip(_QUOTES + " ")
    if not inner or inner[-1] not in ".!?…":
        return not inner
    last = _WORD.findall(inner[-12:])
    return not (inner[-1] == "." and last and last[-1] in _ABBREVIATED)
