"""Why it is exact: two distributions over the same next token, as the page draws and drags them.

The presets are invented and say so; distributions from a text are the recorded ones, bars with their rest. What a dragged
distribution gives is worked out in the browser (assets/components/token/), whose arithmetic is held to Python's by one table of cases.
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
        "The draft is roughly right: most draft tokens are accepted.",
    ),
    "equal": Preset(
        "Equal distributions",
        USUAL,
        USUAL,
        "The two distributions are the same: every draft token is accepted and nothing needs to be replaced.",
    ),
    "disjoint": Preset(
        "Disjoint distributions",
        (5000, 3000, 2000, 0, 0),
        (0, 0, 0, 6000, 4000),
        "The draft suggests only tokens that the target never chooses: every draft token is rejected, and the residual is p itself.",
    ),
    "sure": Preset(
        "Draft too sure",
        USUAL,
        (300, 9100, 300, 200, 100),
        "The draft suggests nearly always the same token. Most of these draft tokens are rejected, and the residual makes up for the other tokens.",
    ),
    "misses": Preset(
        "Draft misses a token",
        USUAL,
        (0, 5000, 3000, 1000, 1000),
        "The draft never suggests the target’s likeliest token. All of it comes from the residual, so it still gets its full p.",
    ),
    "temperatures": Preset(
        "Other temperature",
        USUAL,
        cooled(USUAL, 0.5),
        "Draft and target are the same model, but the draft runs at temperature 0.5: its tokens are likely ones, and still not all accepted.",
    ),
}
FIRST = "usual"

TEXTS = {
    "question": "Why is the result exactly p?",
    "answer": "What both models agree on is accepted. What the draft gives in excess is rejected, and goes exactly to the tokens that it "
    "gives too little.",
    "complete": "A draft token was rejected. In its place comes a token drawn from",
    "completeP": "p, the target’s distribution.",
    "completeQ": "q, the draft’s distribution.",
    "completeResidual": "what p has more of than q.",
    "completeWrong": "Not exact: {word} would come out with probability {got}, and p is {p}.",
    "completeWhyP": "p gives a second share to tokens that were accepted already, and too little to the others. Try another end.",
    "completeWhyQ": "The draft would be asked again for what it gives too often. Try another end.",
    "completeRight": "Yes. Then accepted and replaced add up to p for every token: for {word}, {accepted} + {replaced} = {p}. The bars below show it; drag them.",
    "completeSame": "Here it would do: the two distributions share nothing, so p is all that p has more of. With other bars it would not.",
    "completeNothing": "Here the two distributions are equal and nothing is ever rejected. Choose others, and see.",
    "bars": "What each model gives to the next token",
    "barsSub": "drag any bar, or focus it and use the arrow keys",
    "barsSubText": "recorded distributions; drag a bar to make them your own",
    "barsFoot": "Both share {beta}: this overlap is how often a draft token is accepted.",
    "draftToken": "One draft token",
    "draftTokenSub": "accepted with probability",
    "draftTokenFoot": "Of 100 draft tokens, {accepted} are accepted and {rejected} replaced.",
    "out": "What comes out",
    "outSub": "accepted + replaced, beside the mark of p",
    "outFoot": "Every stack ends at its mark: largest difference {error}.",
    "sums": "The sum for every token",
    "sumsFoot": "Accepted and replaced add up to p for each token. The difference is float64 rounding, shown as it is.",
    "rules": "Four exact rules for two draft tokens",
    "rulesSub": "both tokens from the distributions above; bars: probability that the first, and that both are accepted; error: all pairs of tokens "
    "against p · p",
    "rulesFoot": "All four write exactly p. They differ only in how many draft tokens they accept: {best} {most} of two, {worst} {least}.",
    "rulesFootSame": "All four write exactly p. Here they all accept {most} of two draft tokens.",
    "rulesRest": "These rules need the probability of every token, and the recorded distribution holds the rest only as sums. Drag a bar, or "
    "choose a preset.",
    "twin": "{accepted} of 100 draft tokens are accepted: the overlap of the two distributions. {rest}",
    "twinNone": "No draft token is accepted: the two distributions share nothing. {rest}",
    "twinAll": "Nothing is rejected, so nothing needs to be replaced.",
    "twinSome": "{rejected} of 100 are rejected and replaced from the residual: {shares}. Together, every token comes out exactly as often as p says.",
    "source": "Distributions at a draft token of the recorded run",
    "sourceOwn": "Distributions at a draft token of your own run",
    "moved": "{word}: draft {q}, target {p}. {fate}",
    "fateNever": "The draft never suggests it; all of its {replaced} comes from the residual.",
    "fateAccepted": "As a draft token it is always accepted, and the residual adds {replaced}.",
    "fateEqual": "As a draft token it is always accepted, and that is already all of p.",
    "fateCut": "As a draft token it is accepted with probability {threshold}, which leaves exactly {p}. The residual adds nothing.",
    "lumped": "Since you dragged a bar, the rest of the vocabulary counts as one token.",
    "unlinked": "This is a position of your own run: the address cannot show it to others until you drag a bar.",
}
RULE_NAMES = {
    "block": ("Block verification", "checks both draft tokens together (Sun et al. 2024)"),
    "token": ("Token rule", "checks one by one: min(1, p/q), then the residual (Leviathan et al. 2023)"),
    "greedy": ("Greedy draft", "suggests the draft’s likeliest token, accepted with its p"),
    "compare": ("Sample and compare", "the target draws too; accepted where both drew the same"),
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
    """Every draft token of a run whose distributions were recorded: id ROUND.TOKEN (both from 1), the text before it, and its bars."""
    found: list[dict[str, Any]] = []
    before = "" if trace is None else trace.settings.get("prompt", "")
    raw = b""
    for index, round_ in enumerate(trace.rounds if trace else ()):
        for draft_token in range(min(len(round_.proposals), len(round_.distributions))):
            if round_.distributions[draft_token].q is not None and round_.proposals[draft_token].parent == draft_token - 1:
                found.append(_position(trace, round_, index, draft_token, before, raw))
        raw += b"".join(piece(trace.pieces, token) for token in round_.committed)
    return found


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
