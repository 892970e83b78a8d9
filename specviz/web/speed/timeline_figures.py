"""Two ways to write the same number of tokens as bars over time: target passes alone, and rounds with a draft. Plotly, sentences."""

from __future__ import annotations

from math import ceil

from specviz.figures.lazy_plotly import go
from specviz.figures.numbers import RAISED
from specviz.figures.theme import GRAY, GRID, INK, LEGEND, MEANINGS
from specviz.theory import compute_expected_tokens
from specviz.web.speed.round_model import RoundModel, RoundParts

TOKENS = 10  # that both lanes write
ALONE, DRAFTED = 1, 0  # lanes, from below
EDGE = "rgba(0, 0, 0, 0.45)"  # between draft steps, which may be a pixel wide
REST = {"light": "#b7bfc9", "dark": "#66707d"}
LAST_ROUND = f"The last round is cut at the {TOKENS}th token."
CHEAP = 0.75  # of the time that so many passes over one token would take: below it a pass over several is worth a sentence
LETTERS, LEAST = 14, 10  # px: of the words; below the last a number that does not fit into its bar is left out
ON_BLUE = {"light": "#ffffff", "dark": "#0f1318"}
PARTS = ("draft step", "target pass", "other")


def compute_end(alpha: float, parts: RoundParts) -> float:
    """When the last of TOKENS tokens is written on average, in passes."""
    return TOKENS / compute_expected_tokens(alpha, parts.gamma) * parts.cost


def has_whole_rounds(alpha: float, parts: RoundParts) -> bool:
    """Whether the last of TOKENS tokens ends a round; else the last round is cut where that token is written."""
    rounds = compute_end(alpha, parts) / parts.cost
    return abs(rounds - round(rounds)) < 1e-9


def list_bars(alpha: float, parts: RoundParts) -> dict[str, list[tuple[float, float]]]:
    """(begin, length) of every bar of the drafting lane, by its name; the last round ends with the last token."""
    end = compute_end(alpha, parts)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PARTS}
    for number in range(ceil(end / parts.cost - 1e-9)):
        at = number * parts.cost
        lengths = [*((PARTS[0], parts.step) for _ in range(parts.gamma)), (PARTS[1], parts.target_pass), (PARTS[2], parts.rest)]
        for name, length in lengths:
            if length > 0.0 and at < end - 1e-9:
                found[name].append((at, min(length, end - at)))
            at += length
    return found


