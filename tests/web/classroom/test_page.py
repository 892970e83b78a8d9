"""The teacher's page opens a room, steers it task by task and exports what the class has; the wall shows the same and steers nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SettingsError
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.sampling.certificate import ALTERED, CONFIRMED, check_certificate, read_certificate, redraw_certificate
from specviz.settings import Settings
from specviz.web.classroom import state, view, words, work, worksheet_pdf
from specviz.web.classroom.export import build_offer
from specviz.web.classroom.room import codes, preparation
from specviz.web.classroom.room import host as hosts
from specviz.web.classroom.room.host import SampleRequest
from specviz.web.classroom.room.records import KINDS, MAX_GAMMA, ROOM_HOURS, derive_task_seed
from specviz.web.classroom.room.words import TASKS, TEXTS
from specviz.web.classroom.state import Lesson, find_root, fit_to_room, is_local_address
from specviz.web.classroom.view import EXAMPLE_EACH, EXAMPLE_MISTAKE, load_example
from specviz.web.common.side_by_side.state import load_recorded_samples
from specviz.web.hosting import cache, server_workers
from specviz.web.mistakes.words import name_mistake
from tests.helpers.pages import FreeTicket, draw_first_paint, settle
from tests.web.classroom.rooms import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


def open_page(**query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / "classroom.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    return app.run()


def press_button(app: AppTest, key: str) -> AppTest:
    (button,) = [one for one in app.button if one.key == key]
    return settle(button.click().run(), "classroom")


def read_page(app: AppTest) -> str:
    return "\n".join([*(one.value for one in [*app.markdown, *app.caption, *app.text]), *list_html(app)])


def list_html(app: AppTest) -> list[str]:
    return [one.proto.body for one in app.get("html")]


def test_the_page_opens_without_torch():
    found = draw_first_paint("classroom", {"prompt": "A bear", "max_new_tokens": "3"})
    assert found["errors"] == 0 and not found["heavy"] and found["prompt"] == "A bear" and "Open a room" in found["buttons"]


def test_a_room_is_opened_steered_and_ended_from_the_page(rooms):
    app = open_page(prompt="Once upon", gamma="2", max_new_tokens="2")
    app = press_button(app, "classroom-open")
    steer = app.session_state["classroom"].question.teacher_code
    room = rooms.store.find_by_teacher_code(steer)
    assert room.settings.prompt == "Once upon" and (room.settings.gamma, room.settings.max_new_tokens) == (2, 2)
    assert "0 students in. No task yet." in read_page(app) and room.teacher_code not in "".join(list_html(app))
    short = rooms.store.find_room(room.code).short_code
    assert short and any(short in one for one in list_html(app)), "the code is in sight as soon as the room is open"
    assert all(TASKS[kind]["about"] in read_page(app) for kind in KINDS), "every task is a button with its question"
    app = press_button(app, "classroom-shut")
    assert (
        rooms.store.find_room(room.code).is_closed
        and TEXTS["door"] in read_page(app)
        and not any("room-code" in one for one in list_html(app))
    )
    app = press_button(app, "classroom-unshut")
    assert not rooms.store.find_room(room.code).is_closed and rooms.store.find_room(room.code).short_code not in ("", short)
    rooms.store.show_short_code(room.code, "")
    app = press_button(app.run(), "classroom-show")
    assert rooms.store.find_room(room.code).short_code in read_page(app)
    for number, kind in enumerate(KINDS, start=1):
        app = press_button(app, f"classroom-begin-{kind}-{number}")
        assert not app.exception and f"Task {number}: {TASKS[kind]['title']}" in read_page(app)
        while (phase := rooms.store.find_current_task(room.code).next_phase) is not None:
            app = press_button(app, f"classroom-turn-{number}-{phase}")
    app = press_button(app, "classroom-end")
    assert rooms.store.find_room(room.code).has_ended and not [one for one in app.button if one.key.startswith("classroom-begin")]
    app.checkbox[0].check().run()
    app = press_button(app, "classroom-delete")
    assert rooms.store.find_room(room.code) is None and [one for one in app.button if one.key == "classroom-open"]


def test_the_page_opens_with_what_a_class_makes_told_as_recorded(rooms):
    app = open_page()
    known, example = load_recorded_samples().find_mistake(EXAMPLE_MISTAKE), load_example()
    n, told = known.result.n, example.origin
    assert all(
        part in told for part in (known.date, "not by a class", "your own settings", f"{n} samples", known.settings.prompt)
    )
    drawn = [
        given["payload"]
        for one in app.get("bidi_component")
        if "payload" in (given := json.loads(one.proto.mixed.json or one.proto.json))
    ]
    assert [one["frames"][-1]["n"] for one in drawn] == [n, n]
    assert drawn[0]["labels"] == drawn[1]["labels"] and drawn[0]["reach"] == drawn[1]["reach"] > 0.3, (
        "the same rows on the same axis"
    )
    page = read_page(app)
    assert f"{n} samples each: {n // EXAMPLE_EACH} students × {EXAMPLE_EACH}" in page and n % EXAMPLE_EACH == 0
    assert f"by {known.settings.max_new_tokens} tokens, at temperature 0.5. The charts count its first word." in page
    right, wrong = known.result.looks[-1]
    assert (right.verdict, wrong.verdict, wrong.n) == ("consistent", "rejected", n) and right.detectable_tv > 0.1
    assert [one["answer"]["mark"] for one in drawn] == ["consistent", "rejected"]
    assert drawn[0]["answer"]["words"] == f"Exact, as far as {n} samples can tell."
    assert drawn[0]["answer"]["details"] == TEXTS["more"], "so few samples find large differences only"
    counts = [dict(zip(one.shares.rows.labels, one.shares.rows.counts, strict=True)) for one in example.decoders]
    assert drawn[0]["labels"] == ["woman", "man", "any other text"], "a word that hardly ever comes has no bar of its own"
    assert [sum(one["frames"][-1]["shares"]) for one in drawn] == pytest.approx([1.0, 1.0])
    assert [sum(one.values()) for one in counts] == [n, n] and "woman" in drawn[1]["labels"], "every sample is in a bar"
    assert counts[1]["woman"] == 34 in wrong.counts, "the bar, the number and the test are of one group"
    assert (
        drawn[1]["answer"]["words"] == "Not exact."
        and drawn[1]["answer"]["details"] == "Target at temperature 1, so “woman” came 34 times in 100, not 66."
    )
    assert f"temperature {known.settings.temperature:g}" in told, "it need not be that of the fields beside it"
    assert told in read_page(app) and drawn[1]["heading"] == "A bug: temperature on the draft only"
    assert not any(one["texts"]["band"] or one["texts"]["outside"] for one in drawn), "one key stands over both charts"
    (head,) = [one for one in list_html(app) if "example-key" in one]
    assert all(f"<i class='{sign}'></i>" in head for sign in ("band", "outside"))
    assert all(TASKS[kind]["title"] in page and TASKS[kind]["sees"] in page for kind in KINDS)
    assert "/room/' method='get'" in page and all(step["title"] in page for step in TEXTS["steps"])


def test_the_field_of_a_code_shows_one_that_a_room_could_have():
    shown = TEXTS["student_hint"].split()[-1]
    assert len(shown) == codes.SHORT and set(shown) <= set(codes.LETTERS)
    assert f"placeholder='{TEXTS['student_hint']}'" in words.build_code_form("/")


def test_the_privacy_of_a_room_stands_beside_the_button_that_opens_it(rooms):
    (head,) = [one for one in list_html(open_page()) if TEXTS["teach"] in one]
    assert TEXTS["private_room"] in head and f"{ROOM_HOURS} hours" in TEXTS["private_room"]


@pytest.mark.parametrize(("root", "said"), [("http://localhost:8501/", "reach_how"), ("https://a.example/", "reach")])
def test_how_phones_reach_a_room_is_said(rooms, monkeypatch, root, said):
    monkeypatch.setattr(view, "_find_root", lambda: root)
    assert [name for name in ("reach_how", "reach") if TEXTS[name] in read_page(open_page())] == [said]
    commands = [one.value for one in open_page().code]
    assert (commands == [TEXTS["phone_command"]]) is (said == "reach_how"), "how to let phones in"


def test_the_sentence_for_phones_names_the_address_of_this_computer_where_it_has_one(monkeypatch):
    said = words.describe_local_address("http://localhost:8501/", "192.168.1.5")
    assert (
        said.endswith("open this page as http://192.168.1.5:8501/classroom.") and "--host 0.0.0.0" in said and ".md" not in said
    )
    assert "http://" not in words.describe_local_address("http://localhost:8501/", "")
    monkeypatch.setattr(state.socket.socket, "getsockname", lambda self: ("127.0.0.1", 1))
    assert state.find_network_address() == "", "an address of this computer alone helps no phone"


@pytest.mark.parametrize(("root", "alone"), [("http://localhost:8501/", True), ("http://127.0.0.1:8501/", True), ("http://[::1]/", True),
                                             ("http://192.168.1.5:8501/", False), ("https://a.example/under/", False)])  # fmt: skip
def test_an_address_that_leads_a_phone_to_itself_is_known_as_one(root, alone):
    assert is_local_address(root) == alone


def test_the_class_s_pictures_are_exported_and_votes_only_once_they_are_shown(page_pair, rooms, room, phone, teacher):
    session, student = rooms.find_session(room), phone()
    assert (
        build_offer(room, session.list_results(), cache.describe_pair).names == ()
        and "nothing to draw yet" in build_offer(room, session.list_results(), cache.describe_pair).note
    )
    sent = {"predict": {"accepted": True, "chance": 0.7}, "vote": {"choice": 0}, "race": {"method": "draft", "gamma": 2}}
    for number, kind in enumerate(KINDS, start=1):
        teacher(do="begin", kind=kind, task=number)
        if kind == "sample":
            student.draw(0, 100, number)
        else:
            student.post("answer", task=number, phase=rooms.store.find_current_task(room.code).phase, sent=sent[kind])
        while (phase := rooms.store.find_current_task(room.code).next_phase) is not None:
            if kind in ("predict", "vote"):
                assert not any(
                    name.startswith(f"task-{number}-")
                    for name in build_offer(room, session.list_results(), cache.describe_pair).names
                )
            teacher(do="turn", task=number, phase=phase)
    made = build_offer(room, session.list_results(), cache.describe_pair)
    drawn = {"task-1-predictions", "task-2-samples", "task-3-votes", "task-3-samples", "task-4-race"}
    assert {name.removesuffix("-slide.svg") for name in made.names if name.endswith("-slide.svg")} == drawn
    assert {name.removesuffix(".csv") for name in made.names if name.endswith(".csv")} == drawn
    package = made.build()
    assert package.build_file("task-4-race-slide.svg").startswith(b"<?xml")
    said = json.dumps(dict(package.facts), default=str) + "".join(package.captions)
    assert room.teacher_code not in said and "Winner: " in said and str(derive_task_seed(room.seed, 2)) in said
    assert len(package.captions) == len(drawn)


def test_the_desk_offers_certificate_pictures_and_worksheet(rooms, room, phone, teacher):
    teacher(do="begin", kind="sample", task=1)
    phone().draw(0, 100)
    app = open_page(steer=room.teacher_code)
    app.session_state["export-fold-classroom"] = True
    labels = [one.label for one in app.run().get("download_button")]
    assert not app.exception
    assert labels == ["report.json of task 1", "Everything, one zip", "Worksheet (PDF)", "Its answers (PDF)"]


def test_a_link_of_a_room_that_is_gone_says_so_and_offers_a_new_one(rooms):
    app = open_page(steer="x" * 16)
    assert TEXTS["gone"] in read_page(app) and [one for one in app.button if one.key == "classroom-open"]


@pytest.mark.parametrize("code", ["x" * 16, "x" * 5000, "<script>"])
def test_a_wall_of_no_room_says_so(rooms, code):
    app = open_page(wall=code)
    assert not app.exception and "There is no room under this link any more." in read_page(app) and not app.button


def test_the_wall_shows_what_the_class_has_and_no_private_link(rooms, room, phone, teacher):
    assert "Join" in read_page(open_page(wall=room.code))
    student = phone()
    for number, kind in enumerate(KINDS, start=1):
        teacher(do="begin", kind=kind, task=number)
        if kind == "sample":
            for first in (0, 100):
                student.draw(first, 100, number)
        else:
            sent = {"predict": {"accepted": True, "chance": 0.7}, "vote": {"choice": 0}, "race": {"method": "draft", "gamma": 2}}[
                kind
            ]
            student.post("answer", task=number, phase=rooms.store.find_current_task(room.code).phase, sent=sent)
        app = open_page(wall=room.code)
        shown = read_page(app)
        assert not app.exception and not app.button and room.teacher_code not in shown
        assert f"{number}. {TASKS[kind]['title']}" in shown and "1 student in, 1 has answered." in shown
        if kind == "sample":
            assert "100 samples" in shown and "200 samples" in shown
        if kind == "predict":
            assert "min(1, p/q)" not in shown, "the truth comes when the teacher shows it"
            teacher(do="turn", task=number, phase="shown")
            assert "min(1, p/q)" in read_page(open_page(wall=room.code))
        if kind == "vote":
            titles = {name_mistake(one) for one in PUBLISHED_MISTAKES.values()}
            offered = [option["name"] for option in rooms.store.find_current_task(room.code).content["options"]]
            assert set(offered[:-1]) <= titles and offered[-1] == "No mistake", "the names that Break it shows"
            for phase in ("after", "shown"):
                assert "✓" not in "".join(list_html(open_page(wall=room.code)))
                teacher(do="turn", task=number, phase=phase)
            assert "✓" in "".join(list_html(open_page(wall=room.code)))


def test_wall_and_desk_go_on_after_the_host_has_dropped_the_session_that_they_began_with(
    rooms, room, phone, teacher, monkeypatch
):
    teacher(do="begin", kind="sample", task=1)
    student, fragments = phone(), []
    student.draw(0, 1)
    monkeypatch.setattr(view.st, "fragment", lambda draw, run_every: lambda *given: fragments.append(partial(draw, *given)))
    open_page(wall=room.code), open_page(steer=room.teacher_code)
    monkeypatch.setattr(hosts, "MAX_SESSIONS", 1)
    rooms.find_session(rooms.open_room(SETTINGS, "another"))
    student.draw(1, 10)
    wall, _, result = [read_page(AppTest.from_function(run_fragment, args=(one,)).run()) for one in fragments]
    assert "the class: 11 samples" in wall and "11 samples so far" in result


def run_fragment(draw):
    draw()


def test_a_prompt_with_markup_is_text_on_desk_and_wall(rooms):
    room = rooms.open_room(replace(SETTINGS, prompt='<b onclick="x">:red[bold]</b> $x$'), "somebody")
    session = rooms.find_session(room)
    preparation.prepare_task(FreeTicket(), session, room, "predict", 1)
    app = open_page(wall=room.code)
    assert not any("<b onclick" in one for one in list_html(app)) and any("&lt;b onclick" in one for one in list_html(app))
    assert room.settings.prompt in [
        one.value for one in open_page(steer=rooms.open_room(room.settings, "other").teacher_code).text
    ]


def test_check_confirms_the_file_that_the_page_gives_the_class(page_pair, rooms, room, phone, teacher, tmp_path):
    teacher(do="begin", kind="sample", task=1)
    for number in (1, 2):
        student = phone(number)
        student.draw(0, 1), student.draw(1, 100)
    session = rooms.find_session(room)
    file = tmp_path / "report.json"
    file.write_bytes(work.build_certificate_file(FreeTicket(), session, session.store.find_current_task(room.code)))
    record = read_certificate(file)
    assert record["answers"][0]["n"] == 100
    lines = [*check_certificate(record), *redraw_certificate(record, page_pair, lambda label: lambda *_: None)]
    assert {line.state for line in lines} >= {CONFIRMED} and ALTERED not in {line.state for line in lines}


def test_the_worksheet_is_a_pdf_for_each_seed_and_its_answers_are_another(monkeypatch):
    assert work.build_worksheet_file(FreeTicket(), 1, False).startswith(b"%PDF")
    monkeypatch.setattr(worksheet_pdf, "save_pdf", lambda pages: repr([[one.get_text() for one in page.texts] for page in pages]))
    assert len({work.build_worksheet_file(FreeTicket(), seed, key) for seed, key in ((1, False), (2, False), (1, True))}) == 3


def test_a_room_is_offered_under_settings_that_it_can_decode():
    wild = Settings(prompt="a", gamma=16, temperature=0.0, proposer="tree", max_new_tokens=400, uniforms={(0, "accept"): 0.5})
    near = fit_to_room(wild)
    assert (near.gamma, near.temperature, near.proposer, near.uniforms) == (MAX_GAMMA, 1.0, "draft", {}) and Lesson(near)
    with pytest.raises(SettingsError):
        Lesson(wild)
    lesson, left_out = Lesson.from_link({"prompt": "b", "gamma": "16"}, wild)
    assert lesson.settings.gamma == MAX_GAMMA and any("gamma" in one for one in left_out)
    again, left_out = Lesson.from_link(Lesson(replace(near, gamma=3, max_new_tokens=4)).build_link(), wild)
    assert (again.settings.gamma, again.settings.max_new_tokens, left_out) == (3, 4, [])


@pytest.mark.parametrize(
    ("url", "root"),
    [("https://a.example/classroom", "https://a.example/"), ("http://localhost:8501/classroom/", "http://localhost:8501/"),
     ("https://a.example/under/here/classroom?x=1", "https://a.example/under/here/"), ("https://a.example/", "https://a.example/")],
)  # fmt: skip
def test_links_begin_where_the_app_is_served(url, root):
    assert find_root(url) == root


def test_the_private_code_is_no_part_of_what_is_printed():
    assert not re.search("secret", repr(Lesson(SETTINGS, "secret")))


def test_with_a_cluster_the_heavy_work_of_a_class_goes_there_and_a_student_s_round_does_not(
    serve, rooms, room, phone, teacher, monkeypatch
):
    """``urgent`` keeps a job in the server's process where there is a cluster (web/hosting/server_workers)."""
    serve(cluster="auto")
    stays: dict[str, set[bool]] = {}

    def run_here(function, pair, settings, arguments, on_progress, description, urgent=False):
        stays.setdefault(description, set()).add(urgent)
        return function(pair, *arguments, on_progress)

    monkeypatch.setattr(server_workers, "run_in_worker", run_here)
    student = phone()
    for number, kind in enumerate(("sample", "vote", "race", "predict"), start=1):
        teacher(do="begin", kind=kind, task=number)
        if kind == "race":
            student.post("answer", task=number, phase="open", sent={"method": "draft", "gamma": 2})
        if kind == "sample":
            student.draw(0, 1)
            assert stays.pop("samples of a class") == {True}
            session = rooms.find_session(room)
            session._run_batch(FreeTicket(), [SampleRequest(1, 1, 1, 100), SampleRequest(1, 1, 101, 100)])
    stays.pop("the exact distribution", None)  # computed by a test before, perhaps
    assert {words: first for words, (first,) in stays.items()} == {
        "samples of a class": False, "a decoder to vote on": False, "a race": False, "a situation": True,
    }  # fmt: skip


def test_a_link_of_another_replica_s_room_leads_there(serve, rooms):
    serve(replica="A")
    room = rooms.open_room(SETTINGS, "somebody")
    assert room.code.startswith("a") and "Join" in read_page(open_page(wall=room.code))
    for query, way in (({"wall": "b<x>"}, "wall"), ({"steer": "b<x>"}, "teach")):
        app = open_page(**query)
        (link,) = app.get("link_button")
        assert not app.exception and not app.button and link.proto.url.endswith(f"room/b%3Cx%3E/{way}")
