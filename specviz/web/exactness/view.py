"""The page Exactness test on screen: what to test, the histogram that fills and its answer, the buttons; many seeds."""

from __future__ import annotations

import shlex
from typing import Any, Literal

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from specviz.errors import SpecvizError
from specviz.evidence.testing.results import SEED_SAMPLES, SEEDS, CellShares, SeedPValues
from specviz.records import load_toml
from specviz.web.common import elements, export_fold, session
from specviz.web.common.controls import WIDE, Form, fill_fields, read_fields
from specviz.web.common.elements import open_screen, show_notes
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import name_pair
from specviz.web.common.side_by_side.payload import TEXTS, build_frames, build_histogram, build_result_frames
from specviz.web.common.side_by_side.view import histogram
from specviz.web.common.side_by_side.words import RULE, build_heading, describe_conditions, describe_origin
from specviz.web.exactness import export, words, work
from specviz.web.exactness.state import (
    CHOICES,
    FILE,
    LENGTHS,
    SERVER,
    SERVER_SAMPLES,
    URL_MAX,
    ExactnessQuestion,
    ExactnessState,
    SampleUpload,
    list_sources,
    read_question,
)  # fmt: skip
from specviz.web.hosting import warmup
from specviz.web.hosting.server_options import load_options

STEPS = {100: "100", 10_000: "10,000"}  # samples of a click; more and fewer are in the fold
MANY = 10_000  # samples from which 100 more change nothing that a reader could see
MILLION = 1_000_000
EXAMPLE_URL = "http://localhost:8000/v1"
RUNS = TEXTS | load_toml("texts/exactness")["runs"]  # sentences of the histogram of p-values


@end_with_row("exactness")
def show_page() -> None:
    """Draw the page Exactness test."""
    state = session.open_state("exactness", session.make_opener(ExactnessState, ExactnessQuestion))
    show_page_head("exactness", words.TEXTS["lede"])
    screen = open_screen("exactness", "samples")
    top, drawings = screen.container(key="exactness-top"), screen.container(key="exactness-drawings")
    with top:
        fold, question, problems = show_fields(state)
    state.choose(question)
    show_notes(problems, "exactness-notes-fields")
    if question.source == FILE:
        state.test_uploads(read_uploads(state), work.examine_files)
    elif question.source != SERVER:
        state.prepare(work.prepare_session)
    show_buttons_of_fold(state, *fold)
    session.sync_address(state)
    export_fold.show_export_fold("exactness", lambda: export.build_offer(state))
    if question.source in (FILE, SERVER):
        if question.source == SERVER:
            show_server_fields(state)
        session.show_progress("exactness")
        show_notes(state.notices, "exactness-notes-live")
        show_report(state)
        return
    is_running_seeds = state.latest is work.run_many_seeds  # their progress stands beside their own button
    with drawings:
        show_notes(state.notices, "exactness-notes-live")
        show_notes(state.shown_result.notes, "exactness-notes-distribution")
        if state.shown_result.arms is None:
            st.container(key="exactness-empty").caption("The exact distribution appears here as soon as the models are loaded.")
            show_buttons(state, is_running_seeds)
            return
        show_buttons(state, is_running_seeds)
        _show_samples(state)
    show_details(state)
    show_seed_runs(state, is_running_seeds)
    _show_folds(state)


def show_fields(state: ExactnessState) -> tuple[tuple[Any, Any, str], ExactnessQuestion, list[str]]:
    """The tested decoder in sight, the others folded.

    Returns what the fold's buttons need, drawn once it is known whether work begins; the question that the fields ask; and sentences
    where one cannot be used.
    """
    asked = state.question
    form = Form("exactness", state.turn, fill_fields(asked.settings))
    titles = {source: CHOICES[source] for source in list_sources()}
    form.raw["source"] = form.show_choice(st, "source", "What to test", titles, asked.source)
    if SERVER not in titles:
        st.caption(words.TEXTS["elsewhere"])
    if form.raw["source"] == FILE:  # its prompt is the file's
        st.file_uploader(
            "Samples of any server (.jsonl), or two files to compare", type=["jsonl", "json", "txt"], accept_multiple_files=True,
            key=f"exactness-file-{state.turn}", max_upload_size=load_options().upload_mb,
            help="A line is a JSON object with prompt, tokens (ids) or text, and perhaps stop and settings: docs/how-to/checking-your-server.md.",
        )  # fmt: skip
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        if form.raw["source"] != FILE:
            form.show_prompt(st)
        form.raw["max_new_tokens"] = st.selectbox(
            "Tokens per sample", LENGTHS, index=LENGTHS.index(asked.settings.max_new_tokens), **form.build_key("max_new_tokens")
        )
        form.show_sampling()
        left, right = st.columns(2)
        form.show_text(left, "seed", "Seed")
        count = right.text_input(
            "Another number of samples", max_chars=WIDE, placeholder="such as 2,500", **form.build_key("count")
        )
        st.caption(words.TEXTS["share"])
    question, problems = read_question(asked, form.raw, read_fields)
    show_notes(problems, place=top)
    return (left, right, count), question, problems


