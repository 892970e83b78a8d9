"""The page Serving limits on screen: a text and a comparison; the laboratory as rows; below it the microscope on near ties."""

from __future__ import annotations

import streamlit as st

from specviz.figures.serving_limits import near_ties as ties
from specviz.figures.serving_limits import setups as figures
from specviz.serving.near_ties import COMPARISONS
from specviz.serving.setups import SetupComparison
from specviz.web.common import download, session
from specviz.web.common.controls import Form, from_fields
from specviz.web.common.parts import PLOT, escaped, head, machine, notes, picture, said, tables
from specviz.web.serving_limits import export, work
from specviz.web.serving_limits.state import Ask, Surroundings

LEDE = (
    "What does exactness not cover? It is relative to the target as served. Quantization, number types and logits processors change "
    "the target’s distribution. Speculative decoding follows the changed one, provided that verification and target-only sampling use the same."
)
SERVED, TV_DRAFTED, VERDICT, RESPECT, TV_FLOAT32, ACCEPTED, PER_PASS, SPEED, SPEED_DRAFTED = figures.COLUMNS
COLUMN_HELP = {
    VERDICT: "✓ exact: draft tokens do not change the served distribution. ≈ exact up to rounding: passes over several tokens round "
    "differently. ✗ lossy: a mistake, draft tokens change the distribution.",
    TV_FLOAT32: "Total variation distance of this setup’s distribution from float32’s, one token per pass: mean over all prefixes, with a 95% interval "
    "over resampled texts.",
    TV_DRAFTED: "Total variation distance between the distribution that the decoder writes, with draft tokens and caches, and target-only sampling in "
    "the same setup: mean and largest over the prefixes checked.",
    ACCEPTED: "Probability that a token of the unchanged draft model is accepted: the sum of min(p, q), mean over all prefixes.",
    PER_PASS: "Tokens written per target pass, with draft tokens.",
    SPEED: "Target-only speed, relative to the float32 target: median of the runs.",
    SPEED_DRAFTED: "Speed with draft tokens, relative to target-only float32: median of the runs.",
}
LABELS = {
    TV_DRAFTED: "TV by draft tokens",
    ACCEPTED: "acceptance",
    PER_PASS: "per pass",
    SPEED: "speed, target-only",
    SPEED_DRAFTED: "speed, drafted",
}
WIDTHS = dict(zip(figures.COLUMNS, (195, 138, 145, 180, 168, 90, 75, 132, 112), strict=True))


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
        st.caption("The measurements appear here once they have run.")
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
        "Near ties between",
        list(COMPARISONS),
        default=ask.arm,
        required=True,
        format_func=lambda name: COMPARISONS[name].name,
        **form.key("arm"),
    )
    settings, problems = from_fields(form.raw, ask.settings)
    return Ask(ask.settings if problems else settings, arm or ask.arm), problems


def buttons(surroundings: Surroundings) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="around-buttons"):
        session.ask(st, surroundings, "Measure every setup", "around-run", work.run_all, surroundings.question, type="primary")
        st.caption("Measures every row on your text, and writes its greedy text in every number type.")
    session.watch("around")


def found(surroundings: Surroundings, one: SetupComparison) -> None:
    kind, conclusion = session.theme(), figures.conclusion(one)
    notes([measured(surroundings, one)], "around-notes-from")
    table(one)
    said(conclusion, "around-said")
    st.markdown(
        "### Two distances\nHow much the setup changes the target, and how much draft tokens change that, on one scale: "
        "total variation distance (TV), half the sum of absolute differences between two distributions."
    )
    picture(figures.distances(one, kind), "around", "distances", conclusion, sentence=False)
    microscope(one, surroundings.question.arm, kind)
    folds(one)


def measured(surroundings: Surroundings, one: SetupComparison) -> str:
    """Where the numbers come from."""
    size = f"{one.texts} texts of {one.length} tokens, {one.runs} runs; {one.date}, {machine(one.machine)}."
    slow = "" if one.steady else f" No verdict on speed: {one.unsteady}"
    if surroundings.own:
        return f"Your run, continuing your text: {size}{slow}"
    return f"Recorded on passages of {one.text}: {size}{slow} Press the button to measure it on your text."


def table(one: SetupComparison) -> None:
    config = {}
    for name, width in WIDTHS.items():
        helped = {"width": width, "help": COLUMN_HELP.get(name), "pinned": name == SERVED}
        plain = name in (ACCEPTED, PER_PASS, SPEED, SPEED_DRAFTED)
        label = LABELS.get(name)
        config[name] = (
            st.column_config.NumberColumn(label, format="%.2f", **helped)
            if plain
            else st.column_config.TextColumn(label, **helped)
        )
    shown = figures.COLUMNS if one.steady else figures.COLUMNS[:-2]  # without a verdict the columns of speeds are empty
    lines = [line | {SERVED: figures.marked(row)} for line, row in zip(figures.table(one), one.rows, strict=True)]
    st.dataframe(lines, hide_index=True, height="content", column_config=config, column_order=shown,
                 alt=figures.conclusion(one), placeholder="", key="around-table")  # fmt: skip


def microscope(one: SetupComparison, arm: str, kind: str) -> None:
    seen = one.microscope.seen(arm)
    st.markdown(
        "### Near ties\nGreedy decoding follows the largest logit. Two ways to compute the same target write different texts where its two "
        "largest logits are closer than rounding moves them."
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
        tables("Where they differ, and what each writes there", ties.partings(seen))


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
