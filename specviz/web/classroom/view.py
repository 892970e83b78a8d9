"""The page Classroom: the fields of a new room, the desk from which its teacher steers it, and the wall for the projector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from html import escape
from typing import Any
from urllib.parse import quote

import streamlit as st

from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.mistakes.published import REPORTED
from specviz.evidence.testing.results import CellShares
from specviz.figures.components import read_styles
from specviz.web.classroom import export as exports
from specviz.web.classroom import words, work
from specviz.web.classroom.room.codes import MAX_LENGTH
from specviz.web.classroom.room.host import RoomSession, open_host
from specviz.web.classroom.room.records import KINDS, LENGTHS, Assignment, Room
from specviz.web.classroom.room.results import TEST_SIZES, WALL_CHARACTERS, ClassSamplesResult
from specviz.web.classroom.room.store import StoreError
from specviz.web.classroom.room.words import TASKS, TEXTS, describe_settings, describe_status
from specviz.web.classroom.state import (
    DeskState,
    Lesson,
    find_network_address,
    find_root,
    is_local_address,
    is_on_other_replica,
)
from specviz.web.classroom.words import MINUTES, read_lesson_plan
from specviz.web.common import elements, export_fold, pairs, session
from specviz.web.common.controls import Form, fill_fields, read_fields
from specviz.web.common.elements import show_notes
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.links import list_unknown_keys
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.side_by_side.payload import LEAST, build_frames, build_histogram, compute_reach
from specviz.web.common.side_by_side.payload import TEXTS as HISTOGRAM
from specviz.web.common.side_by_side.state import load_recorded_samples
from specviz.web.common.side_by_side.view import histogram
from specviz.web.common.side_by_side.words import PageVerdict, describe_conditions
from specviz.web.hosting import cache

WALL_INTERVAL, DESK_INTERVAL = 1.0, 2.0  # seconds between two updates
EXAMPLE_TEXTS = HISTOGRAM | {
    "answerFirst": True,
    "roomy": True,
    "signs": [],
    "exact": "",
    "band": "",
    "outside": "",
}  # of its histograms: rows are words, and one key stands over both
EXAMPLE_MISTAKE, EXAMPLE_EACH = "R4", 4  # of the example: what is wrong with one decoder, and the samples of a student


def show_page() -> None:
    """Draw the desk, or the wall where the link says so."""
    try:
        if show_other_replica(st.query_params.to_dict()):
            return
        if code := st.query_params.get("wall"):
            show_wall(code)
            return
        desk = session.open_state("classroom", session.make_opener(DeskState, Lesson))
        room = desk.room
        if room is None:
            show_new_room(desk)
        else:
            show_room(desk, room)
    except StoreError as error:
        show_notes([explain_error(error)], "classroom-notes-store")


def show_other_replica(query: dict[str, str]) -> bool:
    """Whether a link leads to a room of another replica; then a button that leads there is all that is drawn."""
    for name, way in (("wall", "wall"), ("steer", "teach")):
        code = query.get(name, "")
        if code and is_on_other_replica(code):
            st.markdown("This room lives on another replica of this server.")
            st.link_button("Open it there", f"{_find_root()}room/{quote(code[:MAX_LENGTH], safe='')}/{way}")
            return True
    return False


def _find_root() -> str:
    return find_root(st.context.url or "")


# A new room ------------------------------------------------------------------------------------------------------------------


@end_with_row("classroom")
def show_new_room(desk: DeskState) -> None:
    """Draw the fields of a new room beside an example of what a class makes."""
    if desk.question.teacher_code:  # deleted meanwhile
        desk.leave_room()
    show_page_head("classroom", TEXTS["lede"])
    with st.container(key="classroom-ways"):
        student, teacher = st.columns(2, gap="medium")
        student.html(words.build_code_form(_find_root()))
        with teacher.container(key="classroom-teach"):
            st.html(f"<h2>{TEXTS['teach']} <small>{TEXTS['private_room']}</small></h2>")
            button = st.container()
    lesson, problems = show_fields(desk)
    desk.choose(lesson)
    show_notes(problems, "classroom-notes-fields")
    session.sync_address(desk)
    if button.button(TEXTS["open"], key="classroom-open", type="primary", width="stretch", disabled=bool(problems)):
        try:
            desk.open_room()
        except SpecvizError as error:
            desk.notes = [explain_error(error)]
        st.rerun()
    show_export(desk, None)  # after the button, which waits for nothing
    show_notes(desk.notices, "classroom-notes-live")
    show_example_samples()
    with st.container(key="classroom-lesson"):
        st.markdown(f"## {TEXTS['kinds']}")
        st.html(words.build_steps())
        show_reach(_find_root())
        st.html(words.build_task_cards())
        st.markdown(f"## {TEXTS['plan_titles']}")
        show_lesson_plans()
    with st.container(key="classroom-notes-from"):
        st.markdown(TEXTS["rules"])
        if example := load_example():
            st.text(example.origin)


def show_reach(root: str) -> None:
    """Whether phones can join, and where they cannot, how to let them in. root: address of this server."""
    if not is_local_address(root):
        st.caption(TEXTS["reach"])
        return
    with st.popover(TEXTS["reach_local"], key="classroom-reach", type="tertiary"):
        st.markdown(TEXTS["reach_how"])
        st.code(TEXTS["phone_command"], language=None, wrap_lines=True)
        st.caption(TEXTS["reach_safety"])


def show_lesson_plans() -> None:
    """The lesson plans as three cards; the chosen one opens below them. None is read before."""
    names = {minutes: words.name_plan(minutes) for minutes in MINUTES}
    with st.container(key="classroom-lessons"):
        chosen = st.segmented_control(
            TEXTS["plan_titles"],
            MINUTES,
            format_func=names.__getitem__,
            key="classroom-plan",
            label_visibility="collapsed",
            width="stretch",
        )
    if chosen:
        with st.container(border=True):
            st.markdown(read_lesson_plan(chosen, _find_root()))


def show_example_samples() -> None:
    """What a class finds, by the example of recorded samples of an exact decoder and of one with a bug."""
    example = load_example()
    if example is None:
        return
    with st.container(key="classroom-example"):
        st.html(words.build_example_head(example.title, example.caption))
        for place, shown in zip(st.columns(2, gap="large"), example.decoders, strict=True):
            with place:
                frames = draw_cached(_build_example_frames, shown.shares, example.decoders[-1].shares)
                payload = build_histogram(frames, shown.heading, shown.verdict, texts=EXAMPLE_TEXTS)
                histogram.draw(f"classroom-example-{shown.key}", {"payload": payload, "within": True})


def _build_example_frames(shares: CellShares, other: CellShares) -> dict[str, Any]:
    """The dots of a decoder on the axis of both; rare words share one."""
    mine, others = (build_frames((one,), least=LEAST) for one in (shares, other))
    return mine | {"reach": compute_reach(mine, others)}


@dataclass(frozen=True, slots=True)
class ExampleDecoder:
    """Recorded samples in place of a class's.

    Attributes:
        key: right | wrong.
        shares: The samples by first word beside the exact distribution.
        heading: What stands over them.
        verdict: What their test says.
    """

    key: str
    shares: CellShares
    heading: str
    verdict: PageVerdict


@dataclass(frozen=True, slots=True)
class ClassExample:
    """What a class finds: a title; what is counted; an exact decoder and one with a bug; where their samples are from."""

    title: str
    caption: str
    decoders: tuple[ExampleDecoder, ...]
    origin: str


@lru_cache(maxsize=1)
def load_example() -> ClassExample | None:
    """The example, the same object each time; None without the file."""
    known = load_recorded_samples()
    record = known and known.find_mistake(EXAMPLE_MISTAKE)
    if not record:
        return None
    assert record.result.arms is not None
    bug = REPORTED[EXAMPLE_MISTAKE].title or REPORTED[EXAMPLE_MISTAKE].name
    pair, settings, n = pairs.name_pair(record.settings.pair), record.settings, record.result.n
    decoders = tuple(
        ExampleDecoder(key, by_word, TEXTS[key].format(bug=bug), words.build_example_verdict(test, by_word))
        for key, by_word, test in zip(
            ("right", "wrong"),
            map(words.group_by_first_word, record.result.arms),
            record.result.looks[-1],
            strict=True,
        )
    )
    return ClassExample(
        TEXTS["found"].format(n=n, students=n // EXAMPLE_EACH, each=EXAMPLE_EACH),
        TEXTS["asked"].format(prompt=settings.prompt, tokens=settings.max_new_tokens, temperature=settings.temperature),
        decoders,
        f"Each chart has {n} samples of {pair} after “{settings.prompt}” ({describe_conditions(settings)}). "
        f"Recorded on {record.date}, not by a class; your room uses your own settings.",
    )


def show_fields(desk: DeskState) -> tuple[Lesson, list[str]]:
    """What a room decodes, folded, and sentences where a field cannot be used."""
    chosen = desk.question.settings
    form = Form("classroom", desk.turn, fill_fields(chosen))
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        form.show_prompt(st.container(), hint="empty: a text begins with a start token")
        tokens = st.selectbox(
            "Tokens per sample", LENGTHS, index=LENGTHS.index(chosen.max_new_tokens), **form.build_key("max_new_tokens")
        )
        form.show_sampling()
        st.caption(TEXTS["random"])
    settings, problems = read_fields(form.raw, chosen)
    lesson = desk.question
    try:
        lesson = lesson if problems else Lesson(replace(settings, max_new_tokens=tokens))
    except SettingsError as error:
        problems = [explain_error(error)]
    show_notes(problems, place=top)
    return lesson, problems


# The desk --------------------------------------------------------------------------------------------------------------------


def show_room(desk: DeskState, room: Room) -> None:
    """Draw an open room for its teacher."""
    opened = open_host().find_session(room)
    task = opened.store.find_current_task(room.code)
    with st.container(key="classroom-room-head"):
        st.markdown("# Classroom")
        st.fragment(show_status, run_every=DESK_INTERVAL)(room)
    session.sync_address(desk)
    show_export(desk, room)
    show_room_menu(opened, room)
    left, right = st.columns([2, 3], gap="large")
    with left:
        show_entrance(desk, room)
    with right:
        show_task(desk, opened, room, task)
        session.show_progress("classroom")
        show_notes(desk.notices, "classroom-notes-live")
        if task is not None:
            st.fragment(show_result, run_every=DESK_INTERVAL)(room, task)
    st.markdown(f"## {TEXTS['plan_titles']}")
    show_lesson_plans()


def show_status(drawn_room: Room) -> None:
    """How many students are in. The whole page runs again where the room was steered from another browser.

    Here and in other fragments, which run for hours, the room's session is looked up each time: the host may have dropped the last one.
    """
    room = open_host().store.find_room(drawn_room.code)
    if room is None or (room.version, room.short_code) != (drawn_room.version, drawn_room.short_code):
        st.rerun()
    room_session = open_host().find_session(room)
    task = room_session.store.find_current_task(room.code)
    st.markdown(describe_status(room, None if task is None else room_session.find_result(task).answered))


def show_entrance(desk: DeskState, room: Room) -> None:
    """How students come in: a picture to scan, a short code while it is shown; and the way to the wall."""
    root = _find_root()
    st.html(f'<div class="room-door">{draw_qr_code(root, room)}<div>{draw_entrance(root, room)}</div></div>')
    with st.container(horizontal=True, key="classroom-door"):
        st.link_button("Open the page for the projector", f"{root}room/{room.code}/wall", type="primary")
        if not room.has_ended:
            name, key = (
                ("Let students in again", "classroom-unshut") if room.is_closed else ("Let nobody else in", "classroom-shut")
            )
            st.button(name, key=key, on_click=steer, args=(desk, open_host().set_closed, room, not room.is_closed))
        if not (room.has_ended or room.is_closed or room.short_code):
            st.button("Show a short code", key="classroom-show", on_click=steer, args=(desk, open_host().show_short_code, room))
    if is_local_address(root):
        show_notes([words.describe_local_address(root, find_network_address())], "classroom-notes-local")


def steer(desk: DeskState, change: Callable[..., Any], *arguments: Any) -> None:
    """Change the room at a click; a refusal becomes a notice."""
    desk.begin_script_run()
    try:
        change(*arguments)
    except SpecvizError as error:
        desk.notes = [explain_error(error)]


def show_task(desk: DeskState, room_session: RoomSession, room: Room, task: Assignment | None) -> None:
    """The current task, the button to its next phase, and the next task."""
    if task is None:
        st.markdown("## The text that the class continues")
        st.container(key="classroom-text-prompt").text(room.settings.prompt)
        st.caption(escape_markdown(describe_settings(room.settings), ALL_SIGNS))
    else:
        st.markdown(f"## Task {task.number}: {TASKS[task.kind]['title']}\n{TASKS[task.kind]['about']}")
    if room.has_ended:
        return
    number, phase = room_session.find_next_number(), task and task.next_phase
    with st.container(horizontal=True, key="classroom-steps"):
        if task is not None and phase is not None:
            st.button(
                TASKS[task.kind]["buttons"][phase], key=f"classroom-turn-{task.number}-{phase}", type="primary",
                on_click=steer, args=(desk, room_session.set_phase, task.number, phase),
            )  # fmt: skip
    st.markdown("### Start a task" if task is None else "### Next task")
    with st.container(key="classroom-tasks"):
        for kind in KINDS:
            start, about = st.columns([2, 5], vertical_alignment="center")
            start.button(
                TASKS[kind]["title"], key=f"classroom-begin-{kind}-{number}", width="stretch",
                on_click=begin_task, args=(desk, room_session, room, kind, number), disabled=desk.is_busy,
            )  # fmt: skip
            about.markdown(TASKS[kind]["about"])


def begin_task(desk: DeskState, room_session: RoomSession, room: Room, kind: str, number: int) -> None:
    """Prepare a task in the queue, unless it has begun."""
    desk.begin_script_run()
    if number == room_session.find_next_number():
        desk.submit(work.begin_task, room_session, room, kind, number)


def show_result(room: Room, task: Assignment) -> None:
    """The result of the class, in a sentence."""
    result = open_host().find_session(room).find_result(task)
    if isinstance(result, ClassSamplesResult):
        elements.show_verdict("classroom", *result.verdict)
    else:
        st.container(key="classroom-said").markdown(escape_markdown(result.sentence, ALL_SIGNS))


def show_room_menu(room_session: RoomSession, room: Room) -> None:
    """Rarely needed controls: the private link, the end of the room."""
    with st.container(key="fold"), st.popover("Room", width="content"):
        st.caption(TEXTS["private"])
        st.code(f"{_find_root()}room/{room.teacher_code}/teach", language=None, wrap_lines=True)
        end, delete = room_session.store.end_room, room_session.store.delete_room
        if not room.has_ended:
            st.button("End the room", key="classroom-end", on_click=end, args=(room.code,), width="stretch", help=TEXTS["end"])
        is_sure = st.checkbox("Everything in it may go", key=f"classroom-sure-{room.code}")
        label, key = "Delete the room now", "classroom-delete"
        st.button(label, key=key, on_click=delete, args=(room.code,), disabled=not is_sure, width="stretch")


def show_export(desk: DeskState, room: Room | None) -> None:
    """The worksheet, and of a room the class's evidence. Nothing is made before its button is pressed."""
    with st.container(key="export"):
        fold = st.popover("Export", width="content", key="export-fold-classroom", on_change="rerun")
    if not fold.open:
        return
    with fold:
        if room is not None:
            opened = open_host().find_session(room)
            results = opened.list_results()
            ready = [one.task for one in results if isinstance(one, ClassSamplesResult) and one.samples.shares.n >= TEST_SIZES[0]]
            st.markdown("**The class’s evidence**")
            title = TASKS["sample"]["title"]
            missing = f"A certificate needs {TEST_SIZES[0]} samples of the class in a task *{title}*."
            st.caption(TEXTS["certificate"] if ready else missing)
            for task in ready:
                show_download(
                    f"report.json of task {task.number}", "report.json", f"classroom-certificate-{task.number}",
                    partial(work.build_certificate_file, session=opened, task=task),
                )  # fmt: skip
            st.markdown("**The class’s pictures**")
            export_fold.show_export_files("classroom", exports.build_offer(room, results, cache.describe_pair))
        st.markdown("**Worksheet: one round by hand**")
        hint = "Another seed gives another sheet."
        seed = int(st.number_input("Seed of the sheet", 0, 999_999, 1, key="classroom-sheet", help=hint))
        for has_answers, label in ((False, "Worksheet (PDF)"), (True, "Its answers (PDF)")):
            name = f"worksheet-{seed}{'-key' if has_answers else ''}.pdf"
            show_download(
                label,
                name,
                f"classroom-sheet-{has_answers}",
                partial(work.build_worksheet_file, seed=seed, key=has_answers),
            )


