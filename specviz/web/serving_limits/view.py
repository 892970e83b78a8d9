"""The page Serving limits on screen: a text and two ways to compute its target; the setups as rows; below them near ties."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from specviz.figures.serving_limits import near_ties as ties
from specviz.figures.serving_limits import setups as figures
from specviz.models.pairs.sharing import draftable_in_words
from specviz.serving.near_ties import COMPARISONS
from specviz.serving.setups import SetupComparison
from specviz.web.common import measurement_page, pairs, session, two_texts
from specviz.web.common.elements import PLOT, dataframe, escaped, machine, notes, picture, said, tables
from specviz.web.common.pairs import recorded_with
from specviz.web.common.pictures import drawn
from specviz.web.common.title import head
from specviz.web.common.two_texts import Line
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits.state import SetupsQuestion, SetupsState

LEDE = (
    "What does exactness not cover? It is relative to the target as served. Quantization, number types and logits processors change "
    "the target’s distribution. Speculative decoding follows the changed one, provided that verification and target-only sampling use the same."
)
STORIES = ("bf16", "int8")  # comparisons that the story may be of: neither has a draft
ABOUT = "Measures every row on your text, and writes its greedy text in every number type."
SERVED, TV_DRAFTED, VERDICT, RESPECT, TV_FLOAT32, ACCEPTED, PER_PASS, SPEED, SPEED_DRAFTED = figures.COLUMNS


def page() -> None:
    state = measurement_page.current("serving_limits", SetupsState, SetupsQuestion)
    head("serving_limits", "Serving limits", LEDE)
    top = st.container(key="serving_limits-story")
    arms = {key: arm.name for key, arm in COMPARISONS.items()}
    question, problems = measurement_page.prompt_and_choice("serving_limits", state, "arm", "Near ties between", arms)
    measurement_page.run("serving_limits", state, question, problems, export.offer, "Measure every setup", work.run_all, ABOUT)
    one, kind = state.underway or state.shown, session.theme()
    if one is None:
        st.caption("The measurements appear here once they have run.")
        return
    with top:
        one_story(one)
    conclusion = figures.conclusion(one)
    notes([measured_on(state, one), *filter(None, [draftable_in_words(one.models)])], "serving_limits-notes-from")
    table(one)
    said(conclusion, "serving_limits-said")
    st.markdown(
        "### Two distances\nHow much the setup changes the target, and how much draft tokens change that, on one scale: "
        "total variation distance (TV), half the sum of absolute differences between two distributions."
    )
    picture(drawn(figures.distances, one, kind), "serving_limits", "distances", conclusion, sentence=False)
    if one is not state.underway or one.near_ties.comparisons:
        near_ties(one, state.question.arm, kind)
    folds(one)


def one_story(one: SetupComparison) -> None:
    """One text, served in two ways: what the page is about, before its numbers."""
    told = next(filter(None, (ties.story(one.near_ties.seen(arm)) for arm in STORIES)), None)
    if told is None:
        return
    st.markdown("## Which of these two texts is exact?")
    lines = zip(told.names, told.tokens, told.after, strict=True)
    st.html(two_texts.html(Line(name, "right", "…", told.before, token, f"{rest} …") for name, token, rest in lines))
    said(told.in_words, "serving_limits-said-story", plain=True)


def measured_on(state: SetupsState, one: SetupComparison) -> str:
    """Where the numbers come from."""
    size = f"{one.texts} texts of {one.length} tokens, {one.runs} run{'s' * (one.runs != 1)}; {one.date}, {machine(one.machine)}."
    slow = "" if one.steady else f" No verdict on speed: {one.unsteady}"
    if state.own or state.underway:
        return f"Your run, continuing your text: {size}{slow}{measurement_page.how_far(state, one.runs, work.RUNS)}"
    other = recorded_with(one.models.get("pair", pairs.DEFAULT), state.pair)
    slow += f" {other}" if other else ""
    return f"Recorded on passages of {one.text}: {size}{slow} Press the button to measure it on your text."


def table(one: SetupComparison) -> None:
    """The setups as rows, as wide as a laptop's page; intervals and the speeds of a busy machine stand in the folds."""
    text, number = st.column_config.TextColumn, partial(st.column_config.NumberColumn, format="%.2f")
    verdicts = (
        "✓ exact: draft tokens do not change the served distribution. ≈ exact up to rounding: passes over several tokens round "
        "differently. ✗ lossy: a mistake, draft tokens change the distribution."
    )
    config = {
        SERVED: text("served as", width=212, pinned=True, help=verdicts),
        TV_DRAFTED: text("TV by draft tokens", width=148, help="Total variation distance between the distribution that the decoder writes, with "
                         "draft tokens and caches, and target-only sampling in the same setup: mean and largest over the prefixes checked."),
        VERDICT: text(width=150, help=verdicts),
        RESPECT: text(width=238, help="The distribution that this setup is compared with."),
        TV_FLOAT32: text("TV to float32", width=110, help="Total variation distance of this setup’s distribution from float32’s, one token per "
                         "pass: mean over all prefixes. Its 95% interval stands below, in the numbers behind the table."),
        ACCEPTED: number("acceptance", width=96, help="Probability that a token of the unchanged draft model is accepted: the sum of min(p, q), "
                         "mean over all prefixes."),
        PER_PASS: number("per pass", width=80, help="Tokens written per target pass, with draft tokens."),
        SPEED: number("speed", width=70, help="Target-only speed, relative to the float32 target: median of the runs."),
        SPEED_DRAFTED: number("drafted", width=76, help="Speed with draft tokens, relative to target-only float32: median of the runs."),
    }  # fmt: skip
    shown = figures.COLUMNS if one.steady else figures.COLUMNS[:-2]  # without a verdict the columns of speeds are empty
    lines = [line | {SERVED: figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    dataframe(lines, height="content", column_config=config, column_order=shown, alt=figures.conclusion(one), placeholder="",
          key="serving_limits-table")  # fmt: skip


def near_ties(one: SetupComparison, arm: str, kind: str) -> None:
    seen = one.near_ties.seen(arm)
    st.markdown(
        "### Near ties\nGreedy decoding follows the largest logit. Two ways to compute the same target write different texts where its two "
        "largest logits are closer than rounding moves them."
    )
    if seen is None:
        st.caption("This comparison could not run on this pair.")
        return
    conclusion = ties.conclusion(seen)
    for place, name, draw in zip(st.columns(2, gap="large"), ("margins", "spread"), (ties.margins, ties.spread), strict=True):
        place.plotly_chart(drawn(of_arm, draw, one, arm, kind), key=f"serving_limits-figure-{name}", config=PLOT, alt=conclusion)
    said(conclusion, "serving_limits-said-ties")
    if seen.parted:
        tables("Where they differ, and what each writes there", ties.partings(seen))


def of_arm(draw: Callable[..., Any], one: SetupComparison, arm: str, kind: str) -> Any:
    """A picture of near ties."""
    return draw(one.near_ties.seen(arm), kind)


def folds(one: SetupComparison) -> None:
    with st.expander("What each row is"):
        st.markdown("\n".join(f"- **{name}**: {escaped(what)}" for name, what in figures.entries(one)))
    tables("The numbers behind the table", figures.details(one))
    with st.expander("How it was measured"):
        st.markdown(
            "**TV to float32**: every setup reads the same texts, one token per pass. Its distribution is compared with float32’s at every "
            "position.  \n**TV by draft tokens**: the decoder is led along the texts, and its draft tokens are accepted and rejected at "
            "random. At every position the distribution of the token that it writes is computed from what draft and rule really do, and "
            "compared with target-only sampling in the same setup. There are no samples, so there is no sampling noise.  \n**Mistakes** "
            "replace one argument of the decoder; the decoder itself has no switch that makes it wrong."
        )
