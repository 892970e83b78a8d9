"""Small traces made by hand, for tests and for looking at the stage. Every number in them is illustrative.

A vocabulary is a list of tokens given as text or as bytes; a distribution is a dict of token -> probability. Sums are consistent:
overlap, residual, threshold and verdicts follow from p, q and the random numbers by the token rule.
"""

from __future__ import annotations

from dataclasses import replace

from specviz.settings import Settings
from specviz.trace import Decision, Distribution, Ending, Round, Trace

TIMING = {"draft": 0.0124, "target": 0.0413, "rule": 0.0008}


class Words:
    """Ids for tokens as they come, and their bytes for Trace.pieces."""

    def __init__(self):
        self.ids: dict[bytes, int] = {}

    def id(self, token: str | bytes) -> int:
        raw = token if isinstance(token, bytes) else token.encode()
        return self.ids.setdefault(raw, len(self.ids) + 100)

    def pieces(self) -> dict[int, str]:
        return {number: raw.hex() for raw, number in self.ids.items()}


def build_distribution(words: Words, p: dict, q: dict | None, shown: int = 10) -> Distribution:
    """A Distribution of these two, the largest ``shown`` tokens as bars and the others as rest."""
    every = sorted({*p, *(q or {})}, key=lambda t: (-max(p.get(t, 0.0), (q or {}).get(t, 0.0)), str(t)))
    top, tail = every[:shown], every[shown:]
    ids = tuple(words.id(token) for token in top)
    p_of = {token: p.get(token, 0.0) for token in every}
    if q is None:
        return Distribution(ids, tuple(p_of[t] for t in top), None, None, None, {"p": sum(p_of[t] for t in tail)}, None)
    q_of = {token: q.get(token, 0.0) for token in every}
    low = {t: min(p_of[t], q_of[t]) for t in every}
    left = {t: max(0.0, p_of[t] - q_of[t]) for t in every}
    rows = {"p": p_of, "q": q_of, "overlap": low, "residual": left}
    rest = {key: sum(row[t] for t in tail) for key, row in rows.items()}
    bars = [tuple(row[t] for t in top) for row in rows.values()]
    return Distribution(ids, *bars, rest, sum(low.values()))


def build_round(
    words: Words, start: int, draft_tokens: list, final: tuple, bonus: dict | None = None, with_distributions: bool = True
) -> Round:
    """A round by the token rule.

    draft_tokens  (token, p, q, u, stand_in) per proposal
    final    (token or None, u): the replacement or the bonus; a kind other than these as a third entry
    bonus    the distribution after the full block
    """
    decisions, path, open_ = [], [], True
    for i, (token, p, q, u, stand_in) in enumerate(draft_tokens):
        p_met, q_met = p.get(token, 0.0), q[token]
        kept = u * q_met < p_met if open_ else None
        known = (
            {"u": u, "threshold": min(1.0, p_met / q_met), "replacement_if_rejected": words.id(stand_in) if stand_in else None}
            if open_
            else {}
        )
        blank = {"u": None, "threshold": None}
        decisions.append(Decision(words.id(token), i - 1, "draft", q_met, p_met, 0.5, accepted=kept, **{**blank, **known}))
        if kept:
            path.append(i)
        open_ = bool(kept)
    kind = final[2] if len(final) > 2 else "bonus" if open_ else "residual"
    ending = Ending(kind, None if final[0] is None else words.id(final[0]), final[1])
    distributions = [build_distribution(words, p, q) for _, p, q, _, _ in draft_tokens] + [
        build_distribution(words, bonus or {" and": 1.0}, None)
    ]
    return Round(start, tuple(decisions), tuple(path), ending, tuple(distributions) if with_distributions else (), dict(TIMING))


def build_trace(words: Words, rounds: list[Round], prompt: str = "Once upon a time", prompt_ids: int = 4, **settings) -> Trace:
    """A Trace of these rounds. ``prompt_ids`` says how many ids the prompt has; their bytes are left out."""
    made = Settings(prompt=prompt, **settings).to_record()
    pieces = words.pieces()
    raw = b"".join(bytes.fromhex(pieces[token]) for round_ in rounds for token in round_.committed)
    models = {"device": "cpu", "dtype": "float32"}
    return Trace(made, tuple(range(prompt_ids)), tuple(rounds), raw.decode("utf-8", "replace"), pieces, models)


P_RIVER = {
    " river": 0.42,
    " forest": 0.18,
    " sea": 0.12,
    " village": 0.09,
    " garden": 0.07,
    " mill": 0.05,
    " town": 0.04,
    " lake": 0.03,
}
Q_RIVER = {" river": 0.31, " forest": 0.22, " house": 0.15, " sea": 0.11, " garden": 0.09, " door": 0.07, " town": 0.05}
P_AND = {" and": 0.48, ",": 0.27, ".": 0.12, " to": 0.06, " where": 0.04, " for": 0.03}
Q_AND = {" and": 0.55, ",": 0.22, ".": 0.16, " with": 0.04, " to": 0.03}
P_SAT = {
    " sat": 0.30, " stood": 0.22, " looked": 0.14, " began": 0.09, " drank": 0.07, " saw": 0.05, " there": 0.03, " said": 0.03,
    " was": 0.02, " lay": 0.02, " he": 0.02, " they": 0.01,
}  # fmt: skip
Q_SAT = {
    " sat": 0.62, " stood": 0.06, " looked": 0.09, " began": 0.05, " drank": 0.04, " saw": 0.05, " there": 0.02, " said": 0.02,
    " was": 0.03, " lay": 0.01, " he": 0.01,
}  # fmt: skip
P_DOWN = {" down": 0.5, " by": 0.2, " on": 0.15, " in": 0.1, " there": 0.05}
Q_DOWN = {" down": 0.66, " on": 0.2, " in": 0.09, ".": 0.05}
P_LOOK = {" at": 0.44, " up": 0.2, " into": 0.16, " for": 0.08, " over": 0.06, ",": 0.04, ".": 0.02}