def plot_timeline(alpha: float, parts: RoundParts, kind: str = "light", has_legend: bool = True) -> go.Figure:
    """Two lanes that write TOKENS tokens, each under its name: the shorter one is faster. Below, each round is its draft steps, its pass and the rest.

    has_legend: whether the colors are named above it; the page names them in the sum of a round
    """
    end, tokens = compute_end(alpha, parts), compute_expected_tokens(alpha, parts.gamma)
    bars, blue = list_bars(alpha, parts), getattr(MEANINGS["target"], kind)
    colors = dict(zip(PARTS, (getattr(MEANINGS["draft"], kind), blue, REST[kind]), strict=True))
    figure = go.Figure()
    for name in PARTS:
        drafted = bars[name]
        alone = [(float(number), 1.0) for number in range(TOKENS)] if name == PARTS[1] else []
        if not alone and not drafted:  # no rule, or no draft step: its name would stand for nothing
            continue
        whole = [length > parts.target_pass - 1e-9 for _, length in drafted]
        texts = ["1"] * len(alone) + [format_number(tokens) if name == PARTS[1] and one else "" for one in whole]
        figure.add_bar(
            x=[length for _, length in [*alone, *drafted]], base=[begin for begin, _ in [*alone, *drafted]],
            y=[ALONE] * len(alone) + [DRAFTED] * len(drafted), orientation="h", width=0.54, name=name, text=texts, textposition="inside",
            insidetextanchor="middle", textangle=0, textfont={"color": ON_BLUE[kind], "size": 15}, hoverinfo="skip",
            marker={"color": colors[name], "line": {"color": EDGE, "width": 0.6}},
        )  # fmt: skip
    for lane, time, name, said in (
        (ALONE, float(TOKENS), "Without a draft", "1 token a pass"),
        (DRAFTED, end, "With a draft", f"{_count_tokens(tokens)} a round, on average"),
    ):
        figure.add_annotation(
            x=time, y=lane, text=f"{TOKENS} tokens<br>in time <b>{format_time(time)}</b>", xanchor="left", xshift=6, align="left", showarrow=False, font={"size": 16, "color": INK[kind]}
        )  # fmt: skip
        figure.add_annotation(
            x=0.0, y=lane + 0.29, xshift=-2, text=f"<b>{name}</b>: {said}", xanchor="left", yanchor="bottom", showarrow=False, font={"size": LETTERS + 1, "color": INK[kind]}
        )  # fmt: skip
    figure.update_layout(
        barmode="overlay", height=264 if has_legend else 236, margin={"l": 0, "r": 112, "t": 34 if has_legend else 4, "b": 56}, dragmode=False, showlegend=has_legend,
        legend=LEGEND | {"font": {"size": LETTERS}}, uniformtext={"minsize": LEAST, "mode": "hide"},
    )  # fmt: skip
    longest = max(TOKENS, end)
    ticks = list(range(0, ceil(longest) + 1, next((step for step in (2, 5, 10, 20) if longest <= 6 * step), 50)))
    figure.update_xaxes(
        range=[0.0, 1.01 * longest], title="time (1 = one token without a draft)", gridcolor=GRID, zeroline=False, fixedrange=True, automargin=False, ticklabeloverflow="allow",
        tickvals=ticks[1:], ticktext=[*map(str, ticks[1:])], tickfont={"size": LETTERS}, title_font={"size": LETTERS},
    )  # fmt: skip
    figure.add_annotation(x=0.0, y=0.0, yref="paper", text="0", xanchor="left", yanchor="top", xshift=-2, yshift=-7, showarrow=False, font={"size": LETTERS, "color": GRAY[kind]})  # begins where the bars begin  # fmt: skip
    figure.update_yaxes(range=[-0.34, 1.66], visible=False, fixedrange=True)
    return figure


def format_time(time: float) -> str:
    """When all tokens are written: one decimal, so that the rounded numbers of a round give it too; a whole number has none."""
    said = f"{time:.1f}" if time < 99.95 else f"{time:.0f}"
    return said.removesuffix(".0") if abs(time - round(time)) < 1e-9 else said


def format_number(number: float) -> str:
    """A number of passes or tokens: three digits count, and a whole one has no decimals."""
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.0f}" if abs(number - round(number)) < 0.5 * 10**-decimals else f"{number:.{decimals}f}"


def describe_round(alpha: float, parts: RoundParts) -> str:
    """What a round brings and costs, and the speed that follows, in a sentence."""
    tokens = compute_expected_tokens(alpha, parts.gamma)
    written, cost, speed = (format_number(one) for one in (tokens, parts.cost, tokens / parts.cost))
    return (
        f"A round of {_count_drafts(parts.gamma)} writes {written} token{'s' * (written != '1')} on average in {cost} times the time of a token without a draft: "
        f"{written}\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}{cost}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{speed}."
    )


def build_round_sum(alpha: float, parts: RoundParts) -> str:
    """The time of a round as a sum whose parts name the colors of the bars, and the speed that follows, as HTML."""
    tokens = compute_expected_tokens(alpha, parts.gamma)
    written, speed = format_number(tokens), format_number(tokens / parts.cost)
    drafting, check, rest = _round_parts(alpha, parts)
    named = (
        ("draft", f"{parts.gamma} draft step{'s' * (parts.gamma != 1)}", drafting),
        ("target", "target pass", check),
        ("rest", "acceptance rule and the rest", rest),
    )
    terms = " + ".join(f"<span class='{kind}'>{name} <b>{time:.2f}</b></span>" for kind, name, time in named if time >= 0.005)
    cost, cut = format_number(drafting + check + rest), "" if has_whole_rounds(alpha, parts) else f" <span>{LAST_ROUND}</span>"
    return f"<p class='round-sum key'>One round: {terms} = <b>{cost}</b>. <span class='speed'>Speed: {written} / {cost} = <b>{speed}×</b>.</span>{cut}</p>"


