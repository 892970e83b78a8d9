"""The page Is it exact? on screen: the question's fields, the buttons, and pictures that fill while samples come in."""

from __future__ import annotations

from typing import Any, Literal

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from specviz.errors import SpecvizError
from specviz.evidence import results
from specviz.evidence.results import SEED_SAMPLES, SEEDS
from specviz.figures import cell_shares
from specviz.web.common import elements, export_fold, session
from specviz.web.common.component import Component
from specviz.web.common.controls import WIDE, Form, fill_fields, read_fields
from specviz.web.common.elements import open_screen, show_figure, show_notes, show_tables
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.side_by_side.words import RULE, count_samples, describe_conditions, describe_origin, shorten_prompt
from specviz.web.exactness import export, words, work
from specviz.web.exactness.payload import build_histogram
from specviz.web.exactness.state import (
    FILE,
    LENGTHS,
    SERVER,
    SERVER_SAMPLES,
    SOURCES,
    URL_MAX,
    ExactnessQuestion,
    ExactnessState,
    SampleUpload,
    list_sources,
    read_question,
)  # fmt: skip
from specviz.web.hosting.server_options import load_options
from specviz.web.jobs import warmup

STEPS = {100: "100", 10_000: "10,000"}  # samples of a click; more and fewer are in the fold
MILLION = 1_000_000
_histogram = Component("exactness")


@end_with_row("exactness")
def show_page() -> None:
    """Draw the page Is it exact?"""
    state = session.open_state("exactness", session.make_opener(ExactnessState, ExactnessQuestion))
    show_page_head("exactness", words.TEXTS["lede"])
    with open_screen("exactness", "samples"):
        place, question, problems = show_fields(state)
        drawings = st.container(key="exactness-drawings")
    state.choose(question)
    show_notes(problems, "exactness-notes-fields")
    if question.source == FILE:
        state.test_uploads(read_uploads(state), work.examine_files)
    elif question.source != SERVER:
        state.prepare(work.prepare_session)
    session.sync_address(state)
    export_fold.show_export_fold("exactness", lambda: export.build_offer(state))
    if question.source in (FILE, SERVER):
        if question.source == SERVER:
            show_server_fields(state)
        session.show_progress("exactness")
        show_notes(state.notices, "exactness-notes-live")
        show_report(state, session.get_theme())
        return
    show_buttons(state, place)
    many = state.latest is work.run_many_seeds  # their progress stands beside their own button
    if not many:
        session.show_progress("exactness")
    show_notes(state.notices, "exactness-notes-live")
    show_notes(state.shown_result.notes, "exactness-notes-distribution")
    if state.shown_result.arms is None:
        drawings.caption("The exact distribution appears here as soon as the models are loaded.")
        return
    with drawings:
        _show_histogram(state)
    show_control(state, session.get_theme())
    show_seed_runs(state, session.get_theme(), many)
    _show_folds(state)


def show_fields(state: ExactnessState) -> tuple[Any, ExactnessQuestion, list[str]]:
    """What is tested in sight, the others folded: the place beside it, the question they ask, and sentences where one cannot be used."""
    asked = state.question
    form = Form("exactness", state.turn, fill_fields(asked.settings))
    place, source = st.columns([8, 3], vertical_alignment="bottom")
    form.raw["source"] = source.selectbox(
        "What to test",
        list_sources(),
        index=list_sources().index(asked.source),
        format_func=SOURCES.__getitem__,
        **form.build_key("source"),
    )
    if form.raw["source"] == FILE:  # its prompt is the file's
        place.file_uploader(
            "Samples of any server (.jsonl), or two files to compare", type=["jsonl", "json", "txt"], accept_multiple_files=True,
            key=f"exactness-file-{state.turn}", max_upload_size=load_options().upload_mb,
            help="A line is a JSON object with prompt, tokens (ids) or text, and perhaps stop and settings: docs/how-to/checking-your-server.md.",
        )  # fmt: skip
    own = form.raw["source"] not in (FILE, SERVER)
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
        if right.button("Sample that many", key="exactness-count-go", disabled=state.is_busy or not own):
            state.request_samples(count, work.draw_samples)
        if own:
            _show_draw_button(left, state, MILLION, "Sample a million")
        st.caption(words.TEXTS["share"])
    question, problems = read_question(asked, form.raw, read_fields)
    show_notes(problems, place=top)
    return place, question, problems


