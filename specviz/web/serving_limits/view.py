"""The page Around the rule on screen: a text and a comparison; the laboratory as rows; below it the microscope on near ties."""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.figures.serving_limits import near_ties as ties
from specviz.figures.serving_limits import setups as figures
from specviz.serving.near_ties import ARMS
from specviz.serving.setups import Laboratory
from specviz.web.exactness.view import LOOK_AGAIN
from specviz.web.serving_limits import export
from specviz.web.serving_limits.state import Ask, Surroundings

LEDE = (
    "What does exactness not cover? It holds for the distribution of the target as it is served. Who quantises, changes the number type or adds "
    "a processor changes that distribution; draft tokens keep the changed one, if judging and drawing use it alike."
)
PLOT = {"displayModeBar": False}
COLUMN_HELP = {
    "verdict": "✓ exact: draft tokens leave the served distribution as it is. ≈ exact up to rounding: but for what passes of several tokens round "
    "otherwise. ✗ lossy: a mistake; draft tokens change the distribution.",
    "TV to float32": "Between the distributions of passes of one token, mean over all prefixes (middle 95% over texts drawn again).",
    "TV by draft tokens": "Between the distribution of what the decoder writes, draft tokens and caches and all, and that of the same target "
    "alone: mean and largest over the prefixes checked.",
    "draft token kept": "Chance that the unchanged draft’s draft token is kept: sum of min(p, q), mean over all prefixes.",
    "tokens per pass": "Tokens written for each pass of the target, with draft tokens.",
    "speed alone": "Times the float32 target alone; median of the runs.",
    "with draft tokens": "Times the float32 target alone; median of the runs.",
}
WIDTHS = dict(zip(figures.COLUMNS, (208, 142, 152, 186, 162, 85, 115, 95, 100), strict=True))


def head() -> None:
    with st.container(key="around-head"):
        st.markdown(f"# Around the rule\n{LEDE}")


def fields(surroundings: Surroundings, turn: int) -> tuple[Ask, list[str]]:
    """Prompt and comparison: what they ask for, and sentences where one cannot be used."""
    from specviz.web.common.controls import from_fields

    ask = surroundings.question

    def key(name: str) -> dict[str, Any]:
        return {"key": f"around-{name}-{turn}", "persist_state": "session"}

    text, under = st.columns([6, 4])
    prompt = text.text_area("Text to continue", value=ask.settings.prompt, height=68, placeholder="empty: a start token is used",
                            **key("prompt"))  # fmt: skip
    arm = under.segmented_control(
        "Under the microscope", list(ARMS), default=ask.arm, required=True, format_func=lambda name: ARMS[name].name, **key("arm")
    )
    found, problems = from_fields({"prompt": prompt}, ask.settings)
    return Ask(ask.settings if problems else found, arm or ask.arm), problems


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"around-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while rows run; looks again by itself as long as there is work."""
    surroundings: Surroundings = st.session_state["around"]
    surroundings.polling = surroundings.busy
    st.fragment(_live, run_every=LOOK_AGAIN if surroundings.polling else None)()


def _live() -> None:
    surroundings: Surroundings = st.session_state["around"]
    if surroundings.ticket is not None:
        surroundings.ticket.look()
    if surroundings.busy != surroundings.polling:
        st.rerun()
    export.fold(surroundings)
    _buttons(surroundings)
    notes(surroundings.notices, "live")
    one, kind = surroundings.shown, "dark" if st.context.theme.type == "dark" else "light"
    if one is None:
        st.caption("The laboratory appears here once it has run.")
        return
    notes([measured(surroundings, one)], "from")
    _table(one)
    said = figures.conclusion(one)
    st.container(key="around-said").markdown(_escaped(said))
    st.markdown(
        "### Two distances\nWhat was changed about the target, and what draft tokens change about that, on one scale: "
        "total variation (TV), the most by which the two distributions differ about any event."
    )
    st.plotly_chart(figures.distances(one, kind), key="around-figure-distances", config=PLOT, alt=said)
    _microscope(one, surroundings.question.arm, kind)
    _folds(one)


