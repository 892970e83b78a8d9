"""Near ties in words and pictures: margins of the two largest logits along greedy texts, and where the texts diverge."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import exp, log10
from typing import Any

from specviz.evidence.serving_setups.records import COMPARISONS, GreedyDifference, GreedyPair, NearTieSummary
from specviz.evidence.testing.results import label_cell
from specviz.figures.charts import escape_label, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import FADED, GRAY, INK, MEANINGS
from specviz.glyphs import decode_whole, read_piece
from specviz.speed.records.gpu_costs import list_gpu_costs

FEW = 3  # texts up to which each is drawn as lines
FLOOR = 1e-4  # margins below, which are 0 or nearly so, stand on this edge of the logarithmic axis, named "≤"
BINS = 20
BEFORE, AFTER, CONTEXT = 30, 10, 8  # tokens of a story before and after the difference, and of a row of the table
BEGIN = re.compile(r"[.!?][”\"]?\s+|\n")
OPENING = re.compile(r'(?<![^\s(])"')
SENTENCE = re.compile(r"[^.!?\n]*[.!?][”\"]?")
MARGIN = "lead of the best token, in logits"


def describe_near_ties(summary: NearTieSummary) -> str:
    """What one comparison shows."""
    arm, parted = COMPARISONS[summary.key], summary.differences
    length = max(len(one.first.tokens) for one in summary.pairings)
    several = len(summary.pairings) > 1
    texts = f"{len(summary.pairings)} greedy texts" if several else "the greedy text"
    if not parted:
        return f"{arm.first[0].upper()}{arm.first[1:]} and {arm.second} write the same tokens in {texts} of {length} tokens."
    if several:
        said = f"{len(parted)} of {texts} of {length} tokens differ{'' if len(parted) > 1 else 's'} between {arm.first} and {arm.second}."
    else:
        said = f"The greedy text differs between {arm.first} and {arm.second}, from token {parted[0].place + 1} on."
    gap = (
        f"at most {summary.largest_margin_at_difference:.2g} apart (median {summary.median_margin_at_difference:.2g})"
        if len(parted) > 1
        else f"{summary.median_margin_at_difference:.2g} apart"
    )
    said += f" Where the texts first differ, the two largest logits are {gap}; over all positions the median is {summary.median_margin:.2g}."
    if ties := sum(gap == 0.0 for gap in summary.margins_before_difference):
        least = min(gap for gap in summary.margins_before_difference if gap > 0.0)
        said += f" At {ties} positions the gap is exactly 0: rounded logits come in steps, and the smallest gap above 0 is {least:.2g}."
    if len(summary.pairings) <= FEW and any(one.is_loop for one in summary.pairings):
        said += " This text repeats itself, so the gap does too."
    return said


def describe_gpu_rounding() -> str:
    """Say what a GPU adds: two engines of the recorded GPU round differently in bfloat16, so they meet near ties differently."""
    costs = next(iter(list_gpu_costs().values()))
    tokens = {kind: costs.pair[f"{kind}, T=0"].tokens_per_round for kind in ("bfloat16", "float32")}
    half, single = ((found["device"], found["compiled"]) for found in tokens.values())
    return (
        f"A GPU adds one more cause: its kernels sum in other orders. On an {costs.machine}, two kernels of one decoder wrote {half[0]:.2f} and "
        f"{half[1]:.2f} tokens per target pass in bfloat16 at temperature 0: some near tie went the other way. In float32 both wrote {single[0]:.2f}."
        if half[0] != half[1] and single[0] == single[1]
        else ""
    )


def plot_margins(summary: NearTieSummary, kind: str = "light") -> go.Figure:
    """Gap between the two largest logits at each position, up to where the texts diverge; those positions are marked."""
    figure, gray = go.Figure(), GRAY[kind]
    if len(summary.pairings) <= FEW:
        arm, blue = COMPARISONS[summary.key], getattr(MEANINGS["target"], kind)
        for one in summary.pairings:
            for name, text, color, dash in ((arm.first, one.first, blue, "solid"), (arm.second, one.second, gray, "dot")):
                y = [max(FLOOR, margin) for margin in text.margins[: one.shared + 1]]
                figure.add_scatter(x=list(range(1, len(y) + 1)), y=y, mode="lines", name=name, line={"width": 1.8, "color": color, "dash": dash},
                                   hovertemplate=f"{name}: %{{y:.2g}}<extra></extra>")  # fmt: skip
    else:
        x = [place + 1 for one in summary.pairings for place in range(one.shared)]
        y = [max(FLOOR, margin) for one in summary.pairings for margin in one.first.margins[: one.shared]]
        figure.add_scatter(x=x, y=y, mode="markers", name="both texts have the same token", marker={"size": 5, "color": gray, "opacity": 0.5}, hoverinfo="skip")  # fmt: skip
    parted = summary.differences
    figure.add_scatter(x=[one.place + 1 for one in parted], y=[max(FLOOR, one.margins[0]) for one in parted], mode="markers", name="here the texts part",
                       marker={"symbol": "x", "size": 11, "color": INK[kind]},
                       customdata=[[one.margins[0], one.margins[1], *map(escape_label, name_tokens(one))] for one in parted],
                       hovertemplate="token %{x}: %{customdata[2]} or %{customdata[3]}<br>gaps %{customdata[0]:.2g}, %{customdata[1]:.2g}<extra></extra>")  # fmt: skip
    frame_chart(figure, 340, "position in the text, in tokens", MARGIN, showlegend=True)
    figure.update_layout(legend={"font": {"size": 14}})
    figure.update_xaxes(tickfont={"size": 13}, title_font={"size": 14})
    figure.update_yaxes(tickfont={"size": 13}, title_font={"size": 14})
    ticks = [10.0**power for power in range(round(log10(FLOOR)), 3)]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"≤ {FLOOR:g}", *(f"{tick:.10g}" for tick in ticks[1:])])
    return figure


def plot_gap_histogram(summary: NearTieSummary, kind: str = "light") -> go.Figure:
    """Distribution of the gaps at all positions, and above it a dot for each text at the gap where it first differs."""
    figure = go.Figure()
    edges, everywhere, there = compute_histogram(summary)
    x, wide = [(a + b) / 2.0 for a, b in pairwise(edges)], edges[1] - edges[0]
    figure.add_bar(x=x, y=everywhere, width=wide, name="all positions", marker={"color": FADED[kind]},
                   hovertemplate="%{y:.1%} of all positions<extra></extra>")  # fmt: skip
    dots = [
        (place, n + 0.5) for place, share in zip(x, there, strict=True) for n in range(round(share * len(summary.differences)))
    ]
    if dots:
        figure.add_scatter(x=[place for place, _ in dots], y=[n for _, n in dots], yaxis="y2", mode="markers", name="a text, where it first differs",
                           marker={"size": 11, "color": INK[kind]}, hoverinfo="skip")  # fmt: skip
    ticks = list(range(round(log10(FLOOR)), round(edges[-1]) + 1))
    frame_chart(figure, 340, f"{MARGIN}, logarithmic", "share of positions", showlegend=True, barmode="overlay", bargap=0.0)
    figure.update_layout(legend={"font": {"size": 14}})
    figure.update_xaxes(tickfont={"size": 14}, title_font={"size": 14})
    figure.update_yaxes(tickfont={"size": 14}, title_font={"size": 14})
    figure.update_xaxes(tickvals=ticks, ticktext=[f"≤ {FLOOR:g}", *(f"{10.0**tick:g}" for tick in ticks[1:])])
    figure.update_yaxes(tickformat=".0%", domain=[0.0, 0.56] if dots else [0.0, 1.0])
    if dots:
        figure.update_layout(
            yaxis2={
                "domain": [0.6, 1.0],
                "range": [0.0, max(5.0, *(n for _, n in dots)) + 0.5],
                "tickvals": [],
                "showgrid": False,
                "zeroline": False,
                "fixedrange": True,
            }
        )
    return figure


def build_gap_histogram(summary: NearTieSummary) -> str:
    """Build the same histogram as HTML, which a page shows without Plotly: columns of all positions, a dot for each text above them."""
    edges, everywhere, there = compute_histogram(summary)
    most, low, high = max(everywhere), edges[0], edges[-1]
    columns = "".join(
        f"<span><i>{'<u></u>' * round(share * len(summary.differences))}</i><em style='height:{100.0 * part / most:.1f}%'>"
        f"{f'<b>{part:.0%}</b>' if part == most else ''}</em></span>"
        for part, share in zip(everywhere, there, strict=True)
    )
    ticks = "".join(
        f"<span style='left:{100.0 * (power - low) / (high - low):.1f}%'>{'≤ ' if power == low else ''}{10.0**power:g}</span>"
        for power in range(round(low), int(high) + 1)
    )
    legend = (
        "<p class='keys'><span><u></u> one text, where it first differs</span><span><em></em> share of all positions</span></p>"
    )
    return (
        f"<div class='gaps'>{legend}<div class='columns' role='img' aria-label='{escape(describe_near_ties(summary), quote=True)}'>{columns}</div>"
        f"<div class='ticks'>{ticks}</div><p class='ends'><span>← nearly a tie</span><span>{MARGIN}</span><span>clear →</span></p></div>"
    )


def compute_histogram(summary: NearTieSummary) -> tuple[list[float], list[float], list[float]]:
    """Logarithms of the edges of BINS equal bins (BINS + 1,), and the share of all places and of the partings in each.

    What lies below FLOOR is counted into the first bin.
    """
    low, high = log10(FLOOR), log10(max(10.0, *summary.margins_before_difference))
    edges = [low + (high - low) * place / BINS for place in range(BINS + 1)]

    def compute_shares(margins: Sequence[float]) -> list[float]:
        counts = [0] * BINS
        for margin in margins:
            counts[min(BINS - 1, bisect_right(edges, log10(max(FLOOR, margin))) - 1)] += 1
        return [count / max(1, len(margins)) for count in counts]

    return (
        edges,
        compute_shares(summary.margins_before_difference),
        compute_shares([one.margins[0] for one in summary.differences]),
    )


def build_difference_rows(summary: NearTieSummary) -> list[dict[str, object]]:
    """Every position where two texts diverge, the earliest first."""
    arm = COMPARISONS[summary.key]
    return [
        {"after": _shorten_context(one), "position": one.place + 1, arm.first: name_tokens(one)[0], arm.second: name_tokens(one)[1],
         f"gap, {arm.first}": one.margins[0], f"gap, {arm.second}": one.margins[1]}
        for one in sorted(summary.differences, key=lambda one: one.place)
    ]  # fmt: skip


def name_tokens(difference: GreedyDifference) -> tuple[str, str]:
    """The two tokens where the texts differ, spaces shown."""
    first, second = difference.tokens
    return name_token(difference.pair, first), name_token(difference.pair, second)


def name_token(texts: GreedyPair, token: int) -> str:
    """A token with its spaces shown."""
    return label_cell((token,), True, texts.pieces)


@dataclass(frozen=True, slots=True)
class NearTieStory:
    """The closest tie of a comparison, between two words.

    Attributes:
        names: The two ways to serve the target.
        before: The last words that both wrote.
        tokens: What each then wrote first.
        after: What each wrote after that.
        place: Of the different token, from 1.
        gaps: Between the two largest logits there, each way.
        usual: The median gap.
    """

    names: tuple[str, str]
    before: str
    tokens: tuple[str, str]
    after: tuple[str, str]
    place: int
    gaps: tuple[float, float]
    usual: float

    def compare_tokens(self, side: int) -> tuple[float, float]:
        """Probability of either token in one way, of that of both: the gap is of their logits, and the one that is written leads."""
        lead = 1.0 / (1.0 + exp(-self.gaps[side]))
        return (lead, 1.0 - lead) if side == 0 else (1.0 - lead, lead)

    @property
    def sentence(self) -> str:
        first, second = self.names
        return (
            f"The two words nearly tie, and rounding to {second} {'swaps them' if self.gaps[1] else 'makes them equal'}. "
            f"Each text is right for its own target: speculative decoding of the {first} target writes the {first} text, of the {second} target the {second} text."
        )


def curl_quotes(text: str) -> str:
    """A model's straight quotes as the page writes its own."""
    return OPENING.sub("“", text).replace('"', "”").replace("'", "’")


