"""One token: two distributions over the same next token, as the page draws and drags them.

The distributions of presets are invented and say so; those of a text are the recorded ones, bars with their rest. What a dragged distribution
gives is worked out in the browser (assets/components/token/), whose arithmetic is held to Python's by one table of cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.figures.common.glyphs import glyphs, is_special, name, piece, whole
from specviz.trace import Distribution, Round, Trace

GRID = 10_000  # distributions that can be dragged are whole ten-thousandths: an address holds them to the last digit
FEWEST, MOST = 5, 8
SHOWN = 7  # bars of a real distribution beside its rest
TAIL = 26  # characters of the text before a position

WORDS = ("mat", "sofa", "floor", "roof", "moon", "path", "stairs", "hill")
USUAL = (4000, 3000, 2000, 700, 300)


@dataclass(frozen=True, slots=True)
class Preset:
    """A pair of distributions to begin with, in ten-thousandths, and what to look at."""

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


def cooled(probs: tuple[int, ...], temperature: float) -> tuple[int, ...]:
    """The same logits at another temperature: every probability to the power 1 / temperature, rescaled."""
    return shared_out(tuple((x / GRID) ** (1.0 / temperature) for x in probs))


PRESETS = {
    "usual": Preset(
        "A usual pair",
        USUAL,
        (1500, 4500, 2500, 500, 1000),
        "The draft is roughly right: most of its draft tokens survive.",
    ),
    "equal": Preset(
        "Equal distributions",
        USUAL,
        USUAL,
        "The two distributions are the same: every draft token is kept and nothing is left to replace.",
    ),
    "disjoint": Preset(
        "Disjoint distributions",
        (5000, 3000, 2000, 0, 0),
        (0, 0, 0, 6000, 4000),
        "The draft drafts only what the target never says: every draft token is refused, and the residual is p itself.",
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
        "The draft never draft tokens the target’s favourite: all of it comes from the residual, so it still gets its full share.",
    ),
    "temperatures": Preset(
        "Other temperature",
        USUAL,
        cooled(USUAL, 0.5),
        "The same model, but the draft runs at temperature 0.5: the draft tokens are likely ones, and still not free.",
    ),
}
FIRST = "usual"

TEXTS = {
    "question": "Why is the result exactly p?",
    "answer": "What both models agree on is kept. What the draft overdid is refused, and goes exactly to what it left out.",
    "bars": "What each model gives to the next token",
    "barsSub": "drag any bar, or focus it and use the arrow keys",
    "barsSubText": "recorded distributions; a bar that you drag makes them your own",
    "barsFoot": "Both share {beta}: this overlap is how often a draft token is kept.",
    "coin": "One draft token",
    "coinSub": "kept with probability",
    "coinFoot": "{kept} of 100 draft tokens stay; {refused} are replaced.",
    "out": "What comes out",
    "outSub": "kept + replaced, against the mark of p",
    "outFoot": "Every stack ends at its mark: largest difference {error}.",
    "sums": "The sum for every token",
    "sumsFoot": "Kept and replaced add up to p for each token; what differs is float64 rounding, shown as it is.",
    "rules": "Four exact rules, a block of two draft tokens from these distributions",
    "rulesSub": "bars: the chance that the first draft token is kept, and that both are; error: all pairs of tokens against p · p",
    "rulesFoot": "All four write exactly p; they differ only in how many draft tokens survive: {best} keeps {most} of two, {worst} {least}.",
    "rulesFootSame": "All four write exactly p; here they all keep {most} of two draft tokens.",
    "rulesRest": "The recorded distribution holds its rest only as sums, and these rules need every token: drag a bar, or take a preset.",
    "twin": "{kept} of 100 draft tokens are kept, the overlap of the two distributions. {rest}",
    "twinNone": "No draft token is kept: the two distributions share nothing. {rest}",
    "twinAll": "Nothing is refused, so nothing needs to be replaced.",
    "twinSome": "{refused} of 100 are replaced by what the draft left out: {shares}. Together every token comes out exactly as often as p says.",
    "source": "Distributions from a draft token of the recorded run",
    "sourceOwn": "Distributions from a draft token of your own run",
    "moved": "{word}: draft {q}, target {p}. {fate}",
    "fateNever": "The draft never draft tokens it; {replaced} comes from the residual.",
    "fateKept": "Each draft token of it is kept; {replaced} more comes from the residual.",
    "fateEqual": "Each draft token of it is kept, and that is already all of p.",
    "fateCut": "A draft token of it is kept with probability {threshold}, which leaves exactly {p}; the residual adds nothing.",
    "lumped": "Dragged: the rest of the vocabulary now counts as one token.",
    "unlinked": "This is a position of your own run: the address cannot show it to others until you drag a bar.",
}
RULE_NAMES = {
    "block": ("Block verification", "both draft tokens are judged together (Sun et al. 2024)"),
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
        {"id": key, "title": one.title, "p": _probs(one.p), "q": _probs(one.q), "about": one.about}
        for key, one in PRESETS.items()
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
    """Every draft token of a run whose distributions were recorded: id ROUND.GUESS (both from 1), the text before it, and its bars."""
    found: list[dict[str, Any]] = []
    before = "" if trace is None else trace.settings.get("prompt", "")
    raw = b""
    for index, round_ in enumerate(trace.rounds if trace else ()):
        for draft_token in range(min(len(round_.proposals), len(round_.distributions))):
            if round_.distributions[draft_token].q is not None and _is_chain(round_, draft_token):
                found.append(_position(trace, round_, index, draft_token, before, raw))
        raw += b"".join(piece(trace.pieces, token) for token in round_.committed)
    return found


def _is_chain(round_: Round, draft_token: int) -> bool:
    return round_.proposals[draft_token].parent == draft_token - 1


def _position(trace: Trace, round_: Round, index: int, draft_token: int, prompt: str, raw: bytes) -> dict[str, Any]:
    pieces = [raw, *(piece(trace.pieces, one.token) for one in round_.proposals[:draft_token])]
    text = prompt + whole(b"".join(part for part in pieces if not is_special(part)))
    text = " ".join(text.split())
    token = round_.proposals[draft_token].token
    return {
        "id": f"{index + 1}.{draft_token + 1}",
        "before": f"…{text[-TAIL:]}" if len(text) > TAIL else text,
        "draft": name(piece(trace.pieces, token), token),
        "slots": _slots(trace, round_.distributions[draft_token], token),
    }


def _slots(trace: Trace, probs: Distribution, drafted: int) -> list[dict[str, Any]]:
    """Bars with the overlap and residual that were recorded, largest first, the draft token always among them; the rest last."""
    must = [drafted] if drafted in probs.tokens else []
    free = [token for token in probs.tokens if token not in must][: SHOWN - len(must)]
    shown = [i for i, token in enumerate(probs.tokens) if token in must or token in free]
    hidden = [i for i in range(len(probs.tokens)) if i not in shown]
    keys = ("p", "q", "overlap", "residual")
    bars = [
        {"glyphs": glyphs(piece(trace.pieces, probs.tokens[i]), probs.tokens[i])} | {key: getattr(probs, key)[i] for key in keys}
        for i in shown
    ]
    rest = {key: probs.rest[key] + sum(getattr(probs, key)[i] for i in hidden) for key in keys}
    return [*bars, {"glyphs": None} | rest]


def _probs(whole_: tuple[int, ...]) -> list[float]:
    return [n / GRID for n in whole_]
