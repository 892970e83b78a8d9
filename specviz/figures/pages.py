"""The pages in the order in which a reader meets them: group, title, and why one goes on to it. App, static edition and tests read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    path   of its address, which is also the name of its file and of its folder in web/
    title  in the navigation, in the browser's tab and on the page
    group  in the navigation
    why    a sentence at the end of the page before: why to go on to this one
    """

    path: str
    title: str
    group: str
    why: str


LEARN, CHECK, APPLY = "Learn", "Check", "Apply"
ALL = (
    Page("one_round", "One round", LEARN, "That was the last page. Step through a round again, now with a text and models of your own."),
    Page("one_token", "Why it is exact", LEARN, "Some draft tokens are accepted, others replaced. Drag two distributions, and see why the outcome is always the target’s."),
    Page("whole_text", "Whole text", LEARN, "One token is exact. Watch a prompt continued with and without draft tokens: how many target passes does it take, and how much faster is it?"),
    Page("questions", "Eight questions", LEARN, "You have seen a round, the rule and a text. Say what you would expect in eight situations, and find out."),
    Page("exactness", "Is it exact?", CHECK, "You know what to expect of the rule. A single text cannot show a distribution, but thousands of samples can be tested against the exact one."),
    Page("mistakes", "Break it", CHECK, "A test that nothing fails shows little. Put a known mistake into the decoder, and see whether the test detects it."),
    Page("serving_limits", "Serving limits", CHECK, "The rule reproduces the target as it is served. See what quantization and logits processors do to that target."),
    Page("speed", "How fast?", APPLY, "The text stays the target’s. What remains is speed: see what sets it, and predict it before anything is run."),
    Page("drafting_methods", "Drafting methods", APPLY, "Speed depends on who drafts. Compare trees, heads and copied text with a small draft model."),
    Page("classroom", "Classroom", APPLY, "Let a class find it out together: every student draws samples, and one histogram is tested."),
)  # fmt: skip
TITLES = {page.path: page.title for page in ALL}


def next_page(path: str, among: tuple[Page, ...] = ALL) -> Page:
    """The page after that of ``path`` among these; after the last one the first. Raises ValueError for a path that is not there."""
    paths = [page.path for page in among]
    return among[(paths.index(path) + 1) % len(among)]
