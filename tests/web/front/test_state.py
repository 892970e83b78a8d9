"""What the page reports is hostile until checked: only a prompt within the server's limit becomes a run, and only one of one's own."""

from __future__ import annotations

import pytest

from specviz.web.front.state import OWN_TOKENS, FrontState, open_race
from specviz.web.hosting import limits
from specviz.web.hosting.server_options import load_options


@pytest.fixture
def submitted_prompts(monkeypatch) -> list[str]:
    """Prompts that became jobs."""
    found: list[str] = []
    monkeypatch.setattr(FrontState, "submit", lambda state, work, request: found.append(request.settings.prompt))
    return found


@pytest.mark.parametrize(
    "event", [None, "text", 7, [], {}, {"prompt": None}, {"prompt": ["a"]}, {"prompt": {"a": 1}}, {"text": "a"}]
)
def test_what_is_no_prompt_is_ignored(event, submitted_prompts):
    state = open_race()
    before = state.question
    state.handle_event(event)
    assert state.question == before and submitted_prompts == [] and state.notices == []


def test_a_prompt_becomes_a_run_of_the_race_s_length_under_the_recorded_settings(submitted_prompts):
    state = open_race()
    recorded = state.load_recorded().settings
    state.handle_event({"prompt": "<b>a</b> bear", "max_new_tokens": 10**6, "pair": "/etc"})
    settings = state.question.settings
    assert submitted_prompts == ["<b>a</b> bear"] and settings.max_new_tokens == OWN_TOKENS
    assert (settings.pair, settings.temperature, settings.seed) == (recorded.pair, recorded.temperature, recorded.seed)
    assert not state.has_own_result


def test_a_prompt_above_the_server_s_limit_is_one_sentence_and_no_run(submitted_prompts, monkeypatch):
    options = load_options().model_copy(update={"prompt_bytes": 100})
    monkeypatch.setattr(limits, "load_options", lambda: options)
    state = open_race()
    state.handle_event({"prompt": "é" * 51})
    assert submitted_prompts == [] and len(state.notices) == 1 and "102" in state.notices[0]
    state.handle_event({"prompt": "a bear"})
    assert submitted_prompts == ["a bear"] and state.notices == []
