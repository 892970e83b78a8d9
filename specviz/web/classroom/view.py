"""The page Classroom on screen: the fields of a new room, the desk from which its teacher steers it, and the wall for the projector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import quote

import streamlit as st

from specviz.classroom.codes import LONGEST
from specviz.classroom.records import HOURS, KINDS, LENGTHS, Assignment, Room
from specviz.classroom.store import StoreError
from specviz.errors import SettingsError, SpecvizError
from specviz.evidence.results import CellShares
from specviz.figures import cell_shares
from specviz.figures.components import read_styles
from specviz.web.classroom import export as exports
from specviz.web.classroom import wall, words, work
from specviz.web.classroom.host import RoomSession, find_next_number, open_host
from specviz.web.classroom.state import DeskState, Lesson, find_root, is_local_address, is_on_other_replica
from specviz.web.classroom.words import MINUTES, read_lesson_plan
from specviz.web.common import elements, export_fold, pairs, session
from specviz.web.common.controls import Form, fill_fields, read_fields
from specviz.web.common.elements import show_notes
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import ALL_SIGNS, escape_markdown
from specviz.web.common.links import list_unknown_keys
from specviz.web.common.page_head import show_page_head
from specviz.web.sampling.state import load_recorded_samples

LEDE = (
    "Let a class test with its own samples whether speculative decoding is exact: every student draws some on a phone, and together they are "
    "compared with the target’s exact distribution. No account, no name."
)
LOOK, GLANCE = 1.0, 2.0  # seconds between two looks of the wall; of the desk
TAIL = 240  # characters of a text on the wall, the last ones
FIRST = 100  # samples of the first test
EACH = 40  # samples of a student in the example


def show_page() -> None:
    try:
        if show_other_replica(st.query_params.to_dict()):
            return
        if code := st.query_params.get("wall"):
            draw_wall(code)
            return
        desk = session.open_state("classroom", session.make_opener(DeskState, Lesson))
        room = desk.room
        if room is None:
            show_new_room(desk)
        else:
            show_room(desk, room)
    except StoreError as error:
        show_notes([str(error)], "classroom-notes-store")


def show_other_replica(query: dict[str, str]) -> bool:
    """Whether a link asks for a room of another replica; then the way there, which the proxy knows, is all that is drawn."""
    for name, way in (("wall", "wall"), ("steer", "teach")):
        code = query.get(name, "")
        if code and is_on_other_replica(code):
            st.markdown("This room lives on another replica of this server.")
            st.link_button("Open it there", f"{find_root(st.context.url or '')}room/{quote(code[:LONGEST], safe='')}/{way}")
            return True
    return False


# A new room ------------------------------------------------------------------------------------------------------------------


def show_new_room(desk: DeskState) -> None:
    if desk.question.steer:  # deleted meanwhile
        desk.leave()
    show_page_head("classroom", LEDE)
    left, right = st.columns([5, 6], gap="large")
    with left:
        lesson, problems = show_fields(desk)
        desk.choose(lesson)
        show_notes(problems, "classroom-notes-fields")
        session.sync_address(desk)
        show_export(desk, None)
        if st.button("Open a room", key="classroom-open", type="primary", disabled=bool(problems)):
            try:
                desk.open()
            except SpecvizError as error:
                desk.said = [str(error)]
            st.rerun()
        st.caption(
            "You get a link and a QR code for the students, and a private link to steer the room. Open the students’ link on your own phone first: you see "
            "what they will see, and whether phones reach this computer."
        )
        show_notes(desk.notices, "classroom-notes-live")
        st.markdown(words.list_kinds())
    with right:
        load_example_samples(session.get_theme())
    show_lesson_plans()
    st.caption(
        f"A room ends after {HOURS} hours, and everything in it is deleted. Names, accounts and addresses are never stored: a student is a number. "
        "For a class without phones *Export* has a worksheet, one round by hand, and its answers."
    )


def show_lesson_plans() -> None:
    """The lesson plans, one tab each. A closed fold reads none."""
    place = st.expander("Lesson plans: 20, 45 and 90 minutes", key="classroom-lessons", on_change="rerun")
    if not place.open:
        return
    with place:
        for minutes, tab in zip(MINUTES, st.tabs([f"{minutes} minutes" for minutes in MINUTES]), strict=True):
            tab.markdown(read_lesson_plan(minutes, find_root(st.context.url or "")))


def load_example_samples(kind: str) -> None:
    """What a class makes, as recorded samples of a right decoder show it."""
    one, said = show_example()
    if one is not None:
        st.markdown("**What a class makes: its samples over the exact distribution**")
        picture = draw_cached(cell_shares.plot_cells, one, cell_shares.compute_rows_end(one), kind)
        elements.show_figure(picture, "classroom", "recorded", one.conclusion, sentence=False)
        st.container(key="classroom-notes-from").text(said)


@lru_cache(maxsize=1)
def show_example() -> tuple[CellShares | None, str]:
    """The record's picture, the same object each time, and where it is from; None without the file."""
    known = load_recorded_samples()
    if known is None:
        return None, ""
    one = known.mistakes
    shares = one.result.arms[0]  # of the right rule
    return shares, (
        f"Recorded on {one.date}, not by a class: {shares.n:,} samples of {pairs.name_pair(one.settings.pair)} after “{one.settings.prompt}”, the same number as "
        f"{shares.n // EACH} students drawing {EACH} each."
    )