def build_fork(story: NearTieStory, texts: Mapping[str, Any]) -> str:
    """Build two texts as HTML: their common beginning, and in each way the share of either of two next words, and how it goes on.

    A bar is 100%, divided between the two words; a mark in its middle is a tie. Both ways have this scale, and each word has one color.
    texts: of the page: ``number_types``, what a number type is, by its name; ``both``, of what the shares are; ``shares``, a sentence
    with places for the word that leads and its lead in percentage points.
    """
    notes, both, kinds = texts["number_types"], texts["both"], ("one", "other")  # of the words
    ways = ""
    for way, (name, rest) in enumerate(zip(story.names, story.after, strict=True)):
        one, other = story.compare_tokens(way)
        note = f" <small>{escape(notes[name])}</small>" if name in notes else ""
        word, lead = story.tokens[way].strip(), round(100.0 * one, 2) - round(100.0 * other, 2)
        marks = [f"{kind} {'best' if place == way else 'second'}" for place, kind in enumerate(kinds)]
        first, second = (
            f"<b class='{mark}'>{escape(token.strip())} <span>{share:.2%}</span></b>"
            for mark, token, share in zip(marks, story.tokens, (one, other), strict=True)
        )
        parts = "".join(
            f"<em class='{mark}' style='width:{100.0 * share:.2f}%'></em>"
            for mark, share in zip(marks, (one, other), strict=True)
        )
        lead_words = escape(texts["shares"].format(word=word, lead=f"{abs(lead):.2g}"))
        ways += (
            f"<div><h3>{escape(name)}{note}</h3><p class='words'>{first}<small>{escape(both)}</small>{second}</p><i>{parts}<u>50%</u></i>"
            f"<p class='writes'><span>{lead_words}</span><q><b class='{kinds[way]}'>{escape(word)}</b>{escape(curl_quotes(rest))}</q></p></div>"
        )
    return f"<div class='fork'><p class='begin'><q>… {escape(curl_quotes(story.before.strip()))} <i aria-hidden='true'></i></q></p><div class='ways'>{ways}</div></div>"


