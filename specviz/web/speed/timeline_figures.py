"""Draft steps and target passes as bars over time, as the formula has them: what a round costs, and what it brings. Plotly, sentences."""

from __future__ import annotations

from collections.abc import Mapping

from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import RAISED
from specviz.figures.theme import GRAY, GRID, LEGEND, MEANINGS
from specviz.theory import compute_expected_tokens
from specviz.web.speed.surface_figures import Spot

PASSES = 8.0  # target passes that the picture is long, or one round where that takes longer
ALONE, DRAFTED = 1, 0  # lanes, from below
EDGE = "rgba(0, 0, 0, 0.45)"  # between draft steps, which may be a pixel wide
CHEAP = 0.75  # of the time that so many passes over one token would take: below it a pass over several is worth a sentence
LETTERS = 12.5  # px: of the words; a number that does not fit into its bar at this size is left out
ON_BLUE = {"light": "#ffffff", "dark": "#0f1318"}


def compute_round_cost(gamma: int, spot: Spot, pass_cost: float = 1.0) -> float:
    """Time of a round, in target passes over one token. pass_cost: of the pass over gamma + 1 tokens."""
    return gamma * spot.c + pass_cost


def compute_span(gamma: int, spot: Spot, pass_cost: float = 1.0) -> float:
    """How much time is shown, in target passes."""
    return max(PASSES, compute_round_cost(gamma, spot, pass_cost))


def list_round_starts(gamma: int, spot: Spot, pass_cost: float = 1.0) -> list[float]:
    """When each round begins that is shown, in target passes; the last one may be cut by the end of the picture."""
    round_, end = compute_round_cost(gamma, spot, pass_cost), compute_span(gamma, spot, pass_cost)
    return [number * round_ for number in range(int(end / round_) + 1) if number * round_ < end - 1e-9]


def compute_speedup(gamma: int, spot: Spot, pass_cost: float = 1.0) -> float:
    """Expected tokens of a round over its time, in tokens of target-only sampling."""
    return compute_expected_tokens(spot.alpha, gamma) / compute_round_cost(gamma, spot, pass_cost)


def plot_timeline(gamma: int, spot: Spot, pass_cost: float = 1.0, kind: str = "light") -> go.Figure:
    """Two lanes of the same time: target passes of one token each, and rounds of gamma draft steps with one target pass."""
    end, tokens = compute_span(gamma, spot, pass_cost), compute_expected_tokens(spot.alpha, gamma)
    rounds = list_round_starts(gamma, spot, pass_cost)
    alone = [float(number) for number in range(int(end))]
    steps = [begin + step * spot.c for begin in rounds for step in range(gamma)]
    passes = [begin + gamma * spot.c for begin in rounds]
    figure = go.Figure()
    figure.add_bar(
        x=[spot.c] * len(steps), base=steps, y=[DRAFTED] * len(steps), orientation="h", width=0.62, name="draft step",
        marker={"color": getattr(MEANINGS["draft"], kind), "line": {"color": EDGE, "width": 0.6}}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_bar(
        x=[1.0] * len(alone) + [pass_cost] * len(passes), base=[*alone, *passes], y=[ALONE] * len(alone) + [DRAFTED] * len(passes),
        orientation="h", width=0.62, name="target pass, with its tokens on average",
        text=["1"] * len(alone) + ["" if place + pass_cost > end + 1e-9 else f"{tokens:.1f}" for place in passes], textposition="inside",
        insidetextanchor="middle", textangle=0, textfont={"color": ON_BLUE[kind], "size": 13}, hoverinfo="skip",
        marker={"color": getattr(MEANINGS["target"], kind), "line": {"color": EDGE, "width": 0.6}},
    )  # fmt: skip
    written = int(end) * compute_speedup(gamma, spot, pass_cost)
    figure.update_layout(
        barmode="overlay", height=190, margin={"l": 8, "r": 12, "t": 34, "b": 44}, dragmode=False, showlegend=True,
        legend=LEGEND | {"font": {"size": LETTERS}}, uniformtext={"minsize": LETTERS, "mode": "hide"},
    )  # fmt: skip
    figure.update_xaxes(range=[0.0, end], title="time, in target passes", gridcolor=GRID, zeroline=False, fixedrange=True)
    figure.update_yaxes(
        range=[-0.5, 1.5], tickvals=[DRAFTED, ALONE], ticktext=[f"drafting<br>{format_number(written)} tokens", f"target only<br>{int(end)} tokens"],
        automargin=True, showgrid=False, zeroline=False, fixedrange=True, tickfont={"size": LETTERS, "color": GRAY[kind]},
    )  # fmt: skip
    return figure


def format_number(number: float) -> str:
    """A number of passes or tokens: three digits count, and a whole one has no decimals."""
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.0f}" if abs(number - round(number)) < 0.5 * 10**-decimals else f"{number:.{decimals}f}"


