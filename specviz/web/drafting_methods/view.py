"""The page Drafting methods on screen: the verdict and the methods as one chart; below them a round of the chosen method."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from specviz.proposers.trees import node_count
from specviz.speed.records.methods import DRAFTING_METHODS, ComputedComparison, MethodComparison, MethodRow
from specviz.web.common import cost_choice, measurement_page, session
from specviz.web.common.component import Component, read_reported
from specviz.web.common.controls import Form
from specviz.web.common.elements import describe_machine, open_screen, show_dataframe, show_figure, show_notes, show_sentence
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes
from specviz.web.drafting_methods import block_gain as gain_words
from specviz.web.drafting_methods import export, rule_matrix, words, work
from specviz.web.drafting_methods import first_token_figures as figures
from specviz.web.drafting_methods.overview import TEXTS, build_overview
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState, load_block_gain, load_matrix, load_recorded_pairs
from specviz.web.drafting_methods.tree import build_tree

SAMPLING = {"0": "temperature 0", "1": "temperature 1", "top-p .9": "top-p 0.9"}
OVERVIEW = "drafting_methods-overview"
_overview, _tree = Component("drafting_methods/chart"), Component("drafting_methods/tree")


@end_with_row("drafting_methods")
def show_page() -> None:
    """Draw the page."""
    state = measurement_page.open_state("drafting_methods", MethodsState, MethodsQuestion)
    with open_screen("drafting_methods", "methods"):
        show_page_head("drafting_methods", TEXTS["lede"])
        choice = st.container(key="drafting_methods-choice", horizontal=True, gap="large")
        top = st.container(key="drafting_methods-top")
    fold = st.expander("Compare them on a text of your own")
    question, problems = measurement_page.show_question_fields(
        "drafting_methods", state, "choice", "Sampling", SAMPLING, (fold, choice)
    )
    costs = Form("drafting_methods", state.turn, {}).show_choice(
        choice, "costs", cost_choice.LABEL, cost_choice.list_cost_titles(), question.costs, cost_choice.HELP
    )
    answer = choice.container(key="drafting_methods-ranks")
    question = replace(question, row=read_chosen_method() or question.row, costs=costs)
    run = "Run all methods", work.compare_all_methods, TEXTS["about"], fold
    measurement_page.show_controls("drafting_methods", state, question, problems, export.build_offer, *run)
    measured: MethodComparison | None = state.partial_result or state.shown_result
    if measured is None:
        top.caption("The comparison appears here once it has run.")
        return
    one = state.apply_costs(measured)
    with top:
        show_overview(state, one, measured)
    answer.markdown(f"**{escape_markdown(words.answer_which_pay(one))}** {TEXTS['ranks']}".removeprefix("**** "))
    if row := one.row(state.question.row):
        show_round(row)
    show_first_tokens(one, session.get_theme())
    show_matrix()
    show_recorded_pairs()
    show_numbers(one)


def read_chosen_method() -> str | None:
    """The method that was just chosen in the chart."""
    row = read_reported(OVERVIEW, "row")
    return row if row in DRAFTING_METHODS else None


def show_overview(state: MethodsState, comparison: MethodComparison, measured: MethodComparison) -> None:
    """The methods as one chart, the verdict, and where its numbers come from. measured: the same with the times of its own machine."""
    data = {"payload": draw_cached(build_overview, comparison), "chosen": state.question.row, "within": True}
    _overview.draw(OVERVIEW, data, row=None)
    place = st.container(key="drafting_methods-said")
    place.markdown(escape_markdown(words.describe_comparison(comparison)))
    if isinstance(comparison, ComputedComparison):
        more = words.explain_large_trees(comparison, measured)
    else:
        more = words.describe_sample_size(comparison)
    place.caption(escape_markdown(more))
    show_notes(
        [
            describe_measurement(state, comparison),
            *([comparison.baseline.in_words] if comparison.baseline else []),
            *([comparison.cost_model.describe()] if isinstance(comparison, ComputedComparison) else []),
            *list_model_notes(comparison.models),
        ],
        "drafting_methods-notes-from",
    )


def describe_measurement(state: MethodsState, comparison: MethodComparison) -> str:
    """Where the numbers come from; for a recorded comparison also of which text."""
    when = f"measured {comparison.date} on {describe_machine(comparison.machine)}; {comparison.runs} run{'s' * (comparison.runs != 1)} of {comparison.settings.max_new_tokens} tokens."
    if state.has_own_result or state.partial_result:
        return f"Your run, {when}{measurement_page.describe_missing_runs(state, comparison.runs, work.RUNS)}"
    other = describe_recorded_pair(comparison.settings.pair, state.pair)
    if other or state.question.settings.prompt != comparison.settings.prompt:
        when += f" {other}" if other else ""
        return f"Recorded for the text “{comparison.settings.prompt}”, {when} Press the button to compare them on yours."
    return f"Recorded, {when}"


def show_round(row: MethodRow) -> None:
    """A round of the chosen row as a tree; under block verification also what that rule gains over the token rule."""
    with st.container(key="drafting_methods-second"), open_screen("drafting_methods", "round"):
        show_round_steps(row)
    plan = load_block_gain() if row.key == "block" else None
    if plan is not None and (sentence := gain_words.describe_gain(plan)):
        show_sentence(sentence, "drafting_methods-said-gain")
        show_dataframe(gain_words.build_gain_rows(plan), alt=sentence)


def show_round_steps(row: MethodRow) -> None:
    """A round of the chosen row, or why there is none."""
    st.markdown(f"### {row.entry.name}: one round\n{row.entry.description}")
    if row.reason:
        show_notes([row.reason], "drafting_methods-notes-row")
    elif row.trace is not None:
        sized = words.explain_tree_size(row, node_count.load_recorded_curve())
        refused = any(decision.accepted is False for round_ in row.trace.rounds for decision in round_.proposals)
        which = "A round of the timed run in which a token was rejected." if refused else "The last round of the timed run."
        st.caption(escape_markdown(f"{which} Rule: {row.rule}. {sized}"))
        with st.container(key="drafting_methods-arrows"):  # the presenter view leaves the arrow keys to it
            _tree.draw("drafting_methods-tree", {"payload": draw_cached(build_tree, row.trace), "within": True})


def show_first_tokens(comparison: MethodComparison, kind: str) -> None:
    """Two distributions of the first token: that of the worst draft, and that of a lossy rule."""
    first_tokens = figures.list_first_tokens(comparison)
    columns = st.container(key="drafting_methods-third").columns(2, gap="large")
    for column, chart in zip(columns, figures.FIRST_TOKEN_CHARTS, strict=True):
        if (first := first_tokens.get(chart.row)) is not None:
            with column, open_screen("drafting_methods", chart.key):
                st.markdown(chart.heading)
                show_figure(draw_cached(chart.plot, first, kind), "drafting_methods", chart.key, chart.describe(first))


def show_matrix() -> None:
    """Every method under every rule, a sentence of meaning, and why cells are blank."""
    record = load_matrix()
    if record is None:
        return
    with st.expander("Every drafting method under every rule"):
        st.text(
            f"Recorded for the text “{record['settings']['prompt']}”; python -m specviz matrix --min-tv {record['tv']:g} reproduces it."
        )
        with open_screen("drafting_methods", "matrix"):
            st.html(rule_matrix.build_matrix_html(record))
            show_sentence(rule_matrix.describe_matrix(record), "drafting_methods-said-matrix")
        st.caption(TEXTS["legend"])
        with st.container(key="drafting_methods-blank"):
            for why, cells in (row.values() for row in rule_matrix.list_blanks(record)):
                st.text(f"{why} Blank: {cells}.")


def show_recorded_pairs() -> None:
    """What was measured of other pairs, which a visitor cannot load here."""
    if not (records := load_recorded_pairs()):
        return
    with st.expander(TEXTS["pairs_heading"]):
        st.caption(TEXTS["pairs"])
        show_dataframe([one.list_cells() for one in records])


def show_numbers(comparison: MethodComparison) -> None:
    """The tables behind the pictures."""
    with st.expander("The numbers behind the pictures"):
        show_dataframe(words.build_detail_rows(comparison), placeholder="")
        st.caption(escape_markdown(words.describe_positions(comparison)))
        for key, first in figures.list_first_tokens(comparison).items():
            st.caption(DRAFTING_METHODS[key].name)
            show_dataframe(words.build_first_token_rows(first))