def show_server_fields(state: ExactnessState) -> None:
    """The server's address, and the button; no request is sent before a click."""
    form = Form("exactness", state.turn, {})
    where, name, count = st.columns([5, 3, 2])
    url = where.text_input(
        "Address of the server", max_chars=URL_MAX, placeholder="http://localhost:8000/v1", **form.build_key("server-url"),
        help="An OpenAI-compatible server, such as vLLM, SGLang, llama.cpp or transformers serve. A key is taken by the command line only.",
    )  # fmt: skip
    model = name.text_input(
        "Name of the model there", max_chars=200, placeholder="may be left out", **form.build_key("server-model")
    )
    samples = count.text_input("Samples", value=f"{SERVER_SAMPLES:,}", max_chars=WIDE, **form.build_key("server-samples"))
    if st.button("Ask this server", key="exactness-server-go", disabled=state.is_busy, type="primary"):
        state.ask_server(url or "", model or "", samples or "", work.audit_server)
        st.rerun()
    if state.server_notes:
        with st.container(key="exactness-text-server"):
            for line in state.server_notes:
                st.text(line)


def read_uploads(state: ExactnessState) -> list[SampleUpload]:
    """The files of this session's uploader. One that is no longer there is left out."""
    sent = st.session_state.get(f"exactness-file-{state.turn}") or ()
    return [SampleUpload(one.file_id, one.name, one.getvalue()) for one in sent if isinstance(one, UploadedFile)]


def show_buttons(state: ExactnessState, place: Any) -> None:
    """The buttons that draw."""
    with place, st.container(horizontal=True, vertical_alignment="center", key="exactness-buttons"):
        for count, name in STEPS.items():
            kind: Literal["primary", "secondary"] = "primary" if count == max(STEPS) else "secondary"
            _show_draw_button(st, state, count, f"Draw {name} samples", kind)


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


def _show_histogram(state: ExactnessState) -> None:
    """The histogram that fills, and the verdict beside it."""
    result = state.shown_result
    left, right = st.columns([8, 5], gap="large")
    with left:
        asked = state.question.settings
        tokens = "token" if asked.max_new_tokens == 1 else f"{asked.max_new_tokens} tokens"
        heading = escape_markdown(f"The next {tokens} after “{shorten_prompt(asked.prompt)}”", ALL_SIGNS)
        st.container(key="exactness-name-0").markdown(heading)
        _histogram.draw("exactness-histogram", {"payload": draw_cached(build_histogram, result), "within": True})
    with right:
        said = words.build_verdict(state)
        elements.show_verdict("exactness", said.mark, said.words, said.details)


def show_control(state: ExactnessState, kind: str) -> None:
    """Target-only sampling, the control, and the latest sample of each decoder."""
    result = state.shown_result
    control = result.arms[1]
    left, right = st.container(key="exactness-control").columns([8, 5], gap="large")
    with left, open_screen("exactness", "control"):
        st.container(key="exactness-name-1").markdown(f"{control.name}, the control: no draft")
        end = cell_shares.compute_rows_end(*result.arms)
        show_figure(draw_cached(cell_shares.plot_cells, control, end, kind), "exactness", "1", control.conclusion, sentence=False)
    with right:
        show_notes(describe_origin(state), "exactness-notes-from")
        n = state.result.n
        conditions = describe_conditions(state.question.settings)
        st.container(key="exactness-conditions").caption(
            " · ".join([conditions, *([f"{count_samples(n)} so far"] if n and not state.is_busy else [])])
        )
        st.container(key="exactness-said").markdown(words.describe_bars(result))
        if result.texts:
            st.markdown(words.describe_latest_sample(result))
            for arm, shown in enumerate(result.arms):
                st.caption(shown.name)
                st.container(key=f"exactness-text-{arm}").text(words.join_prompt_and_text(state.question, result.texts[1 + arm]))


