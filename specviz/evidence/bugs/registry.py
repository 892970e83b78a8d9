"""The list of mutants: what each mistake (mistakes.py) does to the decoder, and the distributions of its stated distance."""

from __future__ import annotations

from dataclasses import fields

from specviz.evidence.bugs import builders as build
from specviz.evidence.bugs import randomness, rules
from specviz.evidence.bugs.bug import TOY_P, TOY_Q, Build, Mutant, Table, TablePair
from specviz.evidence.bugs.published import MISTAKES, Mistake
from specviz.verification.block import BlockRule
from specviz.verification.token import TokenRule

THIRD = 1 / 3


def turning(*probs: float) -> Table:
    """A table whose distribution is turned round by the last token, so that neighboring positions differ."""

    def table(ids: tuple[int, ...]) -> tuple[float, ...]:
        turn = ids[-1] if ids else 0
        return probs[turn:] + probs[:turn]

    return table


TURNING = (turning(0.6, 0.3, 0.1), turning(0.2, 0.5, 0.3))


def _mutant(name: str, made: Build, control: Build, toy: TablePair = (TOY_P, TOY_Q)) -> Mutant:
    words = {one.name: getattr(MISTAKES[name], one.name) for one in fields(Mistake)}
    return Mutant(**words, build=made, control=control, toy=toy)


_ROWS = (
    _mutant("R1", build.argmax_reported_as_softmax, build.honest),
    _mutant("R2", build.reported_before_the_cuts, build.honest),
    _mutant("R3", build.greedy_inside_softmax, build.honest),
    _mutant("R4", build.target_unwarped, build.honest),
    _mutant("R5", build.with_rule(rules.FromTarget()), build.honest),
    _mutant("R6", build.with_randomness(randomness.draft_again), build.honest),
    _mutant("R7", build.with_randomness(randomness.same_at_every_position), build.honest),
    _mutant("R8", build.unsure_draft_token_dropped, build.honest),
    _mutant(
        "R9", build.with_rule(rules.ByListPlace()), build.honest, toy=((0.4, 0.0, 0.3, 0.3), (0.5, 0.2, 0.3, 0.0))
    ),  # as a cut leaves them
    _mutant("R10", build.with_rule(rules.NotStrict()), build.honest, toy=((0.0, 1.0), (1.0, 0.0))),
    _mutant("R11", build.target_row_before, build.honest, toy=TURNING),
    _mutant("R16", build.drawn_in_half_precision, build.honest),
    _mutant("R18", build.with_randomness(randomness.StuckAtZero), build.honest),
    _mutant("R20", build.siblings(rules.DrawPerPath()), build.siblings(TokenRule())),
    _mutant("R21", build.typical_acceptance, build.greedy_draft(TokenRule())),
    _mutant("best-drawn", build.best_of_drawn, build.within_budget),
    _mutant(
        "R35",
        build.with_rule(BlockRule(), randomness.by_position_alone),
        build.with_rule(BlockRule()),
        toy=((THIRD, 2 * THIRD), (2 * THIRD, THIRD)),
    ),
    _mutant("gate", build.reported_row_before, build.honest, toy=TURNING),
    _mutant("pass-temperature", build.with_rule(rules.OtherTemperature(build.COLDER)), build.honest),
    _mutant("kept-rest", build.with_rule(rules.KeepsTheRest()), build.honest, toy=TURNING),
    _mutant("no-bonus", build.with_rule(rules.NoBonus()), build.honest),
)

MUTANTS: dict[str, Mutant] = {mutant.id: mutant for mutant in _ROWS}
