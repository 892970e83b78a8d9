"""The page Serving limits on screen: a text and a comparison; the laboratory as rows; below it the microscope on near ties."""

from __future__ import annotations

import streamlit as st

from specviz.figures.serving_limits import near_ties as ties
from specviz.figures.serving_limits import setups as figures
from specviz.serving.near_ties import ARMS
from specviz.serving.setups import Laboratory
from specviz.web.common import download, session
from specviz.web.common.controls import Form, from_fields
from specviz.web.common.parts import PLOT, escaped, head, machine, notes, picture, said, tables
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits.state import Ask, Surroundings

LEDE = (
    "What does exactness not cover? It is relative to the target as served: quantization, number types and logits processors change "
    "the target’s distribution, and speculative decoding follows the changed one, if verification and target-only sampling use it alike."
)
COLUMN_HELP = {
    "verdict": "✓ exact: draft tokens leave the served distribution as it is. ≈ exact up to rounding: passes over several tokens round "
    "differently. ✗ lossy: a mistake; draft tokens change the distribution.",
    "TV to float32": "Total variation distance between the distributions of passes over one token, mean over all prefixes (middle 95% over "
    "texts drawn again).",
    "TV by guesses": "Total variation distance between the distribution that the decoder writes, draft tokens and caches and all, and that of the same "
    "target alone: mean and largest over the prefixes checked.",
    "guess kept": "Probability that the unchanged draft model’s token is accepted: sum of min(p, q), mean over all prefixes.",
    "tokens per pass": "Tokens written per target pass, with draft tokens.",
    "speed alone": "Times the float32 target alone; median of the runs.",
    "with guesses": "Times the float32 target alone; median of the runs.",
}
WIDTHS = dict(zip(figures.COLUMNS, (208, 142, 152, 186, 162, 85, 115, 95, 100), strict=True))


def page() -> None:
    surroundings = session.current("around", opened)
    head("around", "Serving limits", LEDE)
    ask, problems = fields(surroundings)
    surroundings.choose(ask)
    notes(problems, "around-notes-fields")
    session.keep_link(surroundings)
    download.fold("around", lambda: export.offer(surroundings))
    buttons(surroundings)
    notes(surroundings.notices, "around-notes-live")
    if surroundings.shown is None:
        st.caption("The laboratory appears here once it has run.")
    else:
        found(surroundings, surroundings.shown)


def opened(query: dict[str, str], before: Surroundings | None) -> Surroundings:
    ask, left_out = Ask.of_link(query, session.base())
    state = Surroundings(ask)
    state.said = left_out
    return state


def fields(surroundings: Surroundings) -> tuple[Ask, list[str]]:
    """Prompt and comparison: what they ask for, and sentences where one cannot be used."""
    ask = surroundings.question
    form = Form("around", surroundings.turn, {"prompt": ask.settings.prompt})
    text, under = st.columns([6, 4])
    form.prompt(text)
    arm = under.segmented_control(
        "Under the microscope",
        list(ARMS),
        default=ask.arm,
        required=True,
        format_func=lambda name: ARMS[name].name,
        **form.key("arm"),
    )
    settings, problems = from_fields(form.raw, ask.settings)
    return Ask(ask.settings if problems else settings, arm or ask.arm), problems


def buttons(surroundings: Surroundings) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="around-buttons"):
        session.ask(st, surroundings, "Run the laboratory", "around-run", work.run_all, surroundings.question, type="primary")
        st.caption("Every row on your text, and its greedy text in every number type.")
    session.watch("around")


def found(surroundings: Surroundings, one: Laboratory) -> None:
    kind, conclusion = session.theme(), figures.conclusion(one)
    notes([measured(surroundings, one)], "around-notes-from")
    table(one)
    said(conclusion, "around-said")
    st.markdown(
        "### Two distances\nWhat was changed about the target, and what draft tokens change about that, on one scale: "
        "total variation distance (TV), half the sum of absolute differences between two distributions."
    )
    picture(figures.distances(one, kind), "around", "distances", conclusion, sentence=False)
    microscope(one, surroundings.question.arm, kind)
    folds(one)


def measured(surroundings: Surroundings, one: Laboratory) -> str:
    """Where the numbers come from."""
    size = f"{one.texts} texts of {one.length} tokens, {one.runs} runs; {one.date}, {machine(one.machine)}."
    slow = "" if one.steady else f" Its speeds are no verdict: {one.unsteady}"
    if surroundings.own:
        return f"Your run: the target went on from your text; {size}{slow}"
    return f"Recorded on places of {one.text}: {size}{slow} Run the laboratory to see it on your text."


def table(one: Laboratory) -> None:
    config = {}
    for name, width in WIDTHS.items():
        helped = {"width": width, "help": COLUMN_HELP.get(name), "pinned": name == figures.COLUMNS[0]}
        plain = name in ("guess kept", "tokens per pass", "speed alone", "with guesses")
        config[name] = st.column_config.NumberColumn(format="%.2f", **helped) if plain else st.column_config.TextColumn(**helped)
    shown = figures.COLUMNS if one.steady else figures.COLUMNS[:-2]  # without a verdict the columns of speeds are empty
    first = figures.COLUMNS[0]
    lines = [line | {first: figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    st.dataframe(lines, hide_index=True, height="content", column_config=config, column_order=shown,
                 alt=figures.conclusion(one), placeholder="", key="around-table")  # fmt: skip


def microscope(one: Laboratory, arm: str, kind: str) -> None:
    seen = one.microscope.seen(arm)
    st.markdown(
        "### Near ties under the microscope\nA greedy text follows the largest logit. Two ways to compute one target part where its two "
        "largest logits are closer together than rounding moves them."
    )
    if seen is None:
        st.caption("This comparison could not run on this pair.")
        return
    conclusion = ties.conclusion(seen)
    left, right = st.columns(2, gap="large")
    left.plotly_chart(ties.margins(seen, kind), key="around-figure-margins", config=PLOT, alt=conclusion)
    right.plotly_chart(ties.spread(seen, kind), key="around-figure-spread", config=PLOT, alt=conclusion)
    said(conclusion, "around-said-ties")
    if seen.parted:
        tables("Where they part, and what each writes there", ties.partings(seen))


def folds(one: Laboratory) -> None:
    with st.expander("What each row is"):
        st.markdown("\n".join(f"- **{name}**: {escaped(what)}" for name, what in figures.entries(one)))
    tables("The numbers behind the table", figures.details(one))
    with st.expander("How it was measured"):
        st.markdown(
            "**TV to float32**: each way to serve the target reads the same texts, one token per pass, and its distribution is compared with "
            "float32’s at every place.  \n**TV by guesses**: the decoder is led along the texts, its draft tokens accepted and rejected at "
            "random; at each place the distribution of the token that it writes is computed from what draft and rule really do, and compared "
            "with that of the same target alone. No samples, so no sampling noise.  \n**Mistakes** wrap one argument of the "
            "decoder; the decoder itself has no switch that makes it wrong."
        )
