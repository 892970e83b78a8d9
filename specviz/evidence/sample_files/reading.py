"""Draws of any server, from a file: one JSON object a line, {"prompt": str, "tokens": [ids] or "text": str, "stop": reason}.

A line may also hold ``settings``, an object that must be the same in every line, its seed apart; anything else is left aside. Text without
ids is compared as text and never tokenised: the same text may have been written in other tokens.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specviz.decoding.samples import NONE, Samples
from specviz.errors import EvidenceError, SettingsError
from specviz.settings import Settings
from specviz.statistics.findings import plural

LARGEST = 200 * 2**20  # bytes of a file
KEPT_TOKENS, KEPT_TEXT = 256, 4096  # of a draw; what comes later is not looked at
HIGHEST_ID = 2**31 - 1
ENDED = ("stop", "eos", "eos_token", "end", "end_turn")  # reasons that say: the text ended by itself
STRIDE = 2_000  # lines between two words about how far the reading is
DISTRIBUTION = ("temperature", "top_k", "top_p", "min_p")  # settings that change the distribution
FEWEST = 20  # draws that are worth a comparison with a distribution
CHANCE = 1e-6  # a repetition less likely than this is none of chance's doing

Draw = tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class SampleFile:
    """The draws of one file.

    draws     tuples of ids, or texts, at most KEPT_TOKENS and KEPT_TEXT long
    lengths   tokens (characters) of each as it was written
    eos_token_ids     stop reason of each, '' where there is none
    lines     where each stands in the file, for sentences
    settings  what the file says they were drawn under, without a seed
    """

    name: str
    prompt: str
    draws: tuple[Draw, ...]
    lengths: tuple[int, ...]
    eos_token_ids: tuple[str, ...]
    lines: tuple[int, ...]
    settings: dict[str, Any]
    sha256: str

    @property
    def tokens(self) -> bool:
        """Whether the draws are token ids rather than text."""
        return not isinstance(self.draws[0], str)

    def describe(self) -> dict[str, Any]:
        """What a report says of the file."""
        kind = "tokens" if self.tokens else "text"
        return {"name": self.name, "sha256": self.sha256, "draws": len(self.draws), "kind": kind, "settings": self.settings}


def read(path: Path) -> SampleFile:
    """The draws of a file. Raises EvidenceError with the number of the line that cannot be used."""
    try:
        if path.is_file() and path.stat().st_size > LARGEST:
            raise EvidenceError(f"'{path.name}' has more than {LARGEST >> 20} MB, which is the most that is read.")
        with path.open("rb") as file:
            return parse(file.read(LARGEST + 1), path.name)
    except OSError as error:
        raise EvidenceError(f"'{path}' could not be read ({error.strerror}).") from error


def parse(content: bytes, name: str, watch: Callable[[float], None] = lambda share: None) -> SampleFile:
    """The same from bytes, such as an upload. watch: told the share that is read."""
    if len(content) > LARGEST:
        raise EvidenceError(f"'{name}' has more than {LARGEST >> 20} MB, which is the most that is read.")
    found: list[tuple[int, dict[str, Any]]] = []
    first: dict[str, Any] | None = None
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not number % STRIDE:
            watch(number / len(lines))
        if not line.strip():
            continue
        draw = _draw(line, f"'{name}', line {number}")
        first = first or draw
        _same(first, draw, f"'{name}', line {number}")
        found.append((number, draw))
    if first is None:
        raise EvidenceError(f"'{name}' holds no draws.")
    columns = ([draw[key] for _, draw in found] for key in ("draw", "length", "stop"))
    digest = hashlib.sha256(content).hexdigest()
    return SampleFile(
        name, first["prompt"], *map(tuple, columns), tuple(number for number, _ in found), first["settings"] or {}, digest
    )


def _draw(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{where} is no JSON; perhaps half a line ({error}).") from error
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise EvidenceError(f'{where} is no draw: an object with "prompt" and "tokens" or "text" is needed.')
    stop, settings = record.get("stop"), record.get("settings")
    if not isinstance(stop, str | None) or not isinstance(settings, dict | None):
        raise EvidenceError(f'{where}: "stop" must be text and "settings" an object.')
    if (settings or {}).get("uniforms"):
        raise EvidenceError(
            f"{where} was drawn with random numbers that somebody chose: such a run is an illustration, and no sample."
        )
    if (tokens := record.get("tokens")) is not None:
        if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token <= HIGHEST_ID for token in tokens):
            raise EvidenceError(f'{where}: "tokens" must be a list of ids, whole numbers from 0.')
        kept: Draw = tuple(tokens[:KEPT_TOKENS])
    elif isinstance(tokens := record.get("text"), str):
        kept = tokens[:KEPT_TEXT]
    else:
        raise EvidenceError(f'{where} holds neither "tokens" nor "text".')
    plain = None if settings is None else {key: value for key, value in settings.items() if key != "seed"}
    return {"prompt": record["prompt"], "draw": kept, "length": len(tokens), "stop": stop or "", "settings": plain}


def _same(first: dict[str, Any], draw: dict[str, Any], where: str) -> None:
    if draw["prompt"] != first["prompt"]:
        raise EvidenceError(f"{where} has another prompt than the first draw: all draws must continue one text.")
    if isinstance(draw["draw"], str) != isinstance(first["draw"], str):
        raise EvidenceError(f"{where} holds {'text' if isinstance(draw['draw'], str) else 'tokens'}, the first draw does not.")
    if draw["settings"] != first["settings"]:
        raise EvidenceError(f"{where} was drawn under other settings than the first draw: {draw['settings']}.")


def samples(heap: SampleFile, settings: Settings, vocabulary: int, eos_token_ids: frozenset[int]) -> Samples:
    """The draws as token ids, cut to ``settings.length``, ready to be tested against a distribution.

    A text that says it ended by itself, without the token that ends texts, gets it where there is only one such token.
    Raises EvidenceError where a draw is shorter than asked for and did not end, or goes on after its end.
    """
    if not heap.tokens:
        raise EvidenceError(
            f"'{heap.name}' holds text without token ids. Against the distribution of local weights ids are needed; two files of texts can be "
            "compared with each other."
        )
    if len(heap.draws) < FEWEST:
        raise EvidenceError(f"'{heap.name}' holds {plural(len(heap.draws), 'draw')}; at least {FEWEST} are needed.")
    _same_distribution(heap, settings)
    length = settings.length
    tokens = np.full((len(heap.draws), length), NONE, dtype=np.int32)
    for row, (draw, stop, line) in enumerate(zip(heap.draws, heap.eos_token_ids, heap.lines, strict=True)):
        where = f"'{heap.name}', line {line}"
        if draw and max(draw) >= vocabulary:
            raise EvidenceError(f"{where} holds the id {max(draw)}, outside the vocabulary of {vocabulary} tokens.")
        kept = _cut(draw[:length], stop, length, eos_token_ids, where)
        tokens[row, : len(kept)] = kept
    return Samples(tokens, settings.to_record(), heap.name)


def _cut(draw: Sequence[int], stop: str, length: int, eos_token_ids: frozenset[int], where: str) -> Sequence[int]:
    end = next((place for place, token in enumerate(draw) if token in eos_token_ids), None)
    if end is not None:
        if end + 1 < len(draw):
            raise EvidenceError(f"{where} goes on after the token {draw[end]}, which ends a text.")
        return draw
    if len(draw) == length:
        return draw
    if stop in ENDED and len(eos_token_ids) == 1:
        return (*draw, *eos_token_ids)
    if stop in ENDED:
        raise EvidenceError(
            f"{where} ended by itself; which of the {len(eos_token_ids)} tokens that end a text did it, must stand in it."
        )
    raise EvidenceError(
        f"{where} has {plural(len(draw), 'token')} and the stop reason {stop!r}; {length} are needed, "
        f'or the reason "stop". Collect longer draws, or ask for a smaller length.'
    )


def _same_distribution(heap: SampleFile, settings: Settings) -> None:
    """What the file says of its distribution must be what the test is asked to compare with."""
    neutral = {"top_k": (0, -1, None), "top_p": (1, None), "min_p": (0, None), "temperature": (None,)}
    for key in DISTRIBUTION:
        said, asked = heap.settings.get(key), getattr(settings, key)
        if key in heap.settings and said != asked and not (asked in (None, 1.0) and said in neutral[key]):
            raise SettingsError(key.replace("_", "-"), asked, f"{said!r}, as '{heap.name}' says")


def repeated(draws: Sequence[Draw]) -> int:
    """The smallest k after which the draws begin anew, if that happens at least once in full; else their number.

    One draw repeated n times (one seed for all) gives 1. Knuth, Morris and Pratt 1977: the smallest period.
    """
    n, border = len(draws), [0] * len(draws)
    for place in range(1, n):
        k = border[place - 1]
        while k and draws[place] != draws[k]:
            k = border[k - 1]
        border[place] = k + (draws[place] == draws[k])
    period = n - border[-1]
    return period if 2 * period <= n else n


def refuse_repeats(heap: SampleFile, log_chance: Sequence[float] | None = None) -> str:
    """Raises EvidenceError where one draw, or a row of draws, stands there again and again: they are not independent.

    log_chance  log probability of each draw under the exact distribution; without it the shares in the file itself stand in for it

    Returns a sentence where every draw is the same and nothing speaks against chance, or ''.
    """
    n, period = len(heap.draws), repeated(heap.draws)
    if period == n:
        return ""
    if log_chance is None:
        shares = Counter(heap.draws)
        log_chance = [math.log(shares[draw] / n) for draw in heap.draws]
    if sum(log_chance[period:]) < math.log(CHANCE):
        what = "one draw" if period == 1 else f"a row of {period:,} draws"
        raise EvidenceError(
            f"'{heap.name}' is {what} repeated, {n:,} lines in all: the server was given the same seed again, or answered from a "
            "cache. Give every request a seed of its own."
        )
    return (
        f"Every draw of '{heap.name}' is the same: one text is all but certain, or one seed was used for all."
        if period == 1
        else ""
    )


def names(heaps: Iterable[SampleFile]) -> str:
    """Files in a sentence."""
    return " and ".join(f"'{heap.name}'" for heap in heaps)
