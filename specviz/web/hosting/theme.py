"""The theme in Streamlit's messages, made once. Streamlit reads its options anew for every run of a page, which takes 5 ms of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamlit.runtime import app_session


def keep() -> None:
    """Have every run's message filled from what the first one held. The options do not change while a server runs."""
    app_session._populate_theme_msg = kept(app_session._populate_theme_msg)


def kept(populate: Callable[[Any, str], None]) -> Callable[..., None]:
    """``populate(message, section)``, which reads the options of each section once."""
    known: dict[str, Any] = {}

    def from_known(message: Any, section: str = "theme") -> None:
        if section not in known:
            made = type(message)()
            populate(made, section)
            known[section] = made
        if known[section].ByteSize():  # an empty one would say that there is such a part
            message.MergeFrom(known[section])

    return from_known
