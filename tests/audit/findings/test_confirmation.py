"""A reproduction is run before it is printed, one request at a time and several, and says which of the two shows the fault."""

from __future__ import annotations

import pytest

from specviz.audit.findings.confirmation import ConfirmationRun, describe_confirmation

ALONE = ConfirmationRun(1, 400, 200, 40, 0.9)
BATCHED = ConfirmationRun(8, 400, 200, 90, 1e-12)


@pytest.mark.parametrize(
    ("runs", "ending"),
    (
        ([BATCHED], "It shows again."),
        ([ALONE, BATCHED], "so the fault needs a batch."),
        ([ConfirmationRun(1, 400, 200, 90, 1e-12), ConfirmationRun(8, 400, 200, 40, 0.9)], "only with one request at a time."),
        ([ALONE], "did not show again: the fault may depend on something that this request does not hold."),
        ([ConfirmationRun(1, 400, 0, 0, 1.0)], "does not hold."),
    ),
)
def test_what_the_runs_show_is_said(runs, ending):
    sentence = describe_confirmation(runs, 0.2)
    assert sentence.startswith("Run again, where the model says 20.0%.") and sentence.endswith(ending)
    assert ("no sample has the prefix" in sentence) == (runs[0].reached == 0)
