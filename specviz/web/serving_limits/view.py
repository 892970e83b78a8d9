"""The page Serving limits on screen: what setups change, two texts, the setups as rows; a text of one's own; near ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.evidence.serving_setups.records import COMPARISONS, SetupComparison
from specviz.models.pairs.names import describe_draftable
from specviz.web.common import html, measurement_page, pairs, session
from specviz.web.common.controls import Form, read_fields
from specviz.web.common.elements import (
    PLOT,
    describe_machine,
    show_dataframe,
    show_figure,
    show_notes,
    show_sentence,
    show_tables,
)
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import TextLine
from specviz.web.common.page_head import show_page_head
from specviz.web.common.pairs import describe_recorded_pair
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits import near_tie_figures as ties
from specviz.web.serving_limits import setup_figures as figures
from specviz.web.serving_limits.state import SetupsQuestion, SetupsState, load_recorded_setups
from specviz.web.speed.state import load_recorded_plans as recorded_plans

LEDE = (
    "Exact compared with what? With the target as you serve it. Rounding its weights, cutting its choices or penalizing repetitions makes it another "
    "target. Speculative decoding follows that one, as long as the pass that checks draft tokens uses the same settings as ordinary sampling."
)
STORIES = ("bf16", "int8")  # comparisons that the story may be of: neither has a draft
ABOUT = "Measures every row on your text, and writes its greedy text in every number type."
TV = (
    "Changes are total variation distances (TV): the share of the probability that moves to other tokens. 0 is no change, 1 is everything. That of the "
    "setup is compared with float32, that of the draft tokens with target-only sampling in the same setup; means are over all prefixes. ≈: passes of "
    "different lengths round differently, less with a finer number type. ✕: by a mistake, draft tokens change the distribution of others."
)


def show_page() -> None:
    """Draw the page Serving limits."""
    state = measurement_page.open_state("serving_limits", SetupsState, SetupsQuestion)
    show_page_head("serving_limits", LEDE)
    top, numbers = st.container(key="serving_limits-story"), st.container(key="serving_limits-numbers")
    fold, below = st.expander("Measure with a text of your own"), st.container(key="serving_limits-ties")
    form = Form("serving_limits", state.turn, {"prompt": state.question.settings.prompt})
    form.prompt(fold)
    settings, problems = read_fields(form.raw, state.question.settings)
    with below:
        arm = _show_comparison_choice(form, state.question.arm)
    question = replace(state.question, settings=settings, arm=arm)
    measurement_page.show_controls(
        "serving_limits", state, question, problems, export.build_offer, "Measure every setup", work.measure_setups, ABOUT, fold
    )
    one, kind = state.partial_result or state.shown_result, session.get_theme()
    if one is None:
        st.caption("The measurements appear here once they have run.")
        return
    conclusion = figures.describe_setups(one)
    with top:
        show_opening(one, conclusion, kind)
    with numbers:
        st.markdown("## Every setup")
        st.html(html.build_plain_table(figures.COLUMNS, figures.build_setup_table(one), words=True))
        st.caption(TV)
        show_notes(
            [describe_measurement(state, one), *filter(None, [describe_draftable(one.models)])], "serving_limits-notes-from"
        )
    with below:
        _show_near_ties(one, state.question.arm, kind, state.partial_result is one)
    _show_folds(state, one)


def show_opening(one: SetupComparison, conclusion: str, kind: str) -> None:
    """What each setup changes as a picture; beside it one text served in two ways. The story stays when a visitor measures."""
    told = next(
        filter(
            None, (ties.build_story(of.near_ties.summarize(arm)) for of in (load_recorded_setups(), one) if of for arm in STORIES)
        ),
        None,
    )
    left, right = st.columns([6, 5], gap="large") if told else (st.container(), None)
    with left:
        st.markdown("## What changes the distribution?")
        st.caption(
            "TV, total variation distance: the share of the probability that moves to other tokens. With the diamond in the gray area, draft tokens "
            "change nothing but the last digits. ✓ exact, ≈ exact up to rounding, ✕ a mistake."
        )
        show_figure(draw_cached(figures.plot_distances, one, kind), "serving_limits", "distances", conclusion)
    if told is None or right is None:
        return
    with right:
        st.markdown("## Which of these two texts is exact?")
        lines = zip(told.names, told.tokens, told.after, strict=True)
        st.html(
            html.build_two_texts(TextLine(name, "right", "…", told.before, token, f"{rest} …") for name, token, rest in lines)
        )
        show_sentence(told.sentence, "serving_limits-said-story", plain=True)


def describe_measurement(state: SetupsState, one: SetupComparison) -> str:
    """Where the numbers come from."""
    size = f"{one.length} tokens each, {one.runs} run{'s' * (one.runs != 1)}; {one.date}, {describe_machine(one.machine)}."
    slow = "" if one.is_steady else " The machine was busy, so no speeds are given. Run it again later."
    if state.has_own_result or state.partial_result:
        return f"Your run: {one.texts} continuations of your text, {size}{slow}{measurement_page.describe_missing_runs(state, one.runs, work.RUNS)}"
    other = describe_recorded_pair(one.models.get("pair", pairs.DEFAULT), state.pair)
    slow += f" {other}" if other else ""
    return f"Recorded on passages of {one.text}: {one.texts} texts, {size}{slow}"


def _show_comparison_choice(form: Form, arm: str) -> str:
    st.markdown(
        "## Near ties\nGreedy decoding takes the token with the largest logit. Two number types, or passes over one token and over several, write "
        "different texts where rounding moves logits by more than the two largest are apart."
    )
    return form.choice(st, "arm", "Compare the greedy texts of", {key: one.name for key, one in COMPARISONS.items()}, arm)


def _show_near_ties(one: SetupComparison, arm: str, kind: str, underway: bool) -> None:
    seen = one.near_ties.summarize(arm)
    if seen is None:
        st.caption("The greedy texts follow." if underway else "This comparison could not run on this pair.")
        return
    conclusion = ties.describe_near_ties(seen)
    for place, name, draw in zip(
        st.columns(2, gap="large"), ("margins", "spread"), (ties.plot_margins, ties.plot_gap_histogram), strict=True
    ):
        place.plotly_chart(
            draw_cached(plot_comparison, draw, one, arm, kind), key=f"serving_limits-figure-{name}", config=PLOT, alt=conclusion
        )
    show_sentence(conclusion, "serving_limits-said-ties")
    if seen.differences:
        show_tables("Where they differ, and what each writes there", ties.build_difference_rows(seen))


def plot_comparison(draw: Callable[..., Any], one: SetupComparison, arm: str, kind: str) -> Any:
    """A picture of near ties."""
    return draw(one.near_ties.summarize(arm), kind)


def _show_folds(state: SetupsState, one: SetupComparison) -> None:
    with st.expander("Acceptance rate and speed in every setup"):
        show_dataframe(figures.build_speed_rows(one), placeholder="")
        st.caption(
            " ".join(
                filter(
                    None,
                    (
                        figures.describe_timing(one),
                        "" if state.has_own_result or state.partial_result else describe_speed_page(one),
                    ),
                )
            )
        )
    show_tables("The numbers behind the table", figures.build_detail_rows(one))
    with st.expander("How it was measured"):
        st.markdown(
            "**Change by the setup**: every setup reads the same texts, one token per pass. Its distribution is compared with float32’s at every "
            "position.  \n**Change by draft tokens**: the decoder is led along the texts, and its draft tokens are accepted and rejected at "
            "random. At every position the distribution of the token that it writes is computed from what draft and rule really do, and "
            "compared with target-only sampling in the same setup. There are no samples, so there is no sampling noise.  \n**Mistakes** "
            "replace one argument of the decoder; the decoder itself has no switch that makes it wrong."
        )


def describe_speed_page(one: SetupComparison) -> str:
    """What How fast? measured with the same pair, temperature and gamma; empty where it measured nothing like it."""
    plan = recorded_plans().get(f"{one.settings.pair} {one.settings.temperature:g}")
    found = next((row.factor for row in plan.checked if row.gamma == one.settings.gamma and row.factor), None) if plan else None
    if plan is None or found is None or not plan.is_conclusive:
        return ""
    return f"How fast? measured {found.format()} with the same models, temperature and gamma on {plan.openings} other texts."
