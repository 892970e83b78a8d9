"""The page Drafting methods on screen: one method as a picture, a round of it, all of them as one chart; records in tabs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.proposers.trees import node_count
from specviz.speed.records.cost_model import SERVER
from specviz.speed.records.methods import DRAFTING_METHODS, ComputedComparison, MethodComparison, MethodRow
from specviz.web.common import cost_choice, measurement_page, session
from specviz.web.common.component import Component, read_reported
from specviz.web.common.controls import Form
from specviz.web.common.elements import (
    describe_machine,
    open_screen,
    show_dataframe,
    show_figure,
    show_notes,
    show_sentence,
    show_tables,
)
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes
from specviz.web.drafting_methods import block_gain as gain_words
from specviz.web.drafting_methods import export, pair_bars, rule_matrix, words, work
from specviz.web.drafting_methods import first_token_figures as figures
from specviz.web.drafting_methods.overview import PICTURE as PICTURE_TEXTS
from specviz.web.drafting_methods.overview import TEXTS, build_overview, build_picture
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState, load_block_gain, load_matrix, load_recorded_pairs
from specviz.web.drafting_methods.tree import build_tree

SAMPLING = {"0": "temperature 0", "1": "temperature 1", "top-p .9": "top-p 0.9"}
OVERVIEW, PICTURE = "drafting_methods-overview", "drafting_methods-picture"
_picture, _overview, _tree = (Component(f"drafting_methods/{name}") for name in ("picture", "chart", "tree"))


@end_with_row("drafting_methods")
def show_page() -> None:
    """Draw the page."""
    state = measurement_page.open_state("drafting_methods", MethodsState, MethodsQuestion)
    with open_screen("drafting_methods", "method"):
        show_page_head("drafting_methods", TEXTS["lede"])
        top = st.container(key="drafting_methods-top")
    with st.container(key="drafting_methods-all"), open_screen("drafting_methods", "methods"):
        st.markdown(f"## {TEXTS['all']}")
        chart = st.container(key="drafting_methods-chart")
    walked = st.container()
    origin = st.expander(TEXTS["origin"])
    fold = st.expander(TEXTS["own_text"])
    choices = origin.container(key="drafting_methods-choice", horizontal=True, gap="medium")
    question, problems = measurement_page.show_question_fields(
        "drafting_methods", state, "choice", "Sampling", SAMPLING, (fold, choices)
    )
    costs = show_machines(state, choices)
    clicked, arrives = read_chosen_method()
    question = replace(question, row=clicked or question.row, costs=costs)
    run = "Run all methods", work.compare_all_methods, TEXTS["about"], fold
    measurement_page.show_controls("drafting_methods", state, question, problems, export.build_offer, *run)
    measured: MethodComparison | None = state.partial_result or state.shown_result
    if measured is None:
        top.caption("The comparison appears here once it has run.")
        return
    there = compute_for_other_machine(measured, state.question.costs)
    machines = (measured,) if there is None else (measured, there)
    with top:
        payload = draw_cached(build_picture, name_machine(state), *machines)
        _picture.draw(PICTURE, {"payload": payload, "chosen": state.question.row, "within": True}, row=None, round=None)
    with chart:
        payload = draw_cached(build_overview, name_machine(state), *machines)
        chosen = state.question.row or PICTURE_TEXTS["first"]
        _overview.draw(OVERVIEW, {"payload": payload, "chosen": chosen, "within": True}, row=None)
    with origin:
        show_origin(state, measured, there)
    if row := measured.find_row(state.question.row):
        with walked:
            show_round(row, arrives)
    show_tabs(state.apply_costs(measured))


def read_chosen_method() -> tuple[str | None, bool]:
    """The method that was just chosen in the picture or the chart, and whether the page goes to its round."""
    for key, event, arrives in ((PICTURE, "row", False), (PICTURE, "round", True), (OVERVIEW, "row", True)):
        row = read_reported(key, event)
        if isinstance(row, str) and row in DRAFTING_METHODS:
            return row, arrives
    return None, False


def show_machines(state: MethodsState, place: Any) -> str:
    """The choice of the machine beside the one that measured: whose costs count. A link without it means a server's GPU."""
    titles = {name: title for name, title in cost_choice.list_cost_titles().items() if name != cost_choice.MEASURED}
    current = state.question.costs
    start = SERVER if current == cost_choice.MEASURED else current
    form = Form("drafting_methods", state.turn, {})
    chosen = form.show_choice(place, "costs", TEXTS["machine"], titles, start, cost_choice.HELP)
    return current if chosen == start else cost_choice.MEASURED if chosen == SERVER else chosen


def show_origin(state: MethodsState, measured: MethodComparison, there: ComputedComparison | None) -> None:
    """Where the numbers of the chart come from. there: those of the second machine."""
    few = f"{words.describe_few_runs(measured)} {words.relate_to_headline(measured)}".strip()
    more = "" if there is None else f" {words.explain_large_trees(there, measured)} {TEXTS['computed']}"
    st.caption(escape_markdown(f"{TEXTS['ranks']} {few}{more}"))
    show_notes(
        [
            describe_measurement(state, measured),
            *([measured.baseline.in_words] if measured.baseline else []),
            *([there.cost_model.describe()] if there is not None else []),
            *list_model_notes(measured.models),
        ],
        "drafting_methods-notes-from",
    )