def show_fields(desk: DeskState) -> tuple[Lesson, list[str]]:
    """Two fields in sight, the others folded: what a room decodes, and sentences where a field cannot be used."""
    asked = desk.question.settings
    form = Form("classroom", desk.turn, fill_fields(asked))
    form.prompt(st.container(), hint="empty: a text begins with a start token")
    tokens = st.selectbox("Tokens per sample", LENGTHS, index=LENGTHS.index(asked.max_new_tokens), **form.key("max_new_tokens"))
    with st.container(key="fold"), st.popover("Settings", width="content"):
        top = st.container(key="problems")
        form.sampling()
        st.caption("A room has random numbers of its own. To share these settings, copy the address of the page.")
    settings, problems = read_fields(form.raw, asked)
    lesson = desk.question
    try:
        lesson = lesson if problems else Lesson(replace(settings, max_new_tokens=tokens))
    except SettingsError as error:
        problems = [str(error)]
    show_notes(problems, place=top)
    return lesson, problems


# The desk --------------------------------------------------------------------------------------------------------------------


def show_room(desk: DeskState, room: Room) -> None:
    hall = desk.hall(room)
    task = hall.store.task(room.code)
    with st.container(key="classroom-room-head"):
        st.markdown("# Classroom")
        st.fragment(show_status, run_every=GLANCE)(hall, room)
    session.sync_address(desk)
    show_export(desk, room)
    show_more(desk, hall, room)
    left, right = st.columns([2, 3], gap="large")
    with left:
        show_entrance(desk, room)
    with right:
        show_task(desk, hall, room, task)
        session.show_progress("classroom")
        show_notes(desk.notices, "classroom-notes-live")
        if task is not None:
            st.fragment(show_findings, run_every=GLANCE)(hall, task)
    show_lesson_plans()


def show_status(hall: RoomSession, drawn_room: Room) -> None:
    """Who is in. The whole page runs again where the room was steered from another browser."""
    room = hall.store.room(hall.code)
    if room is None or (room.version, room.short) != (drawn_room.version, drawn_room.short):
        st.rerun()
    task = hall.store.task(room.code)
    st.markdown(words.describe_status(room, task, None if task is None else hall.found(task)))


def show_entrance(desk: DeskState, room: Room) -> None:
    """How students come in: a picture to scan, a short code while it is shown; and the way to the wall."""
    root = find_root(st.context.url or "")
    st.html(f'<div class="room-door">{draw_qr_code(root, room)}<div>{draw_entrance(root, room)}</div></div>')
    with st.container(horizontal=True, key="classroom-door"):
        st.link_button("Open the wall", f"{root}room/{room.code}/wall")
        if not room.ended:
            name, key = ("Open the door", "classroom-unshut") if room.shut else ("Close the door", "classroom-shut")
            st.button(name, key=key, on_click=change_door, args=(desk, open_host().shut, room, not room.shut))
        if not (room.ended or room.shut or room.short):
            st.button("Show a short code", key="classroom-show", on_click=change_door, args=(desk, open_host().show, room))
    if is_local_address(root):
        show_notes([words.LOCAL], "classroom-notes-local")


def change_door(desk: DeskState, change: Callable[..., Any], *given: Any) -> None:
    """Show a short code, close or open the door."""
    desk.enter()
    try:
        change(*given)
    except SpecvizError as error:
        desk.said = [str(error)]


