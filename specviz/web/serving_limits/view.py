"""The page Serving limits on screen, in three parts: two texts with a question; near ties; what drafting changes in each setup."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
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
    show_answer,
    show_dataframe,
    show_notes,
)
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits import near_tie_figures as ties
from specviz.web.serving_limits import setup_figures as figures
from specviz.web.serving_limits.state import ARM, SetupsQuestion, SetupsState, load_recorded_setups

TEXTS = load_toml("texts/serving_limits")
COUNT = re.compile(r"\d+ of \d+ ")
STORIES = ("int8", "bf16")  # comparisons that the story may be of, the coarser first: neither has a draft
DRAFTED = "fp32-blocks"  # the comparison of their reference with and without a draft


@end_with_row("serving_limits")
def show_page() -> None:
    """Draw the page Serving limits."""
    state = measurement_page.open_state("serving_limits", SetupsState, SetupsQuestion)
    show_page_head("serving_limits", TEXTS["lede"])
    progress = st.container(key="serving_limits-underway")
    parts = [TEXTS[name] for name in ("served", "ties", "drafted")]
    opened = st.session_state.setdefault("serving_limits-opened", parts[state.question.arm != ARM])
    with st.container(key="serving_limits-parts"):
        tabs = st.tabs(parts, default=opened)
    story, margins, setups = (
        open_screen("serving_limits", *one) for one in zip(("story", "margins", "setups"), tabs, strict=True)
    )
    details = st.container(key="serving_limits-details")
    with st.container(key="fold"), st.popover("Settings", width="content"):
        own = st.container()
    form = Form("serving_limits", state.turn, {"prompt": state.question.settings.prompt})
    form.show_prompt(own)
    settings, problems = read_fields(form.raw, state.question.settings)
    margins.markdown(f"## {TEXTS['ties']}")
    margins.markdown(TEXTS["near_ties"])
    arm = form.show_choice(
        margins, "arm", "Compare the greedy texts of", {key: one.name for key, one in COMPARISONS.items()}, state.question.arm
    )
    picture = margins.container()
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
        own,
        progress,
    )
    one, kind = state.partial_result or state.shown_result, session.get_theme()
    if one is None:
        st.caption("The measurements appear here once they have run.")
        return
    with story:
        show_story(one)
    with setups:
        st.markdown(f"## {TEXTS['drafted']}")
        show_answer(*split_number(figures.describe_setups(one)))
        st.html(figures.build_setup_list(one))
    with details:
        _show_details(state, one)
    with picture:
        _show_near_ties(one, state.question.arm, kind, state.partial_result is one)


def show_story(comparison: SetupComparison) -> None:
    """Show one text served in two ways with the near tie where they part, which of the two is wrong as a question, and the answer once it is given.

    The story stays when a visitor measures.
    """
    seen = ((of, of.near_ties.summarize(arm)) for of in (load_recorded_setups(), comparison) if of for arm in STORIES)
    told = ((of, ties.build_story(found), found) for of, found in seen)
    source, story, found = next(((of, story, found) for of, story, found in told if story and found), (comparison, None, None))
    if story is None or found is None:
        return
    about = TEXTS["writer"].format(pair=escape(pairs.name_pair(source.models.get("pair", pairs.DEFAULT))))
    st.html(f"<p class='fork-about'>{about}</p>{ties.build_fork(story, TEXTS)}")
    st.container(key="serving_limits-rates").markdown(ties.describe_rates(found, source.near_ties.summarize(DRAFTED), TEXTS))
    neither = TEXTS["neither"]
    answers = (*(f"The {name} text" for name in story.names), neither)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="serving_limits-ask"):
        st.markdown(f"## {TEXTS['story']}", width="content")
        chosen = st.segmented_control(TEXTS["story"], answers, key="serving_limits-guess", label_visibility="collapsed")
    if not chosen:
        return
    left, right = st.columns(2, gap="large", vertical_alignment="center")
    left.html(ties.build_lead_bars(story))
    with right:
        show_answer(f"✓ {neither}" if chosen == neither else f"{neither}, in fact", story.sentence)


def describe_measurement(state: SetupsState, comparison: SetupComparison) -> str:
    """Where the numbers come from."""
    size = f"{comparison.length} tokens each for the table and its speeds, {comparison.runs} run{'s' * (comparison.runs != 1)}; {comparison.date}, {describe_machine(comparison.machine)}."
    slow = "" if comparison.is_steady else " The machine was busy, so no speeds are given. Run it again later."
    if state.has_own_result or state.partial_result:
        return f"Your run: {comparison.texts} continuations of your text, {size}{slow}{measurement_page.describe_missing_runs(state, comparison.runs, work.RUNS)}"
    other = describe_recorded_pair(comparison.models.get("pair", pairs.DEFAULT), state.pair)
    slow += f" {other}" if other else ""
    return f"The measurements were recorded on passages of {comparison.text}: {comparison.texts} texts, {size}{slow}"


def split_number(sentence: str) -> tuple[str, str]:
    """Split a sentence after the count that it begins with, such as "5 of 6"; an empty first part where it begins otherwise."""
    found = COUNT.match(sentence)
    return (found[0].strip(), sentence[found.end() :]) if found else ("", sentence)


def _show_near_ties(comparison: SetupComparison, arm: str, kind: str, underway: bool) -> None:
    seen = comparison.near_ties.summarize(arm)
    if seen is None:
        st.caption("The greedy texts follow." if underway else "This comparison could not run on this pair.")
        return
    conclusion = ties.describe_near_ties(seen)
    left, right = st.columns([8, 5], gap="large", vertical_alignment="center")
    if len(seen.pairings) <= ties.FEW:
        figure = draw_cached(plot_comparison, ties.plot_margins, comparison, arm, kind)
        left.plotly_chart(figure, key="serving_limits-figure-margins", config=PLOT, alt=conclusion)
    else:
        left.html(ties.build_gap_histogram(seen))
    with right:
        show_answer(*split_number(conclusion))


def plot_comparison(draw: Callable[..., Any], comparison: SetupComparison, arm: str, kind: str) -> Any:
    """A picture of near ties."""
    return draw(comparison.near_ties.summarize(arm), kind)


def _show_details(state: SetupsState, comparison: SetupComparison) -> None:
    """Show one fold with the numbers, the speeds and the method, and the line of where the numbers come from."""
    with st.expander("All numbers, speeds, and how they were measured"):
        numbers, differences, speeds, method = st.tabs(["Numbers", "Where texts differ", "Speeds", "Method"])
        with numbers:
            st.html(html.build_plain_table(figures.COLUMNS, figures.build_setup_table(comparison), words=True))
            st.caption(TEXTS["changes"])
            show_dataframe(figures.build_detail_rows(comparison), placeholder="")
        with differences:
            seen = comparison.near_ties.summarize(state.question.arm)
            if seen is not None and seen.differences:
                show_dataframe(ties.build_difference_rows(seen), placeholder="")
            else:
                st.caption("The texts of this comparison do not differ." if seen else "Not compared.")
        with speeds:
            show_dataframe(figures.build_speed_rows(comparison), placeholder="")
            is_recorded = not (state.has_own_result or state.partial_result)
            st.caption(
                f"{figures.describe_timing(comparison)} {headline.add_headline(comparison.settings) if is_recorded else ''}".rstrip()
            )
        method.markdown(f"{TEXTS['method']}  \n{ties.describe_gpu_rounding()}")
        show_notes([describe_measurement(state, comparison), *list_model_notes(comparison.models)], "serving_limits-notes-from")
