"""Replaces forged widget values by the widget's default: an option that is not in the list, a number where a text belongs.

Streamlit converts what a browser sent in one method, ``WStates.__getitem__``. A value that it cannot convert raises there, which
fills the log with a traceback and leaves the page empty. The guard wraps this method: it returns the widget's default, and the
next page says so. Where a release of Streamlit has no such class, nothing is changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from streamlit.runtime.scriptrunner import get_script_run_ctx

SENTENCE = "The browser sent a value that a field of this page does not allow. The field was reset to its default."
NUMBERS = {"int_value", "double_value"}  # a number field may be registered as one and send the other for whole numbers
MOST = 1000  # sessions whose next page has to show SENTENCE
_owed: Counter[str] = Counter()
_guarded = False


def install_widget_guard() -> None:
    """Check every widget value that comes from a browser. Takes effect once per process; further calls do nothing."""
    global _guarded
    if _guarded:
        return
    _guarded = True
    try:
        from streamlit.runtime.state.session_state import Serialized, Value, WStates

        plain = WStates.__getitem__
    except (ImportError, AttributeError):
        logging.getLogger(__name__).warning("this Streamlit keeps widget values elsewhere: bad ones raise inside it")
        return

    def get_checked(states: Any, key: str) -> Any:
        sent, known = states.states.get(key), states.widget_metadata.get(key)
        if not isinstance(sent, Serialized) or known is None:
            return plain(states, key)
        try:
            _check_value(sent.value, known)
            value = plain(states, key)
            if sent.value.WhichOneof("value") is None:  # Streamlit takes the type of an empty value, none, for the widget's
                states.widget_metadata[key] = known
            return value
        except Exception as error:  # a forged value can raise anything in Streamlit's code
            logging.getLogger(__name__).info("a widget's value was not accepted: %s", type(error).__name__)
            _record_refusal()
            states.states[key] = Value(known.deserializer(None))
            return states.states[key].value

    WStates.__getitem__ = get_checked  # type: ignore[method-assign]


def take_refusals() -> list[str]:
    """Return SENTENCE if a value of this session was replaced since the last page, else nothing."""
    context = get_script_run_ctx()
    return [SENTENCE] if context and _owed.pop(context.session_id, 0) else []


def _check_value(sent: Any, widget: Any) -> None:
    """Raise TypeError for a value of another type than the widget's, KeyError for an option that is not in the list.

    A selectbox would accept any text.
    """
    kind = sent.WhichOneof("value")
    if kind is None:  # the field was cleared
        return
    alike = kind == widget.value_type or (
        "trigger" in kind and "trigger" in widget.value_type
    )  # there are several types of triggers
    if not alike and not {kind, widget.value_type} <= NUMBERS:
        raise TypeError(f"{kind} instead of {widget.value_type}")
    options = getattr(widget, "formatted_options", None)
    if kind == "string_value" and options is not None and sent.string_value not in options:
        raise KeyError(sent.string_value)


def _record_refusal() -> None:
    context = get_script_run_ctx()
    if context:
        if len(_owed) >= MOST:
            _owed.clear()
        _owed[context.session_id] += 1