def _round_parts(alpha: float, parts: RoundParts) -> tuple[float, float, float]:
    """Drafting, pass and rest with two decimals, the rest so that the numbers that are shown give the speed that is shown."""
    tokens = compute_expected_tokens(alpha, parts.gamma)
    speed, written = format_number(tokens / parts.cost), float(format_number(tokens))
    drafting, check = round(parts.gamma * parts.step, 2), round(parts.target_pass, 2)
    rests = (max(0.0, round(parts.rest, 2) + change) for change in (0.0, -0.01, 0.01))
    rest = next((one for one in rests if format_number(written / (drafting + check + one)) == speed), parts.rest)
    return drafting, check, rest


def explain_terms(alpha: float, c: float, parts: RoundParts) -> str:
    """Both numbers of that quotient as sums."""
    tokens, times = format_number(compute_expected_tokens(alpha, parts.gamma)), _round_parts(alpha, parts)
    drafting, check, rest, cost = (format_number(one) for one in (*times, sum(times)))
    return (
        f"Tokens of a round: {_write_powers(parts.gamma)} = {tokens}, with alpha {alpha:.2f}. Its time, in tokens without a draft: drafting {drafting}, "
        f"the target’s pass over {parts.gamma + 1} tokens {check}, the rule and the work between passes {rest}, together {cost}."
    )


def recommend_gamma(model: RoundModel, alpha: float, c: float, gamma: int, texts: int) -> str:
    """The gamma to take: this one, another one, or none. The only place that names a best gamma."""
    best, speed = model.find_best_gamma(alpha, c, texts)
    if speed <= 1.0:
        return "Do not draft: no number of draft tokens pays here."
    return f"Best here: {_count_drafts(best)}." if best == gamma else f"Best here: {_count_drafts(best)}, {speed:.2f}×."


def _write_powers(gamma: int) -> str:
    """Expected tokens of a round as the sum of the chances that it gets so far: 1 + alpha + alpha² + … (Leviathan et al. 2023, equation 1)."""
    terms = [f"alpha{'' if n == 1 else str(n).translate(RAISED)}" for n in range(1, gamma + 1)]
    return " + ".join(["1", *(terms if gamma <= 3 else [*terms[:2], "…", terms[-1]])])


def explain_pass_cost(model: RoundModel, gamma: int, texts: int) -> str:
    """What the pass that checks the draft tokens costs, and why. Empty where it was not timed."""
    if not model.origin:
        return ""
    cost = model.compute_parts(gamma, model.c, texts).target_pass
    each = f"{gamma + 1} tokens" + (f" of each of {texts} texts" if texts > 1 else "")
    said = f"The target’s pass over {each} takes {cost:.2f} times as long as one token of target-only sampling"
    if texts == 1 and cost < CHEAP * (gamma + 1):
        return f"{said}, not {gamma + 1} times: for a single text, most of the time goes into reading the weights, once per pass."
    return f"{said}: many texts use the time in which a single one waits for the weights." if texts > 1 else f"{said}."


def explain_paper_formula(model: RoundModel, alpha: float, c: float, gamma: int, speed: float) -> str:
    """What Leviathan's formula says at the same place, and why it says more."""
    paper = model.compute_paper_speed(alpha, c, gamma)
    return (
        f"The paper’s formula (Leviathan et al. 2023) says {paper:.2f} instead of {speed:.2f}: it leaves out the rule and the work between passes, and "
        f"a pass over {gamma + 1} tokens counts as long as one over a single token."
    )


def _count_tokens(number: float) -> str:
    said = format_number(number)
    return f"{said} token{'s' * (said != '1')}"


def _count_drafts(gamma: int) -> str:
    return "1 draft token" if gamma == 1 else f"{gamma} draft tokens"
