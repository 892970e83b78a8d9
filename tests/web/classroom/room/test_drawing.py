"""Every student's samples follow from seed and number alone, and the class's certificate can be drawn again by anyone."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError
from specviz.evidence.decoder import SHARED, build_decoder
from specviz.evidence.sampling.certificate import ALTERED, CONFIRMED, check_certificate, read_blocks, redraw_certificate
from specviz.evidence.sampling.sampling_plan import INTERIM, SCHEDULE, SequentialCells
from specviz.evidence.testing.hypothesis_tests import run_count_tests
from specviz.evidence.testing.report import seal
from specviz.progress import ignore_progress
from specviz.randomness import GatheredRandomness, PhiloxRandomness, Purpose
from specviz.web.classroom.room import class_evidence, drawing
from specviz.web.classroom.room.class_evidence import build_certificate, count_blocks, restore_session
from specviz.web.classroom.room.records import SAMPLES_PER_STUDENT, derive_task_seed, list_sample_numbers
from specviz.web.classroom.room.store import SampleBlock, take_first_samples
from specviz.web.classroom.room.tally import Race, TaskTally, compute_calibration, compute_outcome, count_votes, rank_choices
from tests.web.classroom.rooms import SETTINGS, build_sample_task, build_task

BLOCKS = [(2, 0, 1), (1, 0, 10), (2, 1, 10), (3, 0, 100), (1, 10, 100)]


@pytest.fixture(scope="module")
def class_samples(pair):
    """Samples of three students, in five batches, under a room's settings."""
    return drawing.draw_samples(
        pair, SETTINGS, tuple(pair.encode(SETTINGS.prompt)), [list_sample_numbers(*one) for one in BLOCKS], [], ignore_progress
    )[0]


def test_gathered_numbers_are_those_of_their_blocks_whatever_slice_is_asked_for():
    source, of = PhiloxRandomness(5), ((7, 3), (100, 4), (8, 1))
    gathered = GatheredRandomness(source, of)
    whole = np.concatenate([source.stream(Purpose.ACCEPT, 1, 2, first, count) for first, count in of])
    for first in range(9):
        for count in range(9 - first):
            assert gathered.stream(Purpose.ACCEPT, 1, 2, first, count).tolist() == whole[first : first + count].tolist()


def test_a_students_samples_are_the_same_alone_in_a_batch_and_in_pieces(pair, class_samples):
    ids, begin = tuple(pair.encode(SETTINGS.prompt)), 0
    for student, first, count in BLOCKS:
        alone = build_decoder("speculative", pair, SETTINGS, ids).sample(SHARED, student * SAMPLES_PER_STUDENT + first, count)
        assert class_samples.slice_samples(begin, begin + count).tokens.tolist() == alone.tokens.tolist()
        begin += count


def test_the_rounds_that_a_phone_shows_are_those_of_its_sample(pair, class_samples):
    ids, numbers = tuple(pair.encode(SETTINGS.prompt)), [list_sample_numbers(2, 0, 1)[0], list_sample_numbers(3, 0, 1)[0]]
    rounds = build_decoder("speculative", pair, SETTINGS, ids).decode_rounds(numbers)
    texts = [[token for one in walk for token in one.committed] for walk in rounds]
    assert texts == [[token for token in class_samples.tokens[place].tolist() if token != NONE] for place in (0, 21)]
    _, (walk, _) = drawing.draw_samples(pair, SETTINGS, ids, [(numbers[0], 1)], numbers, ignore_progress)
    json.dumps(walk)
    assert len(walk) == len(rounds[0]) and [len(one["drafts"]) for one in walk] == [len(one.proposals) for one in rounds[0]]