def build_rejection(words: Words, start: int = 4, u: float = 0.71) -> Round:
    """Two kept, the third refused, the fourth not checked."""
    draft_tokens = [
        (" river", P_RIVER, Q_RIVER, 0.84, " mill"),
        (" and", P_AND, Q_AND, 0.22, ","),
        (" sat", P_SAT, Q_SAT, u, " stood"),
        (" down", P_DOWN, Q_DOWN, 0.4, " by"),
    ]
    return build_round(words, start, draft_tokens, (" stood", 0.31))


def build_full_round(words: Words, start: int = 7) -> Round:
    """All four kept, and a bonus."""
    draft_tokens = [
        (" sat", P_SAT, Q_SAT, 0.11, " stood"),
        (" down", P_DOWN, Q_DOWN, 0.4, " by"),
        (" and", P_AND, Q_AND, 0.62, ","),
        (" looked", P_SAT, Q_SAT, 0.93, " stood"),
    ]
    return build_round(words, start, draft_tokens, (" at", 0.12), P_LOOK)


def build_story(**settings) -> Trace:
    """A refused round, then a full one. ``uniforms`` of settings only marks edits; the numbers stay."""
    words = Words()
    return build_trace(
        words,
        [build_rejection(words), build_full_round(words)],
        prompt="Once upon a time the old bear went down to the",
        **settings,
    )


def build_same_distributions() -> Trace:
    """p = q everywhere: every draft token is kept for sure."""
    words = Words()
    draft_tokens = [(token, P_AND, P_AND, u, None) for token, u in ((" and", 0.99), (",", 0.5), (" and", 0.01))]
    return build_trace(words, [build_round(words, 4, draft_tokens, (" at", 0.12), P_LOOK)], gamma=3)


def build_undrafted() -> Trace:
    """gamma 0: the target alone."""
    words = Words()
    return build_trace(words, [build_round(words, 4, [], (" at", 0.12), P_LOOK)], gamma=0)


def build_longest_block() -> Trace:
    """The longest block, kept in full."""
    words = Words()
    row = [" down", " and", " sat", " river"] * 4
    distributions = {" down": (P_DOWN, Q_DOWN), " and": (P_AND, Q_AND), " sat": (P_SAT, Q_SAT), " river": (P_RIVER, Q_RIVER)}
    draft_tokens = [(token, *distributions[token], 0.05 * i % 0.4, " stood") for i, token in enumerate(row)]
    return build_trace(words, [build_round(words, 4, draft_tokens, (" at", 0.12), P_LOOK)], gamma=16)


def build_without_distributions() -> Trace:
    """A round of which only the decisions were kept."""
    made = build_story()
    return replace(made, rounds=tuple(replace(round_, distributions=()) for round_ in made.rounds))


def build_ended_trace(kind: str = "eos") -> Trace:
    """A kept end token inside the block (eos), or a block that fills the length asked for (length)."""
    words = Words()
    last = "<|endoftext|>" if kind == "eos" else " and"
    p, q = {last: 0.7, ".": 0.3}, {last: 0.6, ".": 0.4}
    draft_tokens = [(".", P_AND, Q_AND, 0.2, ","), (last, p, q, 0.5, "."), (" and", P_AND, Q_AND, 0.1, ",")]
    round_ = build_round(words, 4, draft_tokens, (None, None, kind))
    return build_trace(words, [replace(round_, accepted_path=(0, 1))], gamma=3, max_new_tokens=2)


def build_unusual_text() -> Trace:
    """Whitespace, bytes of a Greek letter, a Chinese character in three tokens, an emoji of several code points, markup."""
    words = Words()
    row = [
        "\n\n",
        " ",
        b"\xce",
        b"\xbb",
        b"\xe4\xbd",
        b"\xa0",
        "👩",
        "\u200d",
        "🚀",
        "<img src=x onerror=alert(1)>",
        "$x$",
        ":red[a]",
    ]
    draft_tokens = [(token, {token: 0.6, " the": 0.4}, {token: 0.5, " the": 0.2, "the": 0.3}, 0.3, " the") for token in row]
    prompt = "<img src=x onerror=alert(1)> $x$ :red[a] </script>"
    return build_trace(
        words, [build_round(words, 4, draft_tokens, (b"\xf0\x9f", 0.12), {b"\xf0\x9f": 0.5, "</script>": 0.5})], prompt, gamma=12
    )


def build_edited(u: float = 0.2) -> Trace:
    """The story with the third random number chosen by a person."""
    words = Words()
    round_ = build_rejection(words, u=0.71)
    return build_trace(words, [round_], prompt="Once upon a time the old bear went down to the", uniforms={(2, "accept"): 0.71})


STORY = "build_story"
TRACES = {  # a usual round, and unusual ones, by their names
    build.__name__: build
    for build in (
        build_story,
        build_same_distributions,
        build_undrafted,
        build_longest_block,
        build_without_distributions,
        build_ended_trace,
        build_unusual_text,
        build_edited,
    )
}
UNUSUAL = tuple(name for name in TRACES if name != STORY)
