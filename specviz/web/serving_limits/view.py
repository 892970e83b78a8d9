"""The page Serving limits on screen: what setups change, two texts, the setups as rows; a text of one's own; near ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.evidence.serving_setups.records import COMPARISONS, SetupComparison
from specviz.records import load_toml
from specviz.speed.records import headline
from specviz.web.common import html, measurement_page, pairs, session
from specviz.web.common.controls import Form, read_fields
from specviz.web.common.elements import (
    PLOT,
    describe_machine,
    open_screen,
    show_dataframe,
    show_notes,
    show_sentence,
    show_tables,
)
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import TextLine
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits import near_tie_figures as ties
from specviz.web.serving_limits import setup_figures as figures
from specviz.web.serving_limits.state import SetupsQuestion, SetupsState, load_recorded_setups

TEXTS = load_toml("texts/serving_limits")
STORIES = ("bf16", "int8")  # comparisons that the story may be of: neither has a draft


@end_with_row("serving_limits")
def show_page() -> None:
    """Draw the page Serving limits."""
    state = measurement_page.open_state("serving_limits", SetupsState, SetupsQuestion)
    show_page_head("serving_limits", TEXTS["lede"])
    top, numbers = st.container(key="serving_limits-story"), st.container(key="serving_limits-numbers")
    fold, below = st.expander("Measure with a text of your own"), st.container(key="serving_limits-ties")
    margins = open_screen("serving_limits", "margins", below)
    form = Form("serving_limits", state.turn, {"prompt": state.question.settings.prompt})
    form.show_prompt(fold)
    settings, problems = read_fields(form.raw, state.question.settings)
    with margins:
        arm = _show_comparison_choice(form, state.question.arm)
    question = replace(state.question, settings=settings, arm=arm)
    measurement_page.show_controls(
        "serving_limits",
        state,
        question,
        problems,
        export.build_offer,
        "Measure every setup",
        work.measure_setups,
        TEXTS["about"],
        fold,
    )
    one, kind = state.partial_result or state.shown_result, session.get_theme()
    if one is None:
        st.caption("The measurements appear here once they have run.")
        return
    conclusion = figures.describe_setups(one)
    with top:
        show_opening(one, conclusion)
        show_story(one)
    with numbers:
        with open_screen("serving_limits", "setups"):
            st.markdown("## Every setup")
            st.html(html.build_plain_table(figures.COLUMNS, figures.build_setup_table(one), words=True))
        st.caption(TEXTS["changes"])
        show_notes([describe_measurement(state, one), *list_model_notes(one.models)], "serving_limits-notes-from")
    with below:
        _show_near_ties(one, state.question.arm, kind, state.partial_result is one, margins)
    _show_folds(state, one)


def show_opening(one: SetupComparison, conclusion: str) -> None:
    """A sentence for each setup beside what it changes, and the conclusion."""
    open_screen("serving_limits", "list").html(figures.build_dotted_list(one))
    show_sentence(conclusion, "serving_limits-said-distances")
    st.caption(TEXTS["signs"])


def show_story(one: SetupComparison) -> None:
    """One text served in two ways. The story stays when a visitor measures."""
    told = next(
        filter(
            None, (ties.build_story(of.near_ties.summarize(arm)) for of in (load_recorded_setups(), one) if of for arm in STORIES)
        ),
        None,
    )
    if told is None:
        return
    lines = zip(told.names, told.tokens, told.after, strict=True)
    with open_screen("serving_limits", "story"):
        st.markdown("## Which of these two texts is exact?")
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
    st.markdown(f"## Near ties\n{TEXTS['near_ties']}")
    return form.show_choice(st, "arm", "Compare the greedy texts of", {key: one.name for key, one in COMPARISONS.items()}, arm)


def _show_near_ties(one: SetupComparison, arm: str, kind: str, underway: bool, screen: Any) -> None:
    seen = one.near_ties.summarize(arm)
    if seen is None:
        st.caption("The greedy texts follow." if underway else "This comparison could not run on this pair.")
        return
    conclusion = ties.describe_near_ties(seen)
    left, right = screen.columns(2, gap="large")
    places = {"margins": left, "spread": open_screen("serving_limits", "spread", right)}
    for (name, place), draw in zip(places.items(), (ties.plot_margins, ties.plot_gap_histogram), strict=True):
        figure = draw_cached(plot_comparison, draw, one, arm, kind)
        place.plotly_chart(figure, key=f"serving_limits-figure-{name}", config=PLOT, alt=conclusion)
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
                        "" if state.has_own_result or state.partial_result else headline.add_headline(one.settings),
                    ),
                )
            )
        )
    show_tables("The numbers behind the table", figures.build_detail_rows(one))
    with st.expander("How it was measured"):
        st.markdown(TEXTS["method"])
