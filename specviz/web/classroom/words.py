"""What the page Classroom says before a room is open: its example, steps, tasks and lesson plans."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
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
LETTERS = "ABCD"  # of the kinds of tasks: the steps of a lesson have numbers
PICTURES = {
    "code": "<div class='wall'><b>CODE</b><i></i><em>example</em></div>",
    "task": "<div class='phone'><b>Sample</b><p>… lived an old</p><p><mark>woman who</mark></p><u>Draw</u></div>",
    "bars": "<div class='wall bars'>" + "".join(f"<i style='--wide:{wide}%;--at:{at}%'></i>" for wide, at in ((76, 41), (62, 56), (44, 50), (30, 45))) + "</div>",
}  # of the steps: HTML, illustrative  # fmt: skip
FIRST_WORD = re.compile(r"·?(\w+)")  # of the name of a cell
DOCS_ADDRESS = "http://localhost:8501/"  # of the app in the docs
DOCS_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # to another page of the docs


def build_task_cards() -> str:
    """The kinds of tasks as HTML, each with a letter: title, length in the plans that have it, the question to the class, what it sees."""
    plans = {minutes: list_plan_tasks(minutes) for minutes in MINUTES}
    cards = []
    for letter, task in zip(LETTERS, (TASKS[kind] for kind in KINDS), strict=True):
        within = " and ".join(str(minutes) for minutes, letters in plans.items() if letter in letters)
        about = TEXTS["task_minutes"].format(minutes=task["minutes"], plans=within)
        cards.append(
            f"<section><h3>{letter}. {escape(task['title'])}</h3><p>{escape(task['about'])}</p><p class='sees'>{escape(task['sees'])} {escape(about)}.</p></section>"
        )
    return f"<div class='task-cards'>{''.join(cards)}</div>"


def list_plan_tasks(minutes: int) -> list[str]:
    """Letters of the tasks that a plan has."""
    text = _read_plan(minutes)
    return [letter for letter, kind in zip(LETTERS, KINDS, strict=True) if f"the task *{TASKS[kind]['title']}*" in text]


def name_plan(minutes: int) -> str:
    """A plan as markdown in two lines: its length, what it is about and the tasks that it has."""
    letters = list_plan_tasks(minutes)
    tasks = TEXTS["plan_tasks"].format(first=letters[0], last=letters[-1]) if letters else ""
    return f"{TEXTS['plan_link'].format(minutes=minutes)}  \n{TEXTS['plans'][str(minutes)]} {tasks}".rstrip()


def build_steps() -> str:
    """The three steps of a lesson as HTML, each with its picture: the projector, a phone, the projector."""
    rows = (f"<li><div class='picture' aria-hidden='true'>{PICTURES[step['picture']]}</div><div><b>{escape(step['title'])}</b><p>{escape(step['text'])}</p></div></li>"
            for step in TEXTS["steps"])  # fmt: skip
    return f"<ol class='room-steps'>{''.join(rows)}</ol>"


def build_code_form(root: str) -> str:
    """A field for the code of a room, as HTML: it leads to the students' page. root: address of this server with its last slash."""
    return (
        f"<form class='room-form' action='{escape(root, quote=True)}room/' method='get'><h2>{escape(TEXTS['student'])}</h2>"
        f"<p><input name='code' aria-label='Code of the room' placeholder='{escape(TEXTS['student_hint'], quote=True)}' maxlength='12' required autocomplete='off' autocapitalize='characters' "
        f"spellcheck='false'><button type='submit'>Join</button></p></form>"
    )


def build_example_head(title: str, caption: str) -> str:
    """The heading of both charts of the example, as HTML: a title, what is counted, and one key."""
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


def build_example_verdict(interim_test: InterimTest, shares: CellShares) -> PageVerdict:
    """What the test of the example says, by the group of texts that it compared with all others. shares: its samples by first word."""
    if interim_test.verdict != "rejected":
        agreement = describe_agreement(interim_test)
        if not interim_test.can_show_difference:
            return agreement
        return replace(agreement, mark="consistent", words=TEXTS["consistent"].format(n=interim_test.n), details=TEXTS["more"])
    word, count, prob = max(zip(shares.labels, shares.counts, shares.probs, strict=True), key=lambda one: one[2])
    if interim_test.cells != 2 or count not in interim_test.counts:  # of other groups than the chart's
        return PageVerdict(
            "rejected", f"Not exact: {count_samples(interim_test.n)} were enough.", describe_rejection(interim_test), ""
        )
    excess = compare_counts(f"“{word}”", count, interim_test.n * prob, interim_test.n)
    return PageVerdict("rejected", "Not exact.", TEXTS["cause"].format(excess=excess))


def describe_local_address(root: str, address: str) -> str:
    """Say how phones reach an app that is open as localhost. address: this computer's address in the network, or nothing."""
    port = f":{port}" if (port := urlsplit(root).port) else ""
    then = (
        f", then open this page as http://{address}{port}/classroom."
        if address
        else " and open this page under its address in the network."
    )
    return f"{TEXTS['local'].format(command=TEXTS['phone_command'])}{then}"


def read_lesson_plan(minutes: int, root: str) -> str:
    """A plan as markdown. root: address of this server with its last slash; links to other pages of the docs become plain words."""
    below = re.sub(r"^#", "##", _read_plan(minutes), flags=re.M)  # the page has a title of its own
    return DOCS_LINK.sub(r"\1", below.replace(DOCS_ADDRESS, root))


@lru_cache(maxsize=len(MINUTES))
def _read_plan(minutes: int) -> str:
    return (PLANS / f"lesson-{minutes}.md").read_text(encoding="utf-8")
