"""What a browser sends for widgets, where no honest browser would: an option that is none, a number for a text.

Streamlit turns what was sent into a value in one place, and there what cannot be turned raises inside its own code: a page of
traceback in the log and a page without content. Here that one place answers with the widget's default instead, and the next
page says so. It is Streamlit's own class; where a release has none of that name, its behavior is left as it is.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from streamlit.runtime.scriptrunner import get_script_run_ctx

SENTENCE = "The browser sent a value that a field of this page does not allow. The field was reset to its default."
NUMBERS = {"int_value", "double_value"}  # a field for numbers is known by the one, and sends the other where they are whole
MOST = 1000  # sessions whose next page owes a sentence
_owed: Counter[str] = Counter()
_guarded = False


def install_widget_guard() -> None:
    """Stand before every value that comes from a browser. Once for each process; more calls do nothing."""
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

    def checked(states: Any, key: str) -> Any:
        sent, known = states.states.get(key), states.widget_metadata.get(key)
        if not isinstance(sent, Serialized) or known is None:
            return plain(states, key)
        try:
            _check_value(sent.value, known)
            return plain(states, key)
        except Exception as error:  # whatever a forged value does to Streamlit's code
            logging.getLogger(__name__).info("a widget's value was not accepted: %s", type(error).__name__)
            _record_refusal()
            states.states[key] = Value(known.deserializer(None))
            return states.states[key].value

    WStates.__getitem__ = checked  # type: ignore[method-assign]


def take_refusals() -> list[str]:
    """A sentence where this session has sent such a value since the last page."""
    context = get_script_run_ctx()
    return [SENTENCE] if context and _owed.pop(context.session_id, 0) else []


def _check_value(sent: Any, known: Any) -> None:
    """Raises where a message is not of its widget's kind, and for an option that is not in the list: a selectbox would take it as it is."""
    kind = sent.WhichOneof("value")
    if kind is None:  # the field was cleared
        return
    alike = kind == known.value_type or ("trigger" in kind and "trigger" in known.value_type)  # triggers come in more than one
    if not alike and not {kind, known.value_type} <= NUMBERS:
        raise TypeError(f"{kind} instead of {known.value_type}")
    options = getattr(known, "formatted_options", None)
    if kind == "string_value" and options is not None and sent.string_value not in options:
        raise KeyError(sent.string_value)


def _record_refusal() -> None:
    context = get_script_run_ctx()
    if context:
        if len(_owed) >= MOST:
            _owed.clear()
        _owed[context.session_id] += 1