def show_download(label: str, file: str, key: str, build: Callable[[Any], bytes]) -> None:
    """A button that has a file built in the queue when it is pressed. build: makes its bytes, from a ticket."""
    data = partial(export_fold.build_in_queue, build, session.get_visitor(), "classroom")
    kind = export_fold.guess_mime_type(file)
    st.download_button(label, data, file, kind, key=key, on_click="ignore", width="stretch")


def draw_qr_code(root: str, room: Room) -> str:
    """The students' link as a picture that a phone reads."""
    import segno

    picture = segno.make(f"{root}room/{room.code}", error="m").png_data_uri(scale=8, border=3)
    is_shown = not (room.has_ended or room.is_closed)
    return f'<img class="room-code" alt="QR code of the students’ link" src="{picture}">' if is_shown else ""


def draw_entrance(root: str, room: Room) -> str:
    """Where a code is typed and the code, while it is shown; else the link, which breaks before its code. All of it is our own text."""
    if room.has_ended:
        return "<p>The room has ended.</p>"
    if room.is_closed:
        return f"<p>{TEXTS['door']}</p>"
    if room.short_code:
        address = escape(f"{root}room/".partition("://")[2])
        return f"<p>Scan it, or open <b>{address}</b> and type</p><p class='room-short'>{escape(room.short_code)}</p>"
    return f"<p>Scan it, or open</p><p class='room-link'>{escape(f'{root}room/')}<wbr><span>{escape(room.code)}</span></p>"


