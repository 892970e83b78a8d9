"""Why it is exact: two distributions over the same next token, as the page draws and drags them.

The presets are invented and say so; distributions from a text are the recorded ones, bars with their rest. What a dragged
distribution gives is worked out in the browser (assets/components/one_token/), whose arithmetic is held to Python's by one table of cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specviz.glyphs import build_glyphs, decode_whole, is_special, name_token, read_piece
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


def round_to_grid(parts: tuple[float, ...]) -> tuple[int, ...]:
    """The nearest whole ten-thousandths that sum to GRID: largest remainders first, the first of equals."""
    exact = [GRID * part / sum(parts) for part in parts]
    whole_ = [int(x + 1e-9) for x in exact]
    order = sorted(range(len(parts)), key=lambda i: (whole_[i] - exact[i], i))
    for i in order[: GRID - sum(whole_)]:
        whole_[i] += 1
    return tuple(whole_)


def apply_temperature(probs: tuple[int, ...], temperature: float) -> tuple[int, ...]:
    """The same logits at another temperature: every probability to the power 1 / temperature, rescaled."""
    return round_to_grid(tuple((x / GRID) ** (1.0 / temperature) for x in probs))


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
        "The two distributions are the same.",
    ),
    "disjoint": Preset(
        "Disjoint distributions",
        (5000, 3000, 2000, 0, 0),
        (0, 0, 0, 6000, 4000),
        "The draft suggests only tokens that the target never chooses, so every draft token is rejected.",
    ),
    "sure": Preset(
        "Draft too sure",
        USUAL,
        (300, 9100, 300, 200, 100),
        "The draft suggests nearly always the same token, and most of these draft tokens are rejected.",
    ),
    "misses": Preset(
        "Draft misses a token",
        USUAL,
        (0, 5000, 3000, 1000, 1000),
        "The draft never suggests the target’s likeliest token. Can it still come out often enough?",
    ),
    "temperatures": Preset(
        "Other temperature",
        USUAL,
        apply_temperature(USUAL, 0.5),
        "Draft and target are the same model, but the draft runs at temperature 0.5: its tokens are likely ones, and still not all accepted.",
    ),
}
FIRST = "usual"

TEXTS = {
    "question": "Why is the result exactly p?",
    "lead": "In speculative decoding, the draft model suggests a token, drawn from its distribution q. It is accepted with probability "
    "min(1,\u00a0p/q), where p is the target model’s distribution: always, unless q is larger than p. If it is rejected, another token takes its place.",
    "complete": "A draft token was rejected. In its place comes a token drawn from",
    "completeP": "p, the target’s distribution.",
    "completeQ": "q, the draft’s distribution.",
    "completeResidual": "what p has beyond q, rescaled to 1.",
    "completeOpen": "Choose an answer, and “What comes out” shows what it leads to.",
    "completeWrong": "{word} comes out with probability {got}, but p is {p}.",
    "completeWhyP": "Tokens that were accepted often enough get a second share, and the others get too little. Try another answer.",
    "completeWhyQ": "The draft is asked again, and suggests again what it suggests too often. Try another answer.",
    "completeExact": "✓ Exact.",
    "completeNot": "✗ Not exact.",
    "completeRight": "What both models agree on is accepted. What the draft gives in excess is rejected, and goes exactly to the tokens that "
    "it gives too little (the residual, green). For {word}: {sum}.",
    "completeSame": "But only here: the two distributions share nothing, so p is larger than q wherever it is not 0. Try other bars.",
    "completeNothing": "But only here: the two distributions are equal, so nothing is ever rejected, and every answer is exact. Try other bars.",
    "completeAlways": "As with any bars. Here every answer is: the two distributions are equal, so nothing is ever rejected.",
    "bars": "What each model gives to the next token",
    "barsSub": "drag any bar, or use the arrow keys; the others share the rest",
    "barsSubText": "recorded distributions; drag a bar to make them your own",
    "overlap": "The striped overlap is accepted.",
    "overlapNone": "No overlap: nothing is accepted.",
    "fateNever": "The draft never suggests {word}, so none of it is accepted.",
    "fateAlways": "{word} is always accepted, because its q is not above p: {q}.",
    "fateCut": "{word} is suggested with probability {q} and then accepted with {p}/{q}, so it comes out with {p}.",
    "fateEqual": "The two distributions are equal, so every draft token is accepted.",
    "fateAdded": "The residual adds {replaced}: {sum}.",
    "draftToken": "Over all draft tokens",
    "draftTokenSub": "accepted with probability",
    "draftTokenFoot": "The striped parts, added up.",
    "out": "What comes out",
    "outSub": "accepted + replaced, drawn from {end}",
    "outSubOpen": "accepted draft tokens, still without replacements",
    "outResidual": "the residual",
    "outFoot": "Every stack ends at its mark. Drag any bar: it still does.",
    "outFootOpen": "{missing} is still to come: the replacements of rejected draft tokens.",
    "outFootWrong": "{low} ends {under} below its mark, {high} {over} above.",
    "sums": "The sum for every token",
    "sumsSub": "accepted + replaced = q · min(1, p/q) + (1 − overlap) · residual = p",
    "sumsFoot": "Accepted and replaced add up to p for each token. The difference is float64 rounding, shown as it is.",
    "rules": "Other exact rules, for two draft tokens",
    "rulesSub": "How many of two draft tokens are accepted: the probability that the first one is, plus the probability that both are. Both are drawn "
    "from the distributions above. “Off by” is the largest difference from p for any pair of tokens: rounding.",
    "rulesFoot": "All four write exactly p. They differ only in how many draft tokens they accept: {best} {most} of two, {worst} {least}.",
    "rulesFootSame": "All four write exactly p. Here they all accept {most} of two draft tokens.",
    "rulesRest": "These rules need the probability of every token, and the recorded distribution holds the rest only as sums. Drag a bar, or "
    "choose a preset.",
    "twinCounts": "Of 100 draft tokens, {accepted} are accepted and {rejected} rejected.",
    "twinAll": "Every draft token is accepted, so nothing needs to be replaced.",
    "twinOpen": "What replaces these must fill the gaps up to the black marks. What is it drawn from? Choose an answer above.",
    "twinRedrawn": "Drawn again from {end}, they are replaced by {shares}.",
    "twinWrong": "That is not what is missing.",
    "twinBecome": "They are replaced by {shares}.",
    "twinRight": "p and q both sum to 1, so the draft’s excess ({excess}) is exactly what it gives too little elsewhere ({excess}), whatever q is: "
    "accepted plus replaced makes p for every token.",
    "source": "Distributions at a draft token of the recorded run",
    "sourceOwn": "Distributions at a draft token of your own run",
    "lumped": "Since you dragged a bar, the rest of the vocabulary counts as one token.",
    "unlinked": "This is a position of your own run: the address cannot show it to others until you drag a bar.",
}
RULE_NAMES = {
    "block": ("Block verification", "checks both draft tokens together (Sun et al. 2024)"),
    "token": ("Token rule", "the rule of this page, one draft token after the other (Leviathan et al. 2023)"),
    "greedy": ("Greedy draft", "suggests the draft’s likeliest token, accepted with its p"),
    "compare": ("Sample and compare", "the target draws too; accepted where both drew the same"),
}


def build_token_payload(trace: Trace | None, shared: bool = True) -> dict[str, Any]:
    """Everything the page draws from: presets, positions of a text, words.

    trace   the run whose positions are offered; None: none
    shared  whether an address can name its positions: only those of the recorded run
    """
    presets = [
        {"id": key, "title": one.title, "p": _scale_to_one(one.p), "q": _scale_to_one(one.q), "about": one.about}
        for key, one in PRESETS.items()
    ]
    return {
        "presets": presets,
        "positions": list_positions(trace),
        "shared": shared,
        "words": list(WORDS),
        "texts": TEXTS,
        "rules": {key: {"title": title, "how": how} for key, (title, how) in RULE_NAMES.items()},
    }


def list_positions(trace: Trace | None) -> list[dict[str, Any]]:
    """Every draft token of a run whose distributions were recorded: id ROUND.TOKEN (both from 1), the text before it, and its bars."""
    found: list[dict[str, Any]] = []
    before = "" if trace is None else trace.settings.get("prompt", "")
    raw = b""
    for index, round_ in enumerate(trace.rounds if trace else ()):
        for draft_token in range(min(len(round_.proposals), len(round_.distributions))):
            if round_.distributions[draft_token].q is not None and round_.proposals[draft_token].parent == draft_token - 1:
                found.append(_build_position(trace, round_, index, draft_token, before, raw))
        raw += b"".join(read_piece(trace.pieces, token) for token in round_.committed)
    return found


def _build_position(trace: Trace, round_: Round, index: int, draft_token: int, prompt: str, raw: bytes) -> dict[str, Any]:
    pieces = [raw, *(read_piece(trace.pieces, one.token) for one in round_.proposals[:draft_token])]
    text = prompt + decode_whole(b"".join(part for part in pieces if not is_special(part)))
    text = " ".join(text.split())
    token = round_.proposals[draft_token].token
    return {
        "id": f"{index + 1}.{draft_token + 1}",
        "before": f"…{text[-TAIL:]}" if len(text) > TAIL else text,
        "draft": name_token(read_piece(trace.pieces, token), token),
        "slots": _build_slots(trace, round_.distributions[draft_token], token),
    }


def _build_slots(trace: Trace, probs: Distribution, drafted: int) -> list[dict[str, Any]]:
    """Bars with the overlap and residual that were recorded, largest first, the draft token always among them; the rest last."""
    must = [drafted] if drafted in probs.tokens else []
    free = [token for token in probs.tokens if token not in must][: SHOWN - len(must)]
    shown = [i for i, token in enumerate(probs.tokens) if token in must or token in free]
    hidden = [i for i in range(len(probs.tokens)) if i not in shown]
    keys = ("p", "q", "overlap", "residual")
    bars = [
        {"glyphs": build_glyphs(read_piece(trace.pieces, probs.tokens[i]), probs.tokens[i])}
        | {key: getattr(probs, key)[i] for key in keys}
        for i in shown
    ]
    rest = {key: probs.rest[key] + sum(getattr(probs, key)[i] for i in hidden) for key in keys}
    return [*bars, {"glyphs": None} | rest]


def _scale_to_one(whole_: tuple[int, ...]) -> list[float]:
    return [n / GRID for n in whole_]