def show_task(desk: DeskState, hall: RoomSession, room: Room, task: Assignment | None) -> None:
    """The task that is on, the way to its next phase, and the next task."""
    settings = escape_markdown(words.describe_settings(room.settings), ALL_SIGNS)
    if task is None:
        st.markdown("## The text that the class continues")
        st.container(key="classroom-text-prompt").text(room.settings.prompt)
        st.caption(settings)
    else:
        st.markdown(f"## Task {task.number}: {words.TITLES[task.kind]}\n{words.BEGINS[task.kind]}")
    if room.ended:
        return
    with st.container(horizontal=True, key="classroom-steps"):
        if task is not None and task.next_phase is not None:
            phase = task.next_phase
            st.button(
                words.TURNS[task.kind, phase], key=f"classroom-turn-{task.number}-{phase}", type="primary",
                on_click=change_phase, args=(desk, hall, task.number, phase),
            )  # fmt: skip
        first = "secondary" if task is not None and task.next_phase is not None else "primary"
        with st.popover(
            "Start a task" if task is None else "Next task",
            key=f"classroom-next-{find_next_number(hall)}",
            disabled=desk.is_busy,
            type=first,
        ):
            for kind in KINDS:
                st.button(
                    words.TITLES[kind], key=f"classroom-begin-{kind}-{find_next_number(hall)}", help=words.BEGINS[kind], width="stretch",
                    on_click=begin_task, args=(desk, hall, room, kind, find_next_number(hall)), disabled=desk.is_busy,
                )  # fmt: skip
    if task is None:
        st.markdown(words.list_kinds())


def change_phase(desk: DeskState, hall: RoomSession, number: int, phase: str) -> None:
    desk.enter()
    try:
        hall.turn(number, phase)
    except SpecvizError as error:
        desk.said = [str(error)]


def begin_task(desk: DeskState, hall: RoomSession, room: Room, kind: str, number: int) -> None:
    desk.enter()
    if number == find_next_number(hall):
        desk.submit(work.begin_task, hall, room, kind, number)


def show_findings(hall: RoomSession, task: Assignment) -> None:
    """What the class has, in a sentence."""
    found = hall.found(task)
    if task.kind == "sample":
        elements.show_verdict("classroom", *words.build_verdict(found))
    else:
        st.container(key="classroom-said").markdown(escape_markdown(words.describe_task(task, found), ALL_SIGNS))


def show_more(desk: DeskState, hall: RoomSession, room: Room) -> None:
    """What is rarely needed: the private link, the end of the room."""
    with st.container(key="fold"), st.popover("Room", width="content"):
        st.caption("Your private link. Whoever has it steers this room: keep it from the projector.")
        st.code(f"{find_root(st.context.url or '')}room/{room.steer}/teach", language=None, wrap_lines=True)
        if not room.ended:
            st.button("End the room", key="classroom-end", on_click=hall.store.end, args=(room.code,), width="stretch",
                      help="Nobody can send anything more. What was found stays for 24 hours from its opening.")  # fmt: skip
        sure = st.checkbox("Everything in it may go", key=f"classroom-sure-{room.code}")
        st.button(
            "Delete the room now",
            key="classroom-delete",
            on_click=hall.store.delete,
            args=(room.code,),
            disabled=not sure,
            width="stretch",
        )


def show_export(desk: DeskState, room: Room | None) -> None:
    """The worksheet, and of a room the class's evidence. Nothing is made before its button is pressed."""
    with st.container(key="export"):
        opened = st.popover("Export", width="content", key="export-fold-classroom", on_change="rerun")
    if not opened.open:
        return
    visitor = session.get_visitor()
    with opened:
        if room is not None:
            hall = desk.hall(room)
            tasks = [task for task in hall.store.tasks(room.code) if task.kind == "sample"]
            ready = [task for task in tasks if hall.found(task).shares.n >= FIRST]
            st.markdown("**The class’s evidence**")
            st.caption(
                "Every sample can be drawn again from the seed and the students’ numbers: `specviz check report.json` confirms it."
                if ready
                else f"A certificate needs {FIRST} samples of the class in a task *{words.TITLES['sample']}*."
            )
            for task in ready:
                st.download_button(
                    f"report.json of task {task.number}", _build_certificate(hall, task, visitor), "report.json", export_fold.guess_mime_type("report.json"),
                    key=f"classroom-certificate-{task.number}", on_click="ignore", width="stretch",
                )  # fmt: skip
            st.markdown("**The class’s pictures**")
            export_fold.show_export_files("classroom", exports.build_offer(hall, room))
        st.markdown("**Worksheet: one round by hand**")
        seed = st.number_input(
            "Seed of the sheet", 0, 999_999, 1, key="classroom-sheet", help="Another seed gives another sheet."
        )
        for key, label in ((False, "Worksheet (PDF)"), (True, "Its answers (PDF)")):
            name = f"worksheet-{seed}{'-key' if key else ''}.pdf"
            st.download_button(
                label,
                _build_worksheet(int(seed), key, visitor),
                name,
                "application/pdf",
                key=f"classroom-sheet-{key}",
                on_click="ignore",
                width="stretch",
            )


def _build_certificate(hall: RoomSession, task: Assignment, visitor: str) -> Any:
    return lambda: export_fold.build_in_queue(
        lambda ticket: work.build_certificate_file(ticket, hall, task), visitor, "classroom"
    )


