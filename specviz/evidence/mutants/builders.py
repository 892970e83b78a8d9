"""How each mutant's arguments are put together from a pair. ``open_`` is called once for each source that needs its own cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from specviz.evidence.mutants.distributions import Changed, RowBefore, certain, halved
from specviz.evidence.mutants.proposers import BestOfDrawn, Dropping, Misreporting, TopSiblings
from specviz.evidence.mutants.randomness import ByPositionAlone
from specviz.evidence.mutants.record import Arguments, Build, Open
from specviz.evidence.mutants.rules import DrawPerPath, Greedy
from specviz.models.base import LanguageModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.budget import BudgetTree
from specviz.randomness import Randomness
from specviz.settings import Settings
from specviz.verification.block_rule import BlockRule
from specviz.verification.token_rule import Rule, TokenRule
from specviz.verification.typical import TypicalRule

SIBLINGS = 3
DRAWN, BEST = 2, 1  # best of drawn: of two siblings the likelier one is handed over
LEAST = 0.2  # R8: a drawn token whose own q is below this is thrown away


def honest(open_: Open, settings: Settings) -> Arguments:
    """The decoder without a mistake."""
    target, draft = open_(settings)
    return Arguments(target, DraftModel(draft, settings.gamma), TokenRule())


def with_rule(rule: Rule) -> Build:
    return lambda open_, settings: replace(honest(open_, settings), rule=rule)


def with_randomness(randomness: Callable[[Randomness], Randomness]) -> Build:
    return lambda open_, settings: replace(honest(open_, settings), randomness=randomness)


def uncut(settings: Settings) -> Settings:
    """The temperature stays, top-k, top-p and min-p are forgotten."""
    return replace(settings, top_k=None, top_p=None, min_p=None)


def unwarped(settings: Settings) -> Settings:
    return replace(uncut(settings), temperature=1.0)


def argmax_of(open_: Open, settings: Settings) -> LanguageModel:
    return Changed(open_(settings)[1], certain)


def argmax_reported_as_softmax(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, Misreporting(argmax_of(open_, settings), draft, settings.gamma), TokenRule())


def reported_before_the_cuts(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, Misreporting(draft, open_(uncut(settings))[1], settings.gamma), TokenRule())


def greedy_inside_softmax(open_: Open, settings: Settings) -> Arguments:
    """Only at temperature 0 is this a mistake: argmax wherever something is drawn, softmax wherever something is compared."""
    soft = unwarped(settings)
    target, draft = open_(soft)
    return Arguments(target, Misreporting(argmax_of(open_, soft), draft, settings.gamma), Greedy())


def target_unwarped(open_: Open, settings: Settings) -> Arguments:
    return replace(honest(open_, settings), target=open_(unwarped(settings))[0])


def target_row_before(open_: Open, settings: Settings) -> Arguments:
    made = honest(open_, settings)
    return replace(made, target=RowBefore(made.target))


def reported_row_before(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, Misreporting(draft, RowBefore(open_(settings)[1]), settings.gamma), TokenRule())


def drawn_in_half_precision(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, Misreporting(Changed(draft, halved), open_(settings)[1], settings.gamma), TokenRule())


def unsure_draft_token_dropped(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, Dropping(draft, settings.gamma, LEAST), TokenRule())


def best_of_drawn(open_: Open, settings: Settings) -> Arguments:
    target, draft = open_(settings)
    return Arguments(target, BestOfDrawn(draft, DRAWN, BEST), TokenRule())


def within_budget(open_: Open, settings: Settings) -> Arguments:
    """As many siblings handed over, and no more drawn."""
    target, draft = open_(settings)
    return Arguments(target, BudgetTree(draft, (DRAWN,), "distinct", BEST), TokenRule())


def siblings(rule: Rule) -> Build:
    """A tree of one level under another rule."""

    def build(open_: Open, settings: Settings) -> Arguments:
        target, draft = open_(settings)
        return Arguments(target, TopSiblings(draft, SIBLINGS), rule)

    return build


one_draw_per_path = siblings(DrawPerPath())


def greedy_draft(rule: Rule) -> Build:
    def build(open_: Open, settings: Settings) -> Arguments:
        return Arguments(open_(settings)[0], DraftModel(argmax_of(open_, settings), settings.gamma), rule)

    return build


def typical_acceptance(open_: Open, settings: Settings) -> Arguments:
    return greedy_draft(TypicalRule(settings.typical))(open_, settings)


def block_rule_with(randomness: Callable[[Randomness], Randomness]) -> Build:
    return lambda open_, settings: replace(honest(open_, settings), rule=BlockRule(), randomness=randomness)


randomness_by_position = block_rule_with(ByPositionAlone)