# The wall --------------------------------------------------------------------------------------------------------------------


def show_wall(code: str) -> None:
    """What the class sees. It updates by itself, so that nobody has to touch it."""
    st.html(f"<style>\n{read_styles('classroom/wall')}\n</style>")
    show_notes(list_unknown_keys(st.query_params.to_dict()), "wall-notes-link")
    room = open_host().store.find_room(code)
    if room is None:
        st.html('<p class="wall-line">There is no room under this link any more.</p>')
        return
    st.fragment(show_wall_now, run_every=WALL_INTERVAL)(room.code, _find_root())


def show_wall_now(code: str, root: str) -> None:
    """Draw the wall as it is now."""
    room = open_host().store.find_room(code)
    if room is None:
        st.html('<p class="wall-line">This room is over. Everything in it was deleted.</p>')
        return
    room_session = open_host().find_session(room)
    task = room_session.store.find_current_task(room.code)
    result = None if task is None else room_session.find_result(task)
    title = "Join" if task is None else f"{task.number}. {TASKS[task.kind]['title']}"
    status = escape(describe_status(room, None if result is None else result.answered))
    st.html(f'<div class="wall-top"><h1>{escape(title)}</h1><p role="status">{status}</p></div>')
    picture, entrance = draw_qr_code(root, room), draw_entrance(root, room)
    if result is None:
        text = f'<p class="soft">No account, no name. The text: {escape(room.settings.prompt[-WALL_CHARACTERS:])}</p>'
        st.html(f'<div class="wall-door">{picture}<div>{entrance}{text}</div></div>')
        return
    left, right = st.columns([5, 2], gap="large")
    with left:
        content = result.build_wall()
        for chart in content.charts:
            st.html(chart)
        sign = f"{elements.MARKS.get(content.mark, elements.UNDECIDED)} " if content.mark else ""
        said = f'<p>{sign}{escape(content.sentence)}</p><p class="soft">{escape(content.note)}</p>'
        st.html(f'<div class="wall-said {escape(content.mark)}" role="status">{said}</div>')
    with right:
        st.html(f'<div class="wall-side">{picture}{entrance}</div>')
