"""The lesson plans: their links lead to pages and situations that there are, their minutes add up, their solutions are right."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from specviz.evidence.mistakes.published import REPORTED
from specviz.evidence.sampling.sampling_plan import INTERIM, SCHEDULE
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.statistics.power import count_draws_needed, find_detectable_tv
from specviz.theory import compute_expected_tokens, compute_wall_clock_factor, find_best_gamma
from specviz.web.classroom.room.records import KINDS
from specviz.web.classroom.room.words import TASKS
from specviz.web.common import links
from specviz.web.common.frame import PAGES
from specviz.web.mistakes.state import HIDDEN
from specviz.web.one_round.payload import read_cursor
from specviz.web.one_round.words import build_steps
from specviz.web.one_token.state import read_state
from specviz.web.questions.questions import list_questions, load_recorded_runs

DOCS = Path(__file__).resolve().parents[2] / "docs"
LESSONS = sorted(DOCS.glob("how-to/lesson-*.md"))
RECORDED = load_recorded_runs()


def list_app_links(text: str) -> list[tuple[str, dict[str, str]]]:
    """Page and parameters of every link into the app."""
    found = [urlsplit(address) for address in re.findall(r"\((http://localhost:8501/[^)]*)\)", text)]
    return [(one.path.strip("/"), {key: values[0] for key, values in parse_qs(one.query).items()}) for one in found]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_link_into_the_app_leads_to_a_page_and_a_situation(lesson):
    found = list_app_links(lesson.read_text(encoding="utf-8"))
    assert len(found) >= 8
    for page, query in found:
        assert page in PAGES and links.list_unknown_keys(query) == [], (page, query)
        if "at" in query:
            at = read_cursor(query["at"])
            assert at["round"] < len(RECORDED.opening.rounds)
        if page == "one_token":
            assert read_state(query, [])[1] == []
        if page == "questions":
            assert 1 <= int(query["question"]) <= len(list_questions(RECORDED))
        assert query.get("mistake", HIDDEN) in (HIDDEN, *REPORTED)
        assert query.get("row", "draft") in DRAFTING_METHODS


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_the_minutes_of_a_plan_follow_each_other_and_fill_the_lesson(lesson):
    found = [tuple(map(int, row)) for row in re.findall(r"^\| (\d+) to (\d+) \|", lesson.read_text(encoding="utf-8"), re.M)]
    assert found[0][0] == 0 and found[-1][1] == int(lesson.stem.split("-")[1])
    assert all(a[1] == b[0] and a[0] < a[1] for a, b in pairwise(found))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_what_a_teacher_looks_for(lesson):
    text = lesson.read_text(encoding="utf-8")
    for part in ("**Aims.**", "**Prior knowledge.**", "**Before.**", "## Plan", "## Misconceptions", "**Solutions.**"):
        assert part in text, part


def test_a_link_to_the_rejected_token_leads_to_its_random_number():
    for name in ("lesson-20", "lesson-45"):
        text = (DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")
        (address,) = re.findall(r"\[One round\]\((http[^)]*)\)[^|]*drag u down", text)
        at = read_cursor(parse_qs(urlsplit(address).query)["at"][0])
        round_ = RECORDED.opening.rounds[at["round"]]
        step = build_steps(RECORDED.opening, round_)[at["step"]]
        assert step.kind == "uniform" and round_.proposals[step.node].accepted is False


def test_a_class_s_tasks_have_the_names_of_their_buttons():
    text = (DOCS / "how-to" / "lesson-45.md").read_text(encoding="utf-8")
    assert re.findall(r"the task \*([^*]+)\*", text) == [TASKS[kind]["title"] for kind in KINDS]
    minutes = re.findall(r"^\| (\d+) to (\d+) \| the task ", text, re.M)
    assert [int(end) - int(start) for start, end in minutes] == [TASKS[kind]["minutes"] for kind in KINDS]
    for word in ("*Open a room*", "*Open the page for the projector*", "*Export*"):
        assert word in text


def test_the_solutions_of_20_minutes():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    overlap, residual = np.minimum(p, q), np.maximum(p - q, 0.0)
    assert overlap.sum() == pytest.approx(0.7)
    assert residual / residual.sum() == pytest.approx([1, 0, 0])


def test_the_solutions_of_45_minutes():
    assert compute_expected_tokens(0.7, 3) == pytest.approx(2.53, abs=0.005)
    assert compute_wall_clock_factor(0.7, 3, 0.1) == pytest.approx(1.95, abs=0.005)
    text = (DOCS / "how-to" / "lesson-45.md").read_text(encoding="utf-8")
    look = next(look for look in range(SCHEDULE.looks) if SCHEDULE.count_samples(look) == 1000)
    said, plan = float(re.search(r"detects a total variation distance of\s+([\d.]+\d)", text)[1]), INTERIM.plan_look(look, 2)
    assert f"{find_detectable_tv(plan.max_cells - 1, 1000, plan.level):.2g}" == f"{said:g}", "what the wall says of 1,000 samples"
    assert f"1,000 · ({said:g}/0.02)² =\n{round(1000 * (said / 0.02) ** 2):,}." in text
    assert 0.5 + 0.5 * 0.5 == 0.75


def test_the_solutions_of_90_minutes():
    factors = [compute_wall_clock_factor(0.8, gamma, 0.2) for gamma in range(1, 6)]
    assert factors == pytest.approx([1.50, 1.74, 1.85, 1.87, 1.84], abs=0.006)
    assert find_best_gamma({gamma: compute_wall_clock_factor(0.8, gamma, 0.2) for gamma in range(1, 17)}) == 4
    assert count_draws_needed(0.01, 14) == pytest.approx(4 * 34_000, rel=0.01)
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "how-to" / "lesson-90.md").read_text(encoding="utf-8"), re.S)
    exec(code, {})
    distances = [abs(a + (1 - a) * a - a) for a in np.linspace(0, 1, 101)]
    assert max(distances) == pytest.approx(0.25) and int(np.argmax(distances)) == 50
