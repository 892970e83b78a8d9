"""Mistakes of published decoders fail the very check that the real decoder passes (rows R1, R2, R4, R5, R11 of docs/reference/mistakes.md, and the
gate that is off by one), except where their settings hide them.
"""

import pytest

from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.mistakes.rules import TargetReplacementRule
from specviz.models.cache.decoder import CachedModel
from specviz.settings import Settings
from specviz.verification.token import TokenRule
from tests.evidence.analytic.test_analytic import HELD_OUT, Decoder, build_decoder, is_within_rounding


class OneRowOff(CachedModel):
    """After a refusal the last column that is kept is that of the rejected draft token."""

    def _rollback(self):
        for row in self._rows:
            if row.columns and row.columns[-1] + 1 < self._width:
                row.columns[-1] += 1
        super()._rollback()


class OneTooFew(CachedModel):
    """One refused column stays after each refusal, and everything later attends to it. One row only."""

    def _rollback(self):
        needed = self._rows[0].columns[-1] + 1 if self._rows[0].columns else 0
        if not needed:
            self._reset()
        elif needed + 1 < self._width:
            self._cache.crop(needed + 1 - self._width)
            self._width = needed + 1

    def _build_mask(self, *_):
        return None


class FromTargetInside(TokenRule):
    """R5 where only ``verify`` shows it, and the rule's own methods are right."""

    def verify(self, rows, block, p, randomness):
        return TargetReplacementRule().verify(rows, block, p, randomness)


class NextTarget(TokenRule):
    def verify(self, rows, block, p, randomness):
        return super().verify(rows, block, p.roll(-1, 1), randomness)


def apply_published(row: str):
    """A row of the catalog put in a decoder's place."""

    def change(one):
        made = MISTAKES[row].build(one.open, one.settings)
        one.target, one.proposer, one.rule = made.target, made.proposer, made.rule

    return change


def replace_cache(kind):
    def change(one):
        one.target = kind(one.networks[0], one.settings)

    return change


def replace_rule(rule):
    def change(one):
        one.rule = rule

    return change


CASES = {
    "R1 an argmax draft token judged by its softmax": (apply_published("R1"), {}),
    "R2 q before top-k": (apply_published("R2"), {"top_k": 8}),
    "R2 q before top-p": (apply_published("R2"), {"top_p": 0.7}),
    "R2 q before min-p": (apply_published("R2"), {"min_p": 0.2}),
    "R4 the target without top-k": (apply_published("R4"), {"top_k": 8}),
    "R4 the target without min-p": (apply_published("R4"), {"min_p": 0.2}),
    "R4 the target at another temperature": (apply_published("R4"), {"temperature": 0.7}),
    "R5 the replacement from p": (apply_published("R5"), {}),
    "R5 the replacement from p, inside verify": (replace_rule(FromTargetInside()), {}),
    "R9 the residual by place in a list": (apply_published("R9"), {"top_k": 8}),
    "R16 the draft token drawn in half precision": (apply_published("R16"), {}),
    "q of the position before": (apply_published("gate"), {}),
    "p of the position before": (apply_published("R11"), {}),
    "p of the next position, inside verify": (replace_rule(NextTarget()), {}),
    "R11 a rejected draft token in the cache where a kept token was": (replace_cache(OneRowOff), {}),
    "R11 a cache rolled back one row too few": (replace_cache(OneTooFew), {}),
}


LONG = (  # the same mistake at another cut; R16 and R5 from outside: their draws are in tests/evidence/mistakes/test_mistakes.py
    "R2 q before top-p",
    "R2 q before min-p",
    "R4 the target without min-p",
    "R4 the target at another temperature",
    "R5 the replacement from p",
    "R16 the draft token drawn in half precision",
)


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in CASES])
def test_the_mistake_fails_this_very_check(name):
    change, warper = CASES[name]
    one = build_decoder(warper)
    change(one)
    found = one.checked(3)
    print(f"\n{name}: worst {found.worst:.1e}, median {found.median:.1e}")
    assert not is_within_rounding(found) and found.worst > (1e-4 if "R16" in name else 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_mistake_fails_on_the_shipped_pair(name, storybook):
    change, warper = CASES[name]
    one = Decoder(Settings(gamma=3, **warper), (storybook.target, storybook.draft))
    change(one)
    found = one.checked(30, storybook.encode(HELD_OUT))
    print(f"\n{name}: worst {found.worst:.1e}, median {found.median:.1e}")
    assert not is_within_rounding(found) and found.worst > (1e-4 if "R16" in name else 0.01)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(("row", "warper"), (("R2", {}), ("R4", {}), ("R1", {"temperature": 0.0}), ("R5", {"temperature": 0.0})))
def test_a_mistake_passes_where_its_settings_hide_it(row, warper):
    """Without cuts raw and warped are one distribution, and at T = 0 all is certain: so what fails above is the mistake itself."""
    one = build_decoder(warper)
    apply_published(row)(one)
    assert is_within_rounding(one.checked(6))
