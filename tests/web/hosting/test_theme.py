"""The theme of a run's message is what Streamlit would put there, read once."""

from __future__ import annotations

import pytest
from streamlit.proto.NewSession_pb2 import NewSession
from streamlit.runtime.app_session import _populate_theme_msg

from specviz.web.hosting import streamlit_patches


def fill_in(populate) -> NewSession:
    message = NewSession()
    populate(message.custom_theme)
    for part, section in ((message.custom_theme.light, "theme.light"), (message.custom_theme.dark.sidebar, "theme.dark.sidebar")):
        populate(part, section)
    return message


@pytest.fixture
def theme_options():
    from streamlit import config

    before = config.get_option("theme.light.primaryColor")
    config.set_option("theme.light.primaryColor", "#0072B2")
    yield
    config.set_option("theme.light.primaryColor", before)


def test_every_message_is_the_one_that_streamlit_makes(theme_options):
    kept = streamlit_patches.memoize_theme(_populate_theme_msg)
    for _ in range(2):
        assert fill_in(kept).SerializeToString(deterministic=True) == fill_in(_populate_theme_msg).SerializeToString(
            deterministic=True
        )
    assert fill_in(kept).custom_theme.light.primary_color == "#0072B2"


def test_a_section_is_read_once_and_a_message_that_was_filled_may_change(theme_options):
    asked = []

    def populate(message, section):
        asked.append(section)
        _populate_theme_msg(message, section)

    kept = streamlit_patches.memoize_theme(populate)
    fill_in(kept).custom_theme.light.primary_color = "#000000"
    assert fill_in(kept).custom_theme.light.primary_color == "#0072B2"
    assert sorted(asked) == ["theme", "theme.dark.sidebar", "theme.light"]