def show_seed_runs(state: ExactnessState, kind: str, many: bool) -> None:
    """P-values of many runs. many: whether they are what is computed, or was last."""
    known = state.load_recorded()
    found = state.result.p_values or (known.result.p_values if known else None)
    with st.container(key="exactness-flat"), open_screen("exactness", "seeds"):
        st.markdown("## One run may pass by chance. What about many?")
        if state.question.source == "assisted":
            st.markdown(words.TEXTS["no_seed_runs"])
            return
        left, right = st.columns([2, 3], gap="large")
        left.markdown(
            f"A p-value says how often samples of an exact decoder would lie at least this far from the blue marks. Each of {SEEDS} runs has its own seed, {SEED_SAMPLES} "
            "samples and a p-value. If the decoder is exact, every p-value is equally likely and the bars are level. If it is not, the "
            "p-values pile up at the left."
        )
        mine = state.result.p_values is not None
        session.show_work_button(
            left,
            state,
            f"Run {SEEDS} seeds" if mine or not found else f"Run {SEEDS} seeds of your own",
            "exactness-seeds",
            work.run_many_seeds,
        )
        if many:
            with left:
                session.show_progress("exactness")
        if found:
            left.markdown(words.describe_seed_runs(found))
            with right:
                show_figure(
                    cell_shares.plot_p_values(found, kind), "exactness", "flat", words.describe_seed_runs(found), sentence=False
                )


def _show_folds(state: ExactnessState) -> None:
    result = state.shown_result
    seeds = [("P-values of many runs", result.p_values.table)] if result.p_values else []
    show_tables("The numbers behind the pictures", *((shown.name, shown.table) for shown in result.arms), *seeds)
    fold = st.expander("When this page tests, and what it could detect", key="exactness-tests", on_change="rerun")
    if not fold.open:
        return
    try:
        warmup.require_libraries()
    except SpecvizError as error:
        show_notes([str(error)], "exactness-notes-tests", place=fold)
        return
    from specviz.evidence.sampling.plan import INTERIM  # torch comes with it, which a recorded page does without

    with fold:
        st.markdown(words.describe_limits(state))
        st.markdown(RULE)
        elements.show_dataframe(words.build_tests_table(result, INTERIM.tabulate_looks(state.question.settings.max_new_tokens)))
        st.caption(words.TEXTS["p_values"])
        st.markdown(words.TEXTS["command"])
        st.code(words.build_command(state), language=None, wrap_lines=True)


def show_report(state: ExactnessState, kind: str) -> None:
    """Verdict, picture and tests. What files and people wrote is text, never markdown."""
    report = state.report
    if report is None and state.question.source == SERVER:
        st.caption(words.describe_server_test(state.question.settings))
        return
    if report is None:
        st.caption(words.TEXTS["files"])
        return
    with open_screen("exactness", "report"):
        place = elements.show_verdict("exactness", report["verdict"], report["sentence"], words.TEXTS["alarms"])
    place.container(key="exactness-text-file").text(words.describe_files(report))
    if report["note"]:
        show_notes([report["note"]], "exactness-notes-file")
    if report["answers"][0]["cells"]:
        shown = results.CellShares.from_report(report)
        figure = cell_shares.plot_cells(shown, cell_shares.compute_rows_end(shown), kind)
        with open_screen("exactness", "cells"):
            show_figure(figure, "exactness", "file", shown.conclusion, sentence=False)
            left_out = f" Not drawn: all other texts together, {shown.undrawn_mass:.0%}." if shown.undrawn_mass else ""
            st.markdown(words.TEXTS["cells"] + left_out)
    for number, line in enumerate(words.list_audit_sentences(report)):
        st.container(key=f"exactness-text-audit-{number}").text(line)
    if rows := words.build_audit_tables(report):
        show_tables("The numbers behind these sentences", *rows)
    if again := (report.get("audit") or {}).get("reproduction"):
        with st.expander("Show it again without this project"):
            st.code(again["script"], language="python", wrap_lines=True)
            if model_script := again.get("model_script"):
                st.code(model_script, language="python", wrap_lines=True)
    with st.expander("Every test"):
        elements.show_dataframe(words.build_report_tests_table(report))
    with st.expander("The same test on the command line"):
        from specviz.export.report import build_commands

        st.code("\n".join(build_commands(report)[:1]), language=None, wrap_lines=True)
