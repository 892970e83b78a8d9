"""A restart loses nothing, a phone may send twice, codes cannot be tried out, and a room is gone after its day."""

from __future__ import annotations

import math

import pytest

from specviz.errors import BusyError, SettingsError, SpecvizError
from specviz.settings import Settings
from specviz.web.classroom.room import codes
from specviz.web.classroom.room.records import (
    CODE_MINUTES,
    MAX_SAMPLES_EACH,
    ROOM_HOURS,
    SAMPLES_PER_STUDENT,
    check_answer,
    check_room_settings,
    derive_task_seed,
    list_sample_numbers,
    read_sample_request,
)
from specviz.web.classroom.room.store import ADDED_COLUMNS, FILE, SampleBlock, StoreError, take_first_samples
from tests.web.classroom.rooms import SETTINGS, Clock, build_task, open_store

VOTE = {"options": ["one", "two", "three"]}


def test_a_restart_in_the_middle_loses_nothing(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    task = build_task("vote", **VOTE)
    store.begin_task(room.code, task)
    assert [store.add_student(room, f"ticket {one}") for one in range(3)] == [1, 2, 3]
    store.keep_answer(room.code, task, 2, {"choice": 1})
    store.add_samples(room.code, 1, [SampleBlock(2, 0, 10, {"shown": {"0": 10}, "looks": {}})], {0: {"verdict": "consistent"}})
    before = (
        store.find_room(room.code),
        store.list_tasks(room.code),
        store.list_answers(room.code, 1),
        store.list_samples(room.code, 1),
    )
    store._db.close()  # as a process that is killed: nothing is told
    again = open_store(tmp_path)
    found = (
        again.find_room(room.code),
        again.list_tasks(room.code),
        again.list_answers(room.code, 1),
        again.list_samples(room.code, 1),
    )
    assert found == before and found[0].students == 3 and again.list_test_results(room.code, 1) == [{"verdict": "consistent"}]
    assert again.add_student(room, "ticket 1") == 2, "a reload is the same student"


def test_the_first_answer_of_a_student_in_a_phase_stays(tmp_path):
    store = open_store(tmp_path)
    room, task = store.open_room(SETTINGS), build_task("vote", **VOTE)
    store.begin_task(room.code, task)
    assert (
        store.keep_answer(room.code, task, 1, {"choice": 2})
        == store.keep_answer(room.code, task, 1, {"choice": 0})
        == {"choice": 2}
    )
    store.set_phase(room.code, 1, "after")
    after = store.find_current_task(room.code)
    assert store.keep_answer(room.code, after, 1, {"choice": 0}) == {"choice": 0}
    assert store.find_answers(room.code, 1, 1) == {"before": {"choice": 2}, "after": {"choice": 0}}


def test_samples_that_are_sent_twice_are_kept_once_or_not_at_all(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    one, two = (SampleBlock(1, first, 10, {"shown": {}, "looks": {}}) for first in (0, 10))
    store.add_samples(room.code, 1, [one], {})
    with pytest.raises(StoreError, match="UNIQUE"):
        store.add_samples(room.code, 1, [two, one], {})
    assert store.list_samples(room.code, 1) == [one], "all of a batch or nothing of it"


def test_a_second_click_opens_no_second_task(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    store.begin_task(room.code, build_task("vote", **VOTE))
    version = store.find_room(room.code).version
    store.begin_task(room.code, build_task("race"))
    assert [one.kind for one in store.list_tasks(room.code)] == ["vote"] and store.find_room(room.code).version == version


def test_a_room_is_gone_after_its_day_with_everything_in_it(tmp_path):
    clock = Clock()
    store = open_store(tmp_path, clock)
    room = store.open_room(SETTINGS)
    store.add_student(room, "the ticket of somebody")
    store.show_short_code(room.code, "ABC234")
    clock.now += 3600 * ROOM_HOURS - 1
    assert store.find_room(room.code) and store.find_by_teacher_code(room.teacher_code) and store.delete_expired() == 0
    store.show_short_code(room.code, "ABC234")
    assert store.find_by_short_code("ABC234")
    clock.now += 1
    assert not (store.find_room(room.code) or store.find_by_teacher_code(room.teacher_code) or store.find_by_short_code("ABC234"))
    assert store.delete_expired() == 1 and store._fetch_rows("SELECT * FROM students") == []
    store.close()
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"the ticket of somebody" not in left and room.code.encode() not in left


def test_a_room_that_has_ended_takes_nobody_and_keeps_what_was_found(tmp_path):
    store = open_store(tmp_path)
    room, task = store.open_room(SETTINGS), build_task("vote", **VOTE)
    store.begin_task(room.code, task)
    store.add_student(room, "first")
    store.show_short_code(room.code, "ABC234")
    store.end_room(room.code)
    assert (
        store.find_room(room.code).has_ended
        and store.find_by_short_code("ABC234") is None
        and store.add_student(room, "first") == 1
    )
    with pytest.raises(SpecvizError, match="has ended"):
        store.add_student(room, "second")
    store.begin_task(room.code, build_task("race", 2))
    assert len(store.list_tasks(room.code)) == 1


def test_a_full_room_and_a_full_server_say_so(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS, most=2)
    store.open_room(SETTINGS, most=2)
    with pytest.raises(SpecvizError, match="2 of 2 rooms"):
        store.open_room(SETTINGS, most=2)
    assert [store.add_student(room, one, 2) for one in ("a", "b", "a")] == [1, 2, 1]
    with pytest.raises(SpecvizError, match="2 of 2 students"):
        store.add_student(room, "c", 2)


@pytest.mark.parametrize("content", [b"no database at all, but a long enough text", b""])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    if content:
        with pytest.raises(SettingsError, match="rooms_folder must be a folder in which rooms can be kept"):
            open_store(tmp_path)
        assert (tmp_path / FILE).read_bytes() == content
    else:
        assert open_store(tmp_path).open_room(SETTINGS).version == 0
    with pytest.raises(SettingsError, match="rooms_folder"):
        open_store(tmp_path / FILE)


def test_a_short_code_hides_by_itself(tmp_path):
    clock = Clock()
    store = open_store(tmp_path, clock)
    room = store.open_room(SETTINGS)
    store.show_short_code(room.code, "ABC234")
    clock.now += 60 * CODE_MINUTES - 1
    assert store.find_by_short_code("ABC234") and store.find_room(room.code).short_code == "ABC234"
    clock.now += 1
    assert store.find_by_short_code("ABC234") is None and store.find_room(room.code).short_code == ""
    store.show_short_code(room.code, "DEF567")
    assert store.find_by_short_code("DEF567").code == room.code


def test_a_closed_door_keeps_those_who_are_in_and_lets_nobody_else_in(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    store.add_student(room, "the first ticket")
    store.show_short_code(room.code, "ABC234")
    store.set_closed(room.code, True)
    assert (
        store.find_room(room.code).is_closed
        and store.find_by_short_code("ABC234") is None
        and store.find_room(room.code).version > room.version
    )
    assert store.add_student(room, "the first ticket") == 1
    with pytest.raises(BusyError, match="The door of this room is closed"):
        store.add_student(room, "another ticket")
    store.set_closed(room.code, False)
    assert store.add_student(room, "another ticket") == 2


def test_a_file_of_the_version_before_is_taken_over_with_its_rooms(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    for column in ADDED_COLUMNS:
        store._db.execute(f"ALTER TABLE rooms DROP COLUMN {column.split()[0]}")
    store._db.execute("PRAGMA user_version = 1")
    store.close()
    again = open_store(tmp_path)
    assert again.find_room(room.code) == room
    again.set_closed(room.code, True)
    assert open_store(tmp_path).find_room(room.code).is_closed


def test_codes_of_links_have_more_than_60_random_bits_and_a_server_marks_its_own():
    assert codes.LINK * math.log2(len(codes.LETTERS)) >= 60
    made = {codes.make_link_code() for _ in range(100)}
    assert len(made) == 100 and all(one.isalnum() and len(one) == codes.LINK for one in made), (
        "it does not break, and can be read aloud"
    )
    assert (
        codes.make_link_code("K").startswith("k")
        and codes.make_short_code("k").startswith("K")
        and len(codes.make_short_code("k")) == codes.SHORT
    )
    assert not set("01OIL") & set(codes.LETTERS) and codes.SHORT * math.log2(len(codes.LETTERS)) > 29
    assert codes.normalize_code(" abc-2 34 ") == "ABC234"


def test_wrong_short_codes_are_limited_by_address_and_in_all_and_forgotten_after_a_minute():
    clock = Clock()
    tries = codes.WrongCodeLimiter(clock)
    for _ in range(codes.MAX_TRIES):
        tries.check("here")
        tries.add_wrong_code("here")
    with pytest.raises(SpecvizError, match="Too many wrong codes"):
        tries.check("here")
    tries.check("elsewhere")
    clock.now += 60.0
    tries.check("here")
    for number in range(codes.MAX_ALL_TRIES):
        tries.add_wrong_code(f"address {number % 100}")
    with pytest.raises(SpecvizError):
        tries.check("a new one")


def test_a_token_is_of_one_student_in_one_room():
    token = codes.make_token("steer", 3)
    assert codes.is_valid_token(token, "steer", 3)
    for given, steer, student in (
        (token, "steer", 4),
        (token, "other", 3),
        (token[:-1], "steer", 3),
        (None, "steer", 3),
        ("é", "steer", 3),
    ):
        assert not codes.is_valid_token(given, steer, student)


@pytest.mark.parametrize(
    ("kind", "sent", "name"),
    [
        ("predict", None, "answer"), ("predict", {"accepted": 1, "chance": 0.5}, "accepted"), ("predict", {"accepted": True}, "chance"),
        ("predict", {"accepted": True, "chance": True}, "chance"), ("predict", {"accepted": True, "chance": 1.01}, "chance"),
        ("predict", {"accepted": True, "chance": float("nan")}, "chance"), ("vote", {"choice": 3}, "choice"),
        ("vote", {"choice": True}, "choice"), ("vote", {"choice": "1"}, "choice"), ("race", {"method": "none", "gamma": 2}, "method"),
        ("race", {"method": "draft", "gamma": 0}, "gamma"), ("race", {"method": ["draft"], "gamma": 1}, "method"),
        ("sample", {"counts": [1]}, "task"),
    ],
)  # fmt: skip
def test_what_no_page_sends_is_refused_with_its_name(kind, sent, name):
    with pytest.raises(SettingsError) as refused:
        check_answer(build_task(kind, **VOTE), sent)
    assert refused.value.name == name


def test_an_answer_holds_nothing_but_what_its_kind_takes():
    sent = {"accepted": False, "chance": 0.123456, "name": "Anna"}
    assert check_answer(build_task("predict"), sent) == {"accepted": False, "chance": 0.1235}
    assert check_answer(build_task("race"), {"method": "ngram", "gamma": 3, "tokens": 99}) == {"method": "ngram", "gamma": 3}


def test_samples_are_asked_for_by_their_place_and_within_bounds():
    assert read_sample_request({"first": 0, "count": 100}) == (0, 100) and read_sample_request({"first": 990, "count": 10}) == (
        990,
        10,
    )
    for sent in ({"first": 0, "count": 2}, {"first": -1, "count": 1}, {"first": 1000, "count": 1}, {"first": 901, "count": 100},
                 {"first": 0, "count": True}, {"first": 0.0, "count": 1}, {}):  # fmt: skip
        with pytest.raises(SettingsError):
            read_sample_request(sent)


def test_no_two_students_and_no_two_tasks_share_a_random_number():
    assert (
        MAX_SAMPLES_EACH <= SAMPLES_PER_STUDENT
        and list_sample_numbers(2, 0, 10) == (2 * SAMPLES_PER_STUDENT, 10)
        and list_sample_numbers(1, MAX_SAMPLES_EACH - 10, 10)[0] + 10 <= list_sample_numbers(2, 0, 1)[0]
    )
    seeds = {derive_task_seed(seed, task) for seed in (0, 1, 2**63 - 1) for task in range(1, 50)}
    assert len(seeds) == 147 and all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("changed", "name"),
    [({"max_new_tokens": 5}, "max-new-tokens"), ({"gamma": 0}, "gamma"), ({"gamma": 9}, "gamma"), ({"temperature": 0.0}, "temperature"),
     ({"uniforms": {(0, "accept"): 0.5}}, "uniforms"), ({"rule": "block"}, "drafting method"), ({"proposer": "tree"}, "drafting method")],
)  # fmt: skip
def test_a_room_decodes_only_what_phones_can_sample(changed, name):
    with pytest.raises(SettingsError) as refused:
        check_room_settings(Settings(**{"gamma": 2, "max_new_tokens": 2} | changed))
    assert refused.value.name == name


def test_the_first_samples_are_cut_in_the_order_in_which_they_came():
    drawn = [SampleBlock(2, 0, 10, {}), SampleBlock(1, 0, 100, {}), SampleBlock(2, 10, 10, {})]
    assert take_first_samples(drawn, 50) == [(2, 0, 10), (1, 0, 40)] and take_first_samples(drawn, 200) == [
        (2, 0, 10),
        (1, 0, 100),
        (2, 10, 10),
    ]


def test_a_disk_that_is_full_changes_nothing_and_says_so_and_goes_on_when_there_is_room_again(tmp_path):
    store = open_store(tmp_path)
    room = store.open_room(SETTINGS)
    (pages,), *_ = store._fetch_rows("PRAGMA page_count")
    store._fetch_rows(f"PRAGMA max_page_count = {pages}")  # what SQLite then says is what it says of a full disk
    drawn = [SampleBlock(1, 0, 1, {"shown": {str(cell): 1 for cell in range(5000)}})]
    with pytest.raises(StoreError, match="full"):
        store.add_samples(room.code, 1, drawn, {})
    assert store.list_samples(room.code, 1) == []
    store._fetch_rows("PRAGMA max_page_count = 100000")
    store.add_samples(room.code, 1, drawn, {})
    assert store.list_samples(room.code, 1) == drawn


def test_a_closed_file_is_a_sentence(tmp_path):
    store = open_store(tmp_path)
    store.close()
    for ask in (lambda: store.find_room("x" * 16), lambda: store.open_room(SETTINGS), lambda: store.end_room("x")):
        with pytest.raises(StoreError, match="try again"):
            ask()
