"""The page Drafting methods on screen: prompt, sampling and one button; the methods as rows; below them a round of the chosen row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.figures.common.components import component
from specviz.figures.drafting_methods import block_gain as gain_words
from specviz.figures.drafting_methods import drawings, matrix
from specviz.figures.drafting_methods import methods as figures
from specviz.figures.drafting_methods.tree import tree_payload
from specviz.measure.methods import MethodComparison, MethodRow
from specviz.models.pairs.sharing import draftable_in_words
from specviz.proposers.trees import node_count
from specviz.web.common import measurement_page, session
from specviz.web.common.elements import dataframe, escaped, machine, notes, picture, said
from specviz.web.common.pairs import recorded_with
from specviz.web.common.pictures import drawn
from specviz.web.common.title import head
from specviz.web.drafting_methods import export, work
from specviz.web.drafting_methods.state import MethodsQuestion, MethodsState, block_gain, recorded_matrix

LEDE = (
    "Who may draft? Anything may. The acceptance rule verifies every draft token, so every exact row writes the target’s distribution. "
    "A bad drafting method costs only speed."
)
ABOUT = "All methods run interleaved on this text; the page says how long that will take. Select a row to see one of its rounds."
SAMPLING = {"0": "temperature 0", "1": "temperature 1", "top-p .9": "top-p 0.9"}
WHO, PER_PASS, MS, VERDICT, ACCEPTED, NODES, EVIDENCE = figures.COLUMNS
COLUMN_HELP = {
    VERDICT: "✓ exact: the text follows the target’s distribution. ✗ lossy: it follows another one.",
    PER_PASS: "Tokens written per target pass.",
    ACCEPTED: "By position: how often a draft token at the first, second, … position of a round was accepted, among those checked there. "
    "The block rule checks all of them: how many rounds accepted at least that many.",
    MS: "Milliseconds per token: the median over the runs. All rows ran interleaved on one machine.",
    EVIDENCE: "Enumerated: on small tables all outcomes of this rule with this method were added up, and they give the target’s distribution. "
    "Sampled: the total variation distance of first tokens from the exact distribution of this text, and the bound that sampling noise "
    "stays below 99 times in 100. Computed: the distance of the distribution that the rule writes.",
    NODES: "Draft tokens per target pass: nodes of the tree, or tokens of the chain, that one pass verified. Several tree sizes were measured: trees here have the "
    "fastest size, larger ones have 15 nodes.",
}
LEGEND = "✓ exact: the samples follow the target’s distribution. ✗ lossy: the tests detect it, as expected. = lossy, but this text is the target’s. Reasons for blank cells:"
_component = st.components.v2.component("specviz_tree", **component("tree"))


def page() -> None:
    state = measurement_page.current("drafting_methods", MethodsState, MethodsQuestion)
    head("drafting_methods", "Drafting methods", LEDE)
    top = st.container(key="drafting_methods-drawings")
    question, problems = measurement_page.prompt_and_choice("drafting_methods", state, "choice", "Sampling", SAMPLING)
    measurement_page.run("drafting_methods", state, question, problems, export.offer, "Run all methods", work.run_all, ABOUT)
    one = state.underway or state.shown
    if one is None:
        st.caption("The comparison appears here once it has run.")
        return
    top.html(drawings.html(one))
    notes([measured_on(state, one), *filter(None, [draftable_in_words(one.models)])], "drafting_methods-notes-from")
    table(state, one)
    said(" ".join(filter(None, (figures.conclusion(one), figures.paying(one)))), "drafting_methods-said")
    st.caption(escaped(figures.positions(one)))
    if row := one.row(state.question.row):
        a_round(row)
    first_tokens(one, session.theme())
    every_rule()
    numbers(one)


def measured_on(state: MethodsState, one: MethodComparison) -> str:
    """Where the numbers come from; for a recorded comparison also of which text."""
    when = (
        f"measured {one.date} on {machine(one.machine)}; {one.runs} run{'s' * (one.runs != 1)} of {one.settings.length} tokens."
    )
    if state.own or state.underway:
        return f"Your run, {when}{measurement_page.how_far(state, one.runs, work.RUNS)}"
    other = recorded_with(one.settings.pair, state.pair)
    if other or state.question.settings.prompt != one.settings.prompt:
        when += f" {other}" if other else ""
        return f"Recorded for the text “{one.settings.prompt}”, {when} Press the button to compare them on yours."
    return f"Recorded, {when}"


def table(state: MethodsState, one: MethodComparison) -> None:
    """The methods as rows, one of which can be selected; the address holds which."""
    keys, chosen = [row.key for row in one.rows], state.question.row
    lines = [line | {WHO: figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    config: dict[str, Any] = {  # the first three are as wide as a phone, all as a laptop’s page
        VERDICT: text(width=164, help=COLUMN_HELP[VERDICT]),
        WHO: text("method", width=164, pinned=True, help=COLUMN_HELP[VERDICT]),
        PER_PASS: number("per pass", width=76, format="%.2f", help=COLUMN_HELP[PER_PASS]),
        MS: number("ms/token", width=78, format="%.1f", help=COLUMN_HELP[MS]),
        NODES: number("drafted", width=78, format="%.1f", help=COLUMN_HELP[NODES]),
        ACCEPTED: st.column_config.BarChartColumn("accepted", width=112, y_min=0.0, y_max=1.0, help=COLUMN_HELP[ACCEPTED]),
        EVIDENCE: text("evidence", width=520, help=COLUMN_HELP[EVIDENCE]),
    }
    event = dataframe(
        lines, height="content", column_config=config, on_select="rerun", selection_mode="single-row",
        selection_default={"selection": {"rows": [keys.index(chosen)]}} if chosen in keys else None,
        alt=f"{figures.conclusion(one)} {figures.positions(one)}", placeholder="",
        key=f"drafting_methods-table-{state.turn}-{state.question.choice}-{int(bool(state.own or state.underway))}",
    )  # fmt: skip
    picked = next((keys[place] for place in event.selection.rows if isinstance(place, int) and 0 <= place < len(keys)), chosen)
    state.choose(replace(state.question, row=picked))
    session.keep_link(state)


def a_round(row: MethodRow) -> None:
    """A round of the chosen row as a tree; under block verification also what that rule gains over the token rule."""
    st.container(key="drafting_methods-second").markdown(f"### {row.entry.name}: one round\n{row.entry.description}")
    if row.reason:
        notes([row.reason], "drafting_methods-notes-row")
    elif row.trace is not None:
        st.caption(f"The last round with a rejection, if there was one. Rule: {row.rule}. Step with → and ←.")
        if sized := figures.sized(row, node_count.recorded()):
            st.caption(escaped(sized))
        _component(key="drafting_methods-tree", data={"payload": drawn(tree_payload, row.trace), "presented": False})
        plan = block_gain() if row.key == "block" else None
        if plan is not None and (sentence := gain_words.sentence(plan)):
            said(sentence, "drafting_methods-said-gain")
            dataframe(gain_words.rows(plan), alt=sentence)


def first_tokens(one: MethodComparison, kind: str) -> None:
    """Two distributions of the first token: that of the worst draft, and that of a lossy rule."""
    bad, short = one.row("adversarial"), one.row("typical")
    left, right = st.container(key="drafting_methods-third").columns(2, gap="large")
    if bad is not None and bad.first is not None:
        with left:
            st.markdown(
                "### Bad draft, same distribution\nFirst tokens written with the worst possible draft tokens, over the target’s exact distribution."
            )
            picture(
                drawn(figures.same_distribution, bad.first, kind),
                "drafting_methods",
                "lossy",
                figures.same_distribution_conclusion(bad.first),
            )
    if short is not None and short.first is not None:
        with right:
            st.markdown(
                "### A popular shortcut\nTypical acceptance accepts every token that is likely enough. Here is the distribution it writes, beside the target’s."
            )
            picture(
                drawn(figures.shortcut, short.first, kind),
                "drafting_methods",
                "typical",
                figures.shortcut_conclusion(short.first),
            )


def every_rule() -> None:
    """Every method under every rule, a sentence of meaning, and why cells are blank."""
    record = recorded_matrix()
    if record is None:
        return
    with st.expander("Every drafting method under every rule"):
        st.text(
            f"Recorded for the text “{record['settings']['prompt']}”; python -m specviz verify --all --tv {record['tv']:g} reproduces it."
        )
        st.html(matrix.html(record))
        said(matrix.conclusion(record), "drafting_methods-said-matrix")
        st.caption(LEGEND)
        with st.container(key="drafting_methods-blank"):
            for why, cells in (row.values() for row in matrix.blanks(record)):
                st.text(f"{cells}: {why}")


def numbers(one: MethodComparison) -> None:
    with st.expander("The numbers behind the pictures"):
        dataframe(figures.details(one))
        for key in ("adversarial", "typical"):
            row = one.row(key)
            if row is not None and row.first is not None:
                st.caption(row.entry.name)
                dataframe(figures.cells(row.first))
