"""The lesson plans on the page: whole, with links that lead to this server and to nothing that it does not have."""

from __future__ import annotations

import re

import pytest

from specviz.web.classroom.words import LETTERS, MINUTES, list_plan_tasks, name_plan, read_lesson_plan

ROOT = "https://class.example.org/under/"


@pytest.mark.parametrize("minutes", MINUTES)
def test_every_link_of_a_plan_leads_to_this_server(minutes):
    text = read_lesson_plan(minutes, ROOT)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) >= 8 and all(link.startswith(ROOT) for link in links)
    assert "localhost:8501" not in text


@pytest.mark.parametrize("minutes", MINUTES)
def test_a_plan_is_whole_and_no_heading_of_it_stands_above_the_pages_own(minutes):
    text = read_lesson_plan(minutes, ROOT)
    assert f"A lesson of {minutes} minutes" in text and "**Solutions.**" in text and "## Misconceptions" in text
    assert not re.search(r"^# ", text, re.M)


def test_tasks_have_letters_and_a_plan_names_those_that_it_has():
    assert {minutes: "".join(list_plan_tasks(minutes)) for minutes in MINUTES} == {20: "", 45: LETTERS, 90: ""}
    assert name_plan(45).endswith("Tasks A to D.") and "Tasks" not in name_plan(20)