def _buttons(surroundings: Surroundings) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="around-buttons"):
        st.button(
            "Run the laboratory", key="around-run", on_click=surroundings.ask_all, type="primary", disabled=surroundings.busy
        )
        if surroundings.busy:
            st.button("Stop", key="around-stop", on_click=surroundings.stop)
        st.caption("Every row on your text, and its greedy text in every number type.")
    place = st.container(key="around-progress")  # always there: what stands below keeps its position
    if surroundings.busy:
        place.progress(min(1.0, max(0.0, surroundings.ticket.share)), text=surroundings.progress())


def measured(surroundings: Surroundings, one: Laboratory) -> str:
    """Where the numbers come from."""
    machine = one.machine
    where = f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {machine.get('load', 0.0):.1f}"  # fmt: skip
    size = f"{one.texts} texts of {one.length} tokens, {one.runs} runs; {one.date}, {where}."
    slow = "" if one.steady else f" Its speeds are no verdict: {one.unsteady}"
    if surroundings.own:
        return f"Your run: the target went on from your text; {size}{slow}"
    return f"Recorded on places of {one.text}: {size}{slow} Run the laboratory to see it on your text."


def _table(one: Laboratory) -> None:
    config = {}
    for name, width in WIDTHS.items():
        helped = {"width": width, "help": COLUMN_HELP.get(name), "pinned": name == figures.COLUMNS[0]}
        plain = name in ("draft token kept", "tokens per pass", "speed alone", "with draft tokens")
        config[name] = st.column_config.NumberColumn(format="%.2f", **helped) if plain else st.column_config.TextColumn(**helped)
    shown = figures.COLUMNS if one.steady else figures.COLUMNS[:-2]  # without a verdict the columns of speeds are empty
    first = figures.COLUMNS[0]
    lines = [line | {first: figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    st.dataframe(lines, hide_index=True, height="content", column_config=config, column_order=shown,
                 alt=figures.conclusion(one), placeholder="", key="around-table")  # fmt: skip


def _microscope(one: Laboratory, arm: str, kind: str) -> None:
    seen = one.microscope.seen(arm)
    st.markdown(
        "### Near ties under the microscope\nA greedy text follows the largest logit. Two ways to compute one target part where its first two lie "
        "nearer together than rounding moves them."
    )
    if seen is None:
        st.caption("This comparison could not run on this pair.")
        return
    said = ties.conclusion(seen)
    left, right = st.columns(2, gap="large")
    left.plotly_chart(ties.margins(seen, kind), key="around-figure-margins", config=PLOT, alt=said)
    right.plotly_chart(ties.spread(seen, kind), key="around-figure-spread", config=PLOT, alt=said)
    st.container(key="around-said-ties").markdown(_escaped(said))
    if seen.parted:
        with st.expander("Where they part, and what each writes there"):
            st.dataframe(ties.partings(seen), hide_index=True)


def _folds(one: Laboratory) -> None:
    with st.expander("What each row is"):
        st.markdown("\n".join(f"- **{name}**: {_escaped(said)}" for name, said in figures.entries(one)))
    with st.expander("The numbers behind the table"):
        st.dataframe(figures.details(one), hide_index=True)
    with st.expander("How it was measured"):
        st.markdown(
            "**TV to float32**: each way to serve the target reads the same texts, one token a pass, and its distribution is held against "
            "float32’s at every place.  \n**TV by draft tokens**: the decoder is led along the texts, its draft tokens kept and refused at "
            "random; at each place the distribution of the token that it writes is put together from what proposer and rule really do, and held "
            "against the distribution of the same target alone. No draws, so nothing is left to chance.  \n**Mistakes** wrap one argument of the "
            "decoder; the decoder itself has no switch that makes it wrong."
        )


def _escaped(text: str) -> str:
    """Our own sentences hold no markdown but for signs that could be taken as such."""
    return text.replace("$", "\\$").replace("~", "\\~")
