"""Messages for fields, buttons and components of a page that the session has left: they are handled, and the open page is drawn."""

from __future__ import annotations

import json

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates

from specviz.figures.pages_and_glossary import PAGES
from tests.web.common.test_frame import a_server_that_runs, open_page  # noqa: F401 the first is a fixture

VALUES = (None, "live", {"kind": "live"}, {"kind": "uniform", "position": 0, "purpose": "accept", "u": 0.5})


def write_triggers(metadata: dict) -> list[WidgetStates]:
    """A message for each value, in which every widget that sends triggers sends one with it."""
    messages = []
    for value in VALUES:
        message = WidgetStates()
        for name, known in metadata.items():
            if known.value_type == "json_trigger_value":
                events = [{"event": event, "value": value} for event in known.callbacks or ("ask", "shown")]
                message.widgets.add(id=name, json_trigger_value=json.dumps(events))
            elif known.callback and known.value_type == "trigger_value":
                message.widgets.add(id=name, trigger_value=True)
        messages.append(message)
    return messages


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("page", PAGES)
def test_a_trigger_for_a_page_that_was_left_draws_the_open_page(page):
    app = open_page().switch_page(f"pages/{page}.py").run()  # some pages have no button: the first one's
    metadata = dict(app.session_state._state._state._new_widget_state.widget_metadata)
    assert any(known.callbacks or known.callback for known in metadata.values())
    other = "questions" if page != "questions" else "one_token"
    for message in write_triggers(metadata):
        app.switch_page(f"pages/{other}.py").run()
        app._run(message)
        assert not app.exception
        assert app.get("bidi_component")
