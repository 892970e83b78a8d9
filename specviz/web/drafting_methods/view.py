"""The page Other proposers on screen: prompt, distribution and one button; the gallery as rows; below it what the chosen row did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from specviz.figures.drafting_methods import block_gain as words
from specviz.figures.drafting_methods import methods as figures
from specviz.figures.drafting_methods.tree import tree_payload
from specviz.measure.methods import CHOICES, ENTRIES, Lineup, MethodRow
from specviz.proposers.trees import node_count
from specviz.web.common.queued import LOOK_AGAIN
from specviz.web.drafting_methods import export, matrix
from specviz.web.drafting_methods.state import Ask, Gallery, block_gain
from specviz.web.drafting_methods.tree import tree
from specviz.web.exactness.session import keep_link

LEDE = "Who may draft? Anything may. The same rule decides, so every exact row writes the same distribution; a bad proposer costs speed only."
NAMES = {"0": "temperature 0", "1": "temperature 1", "top-p .9": "top-p .9"}
PLOT = {"displayModeBar": False}
COLUMN_HELP = {
    "verdict": "✓ exact: what it writes has the target's distribution. ✗ lossy: it has another one.",
    "tokens per pass": "Per pass: tokens written for each pass of the target.",
    "kept, by position": "Of the draft tokens tested at the first, second, … place of a round, the share that was kept. "
    "Under the block rule all are tested: of the rounds, the share that kept at least so many.",
    "ms per token": "Milliseconds for each token: median over the runs; all rows ran side by side on one machine.",
    "how that is known": "Enumerated: on small tables every outcome of this rule with this proposer adds up to the target's distribution. "
    "Drawn: how far (TV) first tokens drawn here lie from the exact distribution of this text, and what chance stays below 99 times in 100. "
    "Computed: how far the distribution that the rule writes lies from it.",
    "draft tokens per pass": "Nodes of the tree, or tokens of the chain, that one pass of the target judged. Trees have as many as were fastest "
    "when several sizes were measured; the larger ones have 15.",
}


def head() -> None:
    with st.container(key="lineup-head"):
        st.markdown(f"# Other proposers\n{LEDE}")


def fields(gallery: Gallery, turn: int) -> tuple[Ask, list[str]]:
    """Prompt and distribution: what they ask for, and sentences where one cannot be used."""
    from specviz.web.common.controls import from_fields

    ask = gallery.question

    def key(name: str) -> dict[str, Any]:
        return {"key": f"lineup-{name}-{turn}", "persist_state": "session"}

    text, probs = st.columns([6, 4])
    prompt = text.text_area("Text to continue", value=ask.settings.prompt, height=68, placeholder="empty: a start token is used",
                            **key("prompt"))  # fmt: skip
    choice = probs.segmented_control(
        "The distribution", list(CHOICES), default=ask.choice, required=True, format_func=NAMES.get, **key("probs")
    )
    found, problems = from_fields({"prompt": prompt}, ask.settings)
    return (ask if problems else Ask(found, choice or ask.choice, ask.row)), problems


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"lineup-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while rows run; looks again by itself as long as there is work."""
    gallery: Gallery = st.session_state["lineup"]
    gallery.polling = gallery.busy
    st.fragment(_live, run_every=LOOK_AGAIN if gallery.polling else None)()


def _live() -> None:
    gallery: Gallery = st.session_state["lineup"]
    if gallery.ticket is not None:
        gallery.ticket.look()
    if gallery.busy != gallery.polling:
        st.rerun()
    export.fold(gallery)
    _buttons(gallery)
    notes(gallery.notices, "live")
    one = gallery.shown
    if one is None:
        st.caption("The gallery appears here once it has run.")
        return
    notes([measured(gallery, one)], "from")
    _table(gallery, one)
    st.container(key="lineup-said").markdown(_escaped(figures.conclusion(one)))
    st.caption(_escaped(figures.positions(one)))
    row = one.row(gallery.question.row)
    if row is not None:
        _chosen(row)
    _pictures(one, "dark" if st.context.theme.type == "dark" else "light")
    _folds(one)


def _buttons(gallery: Gallery) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="lineup-buttons"):
        st.button("Run the gallery", key="lineup-run", on_click=gallery.ask_all, type="primary", disabled=gallery.busy)
        if gallery.busy:
            st.button("Stop", key="lineup-stop", on_click=gallery.stop)
        st.caption("Every row side by side on this text, about half a minute on two cores. Select a row to see its last round.")
    place = st.container(key="lineup-progress")  # always there: what stands below keeps its position
    if gallery.busy:
        place.progress(min(1.0, max(0.0, gallery.ticket.share)), text=gallery.progress())