def test_a_tally_tests_the_first_samples_at_each_look_and_begins_again_where_it_stood(pair, class_samples):
    task = build_sample_task(pair)
    cells = SequentialCells.from_record(json.loads(json.dumps(task.content["cells"])))
    one = restore_session(pair, SETTINGS, task.content["cells"], [])
    blocks, results = count_blocks(one, BLOCKS, class_samples)
    first = run_count_tests(
        INTERIM.plan_look(0, cells.tests[0].length), cells.tests[0], cells.tests[0].count_samples(class_samples.slice_samples(0, 100)),
        "the class", class_samples.slice_samples(0, 100).coverage,
    )  # fmt: skip
    assert results.keys() == {0} and results[0]["sentence"] == first.sentence and results[0]["n"] == 100
    begin = 0
    kept: list[SampleBlock] = []
    for student, count, size in BLOCKS:  # as if the server had been started again after each batch
        begun = restore_session(pair, SETTINGS, task.content["cells"], kept)
        part, _ = count_blocks(begun, [(student, count, size)], class_samples.slice_samples(begin, begin + size))
        kept, begin = kept + [replace(row, cells=json.loads(json.dumps(row.cells))) for row in part], begin + size
    assert (
        kept == list(blocks)
        and begun.n == one.n
        and all((a == b).all() for a, b in zip(begun.look_counts, one.look_counts, strict=True))
        and begun.counted == one.counted == class_samples.coverage
    )
    seen = TaskTally(kept).build_class_samples(task, [results[0]])
    assert seen.shares.counts == tuple(cells.shown.count_samples(class_samples).tolist()) and (seen.shares.n, seen.students) == (
        221,
        3,
    )


@pytest.fixture(scope="module")
def certificate(pair, class_samples):
    return json.loads(json.dumps(build_certificate(pair, SETTINGS, BLOCKS, ignore_progress)))


def list_states(record, pair) -> dict[str, str]:
    found = {line.field: line.state for line in check_certificate(record)}
    return found | {line.field: line.state for line in redraw_certificate(record, pair, lambda label: ignore_progress)}


def test_check_confirms_the_class_s_certificate_by_drawing_every_sample_again(pair, certificate):
    assert read_blocks(certificate) == tuple(
        list_sample_numbers(*one) for one in take_first_samples((SampleBlock(*row, {}) for row in BLOCKS), 100)
    )
    assert certificate["answers"][0]["n"] == 100 == class_evidence.count_certified(221) and certificate["answers"][0]["plan"][
        "alpha"
    ] == SCHEDULE.compute_alpha_at(0)
    found = list_states(certificate, pair)
    assert ALTERED not in found.values() and found["blocks"] == CONFIRMED


def test_a_certificate_with_other_students_is_altered_although_its_seals_are_right(pair, certificate):
    other = seal(certificate | {"blocks": [[9 * SAMPLES_PER_STUDENT, 100]]})
    assert ALTERED not in {line.state for line in check_certificate(other)}, "the file agrees with itself"
    assert ALTERED in list_states(other, pair).values(), "and its samples are not those of student 9"
    for blocks_ in ([[0, 99]], [[0, 50], [49, 50]]):
        assert {line.field: line.state for line in check_certificate(seal(certificate | {"blocks": blocks_}))}[
            "blocks"
        ] == ALTERED


def test_there_is_no_certificate_before_the_first_test(pair):
    with pytest.raises(EvidenceError, match="at least 100 samples of the class, got 99"):
        build_certificate(pair, SETTINGS, [(1, 0, 99)], ignore_progress)
    assert [class_evidence.count_certified(n) for n in (100, 999, 1000, 10**6, 10**8)] == [100, 100, 1000, 10**6, 10**6]


def test_a_prediction_is_scored_against_the_students_own_random_number():
    task = build_task("predict", 2, p=0.2, q=0.5, chance=0.4)
    numbers = PhiloxRandomness(derive_task_seed(11, 2))
    for student in (1, 2, 3, 40):
        u = float(numbers.stream(Purpose.ACCEPT, 0, 0, student * SAMPLES_PER_STUDENT, 1)[0])
        found = compute_outcome(11, task, student, {"chance": 0.7})
        assert (found.u, found.accepted, found.brier) == (u, u < 0.4, (0.7 - (u < 0.4)) ** 2)
        assert (found.expected, found.best) == (pytest.approx(0.4 * 0.3**2 + 0.6 * 0.7**2), pytest.approx(0.24))