def show_server_fields(state: ExactnessState) -> None:
    """The server's address, the button, and the command that does the same; no request is sent before a click."""
    form = Form("exactness", state.turn, {})
    where, name, count = st.columns([5, 3, 2])
    url = where.text_input(
        "Address of the server", max_chars=URL_MAX, placeholder=EXAMPLE_URL, **form.build_key("server-url"),
        help="An OpenAI-compatible server, such as vLLM, SGLang, llama.cpp or transformers serve. A key is taken by the command line only.",
    )  # fmt: skip
    model = name.text_input(
        "Name of the model there", max_chars=200, placeholder="may be left out", **form.build_key("server-model")
    )
    samples = count.text_input("Samples", value=f"{SERVER_SAMPLES:,}", max_chars=WIDE, **form.build_key("server-samples"))
    if st.button("Ask this server", key="exactness-server-go", disabled=state.is_busy, type="primary"):
        state.ask_server(url or "", model or "", samples or "", work.audit_server)
        st.rerun()
    st.markdown(words.TEXTS["audit"])
    command = words.list_audit_words(state.question.settings, url or EXAMPLE_URL, model or "")
    st.code(shlex.join(map(str, command)), language=None, wrap_lines=True)
    if state.server_notes:
        with st.container(key="exactness-text-server"):
            for line in state.server_notes:
                st.text(line)


def read_uploads(state: ExactnessState) -> list[SampleUpload]:
    """The files of this session's uploader. One that is no longer there is left out."""
    sent = st.session_state.get(f"exactness-file-{state.turn}") or ()
    return [SampleUpload(one.file_id, one.name, one.getvalue()) for one in sent if isinstance(one, UploadedFile)]


def show_buttons_of_fold(state: ExactnessState, left: Any, right: Any, count: str) -> None:
    """The buttons for other numbers of samples; ``count`` is the number that was typed. A click while work runs would be lost."""
    own = state.question.source not in (FILE, SERVER)
    if right.button("Sample that many", key="exactness-count-go", disabled=state.is_busy or not own):
        state.request_samples(count, work.draw_samples)
        st.rerun()
    if own:
        _show_draw_button(left, state, MILLION, "Sample a million")


def show_buttons(state: ExactnessState, is_running_seeds: bool) -> None:
    """The buttons that draw with their progress, and the one that leads to the recorded samples and back."""
    n, recorded = state.result.n, state.load_recorded()
    more = " more" if n or recorded else " samples"
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="exactness-buttons"):
        if not is_running_seeds:
            session.show_progress("exactness")
        shown = state.shown_result.n
        for count, name in STEPS.items():
            if count < max(STEPS) and shown >= MANY:
                continue
            kind: Literal["primary", "secondary"] = "primary" if count == max(STEPS) else "secondary"
            _show_draw_button(st, state, count, f"Draw {name}{more}", kind)
        if n and recorded:
            label = f"Back to the {recorded.result.n:,} recorded" if state.has_own_result else f"Back to your {n:,}"
            st.button(label, key="exactness-recorded", on_click=state.toggle_recorded, disabled=state.is_busy, type="tertiary")


def _show_draw_button(
    place: Any, state: ExactnessState, count: int, name: str, kind: Literal["primary", "secondary"] = "secondary"
) -> None:
    n, most = state.result.n, state.question.max_samples
    hint = "This decoder writes one text at a time and would need hours." if count > most else None
    if place.button(
        name, key=f"exactness-draw-{count}", disabled=state.is_busy or n >= most or count > most, help=hint, type=kind
    ):
        state.request_samples(count, work.draw_samples)
        st.rerun()


def _show_samples(state: ExactnessState) -> None:
    """The histogram that fills, with as many samples of the target alone, the control, and its answer."""
    frames, heading = build_result_frames(state.shown_result), build_heading(state.question.settings)
    control = None if state.question.source == "target" or not state.shown_result.n else state.shown_result.arms[1]
    payload = build_histogram(
        frames,
        heading,
        words.build_verdict(state),
        texts=TEXTS | {"answerFirst": "top", "more": words.describe_more(state, max(STEPS))},
        is_live=state.has_own_result,
        control=control,
    )
    histogram.draw("exactness-histogram", {"payload": payload, "within": True})