def describe_rates(seen: NearTieSummary, drafted: NearTieSummary | None, texts: Mapping[str, str]) -> str:
    """How many texts a number type changed, and how many a draft did. drafted: the comparison with a draft in the reference; None: none."""
    said = texts["rates"].format(
        second=COMPARISONS[seen.key].second, changed=len(seen.differences), texts=len(seen.pairings),
        tokens=max(len(one.first.tokens) for one in seen.pairings),
    )  # fmt: skip
    if drafted is None:
        return said
    first = COMPARISONS[seen.key].first
    return f"{said} {texts['drafted_rates'].format(first=first, changed=len(drafted.differences) or 'none')}"


def build_lead_bars(story: NearTieStory) -> str:
    """Build three bars as HTML: by how much the best token leads usually, and in each way where the texts part."""
    rows = [("usual lead (median)", story.usual, "usual")]
    for name, token, gap in zip(story.names, story.tokens, story.gaps, strict=True):
        rows.append((f"{escape(name)}: <q>{escape(token.strip())}</q>{' leads' if gap else ', a tie'}", gap, "here"))
    most = max(value for _, value, _ in rows)
    bars = "".join(
        f"<p><span>{words}</span><i><em class='{kind}' style='width:{100.0 * value / most:.2f}%'></em></i><b>{value:.2g}</b></p>"
        for words, value, kind in rows
    )
    return f"<div class='lead-bars'><p class='title'>Lead of the best token over the second, in logits (a model’s scores)</p>{bars}</div>"


