"""The page Is it exact? on screen: the question's fields, the buttons, and the part that fills while samples come in."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from specviz.figures.exactness import evidence
from specviz.web.common import download, session
from specviz.web.common.controls import WIDE, Form, as_fields, from_fields
from specviz.web.common.parts import head, notes, picture, tables
from specviz.web.exactness import export, words, work
from specviz.web.exactness.state import (
    FILE,
    LARGEST,
    LENGTHS,
    SEED_DRAWS,
    SEEDS,
    SOURCES,
    Exam,
    Question,
    Upload,
    another,
    whole_number,
)

STEPS = {1: "1 sample", 100: "100", 10_000: "10,000", 1_000_000: "A million"}
REJECTED = "<style>[class*='-verdict'] { border-left: 0.45rem double #D55E00 !important; }</style>"
LEDE = (
    "A draft model suggests tokens, yet the text must come out as if the target model had written it alone. The target’s distribution, "
    "the probability of every text, is known exactly: sample, and see whether the decoder follows it."
)


def page() -> None:
    exam = session.current("exact", opened)
    head("exact", "Is it exact?", LEDE)
    question, problems = fields(exam)
    exam.choose(question)
    notes(problems, "exact-notes-fields")
    exam.take(uploads(exam), work.examine_files)
    exam.prepare(work.prepared)
    session.keep_link(exam)
    download.fold("exact", lambda: export.offer(exam))
    if question.source == FILE:
        session.watch("exact")
        notes(exam.notices, "exact-notes-live")
        of_files(exam, session.theme())
        return
    buttons(exam)
    notes(exam.notices, "exact-notes-live")
    notes(exam.drawn.notes, "exact-notes-law")
    verdict(exam)
    if exam.drawn.arms is None:
        st.caption("The exact distribution appears here as soon as the models are loaded.")
        return
    pictures(exam, session.theme())
    seeds(exam, session.theme())
    folds(exam)


def opened(query: Mapping[str, str], before: Exam | None) -> Exam:
    question, left_out = Question.of_link(query, session.base())
    exam = Exam(question)
    exam.said = left_out
    return exam


def fields(exam: Exam) -> tuple[Question, list[str]]:
    """Three fields in sight, the others folded: the question they ask, and sentences where one cannot be used."""
    asked = exam.question
    form = Form("exact", exam.turn, as_fields(asked.settings))
    text, length, source = st.columns([6, 1.5, 2.5])
    form.raw["length"] = length.selectbox(
        "Tokens per sample", LENGTHS, index=LENGTHS.index(asked.settings.length), **form.key("length")
    )
    form.raw["source"] = source.selectbox(
        "Samples of", list(SOURCES), index=list(SOURCES).index(asked.source), format_func=SOURCES.get, **form.key("source")
    )
    if form.raw["source"] == FILE:  # its prompt is the file's
        text.file_uploader(
            "Samples of any server (.jsonl), or two files to compare", type=["jsonl", "json", "txt"], accept_multiple_files=True,
            key=upload_key(exam), max_upload_size=LARGEST,
            help="A line is a JSON object with prompt, tokens (ids) or text, and perhaps stop and settings: docs/checking-your-server.md.",
        )  # fmt: skip
    else:
        form.prompt(text)
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        form.sampling()
        left, right = st.columns(2)
        form.text(left, "seed", "Seed")
        count = right.text_input("Another number of samples", max_chars=WIDE, placeholder="such as 2,500", **form.key("count"))
        if right.button("Sample as many", key="exact-count-go", disabled=exam.busy):
            exam.ask(whole_number(count), work.draw)
        st.caption("A change begins a new examination. The address of this page holds the question: copy it to share.")
    question, problems = another(asked, form.raw, from_fields)
    notes(problems, place=top)
    return question, problems


def upload_key(exam: Exam) -> str:
    return f"exact-file-{exam.turn}"


def uploads(exam: Exam) -> list[Upload]:
    """What this visitor's browser sent; nobody else's session sees it."""
    return [Upload(one.file_id, one.name, one.getvalue()) for one in st.session_state.get(upload_key(exam)) or ()]


def buttons(exam: Exam) -> None:
    full = exam.drawn.n >= exam.question.most
    with st.container(horizontal=True, vertical_alignment="center", key="exact-buttons"):
        for count, name in STEPS.items():
            slow = count > exam.question.most
            hint = "One text at a time: this decoder would need hours." if slow else None
            if st.button(name, key=f"exact-draw-{count}", disabled=exam.busy or full or slow, help=hint):
                exam.ask(count, work.draw)
                st.rerun()
        if not exam.busy:
            st.caption(words.drawn_so_far(exam.drawn))
    session.watch("exact")


def verdict(exam: Exam) -> None:
    said = words.verdict(exam.drawn, exam.question)
    if said.mark == "rejected":
        st.html(REJECTED)
    with st.container(key="exact-verdict"):
        st.markdown(f"## {words.MARKS[said.mark]} {said.words}\n{said.seen}")


def pictures(exam: Exam, kind: str) -> None:
    drawn = exam.drawn
    end = evidence.top(*drawn.arms)
    if drawn.texts:
        st.markdown(
            f"**Same distribution, different texts.** Sample {drawn.texts[0]:,} of each; no single text tells them apart, only the distribution can."
        )
    for arm, (column, shown) in enumerate(zip(st.columns(2, gap="large"), drawn.arms, strict=True)):
        with column:
            st.container(key=f"exact-name-{arm}").markdown(shown.name)
            if drawn.texts:
                st.container(key=f"exact-text-{arm}").text(words.continued(exam.question, drawn.texts[1 + arm]))
            picture(evidence.filling(shown, end, kind), "exact", str(arm), shown.conclusion, sentence=False)
    with st.container(key="exact-said"):
        st.markdown(" ".join(filter(None, (words.fill_sentence(drawn), words.engine_sentence(drawn, exam.question)))))


def seeds(exam: Exam, kind: str) -> None:
    flat = exam.drawn.flat
    with st.container(key="exact-flat"):
        st.markdown("## One run may be lucky. What of many?")
        if exam.question.source == "assisted":
            st.markdown(
                "P-values of many runs need thousands of samples, and this decoder writes one text at a time: choose another one above."
            )
            return
        left, right = st.columns([2, 3], gap="large")
        left.markdown(
            f"{SEEDS} runs, each of {SEED_DRAWS} samples under a seed of its own, each with its p-value. If the decoder is exact, "
            "every p-value is as likely as any other: the bars lie flat. A decoder that is off piles them up at the left."
        )
        session.ask(left, exam, f"Run {SEEDS} seeds", "exact-seeds", work.many_seeds)
        if flat:
            left.markdown(flat.conclusion)
            with right:
                picture(evidence.flat(flat, kind), "exact", "flat", flat.conclusion, sentence=False)


def folds(exam: Exam) -> None:
    from specviz.evidence.looks import rule  # torch comes with it, which is there once there are pictures

    flat = exam.drawn.flat
    rows = [(shown.name, shown.table) for shown in exam.drawn.arms] + ([("P-values of many runs", flat.table)] if flat else [])
    tables("The numbers behind the pictures", *rows)
    with st.expander("When this page looks, and what it could see"):
        st.markdown(words.RULE)
        st.dataframe(words.looks_table(exam.drawn, rule()), hide_index=True)
        st.caption(words.TABLE)
        st.markdown("The same question without this page, with tests that also see inside the cells:")
        st.code(words.command(exam), language=None, wrap_lines=True)


def of_files(exam: Exam, kind: str) -> None:
    """Verdict, picture and tests. What files and people wrote is text, never markdown."""
    if exam.filed is None:
        st.caption(
            "One file is tested against the target’s exact distribution, under the settings of this page; two files are tested against each "
            "other, without any weights. Speculative decoding on against off, say."
        )
        return
    report, shown = exam.filed.report, exam.filed.picture
    if report["verdict"] == "rejected":
        st.html(REJECTED)
    with st.container(key="exact-verdict"):
        st.markdown(f"## {words.FILE_MARKS[report['verdict']]} {report['sentence']}\n{words.ALARMS}")
        st.container(key="exact-text-file").text(words.described(report))
    if report["note"]:
        notes([report["note"]], "exact-notes-file")
    if shown:
        picture(evidence.filling(shown, evidence.top(shown), kind), "exact", "file", shown.conclusion, sentence=False)
        st.markdown(
            "The heaviest cells, made from the exact distribution alone; … stands for every text that begins so. "
            "Sampling noise alone keeps all bars inside the grey bands 99 times in 100."
        )
    with st.expander("Every test", expanded=True):
        st.dataframe(words.file_tests(report), hide_index=True)
    with st.expander("The same without this page"):
        from specviz.export.report import commands

        st.code("\n".join(commands(report)[:1]), language=None, wrap_lines=True)
