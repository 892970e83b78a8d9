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
        ([ConfirmationRun(1, 190, 190, 60, 0.0005), ConfirmationRun(8, 190, 190, 52, 0.02)], "whether it needs a batch."),
        ([ConfirmationRun(1, 190, 190, 52, 0.02), ConfirmationRun(8, 190, 190, 60, 0.0005)], "whether it needs a batch."),
        ([ALONE], "or it depends on something that this request does not hold."),
        ([ConfirmationRun(1, 400, 0, 0, 1.0)], "does not hold."),
    ),
)
def test_what_the_runs_show_is_said(runs, ending):
    sentence = describe_confirmation(runs, 0.2)
    assert sentence.startswith("Run again, where the model says 20.0%.") and sentence.endswith(ending)
    assert ("no sample has the prefix" in sentence) == (runs[0].reached == 0)
