"""The lesson plans on the page: whole, with links that lead to this server and to nothing that it does not have."""

from __future__ import annotations

import re

import pytest

from specviz.web.classroom.words import MINUTES, read_lesson_plan

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
