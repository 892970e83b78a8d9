"""Which round One round opens with, and that its run is the beginning of the race with the race's times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import TraceError
from specviz.speed.records.passage import Lane
from specviz.web.front.state import load_recorded_race
from specviz.web.hosting import cache
from specviz.web.one_round.opening_run import LEAST, choose_opening_round, copy_times, is_start_of
from tests.helpers import hand_made_traces

REJECTED, BONUS = hand_made_traces.build_story().rounds  # four draft tokens, two accepted and replaced; four accepted
REJECTED = replace(REJECTED, proposals=tuple(replace(one, q=max(one.q, LEAST)) for one in REJECTED.proposals))


def scale_residual(factor: float):
    """The rejected round with so many times the residual of its replacement; the rest of the vocabulary has what is left."""
    probs, token = REJECTED.distributions[2], REJECTED.ending.token
    place, left = probs.tokens.index(token), sum(probs.residual) + probs.rest["residual"]
    residual = tuple(one * factor if n == place else one for n, one in enumerate(probs.residual))
    changed = replace(probs, residual=residual, rest=probs.rest | {"residual": left - sum(residual)})
    return replace(REJECTED, distributions=(*REJECTED.distributions[:2], changed, *REJECTED.distributions[3:]))


def share_of_replacement(round_) -> float:
    probs = round_.distributions[2]
    return probs.residual[probs.tokens.index(round_.ending.token)] / (sum(probs.residual) + probs.rest["residual"])


RARE_DRAFT = replace(REJECTED, proposals=(*REJECTED.proposals[:3], replace(REJECTED.proposals[3], q=0.99 * LEAST)))
NONE_ACCEPTED = replace(REJECTED, accepted_path=())
UNRECORDED = replace(REJECTED, distributions=())


@pytest.mark.parametrize(
    ("rounds", "chosen"),
    (
        ([REJECTED], 0),
        ([REJECTED, REJECTED, REJECTED], 1),
        ([REJECTED, BONUS, REJECTED], 2),
        ([BONUS, NONE_ACCEPTED, REJECTED], 2),
        ([BONUS, RARE_DRAFT, REJECTED], 2),
        ([BONUS, scale_residual(0.1), REJECTED], 2),
        ([BONUS, UNRECORDED, REJECTED], 2),
        ([REJECTED, BONUS, BONUS], 0),
        ([], 0),
    ),
)
def test_the_first_later_round_opens_that_accepts_and_replaces_and_has_no_rare_draw(rounds, chosen):
    assert share_of_replacement(REJECTED) > LEAST > share_of_replacement(scale_residual(0.1))
    assert choose_opening_round(rounds) == chosen


def test_times_are_copied_from_the_text_that_begins_with_the_rounds_and_from_no_other():
    story = hand_made_traces.build_story()
    timed = replace(
        story, rounds=tuple(replace(one, timing={"draft": 0.1 * n}, distributions=()) for n, one in enumerate(story.rounds))
    )
    lane = Lane(timed, (1.0, 2.0))
    start = replace(story, rounds=story.rounds[:1])
    assert [one.timing for one in copy_times(story, lane).rounds] == [one.timing for one in timed.rounds]
    assert copy_times(start, lane).rounds[0].distributions == story.rounds[0].distributions
    assert is_start_of(story.rounds, lane) and not is_start_of((*story.rounds, *story.rounds), lane)
    with pytest.raises(TraceError, match="does not begin"):
        copy_times(replace(story, rounds=story.rounds[::-1]), lane)


def test_the_shipped_run_is_the_beginning_of_the_race_with_its_times():
    recording, race = cache.load_recording(), load_recorded_race().speculative
    assert recording.settings == race.trace.settings and is_start_of(recording.rounds, race)
    assert [one.timing for one in recording.rounds] == [one.timing for one in race.trace.rounds[: len(recording.rounds)]]
    shown = recording.rounds[choose_opening_round(recording.rounds)]
    assert (len(shown.proposals), len(shown.accepted_path), shown.ending.kind) == (3, 1, "residual")
    assert all(shown.timing.get(part) for part in ("draft", "target")), "a round with its own times"
