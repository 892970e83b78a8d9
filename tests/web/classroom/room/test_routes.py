"""What students send is checked and answered with a sentence, may be sent again, and survives a server that is started anew."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Barrier, BrokenBarrierError, Event

import pytest

from specviz.errors import CancelledError
from specviz.web.classroom.room import codes, routes
from specviz.web.classroom.room import host as hosts
from specviz.web.classroom.room.host import ABSENT_AFTER, JOINS_PER_SECOND, REQUESTS_PER_SECOND, ClassroomHost
from specviz.web.classroom.room.payload import compute_version
from specviz.web.classroom.room.records import KINDS, MAX_GAMMA, MAX_SAMPLES_EACH, ROOM_HOURS
from specviz.web.hosting import limits, server_workers
from specviz.web.hosting.limits import BURST
from specviz.web.hosting.server_queue import get_server_queue
from tests.web.classroom.conftest import Phone
from tests.web.classroom.rooms import build_task

ALL = ("join", "now", "answer", "draw", "steer", "enter")


def read_sentence(answer, status: int) -> str:
    """What a refusal says; it is JSON, and no traceback."""
    assert answer.status_code == status, answer.text
    assert answer.headers["cache-control"] == "no-store" and "Traceback" not in answer.text
    return answer.json()["error"]


def test_the_page_is_one_file_whose_policy_lets_it_speak_to_its_own_server_alone(web, room):
    for path in ("/room/", f"/room/{room.code}", "/room/no-such-code"):
        answer = web.get(path)
        assert answer.status_code == 200 and answer.text == web.get("/room/").text
    inside = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', answer.text)[1].replace("&#x27;", "'")
    assert "default-src 'none'" in inside and "connect-src 'self'" in inside and "unsafe" not in inside
    outside = answer.headers["content-security-policy"]
    (own,) = re.findall(r"script-src ('sha256-[^']+')", inside)
    assert own in outside, "both policies hold, so the server's must allow the page's script too"
    assert not re.search(r'\b(src|href)="(?!data:)', answer.text), "nothing else is fetched"


def test_a_ticket_that_comes_twice_is_one_student(web, room, phone):
    one, again, other = phone(1), phone(1), phone(2)
    assert (one.said, other.said["number"]) == (again.said, 2) and one.said["token"] != other.said["token"]
    said = one.now().json()
    assert (said["number"], said["students"], said["task"]) == (1, 2, None)
    assert one.now(said["mark"]).json() == {"mark": said["mark"], "again": said["again"], "same": True}


def test_a_class_draws_votes_predicts_and_races(rooms, room, phone, teacher):
    one, two = phone(1), phone(2)
    for number, kind in enumerate(KINDS, start=1):
        assert teacher(do="begin", kind=kind, task=number) == {"task": number}
        said = one.now().json()
        assert (said["task"]["kind"], said["task"]["takes"], said["class"]["answered"]) == (kind, True, 0)
        if kind == "sample":
            assert one.draw(0, 1, number).json()["mine"]["n"] == 1 and one.draw(1, 100, number).json()["mine"]["n"] == 101
            assert two.draw(0, 10, number).json()["class"]["n"] == 111
            assert one.now().json()["class"]["verdict"] in ("consistent", "untold", "rejected")
            teacher(do="turn", task=number, phase="closed")
            read_sentence(two.draw(10, 10, number), 409)
        elif kind == "race":
            for each, method, gamma in ((one, "draft", 2), (two, "ngram", MAX_GAMMA)):
                mine = each.post("answer", task=number, phase="open", sent={"method": method, "gamma": gamma}).json()["mine"][
                    "sent"
                ]
                assert mine["tokens"] >= mine["passes"] >= 1
            rows = one.now().json()["class"]["rows"]
            assert sorted(row[1:3] for row in rows) == [[2, 1], [MAX_GAMMA, 1]]
        elif kind == "vote":
            one.post("answer", task=number, phase="before", sent={"choice": 3})
            said = one.now().json()
            assert (
                said["mine"]["sent"] == {"choice": 3}
                and "answer" not in json.dumps(said["task"])
                and "before" not in said["class"]
            )
            teacher(do="turn", task=number, phase="after")
            one.post("answer", task=number, phase="after", sent={"choice": 0})
            teacher(do="turn", task=number, phase="shown")
            said = one.now().json()
            assert (said["class"]["before"], said["class"]["after"]) == ([0, 0, 0, 1], [1, 0, 0, 0]) and 0 <= said["mine"][
                "answer"
            ] <= 3
        else:
            one.post("answer", task=number, phase="open", sent={"accepted": True, "chance": 0.7})
            said = one.now().json()
            assert not {"chance", "u", "accepted"} & set(said["mine"]), "the truth comes when the teacher shows it"
            teacher(do="turn", task=number, phase="shown")
            mine = one.now().json()["mine"]
            assert mine["brier"] == pytest.approx((0.7 - mine["accepted"]) ** 2) and mine["sent"]["chance"] == 0.7
            assert "u" not in two.now().json()["mine"]
    assert teacher(do="end") == {"done": True} and one.now().json()["ended"]


def test_what_is_sent_twice_counts_once_and_a_lost_answer_is_told_again(rooms, room, phone, teacher):
    teacher(do="begin", kind="sample", task=1)
    student = phone()
    first = student.draw(0, 1).json()
    again = student.draw(0, 1).json()
    assert (
        first["walk"] == again["walk"] and len(first["walk"]) >= 1 and again["mine"] == first["mine"] and again["mine"]["n"] == 1
    )
    ten = student.draw(1, 10).json()
    assert student.draw(1, 10).json()["mine"] == ten["mine"] and ten["mine"]["n"] == 11
    assert "first must be at most 11" in read_sentence(student.draw(12, 10), 409)
    assert [(one.first, one.count) for one in rooms.store.list_samples(room.code, 1)] == [(0, 1), (1, 10)]


def test_a_class_that_draws_at_once_is_served_in_batches_and_nobody_is_lost(rooms, room, phone, teacher):
    teacher(do="begin", kind="sample", task=1)
    students = [phone(number) for number in range(24)]
    with ThreadPoolExecutor(12) as crowd:
        found = list(crowd.map(lambda one: one.draw(0, 10).json()["mine"]["n"], students))
        found += list(crowd.map(lambda one: one.draw(0, 10).json()["mine"]["n"], students))
    assert found == [10] * 48
    drawn = rooms.store.list_samples(room.code, 1)
    assert sorted(one.student for one in drawn) == list(range(1, 25)) and students[0].now().json()["class"]["n"] == 240
    assert len(rooms.store.list_test_results(room.code, 1)) == 1


def test_a_server_that_is_started_anew_in_the_middle_goes_on_where_it_stood(web, rooms, room, phone, teacher):
    teacher(do="begin", kind="sample", task=1)
    student = phone()
    before = student.draw(0, 1).json(), student.draw(1, 10).json()
    rooms.store._db.close()  # killed: nothing is told
    hosts.open_host.forget()
    assert isinstance(hosts.open_host(), ClassroomHost) and hosts.open_host() is not rooms
    said = student.now().json()
    assert (said["mine"], said["class"]) == (before[1]["mine"], before[1]["class"])
    assert student.draw(0, 1).json()["walk"] == before[0]["walk"] and phone().said == student.said
    for first in (11, 111):
        assert student.draw(first, 100).json()["mine"]["n"] == first + 100
    assert [one["n"] for one in hosts.open_host().store.list_test_results(room.code, 1)] == [100]


@pytest.mark.fast_cases(20)
@pytest.mark.parametrize("path", ALL)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"null", b'{"ticket": 1, "task": "x", "do": 3}', b"\xff\xfe", b"[" * 3000, b"9" * 5000]
)
def test_forged_requests_get_a_sentence_and_no_traceback(web, room, phone, path, body):
    headers = phone().headers
    ask = web.get if path == "now" else lambda url, **more: web.post(url, content=body, **more)
    for code in (room.code, "x" * 500, "%00", "..%2f"):
        answer = ask(f"/room/{code}/{path}", headers=headers)
        assert 200 <= answer.status_code < 500 and "Traceback" not in answer.text
        assert path == "now" or answer.status_code >= 400


@pytest.mark.parametrize(
    "sent",
    [{"task": 1, "first": -1, "count": 1}, {"task": 1, "first": 0, "count": 10**9}, {"task": 1, "first": 1e3, "count": 1}, {"task": 1},
     {"task": 1, "first": MAX_SAMPLES_EACH, "count": 1}, {"task": "1", "first": 0, "count": 1}, {"task": 2, "first": 0, "count": 1}],
)  # fmt: skip
def test_a_student_cannot_draw_what_is_not_theirs_to_draw(rooms, room, phone, teacher, sent):
    teacher(do="begin", kind="sample", task=1)
    assert phone().post("draw", **sent).status_code in (400, 409)
    assert rooms.store.list_samples(room.code, 1) == []


@pytest.mark.parametrize("token", ["", "Bearer ", "Bearer 1.", "Bearer 1.{0}x", "Bearer 2.{0}", "Bearer 01.{0}x", "Basic 1.{0}", "Bearer ².{0}", "Bearer 1e0.{0}"])  # fmt: skip
def test_nobody_is_somebody_else(web, room, phone, token):
    phone(1), phone(2)
    given = token.format(phone(1).said["token"])
    for path in ("now", "answer", "draw"):
        ask = web.get if path == "now" else web.post
        read_sentence(ask(f"/room/{room.code}/{path}", headers={"Authorization": given.encode("latin-1", "replace")}), 401)


@pytest.mark.parametrize("given", ["", "Bearer ", "Bearer x", "Bearer {0}"])
def test_only_the_teachers_code_steers(web, room, given):
    headers = {"Authorization": given.format(room.code)}
    read_sentence(web.post(f"/room/{room.code}/steer", json={"do": "end"}, headers=headers), 401)
    assert not hosts.open_host().store.find_room(room.code).has_ended


def test_the_short_code_works_while_it_is_shown_and_wrong_ones_are_counted(web, room, teacher):
    short = teacher(do="show")["short"]
    assert web.post(f"/room/{short.lower()}/enter").json() == {"code": room.code}
    other = teacher(do="show")["short"]
    read_sentence(web.post(f"/room/{short}/enter"), 400)
    assert web.post(f"/room/{other}/enter").json() == {"code": room.code}
    teacher(do="hide")
    read_sentence(web.post(f"/room/{other}/enter"), 400)
    for _ in range(codes.MAX_TRIES):
        said = read_sentence(web.post("/room/WRONG2/enter"), 400)
    assert said.startswith("Too many wrong codes")
    short = teacher(do="show")["short"]
    read_sentence(web.post(f"/room/{short}/enter"), 400)


def test_a_second_click_of_the_teacher_changes_nothing(rooms, room, teacher):
    assert teacher(do="begin", kind="race", task=1) == teacher(do="begin", kind="predict", task=1) == {"task": 1}
    assert [task.kind for task in rooms.store.list_tasks(room.code)] == ["race"]
    for _ in range(2):
        teacher(do="turn", task=1, phase="closed")
    assert rooms.store.find_current_task(room.code).phase == "closed"


def test_tasks_and_phases_that_do_not_exist_are_refused(web, room, teacher):
    headers = {"Authorization": f"Bearer {room.teacher_code}"}
    for sent in ({"do": "begin", "kind": "exam", "task": 1}, {"do": "turn", "task": 1, "phase": "shown"}, {"do": "begin", "kind": ["x"], "task": 1},
                 {"do": "begin", "kind": "race", "task": 0}, {"do": "sing"}, {}):  # fmt: skip
        read_sentence(web.post(f"/room/{room.code}/steer", json=sent, headers=headers), 400)
    assert hosts.open_host().store.list_tasks(room.code) == []


def test_one_student_who_asks_without_end_is_slowed_down_and_others_are_not(phone):
    greedy, other = phone(1), phone(2)
    answers = [greedy.now().status_code for _ in range(round(REQUESTS_PER_SECOND * BURST) + 40)]
    assert 429 in answers and answers[0] == 200
    refused = greedy.now()
    if refused.status_code == 429:  # a slow machine may have let the next one in
        assert int(refused.headers["retry-after"]) >= 1
    assert other.now().status_code == 200 and JOINS_PER_SECOND > REQUESTS_PER_SECOND


def test_a_flood_of_newcomers_makes_nobody_wait_long_and_those_who_are_known_not_at_all(web, rooms, room, phone):
    known, session = phone(1), rooms.find_session(room)
    come = partial(web.post, f"/room/{room.code}/join")
    refused = [
        answer for one in range(400) if (answer := come(json={"ticket": f"a-flood-of-tickets-{one:05d}"})).status_code == 429
    ]
    assert refused and all(answer.json()["again"] <= 1 for answer in refused), "what is refused is not counted"
    assert read_sentence(refused[0], 429) == "Many students are coming in." and rooms.store.find_room(room.code).students < 400
    assert max(session.join_limiter.left, session.find_address_limiter("testclient").left) < 1
    for _ in range(REQUESTS_PER_SECOND * 2):
        assert come(json={"ticket": known.ticket}).json() == known.said
    assert known.now().status_code == 200


def test_one_address_fills_a_room_slowly_and_another_one_is_let_in_meanwhile(rooms, room, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(hosts, "ActionRateLimiter", lambda per_second: limits.ActionRateLimiter(per_second, lambda: now[0]))
    rooms._sessions.clear()
    session = rooms.find_session(room)

    def is_admitted(address: str) -> bool:
        try:
            routes._limit_rate("", session.find_address_limiter(address), session.join_limiter)
        except routes.RouteError:
            return False
        return True

    school = sum(is_admitted("school") for _ in range(1000))
    assert 60 <= school <= 61 and is_admitted("home"), "a class comes in at once, and more than a class does not"
    now[0] = 10.0
    assert sum(is_admitted("school") for _ in range(1000)) in (60, 61)


@pytest.mark.parametrize("again", [0.0, 3.0, 400.0])
def test_no_refusal_sends_a_phone_away_for_long(again):
    found = json.loads(routes._build_refusal("Why.", 503, again).body)
    assert found == {"error": "Why.", "again": min(again, routes.MAX_RETRY_AFTER)} and routes.MAX_RETRY_AFTER <= 15


def test_who_is_not_heard_of_leaves_room_for_another(serve, web, rooms, room, phone, monkeypatch):
    serve(students_per_room=2)
    phone(1), phone(2)
    come = partial(web.post, f"/room/{room.code}/join", json={"ticket": "the-third-ticket"})
    assert come().status_code == 503
    real = hosts.time.monotonic
    monkeypatch.setattr(hosts.time, "monotonic", lambda: real() + ABSENT_AFTER + 1)
    assert come().json()["number"] == 3 and phone(1).now().status_code == 200, "and whoever was in stays in"


def test_the_teacher_closes_the_door_and_opens_it(web, rooms, room, phone, teacher):
    short, known = teacher(do="show")["short"], phone(1)
    teacher(do="close")
    newcomer = partial(web.post, f"/room/{room.code}/join", json={"ticket": "a-late-newcomer-1"})
    assert "The door of this room is closed." in read_sentence(newcomer(), 503) and newcomer().json()["again"] > 0
    read_sentence(web.post(f"/room/{short}/enter"), 400)
    assert known.now().status_code == 200 and phone(1).said == known.said
    teacher(do="open")
    assert newcomer().json()["number"] == 2 and rooms.store.find_room(room.code).short_code


def test_a_full_line_is_asked_again_and_the_same_samples_come(rooms, room, phone, teacher, monkeypatch):
    teacher(do="begin", kind="sample", task=1)
    student = phone()
    with monkeypatch.context() as busy:
        busy.setattr(get_server_queue(), "max_open", 0)
        answer = student.draw(0, 1)
        assert "already waiting for this machine" in read_sentence(answer, 503) and answer.json()["again"] > 0
    assert student.draw(0, 1).json()["mine"]["n"] == 1


def test_a_race_whose_writing_failed_is_written_by_itself_and_says_so_where_it_never_was(
    rooms, room, phone, teacher, monkeypatch
):
    teacher(do="begin", kind="race", task=1)
    one, other = phone(1), phone(2)
    race = partial(Phone.post, what="answer", task=1, phase="open", sent={"method": "draft", "gamma": 2})

    def raise_worker_gone(*given, **more):
        raise RuntimeError("the worker is gone")

    with monkeypatch.context() as broken:
        broken.setattr(server_workers, "run_in_worker", raise_worker_gone)
        for student in (one, other):
            answer = race(student)
            assert read_sentence(answer, 503) == "The server could not do this now." and answer.json()["again"] > 0
        assert "tokens" not in one.now().json()["mine"]["sent"]
    deadline = time.monotonic() + 30
    while "tokens" not in (sent := one.now().json()["mine"]["sent"]) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert sent["tokens"] >= sent["passes"] >= 1
    teacher(do="turn", task=1, phase="closed")
    said = other.now().json()
    assert said["class"]["sentence"].startswith("Winner: ") and said["task"]["takes"] is False


def test_a_room_is_not_there_after_its_day(web, rooms, room, phone, monkeypatch):
    student = phone()
    monkeypatch.setattr(rooms.store, "clock", lambda: room.created + 3600 * ROOM_HOURS)
    assert "no such room" in read_sentence(student.now(), 404)
    assert "no such room" in read_sentence(web.post(f"/room/{room.code}/join", json={"ticket": "x" * 16}), 404)
    hosts.delete_expired_rooms()
    assert rooms.store._fetch_rows("SELECT * FROM rooms") == []


def test_limits_of_a_host_are_said(serve, web, rooms, room, phone):
    serve(rooms=2, rooms_per_visitor=1, students_per_room=1)
    phone(1)
    full = web.post(f"/room/{room.code}/join", json={"ticket": "another-ticket-0"})
    assert "This room is full: 1 of 1 students" in read_sentence(full, 503) and full.json()["again"] > 0, "a phone asks again"
    with pytest.raises(Exception, match="You have 1 rooms open here"):
        rooms.open_room(room.settings, "somebody")
    rooms.open_room(room.settings, "another one")
    with pytest.raises(Exception, match="2 of 2 rooms open"):
        rooms.open_room(room.settings, "a third one")
    rooms.store.end_room(room.code)
    rooms.store.delete_room(room.code)
    assert rooms.open_room(room.settings, "somebody")


def test_codes_name_the_replica_so_that_a_proxy_finds_the_room(serve, rooms, room):
    serve(replica="K")
    mine = rooms.open_room(room.settings, "somebody")
    assert mine.code[0] == mine.teacher_code[0] == "k" and rooms.show_short_code(mine)[0] == "K"


def test_first_requests_at_once_find_one_host_and_a_restart_is_new_to_a_phone_that_knows_the_version(rooms, room, monkeypatch):
    class SlowHost(ClassroomHost):
        def __init__(self, folder):
            with suppress(BrokenBarrierError):
                both.wait(0.3)  # until a second thread makes a host too, which none does
            super().__init__(folder)

    both = Barrier(2)
    monkeypatch.setattr(hosts, "ClassroomHost", SlowHost)
    hosts.open_host.forget()
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: hosts.open_host(), range(2))
    assert first is second, "with two hosts the wall would not see the samples of the students"
    versions = {compute_version(host.find_session(room), room) for host in (rooms, first)}
    assert len(versions) == 2, "else a phone might keep what it had from the server before"


def test_a_link_to_the_wall_or_to_the_teachers_page_leads_to_the_app(web, room):
    wall = web.get(f"/room/{room.code}/wall", follow_redirects=False)
    steer = web.get(f"/room/{room.teacher_code}/teach", follow_redirects=False)
    assert (wall.status_code, wall.headers["location"]) == (303, f"../../classroom?wall={room.code}")
    assert steer.headers["location"] == f"../../classroom?steer={room.teacher_code}"
    assert web.get("/room/a%26b=c/wall", follow_redirects=False).headers["location"] == "../../classroom?wall=a%26b%3Dc"


def test_where_no_room_can_be_kept_the_routes_say_so(serve, web, tmp_path):
    (tmp_path / "file").write_text("x")
    serve(rooms_folder=tmp_path / "file")
    hosts.open_host.forget()
    said = read_sentence(web.post("/room/whatever/join", json={"ticket": "x" * 16}), 503)
    assert said.startswith("Rooms cannot be kept on this server now") and str(tmp_path) not in said, (
        "the log alone names the folder"
    )
    serve(rooms_folder=tmp_path)


def test_a_request_that_is_too_long_is_not_read(web, room):
    assert "at most 4,000 bytes" in read_sentence(web.post(f"/room/{room.code}/join", content=b" " * (routes.MAX_BYTES + 1)), 413)


def test_all_parts_of_a_race_stop_with_its_job(rooms, room, monkeypatch):
    stopped, both = [], Barrier(2)

    def work_until_cancelled(function, pair, settings, arguments, on_progress, description, urgent):
        both.wait(30)
        ticket.cancel()
        try:
            while True:
                on_progress(0.5)
        except CancelledError:
            stopped.append(arguments)
            raise

    monkeypatch.setattr(hosts.server_workers, "run_in_worker", work_until_cancelled)
    monkeypatch.setattr(hosts.server_workers, "count_ready_workers", lambda: 2)
    session, task = rooms.find_session(room), build_task("race", ids=[1], settings=room.settings.to_record())
    choices = {1: {"method": "draft", "gamma": 2}, 2: {"method": "ngram", "gamma": 3}}
    monkeypatch.setattr(session.store, "list_answers", lambda *_: [(task.phase, *one) for one in choices.items()])
    ready = Event()
    ticket = get_server_queue().submit(
        lambda ticket: (
            ready.wait(30) and session._run_race(ticket, task, [hosts.SampleRequest(1, student) for student in choices])
        )
    )
    ready.set()
    assert ticket.ended.wait(30) and ticket.state == "stopped"
    while len(stopped) < 2:
        time.sleep(0.002)


def test_a_race_is_shared_out_among_workers_and_like_choices_stay_together():
    asked = [(1, "draft", 2), (2, "ngram", 3), (3, "draft", 2), (4, "draft", 5), (5, "ngram", 3)]
    for parts in (1, 2, 3, 8):
        found = hosts.split_by_choice(asked, parts)
        assert sorted(one for part in found for one in part) == sorted(asked) and len(found) == min(parts, 3)
        homes = {
            choice: {n for n, part in enumerate(found) if choice in {tuple(c) for _, *c in part}}
            for choice in {tuple(c) for _, *c in asked}
        }
        assert all(len(home) == 1 for home in homes.values())