def compute_for_other_machine(comparison: MethodComparison, costs: str = cost_choice.MEASURED) -> ComputedComparison | None:
    """A measured comparison with the chosen costs, or with those of a server's GPU where none are chosen; None for one that is computed itself."""
    if isinstance(comparison, ComputedComparison):
        return None
    found = cost_choice.apply_costs(comparison, SERVER if costs == cost_choice.MEASURED else costs)
    return found if isinstance(found, ComputedComparison) else None


def name_machine(state: MethodsState) -> str:
    """Where speeds are measured."""
    return "on this machine" if state.has_own_result or state.partial_result else "on two CPU cores"


def describe_measurement(state: MethodsState, comparison: MethodComparison) -> str:
    """Where the numbers come from; for a recorded comparison also of which text."""
    when = f"measured {comparison.date} on {describe_machine(comparison.machine)}; {comparison.runs} run{'s' * (comparison.runs != 1)} of {words.count_tokens(comparison)}."
    if state.has_own_result or state.partial_result:
        return f"Your run, {when}{measurement_page.describe_missing_runs(state, comparison.runs, work.RUNS)}"
    other = describe_recorded_pair(comparison.settings.pair, state.pair)
    if comparison.prompts:
        return f"Recorded, {when}{f' {other}' if other else ''} The rounds follow “{comparison.settings.prompt}”. Press the button to compare them on your text."
    if other or state.question.settings.prompt != comparison.settings.prompt:
        when += f" {other}" if other else ""
        return f"Recorded for the text “{comparison.settings.prompt}”, {when} Press the button to compare them on yours."
    return f"Recorded, {when}"


def show_round(row: MethodRow, arrives: bool) -> None:
    """A round of the chosen row as a tree, and what else is known of it: its first tokens, or the gain of block verification.

    arrives: whether it was chosen just now, so that the page goes there
    """
    with st.container(key="drafting_methods-second"), open_screen("drafting_methods", "round"):
        show_round_steps(row, arrives)
    plan = load_block_gain() if row.key == "block" else None
    if plan is not None and (sentence := gain_words.describe_gain(plan)):
        show_sentence(sentence, "drafting_methods-said-gain")
        show_dataframe(gain_words.build_gain_rows(plan), alt=sentence)
    for chart in figures.FIRST_TOKEN_CHARTS:
        if chart.row == row.key and row.first is not None:
            with st.container(key="drafting_methods-third"), open_screen("drafting_methods", chart.key):
                st.markdown(chart.heading)
                figure = draw_cached(chart.plot, row.first, session.get_theme())
                show_figure(figure, "drafting_methods", chart.key, chart.describe(row.first))


def show_round_steps(row: MethodRow, arrives: bool) -> None:
    """A round of the chosen row, or why there is none."""
    sized = words.explain_tree_size(row, node_count.load_recorded_curve())
    st.markdown(f"### {row.entry.name}: one round\n{row.entry.description}")
    if row.reason:
        show_notes([row.reason], "drafting_methods-notes-row")
    elif row.trace is not None:
        with st.container(key="drafting_methods-arrows"):  # the presenter view leaves the arrow keys to it
            data = {"payload": draw_cached(build_tree, row.trace), "within": True, "arrive": arrives}
            _tree.draw("drafting_methods-tree", data)
        refused = any(decision.accepted is False for round_ in row.trace.rounds for decision in round_.proposals)
        which = "A round of a recorded run in which a token was rejected." if refused else "A round of a recorded run."
        st.caption(escape_markdown(f"{which} Rule: {row.rule}. {sized}"))


def show_tabs(comparison: MethodComparison) -> None:
    """The other records, each shown once it is chosen: other models, every method under every rule, and the numbers behind the chart."""
    shows = {
        "Other models": show_recorded_pairs if load_recorded_pairs() else None,
        "Every method under every rule": show_matrix if load_matrix() else None,
        "All numbers": lambda: show_numbers(comparison),
    }
    titles = [title for title, show in shows.items() if show]
    chosen = st.segmented_control(TEXTS["more"], titles, key="drafting_methods-more")
    if chosen and (show := shows[chosen]):
        show()


def show_matrix() -> None:
    """Every method under every rule, a sentence of meaning, and why cells are blank."""
    record = load_matrix()
    assert record is not None, "the tab is there"
    with open_screen("drafting_methods", "matrix"):
        show_sentence(rule_matrix.describe_matrix(record), "drafting_methods-said-matrix")
        st.caption(TEXTS["legend"])
        st.html(rule_matrix.build_matrix_html(record))
    with st.container(key="drafting_methods-blank"):
        for why, cells in (row.values() for row in rule_matrix.list_blanks(record)):
            st.text(f"{why} Blank: {cells}.")
    st.text(
        f"Recorded for the text “{record['settings']['prompt']}”; python -m specviz matrix --min-tv {record['tv']:g} reproduces it."
    )


def show_recorded_pairs() -> None:
    """The measurements of other pairs, which a visitor cannot load here: the tokens of a round as bars, then every number."""
    records = load_recorded_pairs()
    st.html(pair_bars.build_pair_bars(records))
    st.caption(TEXTS["pairs"])
    show_tables("The numbers behind the bars", [one.list_cells() for one in records])


def show_numbers(comparison: MethodComparison) -> None:
    """The tables behind the pictures."""
    show_sentence(words.describe_comparison(comparison), "drafting_methods-said")
    show_dataframe(words.build_detail_rows(comparison), placeholder="")
    st.caption(escape_markdown(words.describe_positions(comparison)))
    for key, first in figures.list_first_tokens(comparison).items():
        st.caption(f"First tokens: {DRAFTING_METHODS[key].name}")
        show_dataframe(words.build_first_token_rows(first))