def build_story(summary: NearTieSummary | None) -> NearTieStory | None:
    """The difference where the reference's two largest logits are closest, of two whole words if there is one.

    None where no texts differ.
    """
    if summary is None or not summary.differences:
        return None
    differences = [one for one in summary.differences if _is_of_words(one)] or summary.differences
    difference, names = min(differences, key=lambda one: one.margins[0]), COMPARISONS[summary.key]
    place, one = difference.place, difference.pair

    def join(ids: Sequence[int]) -> str:
        return decode_whole(b"".join(read_piece(one.pieces, token) for token in ids))

    (first, after_first), (second, after_second) = (
        (join(text.tokens[place : place + 1]), _end_sentence(join(text.tokens[place + 1 : place + 1 + AFTER])))
        for text in (one.first, one.second)
    )
    before = join((*one.begins, *one.first.tokens[:place])[-BEFORE:])
    before = BEGIN.split(before)[-1]  # no part of a sentence
    return NearTieStory(
        (names.first, names.second), before, (first, second), (after_first, after_second), place + 1, difference.margins,
        summary.median_margin,
    )  # fmt: skip


def _end_sentence(text: str) -> str:
    """The text up to the end of its first sentence, or with an ellipsis where none ends."""
    ended = SENTENCE.match(text)
    return ended[0] if ended else f"{text.rstrip()} …"


def _is_of_words(difference: GreedyDifference) -> bool:
    """Whether both texts go on with a space and letters."""
    pieces = [read_piece(difference.pair.pieces, token).decode("utf-8", "replace") for token in difference.tokens]
    return all(piece.startswith(" ") and piece[1:].isalpha() for piece in pieces)


def _shorten_context(difference: GreedyDifference) -> str:
    """The last CONTEXT tokens before the texts differ."""
    before = (*difference.pair.begins, *difference.pair.first.tokens[: difference.place])[-CONTEXT:]
    return "…" + b"".join(bytes.fromhex(difference.pair.pieces[token]) for token in before).decode("utf-8", "replace")
