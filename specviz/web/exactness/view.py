"""The page Is it exact? on screen: the question's fields, the buttons, and the part that fills while draws come in."""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.figures.exactness import evidence
from specviz.web.common.controls import WIDE, as_fields, beside
from specviz.web.common.frame import style
from specviz.web.common.queued import LOOK_AGAIN
from specviz.web.exactness import export, files, words
from specviz.web.exactness.state import FILE, LENGTHS, SEED_DRAWS, SEEDS, SOURCES, Exam, Question, another, whole_number

STEPS = {1: "1 draw", 100: "100", 10_000: "10,000", 1_000_000: "A million"}
MARKS = {"waiting": "…", "consistent": "✓", "rejected": "✗", "untold": "?"}
LEDE = (
    "A small model drafts, yet the text must come out as if the large one had written it alone. The target’s distribution, "
    "the probability of every text, is known exactly; draw, and see whether the decoder follows it."
)


def head() -> None:
    with st.container(key="exact-head"):
        st.markdown(f"# Is it exact?\n{LEDE}")


def fields(exam: Exam, turn: int) -> tuple[Question, list[str]]:
    """Three fields in sight, the others folded: the question they ask, and sentences where one cannot be used."""
    settings = exam.question.settings
    start = as_fields(settings) | {"length": settings.length, "source": exam.question.source}

    def key(name: str) -> dict[str, Any]:
        return {"key": f"exact-{name}-{turn}", "persist_state": "session"}

    def value(name: str) -> dict[str, Any]:
        return {"value": start[name]} | key(name)

    raw: dict[str, Any] = {}
    text, length, source = st.columns([6, 1.5, 2.5])
    raw["length"] = length.selectbox("Tokens drawn", LENGTHS, index=LENGTHS.index(start["length"]), **key("length"))
    raw["source"] = source.selectbox(
        "Who draws", list(SOURCES), index=list(SOURCES).index(start["source"]), format_func=SOURCES.get, **key("source")
    )
    if raw["source"] == FILE:  # its prompt is the file's
        files.uploader(text, turn)
    else:
        hint = "empty: a start token is used"
        raw["prompt"] = text.text_area("Text to continue", height=68, placeholder=hint, **value("prompt"))
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        left, right = st.columns(2)
        raw["gamma"] = left.number_input(
            "Draft tokens per round (gamma)", step=1, help="0 to 16; 0: the target alone", **value("gamma")
        )
        hint = "0 to 5; 0: always the likeliest"
        raw["temperature"] = right.text_input("Temperature", max_chars=WIDE, help=hint, **value("temperature"))
        left, right = st.columns(2)
        raw["top_k"] = left.text_input("top-k", max_chars=WIDE, placeholder="off", **value("top_k"))
        raw["top_p"] = right.text_input("top-p", max_chars=WIDE, placeholder="off", **value("top_p"))
        left, right = st.columns(2)
        raw["seed"] = left.text_input("Seed", max_chars=WIDE, **value("seed"))
        count = right.text_input("Another number of draws", max_chars=WIDE, placeholder="such as 2,500", **key("count"))
        right.button("Draw as many", key="exact-count-go", on_click=lambda: exam.ask(whole_number(count)), disabled=exam.busy)
        st.caption("A change begins a new examination. The address of this page holds the question: copy it to share.")
    question, problems = another(exam.question, raw)
    beside(top, problems)
    return question, problems


def notes(sentences: list[str], where: str) -> None:
    """Sentences with what people typed: text, never markdown."""
    with st.container(key=f"exact-notes-{where}"):
        for sentence in sentences:
            st.text(sentence)


def live() -> None:
    """Everything that changes while draws come in; looks again by itself as long as there is work."""
    exam: Exam = st.session_state["exact"]
    exam.polling = exam.busy
    st.fragment(_live, run_every=LOOK_AGAIN if exam.polling else None)()


def _live() -> None:
    exam: Exam = st.session_state["exact"]
    if exam.ticket is not None:
        exam.ticket.look()
    if exam.busy != exam.polling:
        st.rerun()
    export.exact(exam)
    drawn, kind = exam.drawn, "dark" if st.context.theme.type == "dark" else "light"
    if exam.question.source == FILE:
        _work(exam)
        notes(exam.notices, "live")
        if exam.filed is not None and exam.filed.report["verdict"] == "rejected":
            style("rejected")
        files.results(exam, kind)
        return
    _buttons(exam)
    notes(exam.notices, "live")
    notes(list(drawn.notes), "distribution")
    _verdict(exam)
    if drawn.arms is None:
        st.caption("The exact distribution appears here as soon as the models are loaded.")
        return
    _pictures(exam, kind)
    _seeds(exam, kind)
    _folds(exam)


