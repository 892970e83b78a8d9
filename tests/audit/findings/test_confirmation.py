"""A reproduction is run before it is printed, one request at a time and several, and says which of the two shows the fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.audit.findings.confirmation import ConfirmationRun, _test_counts, describe_confirmation

ALONE = ConfirmationRun(1, 400, 200, 40, 0.9)
BATCHED = ConfirmationRun(8, 400, 200, 90, 1e-12)
NO_PREFIX = ConfirmationRun(1, 400, 0, 0, 1.0)


@pytest.mark.parametrize(
    ("runs", "ending"),
    (
        ([BATCHED], "It shows again."),
        ([ALONE, BATCHED], "so the fault needs a batch."),
        ([ConfirmationRun(1, 400, 200, 90, 1e-12), ConfirmationRun(8, 400, 200, 40, 0.9)], "only with one request at a time."),
        ([ConfirmationRun(1, 190, 190, 60, 0.0005), ConfirmationRun(8, 190, 190, 52, 0.02)], "whether it needs a batch."),
        ([ConfirmationRun(1, 190, 190, 52, 0.02), ConfirmationRun(8, 190, 190, 60, 0.0005)], "whether it needs a batch."),
        ([ALONE], "or it depends on something that this request does not hold."),
        ([NO_PREFIX], "So this does not say whether it shows again."),
        ([NO_PREFIX, BATCHED], "It shows again. The two runs were not compared, so this does not say whether it needs a batch."),
        ([NO_PREFIX, replace(ALONE, concurrency=8)], "does not hold."),
    ),
)
def test_what_the_runs_show_is_said(runs, ending):
    sentence = describe_confirmation(runs, 0.2)
    assert sentence.startswith("Run again, where the model says 20.0%.") and sentence.endswith(ending)
    assert ("not tested, no sample has the prefix" in sentence) == (runs[0].reached == 0) and "p = 1." not in sentence


@pytest.mark.parametrize(
    ("runs", "ending"),
    (
        ([(60, 190, 1, 190)], "It shows again."),
        ([(60, 190, 40, 190), (60, 190, 1, 190)], "so the fault needs a batch."),
        ([(40, 190, 10, 190), (30, 190, 12, 190)], "whether it needs a batch."),
        ([(60, 190, 0, 0), (60, 190, 1, 190)], "The two runs were not compared, so this does not say whether it needs a batch."),
        ([(60, 190, 0, 0)], "So this does not say whether it shows again."),
        ([(20, 190, 18, 190)], "does not hold."),
    ),
)
def test_what_the_runs_of_two_servers_show_is_said(runs, ending):
    """Hits and samples with the prefix, of the first server and of the second."""
    made = [
        _test_counts(1 + 7 * number, [(200, reached, hits), (200, others, again)], 0.0)
        for number, (hits, reached, again, others) in enumerate(runs)
    ]
    sentence = describe_confirmation(made, 0.0)
    assert sentence.startswith("Run again on both servers. One request at a time: ") and sentence.endswith(ending)
    assert ("no sample of one server has the prefix" in sentence) == (runs[0][3] == 0)
    assert f"{runs[-1][0]} of 190 (" in sentence or len(runs) == 1
