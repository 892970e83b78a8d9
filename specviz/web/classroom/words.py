"""What the page Classroom says before a room is open: its example, steps, tasks and lesson plans."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from specviz.evidence.testing.results import LEVEL, REST, CellShares
from specviz.records import HERE, load_toml
from specviz.statistics.chernoff import compute_frequency_range
from specviz.web.classroom.room.records import KINDS
from specviz.web.classroom.room.words import TASKS, TEXTS
from specviz.web.common.side_by_side.words import (
    PageVerdict,
    compare_counts,
    count_samples,
    describe_agreement,
    describe_rejection,
)

if TYPE_CHECKING:
    from specviz.evidence.testing.results import InterimTest

HISTOGRAM = load_toml("texts/side_by_side")["histogram"]
PLANS = next(
    folder for folder in (HERE / "lessons", HERE.parent / "docs" / "how-to") if folder.is_dir()
)  # installed; in a checkout
MINUTES = (20, 45, 90)
PICTURES = {
    "code": "<div class='wall'><b>CODE</b><i></i><em>example</em></div>",
    "task": "<div class='phone'><b>Sample</b><p>there lived an old …</p><p><mark>woman who</mark></p><u>1 more</u></div>",
    "bars": "<div class='wall bars'>" + "".join(f"<i style='--bar:{bar}%;--at:{at}%'></i>" for bar, at in ((78, 78), (42, 39), (17, 19), (12, 13))) + "</div>",
}  # of the steps: HTML, illustrative  # fmt: skip
FIRST_WORD = re.compile(r"·?(\w+)")  # of the name of a cell
DOCS_ADDRESS = "http://localhost:8501/"  # of the app in the docs
DOCS_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # to another page of the docs


def build_task_cards() -> str:
    """The kinds of tasks as HTML: title and length in the lesson of 45 minutes, the question to the class, what it sees."""
    cards = (
        f"<section><h3>{number}. {escape(task['title'])} <small>{task['minutes']} minutes</small></h3><p>{escape(task['about'])}</p><p class='sees'>{escape(task['sees'])}</p></section>"
        for number, task in enumerate((TASKS[kind] for kind in KINDS), start=1)
    )
    return f"<div class='task-cards'>{''.join(cards)}</div>"


def build_steps() -> str:
    """The three steps of a lesson as HTML, each with its picture: the projector, a phone, the projector."""
    rows = (f"<li><div class='picture' aria-hidden='true'>{PICTURES[step['picture']]}</div><div><b>{escape(step['title'])}</b><p>{escape(step['text'])}</p></div></li>"
            for step in TEXTS["steps"])  # fmt: skip
    return f"<ol class='room-steps'>{''.join(rows)}</ol>"


def build_code_form(root: str) -> str:
    """A field for the code of a room, as HTML: it leads to the students' page. root: address of this server with its last slash."""
    return (
        f"<form class='room-form' action='{escape(root, quote=True)}room/' method='get'><h2>{escape(TEXTS['student'])}</h2>"
        f"<p><input name='code' aria-label='Code of the room' placeholder='{escape(TEXTS['student_hint'], quote=True)}' maxlength='12' autocomplete='off' autocapitalize='characters' "
        f"spellcheck='false'><button type='submit'>Join</button></p></form>"
    )


def build_example_head(title: str, caption: str) -> str:
    """What stands over both charts of the example, as HTML: a title, what is counted, and one key."""
    signs = (("band", "band"), ("outside", "outside"))
    key = "".join(f"<li><i class='{sign}'></i><span>{escape(HISTOGRAM[name])}</span></li>" for sign, name in signs)
    return (
        f"<h2>{escape(title)}</h2><figure class='example-key'><figcaption>{escape(caption)}</figcaption><ul>{key}</ul></figure>"
    )


def group_by_first_word(shares: CellShares) -> CellShares:
    """The same samples in a cell for each first word; texts that share one cell whatever their first word stay there."""
    masses: dict[str, float] = {}
    counts: dict[str, int] = {}
    for label, count, prob in zip(shares.labels, shares.counts, shares.probs, strict=True):
        begins = FIRST_WORD.match(label)
        first = begins[1] if begins and label != REST else REST
        masses[first] = masses.get(first, 0.0) + prob
        counts[first] = counts.get(first, 0) + count
    bands = [compute_frequency_range(mass, shares.n, (1.0 - LEVEL) / len(masses)) for mass in masses.values()]
    low, high = zip(*bands, strict=True)
    whole = (False,) * len(masses)
    return CellShares(shares.name, (*masses,), whole, (*masses.values(),), (*counts.values(),), low, high, shares.n)


def build_example_verdict(found: InterimTest, shares: CellShares) -> PageVerdict:
    """What the test of the example says, by the group of texts that it compared with all others. shares: its samples by first word."""
    if found.verdict != "rejected":
        agreement = describe_agreement(found)
        if not found.can_show_difference:
            return agreement
        return replace(agreement, mark="consistent", words=TEXTS["consistent"].format(n=found.n), details=TEXTS["more"])
    word, count, prob = max(zip(shares.labels, shares.counts, shares.probs, strict=True), key=lambda one: one[2])
    if found.cells != 2 or count not in found.counts:  # of other groups than the chart's
        return PageVerdict("rejected", f"Not exact: {count_samples(found.n)} were enough.", describe_rejection(found), "")
    return PageVerdict(
        "rejected",
        "Not exact.",
        f"{compare_counts(f'“{word}”', count, found.n * prob, found.n)}.",
    )


def describe_local_address(root: str, found: str) -> str:
    """Say how phones reach an app that is open as localhost. found: this computer's address in the network, or nothing."""
    port = f":{port}" if (port := urlsplit(root).port) else ""
    then = (
        f", then open this page as http://{found}{port}/classroom."
        if found
        else " and open this page under its address in the network."
    )
    return f"{TEXTS['local'].format(command=TEXTS['phone_command'])}{then}"


def read_lesson_plan(minutes: int, root: str) -> str:
    """A plan as markdown. root: address of this server with its last slash; links to other pages of the docs become plain words."""
    text = (PLANS / f"lesson-{minutes}.md").read_text(encoding="utf-8")
    below = re.sub(r"^#", "##", text, flags=re.M)  # the page has a title of its own
    return DOCS_LINK.sub(r"\1", below.replace(DOCS_ADDRESS, root))