def _buttons(exam: Exam) -> None:
    full = exam.drawn.n >= exam.question.most
    with st.container(horizontal=True, vertical_alignment="center", key="exact-buttons"):
        for count, name in STEPS.items():
            slow = count > exam.question.most
            hint = "One text at a time: this decoder would need hours." if slow else None
            st.button(
                name, key=f"exact-draw-{count}", on_click=exam.ask, args=(count,), disabled=exam.busy or full or slow, help=hint
            )
        if exam.busy:
            st.button("Stop", key="exact-stop", on_click=exam.stop)
        else:
            st.caption(words.drawn_so_far(exam.drawn))
    if exam.busy:
        st.progress(min(1.0, max(0.0, exam.ticket.share)), text=exam.progress())


def _work(exam: Exam) -> None:
    """How far a file's test is, and the way to end it."""
    if exam.busy:
        st.progress(min(1.0, max(0.0, exam.ticket.share)), text=exam.progress())
        st.button("Stop", key="exact-stop", on_click=exam.stop)


def _verdict(exam: Exam) -> None:
    said = words.verdict(exam.drawn, exam.question)
    if said.mark == "rejected":
        style("rejected")
    with st.container(key="exact-verdict"):
        st.markdown(f"## {MARKS[said.mark]} {said.words}\n{said.seen}")


def _pictures(exam: Exam, kind: str) -> None:
    drawn = exam.drawn
    end = evidence.top(*drawn.arms)
    if drawn.texts:
        st.markdown(
            f"**Same distribution, different texts.** Draw {drawn.texts[0]:,} of each; no single text tells them apart, only the distribution can."
        )
    for arm, (column, picture) in enumerate(zip(st.columns(2, gap="large"), drawn.arms, strict=True)):
        with column:
            st.container(key=f"exact-name-{arm}").markdown(picture.name)
            if drawn.texts:
                st.container(key=f"exact-text-{arm}").text(words.continued(exam.question, drawn.texts[1 + arm]))
            st.plotly_chart(
                evidence.filling(picture, end, kind),
                key=f"exact-figure-{arm}",
                config={"displayModeBar": False},
                alt=picture.conclusion,
            )
    with st.container(key="exact-said"):
        st.markdown(" ".join(filter(None, (words.fill_sentence(drawn), words.engine_sentence(drawn, exam.question)))))


def _seeds(exam: Exam, kind: str) -> None:
    flat = exam.drawn.flat
    with st.container(key="exact-flat"):
        st.markdown("## One run may be lucky. What of many?")
        if exam.question.source == "assisted":
            st.markdown(
                "P-values of many runs need thousands of draws, and this decoder draws one text at a time: choose another one above."
            )
            return
        left, right = st.columns([2, 3], gap="large")
        left.markdown(
            f"{SEEDS} runs, each of {SEED_DRAWS} draws under a seed of its own, each with its p-value. If the decoder is exact, "
            "every p-value is as likely as any other: the bars lie flat. A decoder that is off piles them up at the left."
        )
        left.button(f"Run {SEEDS} seeds", key="exact-seeds", on_click=exam.ask_flat, disabled=exam.busy)
        if flat:
            left.markdown(flat.conclusion)
            with right:
                st.plotly_chart(
                    evidence.flat(flat, kind), key="exact-figure-flat", config={"displayModeBar": False}, alt=flat.conclusion
                )


def _folds(exam: Exam) -> None:
    with st.expander("The numbers behind the pictures"):
        for picture in exam.drawn.arms:
            st.caption(picture.name)
            st.dataframe(picture.table, hide_index=True)
        if exam.drawn.flat:
            st.caption("P-values of many runs")
            st.dataframe(exam.drawn.flat.table, hide_index=True)
    with st.expander("When this page looks, and what it could see"):
        from specviz.evidence.looks import rule

        st.markdown(words.RULE)
        st.dataframe(words.looks_table(exam.drawn, rule()), hide_index=True)
        st.caption(words.TABLE)
        st.markdown("The same question without this page, with tests that also see inside the cells:")
        st.code(words.command(exam), language=None, wrap_lines=True)
