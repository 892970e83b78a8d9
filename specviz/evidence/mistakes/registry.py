"""Every published mistake as a decoder, and what is reported as one and is exact: which argument of ``decode`` it replaces, its nearest decoder without the mistake, and its tables.

``MISTAKES["R5"].build(pair.open, settings)`` gives target, proposer, rule and randomness, for a pair of networks or for tables alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from math import exp, log
from typing import cast

from torch import Tensor

from specviz.evidence.analytic.enumeration import Components, Text, Wrapper, compute_text_tv, enumerate_output, enumerate_target
from specviz.evidence.mistakes import components, rules
from specviz.evidence.mistakes.components import (
    BestOfDrawnProposer,
    CertainProposer,
    ChangedModel,
    DroppingProposer,
    KeptStateModel,
    MisreportingProposer,
    OtherRowModel,
    PenaltyTwiceModel,
    RememberingDraft,
    RowBeforeModel,
    concentrate_on_argmax,
    round_probs_to_bfloat16,
)
from specviz.evidence.mistakes.published import REPORTED, PublishedMistake
from specviz.models.base import LanguageModel
from specviz.models.table import TableModel
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.trees.budget import BudgetTree
from specviz.proposers.trees.fixed import FixedTree
from specviz.settings import Settings
from specviz.verification.block import BlockRule
from specviz.verification.rule import Rule
from specviz.verification.token import TokenRule
from specviz.verification.typical import TypicalRule

TOY_P, TOY_Q = (0.40, 0.30, 0.20, 0.07, 0.03), (0.15, 0.45, 0.25, 0.05, 0.10)  # as in docs/reference/mistakes.md
SIBLINGS = 3
DRAWN, BEST = 2, 1  # best of drawn: of two siblings the likelier one is proposed
COLDER = 0.5  # the temperature of a verifying pass over the requested one
LENIENCE = 2.0  # factor of p / q with which a lenient rule accepts
PENALTY = log(2.0)  # the frequency penalty that penalty-twice counts again: at temperature 1 it halves a token
OTHER_TEXT = (1,)  # the text of the other request in draft-row
LEAST = 0.2  # R8: a drawn token whose own q is below this is discarded

Open = Callable[[Settings], tuple[LanguageModel, LanguageModel]]  # target and draft of a request; a LoadedPair's ``open`` is one
Table = Callable[[Text], Sequence[float]]
Probs = Sequence[float] | Table  # one distribution everywhere, or one for each prefix
TablePair = tuple[Probs, Probs]  # of target and draft


Build = Callable[[Open, Settings], Components]  # calls its first argument once for each source, so that each has its own cache


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mistake(PublishedMistake):
    """A mistake as a decoder. ``control`` builds the nearest decoder without it; ``toy`` has the distributions of its stated distance."""

    build: Build
    control: Build
    toy: TablePair = (TOY_P, TOY_Q)

    @property
    def toy_tv(self) -> float:
        """Its distance on the toy distributions, under its own settings and length; computed once."""
        return _compute_toy_tv(self)


@cache
def _compute_toy_tv(mistake: Mistake) -> float:
    return enumerate_tv(mistake.build, open_tables(*mistake.toy), mistake.settings)


def enumerate_tv(build: Build, open_pair: Open, settings: Settings, prompt: Sequence[int] = (0,)) -> float:
    """Total variation between the exact distributions of what a decoder on table models writes and of what its target writes."""
    made = build(open_pair, settings)
    probs = enumerate_output(made, prompt, settings.max_new_tokens)
    return compute_text_tv(probs, enumerate_target(open_pair(settings)[0], prompt, settings.max_new_tokens))


def open_tables(p: Probs, q: Probs) -> Open:
    """Target and draft from two tables, opened as a pair is: warped by the settings. A plain distribution holds after every prefix."""
    target, draft = (probs if callable(probs) else partial(_repeat, probs) for probs in (p, q))
    vocabulary = len(target(()))

    def open_pair(settings: Settings) -> tuple[LanguageModel, LanguageModel]:  # a table is frozen, and so only read as a model
        models = (TableModel(table, vocabulary, settings) for table in (target, draft))
        return cast(tuple[LanguageModel, LanguageModel], tuple(models))

    return open_pair


def _repeat(probs: Sequence[float], ids: Text) -> Sequence[float]:
    return probs


def make_turning_table(*probs: float, place: int = 1) -> Table:
    """A table whose distribution is rotated by the last token, or another one (``place`` from the end), so that neighbors differ."""

    def table(ids: Text) -> Sequence[float]:
        turn = ids[-place] if len(ids) >= place else 0
        return probs[turn:] + probs[:turn]

    return table


def with_proposer(make: Callable[[LanguageModel, Open, Settings], Proposer], rule: Rule = TokenRule()) -> Build:  # noqa: B008
    """The target with the proposer that ``make`` gives for the draft, and with this rule."""

    def build(open_pair: Open, settings: Settings) -> Components:
        target, draft = open_pair(settings)
        return Components(target, make(draft, open_pair, settings), rule)

    return build


build_correct = with_proposer(lambda draft, open_pair, settings: DraftModel(draft, settings.gamma))


def with_target(change: Callable[[LanguageModel, Open, Settings], LanguageModel]) -> Build:
    """The correct decoder, except that the rule receives the distributions of another target."""

    def build(open_pair: Open, settings: Settings) -> Components:
        made = build_correct(open_pair, settings)
        return replace(made, target=change(made.target, open_pair, settings))

    return build


def with_rule(rule: Rule = TokenRule(), randomness: Wrapper = lambda randomness: randomness) -> Build:  # noqa: B008
    """The correct decoder with another rule, and other random numbers."""
    return lambda open_pair, settings: replace(build_correct(open_pair, settings), rule=rule, randomness=randomness)


def drop_warpers(settings: Settings) -> Settings:
    """The settings without temperature, top-k, top-p and min-p."""
    return settings.without_cuts(temperature=1.0)


def build_argmax_model(open_pair: Open, settings: Settings) -> LanguageModel:
    """The draft, with all probability on its most likely token."""
    return ChangedModel(open_pair(settings)[1], concentrate_on_argmax)


def mix_greedy_and_softmax(open_pair: Open, settings: Settings) -> Components:
    """Argmax wherever a token is drawn, softmax wherever one is compared: a mistake at temperature 0 only."""
    soft = drop_warpers(settings)
    target, draft = open_pair(soft)
    proposer = MisreportingProposer(build_argmax_model(open_pair, soft), draft, settings.gamma)
    return Components(target, proposer, rules.GreedyEndingRule())


def propose_siblings(rule: Rule) -> Build:
    """The most likely tokens of the draft as siblings, under another rule."""
    return with_proposer(lambda draft, open_pair, settings: FixedTree(draft, (SIBLINGS,), "top"), rule)


def propose_greedily(rule: Rule) -> Build:
    """A draft that proposes its most likely token."""
    return with_proposer(lambda draft, open_pair, s: DraftModel(build_argmax_model(open_pair, s), s.gamma), rule)


def count_penalty_twice(target: LanguageModel, open_pair: Open, settings: Settings) -> LanguageModel:
    """The target, which penalizes the draft tokens of a round once more."""
    return PenaltyTwiceModel(target, exp(-PENALTY / settings.temperature))


def build_other_row(draft: LanguageModel) -> LanguageModel:
    """The draft in a request that has just begun."""
    return OtherRowModel(draft, lambda row, depth: OTHER_TEXT)


def keep_rejected_token(open_pair: Open, settings: Settings) -> Components:
    """A draft that proposes its most likely token, and a target whose state keeps it where it was rejected."""
    target, _ = open_pair(settings)
    drafts = [build_argmax_model(open_pair, settings) for _ in range(2)]
    return Components(KeptStateModel(target, drafts[0]), RememberingDraft(drafts[1], settings.gamma), TokenRule())


def _report(make: Callable[[LanguageModel, Open, Settings], tuple[LanguageModel, LanguageModel]]) -> Build:
    """A proposer that draws from one model and reports another: ``make`` gives both."""
    return with_proposer(lambda draft, open_pair, s: MisreportingProposer(*make(draft, open_pair, s), s.gamma))


def _halve_temperature(probs: Tensor) -> Tensor:
    return components.change_temperature(probs, COLDER)


THIRD = 1 / 3
TURNING = make_turning_table(0.6, 0.3, 0.1), make_turning_table(0.2, 0.5, 0.3)
TURNING_LATE = make_turning_table(0.6, 0.3, 0.1, place=2), TURNING[1]


def _build_mistake(name: str, build: Build, control: Build = build_correct, toy: TablePair = (TOY_P, TOY_Q)) -> Mistake:
    words = {one.name: getattr(REPORTED[name], one.name) for one in fields(PublishedMistake)}
    return Mistake(**words, build=build, control=control, toy=toy)


_ROWS = (
    _build_mistake("R1", _report(lambda draft, open_pair, s: (build_argmax_model(open_pair, s), draft))),
    _build_mistake("R2", _report(lambda draft, open_pair, s: (draft, open_pair(s.without_cuts())[1]))),
    _build_mistake("R3", mix_greedy_and_softmax),
    _build_mistake("R4", with_target(lambda target, open_pair, s: open_pair(drop_warpers(s))[0])),
    _build_mistake("R5", with_rule(rules.TargetReplacementRule())),
    _build_mistake("R6", with_rule(randomness=components.reuse_draft_numbers)),
    _build_mistake("R7", with_rule(randomness=components.reuse_acceptance_numbers)),
    _build_mistake("R8", with_proposer(lambda draft, open_pair, s: DroppingProposer(draft, s.gamma, LEAST))),
    _build_mistake("R9", with_rule(rules.ListResidualRule()), toy=((0.4, 0.0, 0.3, 0.3), (0.5, 0.2, 0.3, 0.0))),  # as after a cut
    _build_mistake("R10", with_rule(rules.NonStrictRule()), toy=((0.0, 1.0), (1.0, 0.0))),
    _build_mistake("R11", with_target(lambda target, open_pair, s: RowBeforeModel(target)), toy=TURNING),
    _build_mistake("R16", _report(lambda draft, open_pair, s: (ChangedModel(draft, round_probs_to_bfloat16), open_pair(s)[1]))),
    _build_mistake("R18", with_rule(randomness=components.ZeroAcceptanceRandomness)),
    _build_mistake("R20", propose_siblings(rules.DrawPerPathRule()), propose_siblings(TokenRule())),
    _build_mistake(
        "R21", lambda open_pair, s: propose_greedily(TypicalRule(s.typical_epsilon))(open_pair, s), propose_greedily(TokenRule())
    ),
    _build_mistake(
        "best-drawn",
        with_proposer(lambda draft, open_pair, s: BestOfDrawnProposer(draft, DRAWN, BEST)),
        with_proposer(lambda draft, open_pair, s: BudgetTree(draft, (DRAWN,), "distinct", BEST)),  # as many, none dropped
    ),
    _build_mistake(
        "R35",
        with_rule(BlockRule(), components.address_by_position),
        with_rule(BlockRule()),
        toy=((THIRD, 2 * THIRD), (2 * THIRD, THIRD)),
    ),
    _build_mistake("gate", _report(lambda draft, open_pair, s: (draft, RowBeforeModel(open_pair(s)[1]))), toy=TURNING),
    _build_mistake("pass-temperature", with_rule(rules.OtherTemperatureRule(COLDER))),
    _build_mistake("kept-rest", with_rule(rules.KeepAfterRejectionRule()), toy=TURNING),
    _build_mistake("no-bonus", with_rule(rules.NoBonusRule())),
    _build_mistake("one-hot-residual", with_rule(rules.OneHotResidualRule())),
    _build_mistake("rejecting-number", with_rule(randomness=components.reuse_rejecting_numbers)),
    _build_mistake("lenience", with_rule(rules.LenientRule(LENIENCE))),
    _build_mistake("row-after-rejected", with_rule(rules.RowAfterRejectedRule()), toy=TURNING),
    _build_mistake("greedy-bonus", with_rule(rules.GreedyBonusRule())),
    _build_mistake("first-unverified", with_rule(rules.FirstUnverifiedRule())),
    _build_mistake("one-uniform", with_rule(randomness=components.share_acceptance_number)),
    _build_mistake(
        "draft-settings", _report(lambda draft, open_pair, s: (draft, ChangedModel(open_pair(s)[1], _halve_temperature)))
    ),
    _build_mistake("draft-row", _report(lambda draft, open_pair, s: (draft, build_other_row(open_pair(s)[1]))), toy=TURNING),
    _build_mistake("penalty-twice", with_target(count_penalty_twice)),
    _build_mistake("no-rollback", keep_rejected_token, propose_greedily(TokenRule()), toy=TURNING_LATE),
)

MISTAKES: dict[str, Mistake] = {mistake.id: mistake for mistake in _ROWS}
_EXACT = (
    _build_mistake("same-token", with_rule(rules.SameTokenRule())),
    _build_mistake("certain-draft", with_proposer(lambda draft, open_pair, s: CertainProposer(draft, s.gamma))),
)
VARIANTS = MISTAKES | {one.id: one for one in _EXACT}  # all that go by an id
