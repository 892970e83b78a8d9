"""Tokens as a person can read them: visible whitespace, bytes that are no whole character, characters made of several tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

Glyph = dict[str, str]  # {"t": what to show, "k": text | space | newline | byte | sign | special}

_SPECIAL = re.compile(r"<\|[^<>]{1,60}\|>|</?s>|<(pad|bos|eos|unk|mask)>|\[(PAD|BOS|EOS|UNK|SEP|CLS|MASK)\]")
_SHOWN = {" ": ("space", "·"), "\n": ("newline", "↵"), "\r": ("newline", "␍"), "\t": ("space", "⇥"), "\u00a0": ("space", "⍽")}
_JOINER = "\u200d"


def read_piece(pieces: Mapping[int, str], token: int) -> bytes:
    """The bytes of a token; empty where the trace does not name it."""
    return bytes.fromhex(pieces.get(token, ""))


def is_special(raw: bytes) -> bool:
    """Whether these bytes are a control token's name rather than text."""
    return bool(_SPECIAL.fullmatch(raw.decode("utf-8", "replace")))


def build_glyphs(raw: bytes, token: int) -> list[Glyph]:
    """What to show of one token, in order; neighbors of one kind are merged."""
    if not raw:
        return [{"t": f"#{token}", "k": "special"}]
    if is_special(raw):
        return [{"t": raw.decode(), "k": "special"}]
    shown: list[Glyph] = []
    for character in raw.decode("utf-8", "surrogateescape"):
        kind, text = _choose_glyph(character)
        if shown and kind == "text" == shown[-1]["k"]:
            shown[-1]["t"] += text
        else:
            shown.append({"t": text, "k": kind})
    return shown


def format_token(pieces: Mapping[int, str], token: int) -> str:
    """A token as one text, with its spaces and bytes visible."""
    return "".join(glyph["t"] for glyph in build_glyphs(read_piece(pieces, token), token))


def _choose_glyph(character: str) -> tuple[str, str]:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how surrogateescape marks a byte that is no whole character
        return "byte", f"{code - 0xDC00:02X}"
    if character in _SHOWN:
        return _SHOWN[character]
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Co", "Cn", "Zs", "Zl", "Zp") or 0xFE00 <= code <= 0xFE0F:
        return "sign", f"U+{code:04X}"
    return "text", ("\u25cc" + character) if category in ("Mn", "Me") else character


def name_token(raw: bytes, token: int) -> str:
    """A token in a sentence: quoted text, or words for whitespace and bytes."""
    if not raw:
        return f"token {token}"
    text = raw.decode("utf-8", "surrogateescape")
    if any(0xDC80 <= ord(c) <= 0xDCFF for c in text):
        return f"the byte token {raw.hex(' ').upper()}"
    if text.strip():
        hidden = any(g["k"] == "sign" for g in build_glyphs(raw, token))
        return f"“{''.join(g['t'] for g in build_glyphs(raw, token)) if hidden else text.strip()}”"
    if "\n" in text:
        return "a line break" if text.count("\n") == 1 else "a blank line"
    return "a space" if text == " " else f"{len(text)} spaces"


def decode_whole(raw: bytes) -> str:
    """Bytes as text, a character that is not complete yet at the end left out."""
    return raw[: len(raw) - len(find_unfinished(raw))].decode("utf-8", "replace")


def find_unfinished(raw: bytes) -> bytes:
    """The first bytes of a character at the end that still waits for its last one."""
    for back in range(1, min(3, len(raw)) + 1):
        lead = raw[-back]
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return raw[-back:] if back < length else b""
        if lead < 0x80:
            break
    return b""


def group_characters(tail: bytes, raws: Sequence[bytes]) -> list[dict]:
    """Runs of tokens that make one character: [{"first", "last", "text"}], indices into ``raws``.

    ``tail``: the unfinished bytes before the first token; a run that completes them starts at 0.
    """
    edges = [len(tail)]
    for raw in raws:
        edges.append(edges[-1] + len(raw))
    runs: list[dict] = []
    for start, end, text in _list_clusters(tail + b"".join(raws)):
        first = next((i for i in range(len(raws)) if start < edges[i + 1]), None)
        last = next((i for i in range(len(raws)) if end <= edges[i + 1]), None)
        if first is None or last is None or (first == last and start >= len(tail)):
            continue
        if runs and runs[-1]["last"] >= first:  # a token that ends one character and begins the next joins both
            runs[-1] |= {"last": last, "text": runs[-1]["text"] + text}
        else:
            runs.append({"first": first, "last": last, "text": text})
    return runs


def _list_clusters(raw: bytes) -> list[tuple[int, int, str]]:
    """Byte spans of what a reader sees as one character; bytes of no character are left out."""
    spans: list[tuple[int, int, str]] = []
    at, open_ = 0, False  # open_: whether the next character may still join the last one
    for character in raw.decode("utf-8", "surrogateescape"):
        broken = 0xDC80 <= ord(character) <= 0xDCFF
        size = 1 if broken else len(character.encode())
        if open_ and not broken and _can_join(spans[-1][2], character):
            spans[-1] = (spans[-1][0], at + size, spans[-1][2] + character)
        elif not broken:
            spans.append((at, at + size, character))
        open_, at = not broken, at + size
    return spans


def _can_join(before: str, character: str) -> bool:
    code = ord(character)
    if before[-1] == _JOINER or character == _JOINER:
        return not before[-1].isspace()
    if 0x1F1E6 <= code <= 0x1F1FF:  # flags are pairs of letters
        return len(before) == 1 and 0x1F1E6 <= ord(before) <= 0x1F1FF
    return 0xFE00 <= code <= 0xFE0F or 0x1F3FB <= code <= 0x1F3FF or unicodedata.category(character) in ("Mn", "Me")
