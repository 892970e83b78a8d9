"""What the teacher's page, the wall and the phones say of a room: one sentence for each thing that was found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specviz.classroom.records import KINDS, METHODS, Assignment, Room
from specviz.classroom.tally import Calibration, ClassSamples, Race, Votes
from specviz.evidence.results import NO_DRAFT, NOTHING_TESTED
from specviz.figures.narration import format_probability
from specviz.records import HERE
from specviz.settings import Settings
from specviz.web.sampling.words import count_samples

TITLES = {"predict": "Predict", "sample": "Sample", "vote": "Which mistake?", "race": "Race"}
BEGINS = {
    "predict": "You see p and q of a draft token: will it be accepted, and how probable is that?",
    "sample": "Everybody draws samples of their own; together they are the class’s histogram.",
    "vote": "A decoder perhaps makes a mistake: everybody says which one, or none, before and after talking about it.",
    "race": "Everybody chooses how to draft and how many draft tokens a round has: who gets the most tokens per target pass? Then ask who is fastest: drafting takes time, too.",
}
TURNS = {
    ("predict", "shown"): "Show what happened",
    ("sample", "closed"): "Close sampling",
    ("vote", "after"): "Vote again, after talking",
    ("vote", "shown"): "Show the votes and the answer",
    ("race", "closed"): "Close the race",
}
DOOR = "The door is closed. Those who are in stay, and nobody else comes in."
LOCAL = (
    "Phones cannot open this address: it means the machine that they are on. Open this page under the address that your machine has in the network "
    "(docs/how-to/hosting.md says how the app is started there)."
)
ASKS = "Accepted or rejected? And how probable is it that it is accepted?"
BRIER = (
    "The Brier score is the mean of (what was said − what came)², with 1 for accepted and 0 for rejected; smaller is better. Each student’s token met a random "
    "number of their own, so the expected score counts, not a single outcome."
)


def describe_kind(kind: str) -> str:
    """A task by its name, and what it asks, as markdown."""
    name = TITLES[kind]
    return f"**{name}{'' if name.endswith('?') else '.'}** {BEGINS[kind]}"


def list_kinds() -> str:
    """The kinds of tasks as a list, as markdown."""
    return "\n".join(
        ["A room has four kinds of tasks. They go well in this order:", "", *(f"1. {describe_kind(kind)}" for kind in KINDS)]
    )


def count_students(n: int) -> str:
    return "1 student" if n == 1 else f"{n:,} students"


def count_answered(task: Assignment, found: Any) -> int:
    """How many have sent something for a task in its phase."""
    if isinstance(found, ClassSamples):
        return found.students
    if isinstance(found, Calibration):
        return found.n
    if isinstance(found, Votes):
        return sum(found.before if task.phase == "before" else found.after)
    return found.sent if isinstance(found, Race) else 0


def describe_status(room: Room, task: Assignment | None, found: Any) -> str:
    """Who is in, and how many of them have answered."""
    if room.ended:
        return f"The room has ended. {count_students(room.students)} came."
    if task is None:
        return f"{count_students(room.students)} in. No task yet."
    n = count_answered(task, found)
    return f"{count_students(room.students)} in, {n:,} {'has' if n == 1 else 'have'} answered."


def build_verdict(found: ClassSamples) -> tuple[str, str, str]:
    """Of the class's histogram: a mark, the answer, what could have been seen. One rejection at any test stays."""
    n, looks = found.shares.n, found.looks
    if not looks:
        words = f"{count_samples(n)} so far: too few to tell." if n else "There are no samples yet."
        return "waiting", words, "The first test comes at 100 samples of the class."
    last: Mapping[str, Any] = next((look for look in looks if look["verdict"] == "rejected"), looks[-1])
    tested = count_samples(last["n"])
    if last["verdict"] == "rejected":
        p = min(last["p_values"].values())
        return (
            "rejected",
            f"Not exact: the first {tested} of the class do not follow the exact distribution.",
            f"p = {p:.2g}, at a level of {last['level']:.2g}.",
        )
    if last["verdict"] == NOTHING_TESTED:
        return "untold", "Nothing was tested.", f"{tested} of the class, and {NO_DRAFT}"
    if last["verdict"] != "consistent":
        return "untold", f"The first {tested} cannot decide: all texts share one cell.", _describe_next_test(n)
    return (
        "consistent",
        f"No difference from the exact distribution seen in {tested}.",
        f"A total variation distance of {last['detectable_tv']:.2g} would have been detected 99 times in 100. {_describe_next_test(n)}",
    )


