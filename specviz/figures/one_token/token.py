"""One token: two laws over the same next token, as the page draws and drags them.

The laws of presets are invented and say so; those of a text are the recorded ones, bars with their rest. What a dragged law
gives is worked out in the browser (assets/token/), whose arithmetic is held to Python's by one table of cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.figures.common.glyphs import glyphs, is_special, name, piece, whole
from specviz.trace import Law, Round, Trace

GRID = 10_000  # laws that can be dragged are whole ten-thousandths: an address holds them to the last digit
FEWEST, MOST = 5, 8
SHOWN = 7  # bars of a real law beside its rest
TAIL = 26  # characters of the text before a position

WORDS = ("mat", "sofa", "floor", "roof", "moon", "path", "stairs", "hill")
USUAL = (4000, 3000, 2000, 700, 300)


@dataclass(frozen=True, slots=True)
class Preset:
    """A pair of laws to begin with, in ten-thousandths, and what to look at."""

    title: str
    p: tuple[int, ...]
    q: tuple[int, ...]
    about: str


def shared_out(parts: tuple[float, ...]) -> tuple[int, ...]:
    """The nearest whole ten-thousandths that sum to GRID: largest remainders first, the first of equals."""
    exact = [GRID * part / sum(parts) for part in parts]
    whole_ = [int(x + 1e-9) for x in exact]
    order = sorted(range(len(parts)), key=lambda i: (whole_[i] - exact[i], i))
    for i in order[: GRID - sum(whole_)]:
        whole_[i] += 1
    return tuple(whole_)


def cooled(law: tuple[int, ...], temperature: float) -> tuple[int, ...]:
    """The same logits at another temperature: every probability to the power 1 / temperature, rescaled."""
    return shared_out(tuple((x / GRID) ** (1.0 / temperature) for x in law))


PRESETS = {
    "usual": Preset(
        "A usual pair",
        USUAL,
        (1500, 4500, 2500, 500, 1000),
        "The draft is roughly right: most of its guesses survive.",
    ),
    "equal": Preset(
        "Equal laws",
        USUAL,
        USUAL,
        "The two laws are the same: every guess is kept and nothing is left to replace.",
    ),
    "disjoint": Preset(
        "Disjoint laws",
        (5000, 3000, 2000, 0, 0),
        (0, 0, 0, 6000, 4000),
        "The draft guesses only what the target never says: every guess is refused, and the residual is p itself.",
    ),
    "sure": Preset(
        "Draft too sure",
        USUAL,
        (300, 9100, 300, 200, 100),
        "The draft bets nearly everything on one token: most of that bet is refused and goes where it fell short.",
    ),
    "misses": Preset(
        "Draft misses a token",
        USUAL,
        (0, 5000, 3000, 1000, 1000),
        "The draft never guesses the target’s favourite: all of it comes from the residual, so it still gets its full share.",
    ),
    "temperatures": Preset(
        "Other temperature",
        USUAL,
        cooled(USUAL, 0.5),
        "The same model, but the draft runs at temperature 0.5: the guesses are likely ones, and still not free.",
    ),
}
FIRST = "usual"

TEXTS = {
    "question": "Why is the result exactly p?",
    "answer": "What both models agree on is kept. What the draft overdid is refused, and goes exactly to what it left out.",
    "bars": "What each model gives to the next token",
    "barsSub": "drag any bar, or focus it and use the arrow keys",
    "barsSubText": "recorded laws; a bar that you drag makes them your own",
    "barsFoot": "Both share {beta}: this overlap is how often a guess is kept.",
    "coin": "One guess",
    "coinSub": "kept with probability",
    "coinFoot": "{kept} of 100 guesses stay; {refused} are replaced.",
    "out": "What comes out",
    "outSub": "kept + replaced, against the mark of p",
    "outFoot": "Every stack ends at its mark: largest difference {error}.",
    "sums": "The sum for every token",
    "sumsFoot": "Kept and replaced add up to p for each token; what differs is float64 rounding, shown as it is.",
    "rules": "Four exact rules, a block of two guesses from these laws",
    "rulesSub": "bars: the chance that the first guess is kept, and that both are; error: all pairs of tokens against p · p",
    "rulesFoot": "All four write exactly p; they differ only in how many guesses survive: {best} keeps {most} of two, {worst} {least}.",
    "rulesFootSame": "All four write exactly p; here they all keep {most} of two guesses.",
    "rulesRest": "The recorded law holds its rest only as sums, and these rules need every token: drag a bar, or take a preset.",
    "twin": "{kept} of 100 guesses are kept, the overlap of the two laws. {rest}",
    "twinNone": "No guess is kept: the two laws share nothing. {rest}",
    "twinAll": "Nothing is refused, so nothing needs to be replaced.",
    "twinSome": "{refused} of 100 are replaced by what the draft left out: {shares}. Together every token comes out exactly as often as p says.",
    "source": "Laws from a guess of the recorded run",
    "sourceOwn": "Laws from a guess of your own run",
    "moved": "{word}: draft {q}, target {p}. {fate}",
    "fateNever": "The draft never guesses it; {replaced} comes from the residual.",
    "fateKept": "Each guess of it is kept; {replaced} more comes from the residual.",
    "fateEqual": "Each guess of it is kept, and that is already all of p.",
    "fateCut": "A guess of it is kept with probability {threshold}, which leaves exactly {p}; the residual adds nothing.",
    "lumped": "Dragged: the rest of the vocabulary now counts as one token.",
    "unlinked": "This is a position of your own run: the address cannot show it to others until you drag a bar.",
}
RULE_NAMES = {
    "block": ("Block verification", "both guesses are judged together (Sun et al. 2024)"),
    "token": ("Token rule", "one by one: min(1, p/q), then the residual (Leviathan et al. 2023)"),
    "greedy": ("Greedy draft", "the draft’s likeliest token, kept with its p"),
    "compare": ("Sample and compare", "the target draws too; kept where both drew the same"),
}


def token_payload(trace: Trace | None, shared: bool = True) -> dict[str, Any]:
    """Everything the page draws from: presets, positions of a text, words.

    trace   the run whose positions are offered; None: none
    shared  whether an address can name its positions: only those of the recorded run
    """
    presets = [
        {"id": key, "title": one.title, "p": _law(one.p), "q": _law(one.q), "about": one.about} for key, one in PRESETS.items()
    ]
    return {
        "presets": presets,
        "positions": positions(trace),
        "shared": shared,
        "words": list(WORDS),
        "texts": TEXTS,
        "rules": {key: {"title": title, "how": how} for key, (title, how) in RULE_NAMES.items()},
    }


def positions(trace: Trace | None) -> list[dict[str, Any]]:
    """Every guess of a run whose laws were recorded: id ROUND.GUESS (both from 1), the text before it, and its bars."""
    found: list[dict[str, Any]] = []
    before = "" if trace is None else trace.settings.get("prompt", "")
    raw = b""
    for index, round_ in enumerate(trace.rounds if trace else ()):
        for guess in range(min(len(round_.proposals), len(round_.laws))):
            if round_.laws[guess].q is not None and _is_chain(round_, guess):
                found.append(_position(trace, round_, index, guess, before, raw))
        raw += b"".join(piece(trace.pieces, token) for token in round_.committed)
    return found


def _is_chain(round_: Round, guess: int) -> bool:
    return round_.proposals[guess].parent == guess - 1


def _position(trace: Trace, round_: Round, index: int, guess: int, prompt: str, raw: bytes) -> dict[str, Any]:
    pieces = [raw, *(piece(trace.pieces, one.token) for one in round_.proposals[:guess])]
    text = prompt + whole(b"".join(part for part in pieces if not is_special(part)))
    text = " ".join(text.split())
    token = round_.proposals[guess].token
    return {
        "id": f"{index + 1}.{guess + 1}",
        "before": f"…{text[-TAIL:]}" if len(text) > TAIL else text,
        "guess": name(piece(trace.pieces, token), token),
        "slots": _slots(trace, round_.laws[guess], token),
    }


def _slots(trace: Trace, law: Law, drafted: int) -> list[dict[str, Any]]:
    """Bars with the overlap and residual that were recorded, largest first, the guess always among them; the rest last."""
    must = [drafted] if drafted in law.tokens else []
    free = [token for token in law.tokens if token not in must][: SHOWN - len(must)]
    shown = [i for i, token in enumerate(law.tokens) if token in must or token in free]
    hidden = [i for i in range(len(law.tokens)) if i not in shown]
    keys = ("p", "q", "overlap", "residual")
    bars = [
        {"glyphs": glyphs(piece(trace.pieces, law.tokens[i]), law.tokens[i])} | {key: getattr(law, key)[i] for key in keys}
        for i in shown
    ]
    rest = {key: law.rest[key] + sum(getattr(law, key)[i] for i in hidden) for key in keys}
    return [*bars, {"glyphs": None} | rest]


def _law(whole_: tuple[int, ...]) -> list[float]:
    return [n / GRID for n in whole_]