def _build_worksheet(seed: int, key: bool, visitor: str) -> Any:
    return lambda: export_fold.build_in_queue(lambda ticket: work.build_worksheet_file(seed, key), visitor, "classroom")


def draw_qr_code(root: str, room: Room) -> str:
    """The students' link as a picture that a phone reads."""
    import segno

    picture = segno.make(f"{root}room/{room.code}", error="m").png_data_uri(scale=8, border=3)
    return "" if room.ended or room.shut else f'<img class="room-code" alt="QR code of the students’ link" src="{picture}">'


def draw_entrance(root: str, room: Room) -> str:
    """Where a code is typed and the code, while it is shown; else the link, which breaks before its code. All of it is our own text."""
    if room.ended:
        return "<p>The room has ended.</p>"
    if room.shut:
        return f"<p>{words.DOOR}</p>"
    if room.short:
        near = escape(f"{root}room/".partition("://")[2])
        return f"<p>Scan it, or open <b>{near}</b> and type</p><p class='room-short'>{escape(room.short)}</p>"
    return f"<p>Scan it, or open</p><p class='room-link'>{escape(f'{root}room/')}<wbr><span>{escape(room.code)}</span></p>"


# The wall --------------------------------------------------------------------------------------------------------------------


def draw_wall(code: str) -> None:
    """What the class sees. It looks by itself, so that nobody has to touch it."""
    st.html(f"<style>\n{read_styles('classroom_wall')}\n</style>")
    show_notes(list_unknown_keys(st.query_params.to_dict()), "wall-notes-link")
    room = open_host().store.room(code)
    if room is None:
        st.html('<p class="wall-line">There is no room under this link any more.</p>')
        return
    st.fragment(draw_now, run_every=LOOK)(open_host().hall(room), find_root(st.context.url or ""))


def draw_now(hall: RoomSession, root: str) -> None:
    room = hall.store.room(hall.code)
    if room is None:
        st.html('<p class="wall-line">This room is over. Everything in it was deleted.</p>')
        return
    task = hall.store.task(room.code)
    found = None if task is None else hall.found(task)
    title = "Come in" if task is None else f"{task.number}. {words.TITLES[task.kind]}"
    st.html(
        f'<div class="wall-top"><h1>{escape(title)}</h1><p role="status">{escape(words.describe_status(room, task, found))}</p></div>'
    )
    if task is None:
        st.html(
            f'<div class="wall-door">{draw_qr_code(root, room)}<div>{draw_entrance(root, room)}<p class="soft">No account, no name. The text: {escape(room.settings.prompt[-TAIL:])}</p></div></div>'
        )
        return
    left, right = st.columns([5, 2], gap="large")
    with left:
        WALLS[task.kind](hall, task, found)
    with right:
        st.html(f'<div class="wall-side">{draw_qr_code(root, room)}{draw_entrance(root, room)}</div>')


def draw_sentences(first: str, second: str = "", mark: str = "") -> None:
    sign = f"{elements.MARKS.get(mark, '?')} " if mark else ""
    st.html(
        f'<div class="wall-said {escape(mark)}" role="status"><p>{sign}{escape(first)}</p><p class="soft">{escape(second)}</p></div>'
    )


def draw_samples(hall: RoomSession, task: Assignment, found: Any) -> None:
    mark, sentence, seen = words.build_verdict(found)
    st.html(wall.draw_histogram(found.shares))
    draw_sentences(sentence, seen, mark)


def draw_predictions(hall: RoomSession, task: Assignment, found: Any) -> None:
    shown = hall.predictions() if task.phase == "shown" else None
    if shown is None:
        content = task.content
        st.html(f'<p class="wall-text">{escape(content["text"][-TAIL:])}<mark>{escape(content["token"])}</mark></p>')
        st.html(wall.draw_situation(content))
    else:
        st.html(wall.draw_calibration(shown))
    draw_sentences(words.describe_predictions(task, found), words.BRIER if shown else words.ASKS)


def draw_votes(hall: RoomSession, task: Assignment, found: Any) -> None:
    if task.phase == "shown":
        st.html(wall.draw_votes(task.content["options"], found, task.content["answer"]))
        draw_sentences(words.describe_votes(task, found))
    else:
        st.html(wall.draw_histogram(hall.samples_of(task)))
        draw_sentences(words.describe_votes(task, found), words.describe_vote(task))


def draw_race(hall: RoomSession, task: Assignment, found: Any) -> None:
    if found.choices:
        st.html(wall.draw_race(found.choices))
    draw_sentences(words.describe_race(task, found), words.BEGINS["race"] if task.takes else "")


WALLS = {"predict": draw_predictions, "sample": draw_samples, "vote": draw_votes, "race": draw_race}