def describe_round(gamma: int, spot: Spot, pass_cost: float = 1.0) -> str:
    """What the picture shows, in a sentence."""
    cost, tokens = (
        format_number(one) for one in (compute_round_cost(gamma, spot, pass_cost), compute_expected_tokens(spot.alpha, gamma))
    )
    return (
        f"A round of {_count_drafts(gamma)} takes {gamma} c + {format_number(pass_cost)} = {_count_passes(cost)} and yields "
        f"{_write_powers(gamma)} = {_count_tokens(tokens)} on average: {tokens} / {cost} = {format_number(compute_speedup(gamma, spot, pass_cost))} times as fast "
        "as target-only sampling, without the rule and the work between passes."
    )


def recommend_gamma(gamma: int, spot: Spot, pass_costs: Mapping[int, float]) -> str:
    """The gamma to take: this one, another one, or none. pass_costs: by gamma."""
    found = {one: compute_speedup(one, spot, cost) for one, cost in pass_costs.items()}
    best = max(found, key=found.__getitem__)
    if found[best] <= 1.0:
        return "Do not draft: no gamma pays here."
    return "No other gamma is better." if best == gamma else f"The best gamma is {best}: {format_number(found[best])} times."


def _write_powers(gamma: int) -> str:
    """Expected tokens of a round as the sum of the chances that it gets so far: 1 + alpha + alpha² + … (Leviathan et al. 2023, equation 1)."""
    terms = [f"alpha{'' if n == 1 else str(n).translate(RAISED)}" for n in range(1, gamma + 1)]
    return " + ".join(["1", *(terms if gamma <= 3 else [*terms[:2], "…", terms[-1]])])


def explain_pass_cost(gamma: int, texts: int, pass_cost: float, origin: str) -> str:
    """What the pass that checks the draft tokens costs, and whose cost that is. origin: empty where it is not known, and 1 is assumed."""
    if not origin:
        return f"The target pass that checks {_count_drafts(gamma)} counts as 1, as in the formula of Leviathan et al. (2023): it was not timed here."
    each = f"{gamma + 1} tokens" + (f" of each of {texts} texts" if texts > 1 else "")
    said = f"{origin}, the target pass over {each} takes {pass_cost:.2f} times as long as one over a single token"
    if texts == 1 and pass_cost < CHEAP * (gamma + 1):
        return f"{said}, not {gamma + 1} times: for a single text, most of the time goes into reading the weights, once per pass."
    return f"{said}: many texts use the time in which a single one waits for the weights." if texts > 1 else f"{said}."


def _count_drafts(gamma: int) -> str:
    return "1 draft token" if gamma == 1 else f"{gamma} draft tokens"


def _count_passes(number: str) -> str:
    return f"{number} target pass{'es' * (number != '1')}"


def _count_tokens(number: str) -> str:
    return f"{number} token{'s' * (number != '1')}"
