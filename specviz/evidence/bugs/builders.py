"""How each mutant's arguments are put together from a pair. ``open_`` is called once for each source that needs its own cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from specviz.evidence.bugs.bug import Build, Components, Open
from specviz.evidence.bugs.distributions import Changed, RowBefore, certain, halved
from specviz.evidence.bugs.proposers import BestOfDrawn, Dropping, Misreporting
from specviz.evidence.bugs.rules import Greedy
from specviz.models.base import LanguageModel
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.budget import BudgetTree
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import Randomness
from specviz.settings import Settings
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from specviz.verification.typical import TypicalRule

SIBLINGS = 3
DRAWN, BEST = 2, 1  # best of drawn: of two siblings the likelier one is proposed
COLDER = 0.5  # the temperature of a verifying pass over the one asked for
LEAST = 0.2  # R8: a drawn token whose own q is below this is thrown away


def with_proposer(make: Callable[[LanguageModel, Open, Settings], Proposer], rule: Rule = TokenRule()) -> Build:  # noqa: B008
    """The target with the proposer that ``make`` gives for the draft, and with this rule."""

    def build(open_: Open, settings: Settings) -> Components:
        target, draft = open_(settings)
        return Components(target, make(draft, open_, settings), rule)

    return build


honest = with_proposer(lambda draft, open_, settings: DraftModel(draft, settings.gamma))


def with_target(change: Callable[[LanguageModel, Open, Settings], LanguageModel]) -> Build:
    """The honest decoder, except that the rule is given the distributions of another target."""

    def build(open_: Open, settings: Settings) -> Components:
        made = honest(open_, settings)
        return replace(made, target=change(made.target, open_, settings))

    return build


def with_rule(rule: Rule, randomness: Callable[[Randomness], Randomness] = lambda randomness: randomness) -> Build:
    """The honest decoder with another rule, and something done to its random numbers."""
    return lambda open_, settings: replace(honest(open_, settings), rule=rule, randomness=randomness)


def with_randomness(randomness: Callable[[Randomness], Randomness]) -> Build:
    return with_rule(TokenRule(), randomness)


def uncut(settings: Settings) -> Settings:
    """The temperature stays, top-k, top-p and min-p are forgotten."""
    return settings.without_cuts()


def unwarped(settings: Settings) -> Settings:
    return replace(uncut(settings), temperature=1.0)


def argmax_of(open_: Open, settings: Settings) -> LanguageModel:
    return Changed(open_(settings)[1], certain)


argmax_reported_as_softmax = with_proposer(lambda draft, open_, s: Misreporting(argmax_of(open_, s), draft, s.gamma))
reported_before_the_cuts = with_proposer(lambda draft, open_, s: Misreporting(draft, open_(uncut(s))[1], s.gamma))
reported_row_before = with_proposer(lambda draft, open_, s: Misreporting(draft, RowBefore(open_(s)[1]), s.gamma))
drawn_in_half_precision = with_proposer(lambda draft, open_, s: Misreporting(Changed(draft, halved), open_(s)[1], s.gamma))
unsure_draft_token_dropped = with_proposer(lambda draft, open_, s: Dropping(draft, s.gamma, LEAST))
best_of_drawn = with_proposer(lambda draft, open_, s: BestOfDrawn(draft, DRAWN, BEST))
within_budget = with_proposer(lambda draft, open_, s: BudgetTree(draft, (DRAWN,), "distinct", BEST))  # as many, none dropped
target_unwarped = with_target(lambda target, open_, s: open_(unwarped(s))[0])
target_row_before = with_target(lambda target, open_, s: RowBefore(target))


def greedy_inside_softmax(open_: Open, settings: Settings) -> Components:
    """Only at temperature 0 is this a mistake: argmax wherever something is drawn, softmax wherever something is compared."""
    soft = unwarped(settings)
    target, draft = open_(soft)
    return Components(target, Misreporting(argmax_of(open_, soft), draft, settings.gamma), Greedy())


def siblings(rule: Rule) -> Build:
    """The most likely tokens of the draft as siblings, under another rule."""
    return with_proposer(lambda draft, open_, settings: FixedTree(draft, (SIBLINGS,), "top"), rule)


def greedy_draft(rule: Rule) -> Build:
    """A draft that proposes its most likely token."""
    return with_proposer(lambda draft, open_, settings: DraftModel(argmax_of(open_, settings), settings.gamma), rule)


def typical_acceptance(open_: Open, settings: Settings) -> Components:
    return greedy_draft(TypicalRule(settings.typical_epsilon))(open_, settings)