def measured(gallery: Gallery, one: Lineup) -> str:
    """Where the numbers come from; for a recorded gallery also of which text."""
    machine = one.machine
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {machine.get('load', 0.0):.1f}"  # fmt: skip
    when = f"measured {one.date} on {where}; {one.runs} runs of {one.settings.length} tokens."
    if gallery.own:
        return f"Your run, {when}"
    if gallery.question.settings.prompt != one.settings.prompt:
        return f"Recorded for the text “{one.settings.prompt}”, {when} Run the gallery to see it on yours."
    return f"Recorded, {when}"


def _table(gallery: Gallery, one: Lineup) -> None:
    """The gallery as rows, one of which can be selected; the address keeps which."""
    keys = [row.key for row in one.rows]
    lines = [line | {"who drafts": figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    # the first three columns are as wide as a phone
    config: dict[str, Any] = {"verdict": st.column_config.TextColumn(width=125, help=COLUMN_HELP["verdict"])}
    config["who drafts"] = st.column_config.TextColumn(width=164, pinned=True, help=COLUMN_HELP["verdict"])
    config["tokens per pass"] = st.column_config.NumberColumn(
        "per pass", width=76, format="%.2f", help=COLUMN_HELP["tokens per pass"]
    )
    config["ms per token"] = st.column_config.NumberColumn("ms/token", width=80, format="%.1f", help=COLUMN_HELP["ms per token"])
    config["draft tokens per pass"] = st.column_config.NumberColumn(format="%.1f", help=COLUMN_HELP["draft tokens per pass"])
    config["kept, by position"] = st.column_config.BarChartColumn(y_min=0.0, y_max=1.0, help=COLUMN_HELP["kept, by position"])
    config["how that is known"] = st.column_config.TextColumn(width="large", help=COLUMN_HELP["how that is known"])
    place = keys.index(gallery.question.row) if gallery.question.row in keys else None
    event = st.dataframe(
        lines, hide_index=True, height="content", column_config=config, on_select="rerun", selection_mode="single-row",
        selection_default=None if place is None else {"selection": {"rows": [place]}}, alt=f"{figures.conclusion(one)} {figures.positions(one)}", placeholder="",
        key=f"lineup-table-{st.session_state.get('lineup-turn', 0)}-{gallery.question.choice}-{int(gallery.own)}",
    )  # fmt: skip
    picked = event.selection.rows
    if picked and keys[picked[0]] != gallery.question.row:
        gallery.choose(replace(gallery.question, row=keys[picked[0]]))
        st.session_state["lineup-moved"] = True
        keep_link(gallery, "lineup")


def _chosen(row: MethodRow) -> None:
    st.container(key="lineup-second").markdown(f"### {ENTRIES[row.key].name}: one round\n{row.entry.draft_token}")
    if row.reason:
        notes([row.reason], "row")
    elif row.trace is not None:
        st.caption(f"The last round in which a draft token was refused, if one was. Rule: {row.rule}. Step with → and ←.")
        if said := figures.sized(row, node_count.recorded()):
            st.caption(_escaped(said))
        tree(tree_payload(row.trace))
        if row.key == "block":
            _gain()


def _gain() -> None:
    """What the block rule gains over the token rule, recorded."""
    plan = block_gain()
    if plan is not None and (said := words.sentence(plan)):
        st.container(key="lineup-said-gain").markdown(_escaped(said))
        st.dataframe(words.rows(plan), hide_index=True, alt=said)


def _pictures(one: Lineup, kind: str) -> None:
    bad, short = one.row("adversarial"), one.row("typical")
    left, right = st.container(key="lineup-third").columns(2, gap="large")
    if bad is not None and bad.first is not None:
        with left:
            st.markdown(
                "### Bad draft, same distribution\nFirst tokens written with the worst draft tokens there are, over the target’s exact distribution."
            )
            said = figures.same_distribution_conclusion(bad.first)
            st.plotly_chart(figures.same_distribution(bad.first, kind), key="lineup-figure-distribution", config=PLOT, alt=said)
            st.container(key="lineup-said-distribution").markdown(_escaped(said))
    if short is not None and short.first is not None:
        with right:
            st.markdown(
                "### A famous shortcut\nTypical acceptance keeps whatever is likely enough: what it writes, beside the target’s distribution."
            )
            said = figures.shortcut_conclusion(short.first)
            st.plotly_chart(figures.shortcut(short.first, kind), key="lineup-figure-typical", config=PLOT, alt=said)
            st.container(key="lineup-said-typical").markdown(_escaped(said))


def _folds(one: Lineup) -> None:
    matrix.show()
    with st.expander("The numbers behind the pictures"):
        st.dataframe(figures.details(one), hide_index=True)
        for key in ("adversarial", "typical"):
            row = one.row(key)
            if row is not None and row.first is not None:
                st.caption(row.entry.name)
                st.dataframe(figures.cells(row.first), hide_index=True)


def _escaped(text: str) -> str:
    """Our own sentences hold no markdown but for signs that could be taken as such."""
    return text.replace("$", "\\$").replace("~", "\\~")