def test_calibration_is_that_of_the_whole_class():
    """With 4,000 students the shares lie within 0.04 of their means: 5 standard deviations, once in 10^6."""
    task, students = build_task("predict", 1, p=0.2, q=0.5, chance=0.4), range(1, 4001)
    found = compute_calibration(3, [(task, [("open", one, {"chance": 0.4, "accepted": False}) for one in students])])
    assert found.n == 4000 and found.predicted == pytest.approx(0.4) and found.truth == pytest.approx(0.4)
    assert (
        found.brier == pytest.approx(0.24, abs=0.04)
        and found.best == found.expected == pytest.approx(0.24)
        and found.right == pytest.approx(0.6, abs=0.04)
    )
    ((middle, n, came),) = found.bins
    assert (middle, n) == (0.45, 4000) and came == pytest.approx(0.4, abs=0.04)
    assert compute_calibration(3, []) is None


def test_votes_are_counted_before_and_after_with_those_who_changed_their_mind():
    task = build_task("vote", options=["a", "b", "c"])
    sent = [("before", 1, 0), ("before", 2, 0), ("before", 3, 1), ("after", 1, 1), ("after", 2, 0), ("after", 9, 2)]
    found = count_votes(task, [(phase, student, {"choice": choice}) for phase, student, choice in sent])
    assert (found.before, found.after, found.moved) == ((2, 1, 0), (1, 1, 1), 1)


def test_a_race_gives_the_tokens_per_pass_of_the_decoder_itself(pair):
    ids, asked = tuple(pair.encode(SETTINGS.prompt)), [(1, "draft", 3), (2, "draft", 3), (3, "ngram", 2)]
    found = drawing.run_race(pair, SETTINGS, ids, asked, ignore_progress)
    assert found == drawing.run_race(pair, SETTINGS, ids, asked[::-1], ignore_progress) and set(found) == {1, 2, 3}
    assert all(1 <= one["tokens"] <= drawing.RACE_LENGTH and 1 <= one["passes"] <= one["tokens"] for one in found.values())
    made = rank_choices(
        [("open", student, {"method": method, "gamma": gamma} | found[student]) for student, method, gamma in asked]
    )
    rows = made.choices
    assert made.students == 3
    mine = next(row for row in rows if row.method == "draft")
    assert mine.students == 2 and mine.per_pass == (found[1]["tokens"] + found[2]["tokens"]) / (
        found[1]["passes"] + found[2]["passes"]
    )
    assert [row.per_pass for row in rows] == sorted((row.per_pass for row in rows), reverse=True)
    assert rank_choices([("open", 1, {"method": "draft", "gamma": 1})]) == Race((), 1), "sent, and not written yet"


def test_a_situation_shows_the_token_that_the_draft_proposes_and_its_threshold(pair):
    found = [drawing.find_situation(pair, SETTINGS, number, ignore_progress) for number in (0, 1)]
    json.dumps(found)
    for one in found:
        assert one["chance"] == pytest.approx(min(1.0, one["p"] / one["q"])) and one["text"].startswith(SETTINGS.prompt[:4])
        assert one["token"] in [bar["token"] for bar in one["bars"]]
    assert found[0] != found[1] and found[0]["chance"] <= drawing.MAX_FIRST_CHANCE, "the first one may well be rejected"


def test_what_a_class_votes_on_has_the_mistake(pair):
    from specviz.evidence.mistakes.registry import MISTAKES

    settings = replace(MISTAKES["R5"].apply_settings(SETTINGS), seed=derive_task_seed(1, 1))
    ids = tuple(pair.encode(settings.prompt))
    right, wrong = (drawing.draw_for_vote(pair, settings, which, ids, ignore_progress) for which in (None, "R5"))
    assert len(right) == len(wrong) == drawing.VOTE_SAMPLES
    assert right.tokens.tolist() != wrong.tokens.tolist()