def _describe_next_test(n: int) -> str:
    coming = next((size for size in (100, 1_000, 10_000, 100_000, 1_000_000) if size > n), None)
    return f"The class has {count_samples(n)}; " + (
        f"the next test comes at {coming:,}." if coming else "this was the last test of the plan."
    )


def describe_task(task: Assignment, found: Any) -> str:
    """What the class has for any task but samples, in a sentence."""
    return {"predict": describe_predictions, "vote": describe_votes, "race": describe_race}[task.kind](task, found)


def describe_predictions(task: Assignment, found: Calibration | None) -> str:
    """What came of a prediction; before it is shown only how many have been made."""
    n = 0 if found is None else found.n
    if found is None or task.phase != "shown":
        return f"{n:,} prediction{'' if n == 1 else 's'} so far."
    content = task.content
    return (
        f"min(1, p/q) = min(1, {format_probability(content['p'])}/{format_probability(content['q'])}) = {content['chance']:.0%}. The class said {found.said:.0%} on average. "
        f"Expected Brier score of what was said: {found.expected:.3f}; of min(1, p/q): {found.best:.3f}."
    )


def describe_vote(task: Assignment) -> str:
    names = [option["name"] for option in task.content["options"]]
    return f"{task.content['n']:,} samples of one decoder. Which is it: {'; '.join(names[:-1])}; or {names[-1]}?"


def describe_votes(task: Assignment, found: Votes) -> str:
    if task.phase != "shown":
        n = sum(found.before if task.phase == "before" else found.after)
        when = "First vote" if task.phase == "before" else "Talk about it, then vote again"
        return f"{when}: {n:,} vote{'' if n == 1 else 's'} so far."
    right = task.content["answer"]
    before, after = (f"{votes[right]:,} of {sum(votes):,}" for votes in (found.before, found.after))
    moved = "1 student changed their mind." if found.moved == 1 else f"{found.moved:,} students changed their minds."
    option = task.content["options"][right]
    return f"It is: {option['name']}. {option['wrong']} Right before the discussion: {before}; after it: {after}. {moved}"


def describe_race(task: Assignment, found: Race) -> str:
    if not found.choices:
        return "No text has been written yet."
    best = found.choices[0]
    return f"{'Ahead' if task.takes else 'Winner'}: {METHODS[best.method]} with gamma {best.gamma}, {best.per_pass:.2f} tokens per target pass, {best.wasted:.1f} draft tokens of each pass wasted."


def describe_settings(settings: Settings) -> str:
    cuts = [f"{name.replace('_', '-')} {value:g}" for name, value in settings.cuts.items()]
    tokens = "1 token" if settings.max_new_tokens == 1 else f"{settings.max_new_tokens} tokens"
    plain = f"{tokens} per sample", f"temperature {settings.temperature:g}", f"gamma {settings.gamma}"
    return ", ".join([*plain, *cuts])


FOLDER = next(
    place for place in (HERE / "lessons", HERE.parent / "docs" / "how-to") if place.is_dir()
)  # installed; in a checkout
MINUTES = (20, 45, 90)
WRITTEN = "http://localhost:8501/"  # where the docs say that the app is
_OF_DOCS = re.compile(r"\[([^\]]*)\]\((?!https?://)[^)]*\)")  # a link to another page of the docs


def read_lesson_plan(minutes: int, root: str) -> str:
    """A plan as markdown. root: address of this server with its last slash; links to other pages of the docs become their words."""
    text = (FOLDER / f"lesson-{minutes}.md").read_text(encoding="utf-8")
    lower = re.sub(r"^#", "##", text, flags=re.M)  # the page has a title of its own
    return _OF_DOCS.sub(r"\1", lower.replace(WRITTEN, root))