def show_details(state: ExactnessState) -> None:
    """One quiet line: the settings, what is not drawn, and where the samples come from."""
    said = [
        words.describe_models(name_pair(state.question.settings.pair), state.models),
        describe_conditions(state.question.settings),
        *describe_origin(state),
        words.describe_undrawn(state.shown_result),
    ]
    st.container(key="exactness-conditions").caption(" · ".join(filter(None, (one.rstrip(".") for one in said))) + ".")


def show_seed_runs(state: ExactnessState, is_running: bool) -> None:
    """P-values of many runs. is_running: whether they are what is computed, or was last."""
    known = state.load_recorded()
    found = state.result.p_values or (known.result.p_values if known else None)
    fold = st.expander(words.TEXTS["seed_runs_title"].format(n=SEEDS), key="exactness-runs")
    with fold, st.container(key="exactness-flat"):
        if state.question.source == "assisted":
            st.markdown(words.TEXTS["no_seed_runs"])
            return
        st.markdown(words.TEXTS["seed_runs"])
        if found:
            heading = f"P-values of {SEEDS} runs, each of {SEED_SAMPLES} samples with its own seed"
            payload = build_histogram(draw_cached(_build_runs, found), heading, words.build_seed_verdict(found), texts=RUNS)
            histogram.draw("exactness-flat-histogram", {"payload": payload, "within": True})
        mine = state.result.p_values is not None
        label = f"Run {SEEDS} seeds" if mine or not found else f"Run {SEEDS} new seeds"
        session.show_work_button(st, state, label, "exactness-seeds", work.run_many_seeds)
        if is_running:
            session.show_progress("exactness")


def _build_runs(p_values: SeedPValues) -> dict[str, Any]:
    return build_frames((p_values.shares,), pooled=False) | {"conclusion": p_values.conclusion}


def _show_folds(state: ExactnessState) -> None:
    result = state.shown_result
    fold = st.expander("Numbers, tests and the command", key="exactness-tests", on_change="rerun")
    if not fold.open:
        return
    with fold:
        seeds = [("P-values of many runs", result.p_values.table)] if result.p_values else []
        for name, rows in [*((shown.name, shown.table) for shown in result.arms), *seeds]:
            st.caption(name)
            elements.show_dataframe(rows, placeholder="")
        try:
            warmup.require_libraries()
        except SpecvizError as error:
            show_notes([str(error)], "exactness-notes-tests")
            return
        from specviz.evidence.sampling.sampling_plan import INTERIM  # torch comes with it, which a recorded page does without

        st.markdown(words.describe_limits(state))
        st.markdown(RULE)
        elements.show_dataframe(words.build_tests_table(result, INTERIM.tabulate_looks(state.question.settings.max_new_tokens)))
        st.caption(words.TEXTS["p_values"])
        st.markdown(words.TEXTS["command"])
        st.code(words.build_command(state), language=None, wrap_lines=True)


def show_report(state: ExactnessState) -> None:
    """Picture, verdict and tests. Texts of files and people are shown as text, never as markdown."""
    report = state.report
    if report is None and state.question.source == SERVER:
        st.caption(words.describe_server_test(state.question.settings))
        return
    if report is None:
        st.caption(words.TEXTS["files"])
        return
    with open_screen("exactness", "report"):
        if report["answers"][0]["cells"]:
            shown = CellShares.from_report(report)
            payload = build_histogram(build_frames((shown,)), words.describe_files(report), words.build_report_verdict(report))
            histogram.draw("exactness-file", {"payload": payload, "within": True})
            if shown.undrawn_mass:
                st.caption(f"Not drawn: all other texts together, {shown.undrawn_mass:.0%}.")
        else:
            place = elements.show_verdict("exactness", report["verdict"], report["sentence"], words.TEXTS["alarms"])
            place.container(key="exactness-text-file").text(words.describe_files(report))
    if report["note"]:
        show_notes([report["note"]], "exactness-notes-file")
    for number, line in enumerate(words.list_audit_sentences(report)):
        st.container(key=f"exactness-text-audit-{number}").text(line)
    with st.expander("Tests, tables and the command"):
        elements.show_dataframe(words.build_report_tests_table(report))
        for name, rows in words.build_audit_tables(report):
            st.caption(name)
            elements.show_dataframe(rows, placeholder="")
        from specviz.export.report import build_commands

        st.code("\n".join(build_commands(report)[:1]), language=None, wrap_lines=True)
        if again := (report.get("audit") or {}).get("reproduction"):
            st.caption("Show it again without this project")
            st.code(again["script"], language="python", wrap_lines=True)
            if model_script := again.get("model_script"):
                st.code(model_script, language="python", wrap_lines=True)
