"""What pages are made of below their fields: sentences, a picture with its conclusion, the line of where and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from specviz.web.common.html import ALL_SIGNS, escape_markdown

PLOT = {"displayModeBar": False}
MARKS = {"waiting": "", "consistent": "✓", "rejected": "✕", "unshown": "–"}  # of verdicts; any other decides nothing
UNDECIDED = "–"


def open_screen(page: str, name: str, place: Any = None) -> Any:
    """A container that the presenter view shows as one screen; what stands in none of them is not presented. place: where, instead of here."""
    return (st if place is None else place).container(key=f"screen-{page}-{name}")


def show_notes(sentences: Sequence[str], key: str = "", place: Any = None) -> None:
    """Sentences with what people typed: text, never markdown. place: where, instead of a container of their own."""
    place = st.container(key=key) if place is None else place
    for sentence in sentences:
        place.text(sentence)


def show_sentence(text: str, key: str, plain: bool = False) -> None:
    """A sentence of meaning beside its line of blue. plain: it holds what a model wrote, and no markdown at all."""
    st.container(key=key).markdown(escape_markdown(text, ALL_SIGNS if plain else "$~"))


def show_answer(number: str, words: str) -> None:
    """Show the answer below its picture: one number or word in large type, if there is one, then a sentence. Both are text."""
    large = f"<b>{escape(number)}</b>" if number else ""
    st.html(f"<p class='answer-line'>{large}<span>{escape(words)}</span></p>")


def show_verdict(name: str, mark: str, words: str, sentence: str) -> Any:
    """A page's verdict after its sign; a rejection has another line beside it. Returns the container, for what belongs to it."""
    place = st.container(key=f"{name}-verdict{'-rejected' if mark == 'rejected' else ''}")
    place.markdown("\n".join(("## " + f"{MARKS.get(mark, UNDECIDED)} {words}".lstrip(), sentence)))
    return place


def show_figure(figure: Any, name: str, key: str, conclusion: str, sentence: bool = True, plain: bool = False) -> None:
    """A figure with its conclusion as its alternative text, and as a sentence under it."""
    height = int(figure.layout.height)  # said to Streamlit too, which keeps the place until the figure comes
    st.plotly_chart(figure, key=f"{name}-figure-{key}", height=height, config=PLOT, alt=conclusion)
    if sentence:
        show_sentence(conclusion, f"{name}-said-{key}", plain)


def show_tables(title: str, *rows: Sequence[Mapping[str, Any]] | tuple[str, Sequence[Mapping[str, Any]]]) -> None:
    """A fold with tables, each with a name where it is given one."""
    with st.expander(title):
        show_table_list(*rows)


def show_table_list(*rows: Sequence[Mapping[str, Any]] | tuple[str, Sequence[Mapping[str, Any]]]) -> None:
    """Tables below each other, each with a name where it is given one."""
    for one in rows:
        if isinstance(one, tuple):
            st.caption(one[0])
            one = one[1]
        show_dataframe(one, placeholder="")


def show_dataframe(rows: Sequence[Mapping[str, Any]], **options: Any) -> Any:
    """``st.dataframe`` of rows without an index. It takes what Arrow made of them as it is; through pandas it takes ten times as long."""
    import pyarrow

    names = dict.fromkeys(name for row in rows for name in row)
    try:
        made = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # texts and numbers in one column: Streamlit shows both as texts
        made = rows
    return st.dataframe(made, hide_index=True, **options)


def describe_machine(machine: Mapping[str, Any]) -> str:
    """The machine of a measurement: processor, threads, load."""
    load = machine.get("load", 0.0)
    return f"{machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores, load {load:.1f}"
