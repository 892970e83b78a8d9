"""Which run One round opens with: each sentence of the rule leaves a run out, and fluency is the mean log probability of what was written."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest

from specviz.records import ASSETS
from specviz.trace import Trace
from specviz.web.one_round.opening_run import MIN_DRAFT_PROBABILITY, compute_fluency, explain_unsuitable
from tests import traces


def build_run() -> Trace:
    """A first round with an acceptance and a rejection, then one that ends with a bonus token; five tokens of two rounds."""
    story = traces.build_story()
    rejected, bonus = story.rounds[0], next(one for one in story.rounds if one.ending.kind == "bonus")
    bonus = replace(
        bonus, proposals=bonus.proposals[:1], accepted_path=(0,), distributions=(bonus.distributions[0], bonus.distributions[-1])
    )
    return replace(story, rounds=(replace_u(replace_q(rejected, 0.2)), replace_q(bonus, 0.2)))


def replace_u(one, accepted=(0.3, 0.8), rejected=(0.9, 0.5)):
    """The round with these pairs (u, threshold) of its accepted and of its rejected draft tokens."""
    pairs = {True: accepted, False: rejected, None: (None, None)}
    return replace(
        one,
        proposals=tuple(replace(each, u=pairs[each.accepted][0], threshold=pairs[each.accepted][1]) for each in one.proposals),
    )


def replace_q(one, q):
    return replace(one, proposals=tuple(replace(decision, q=q) for decision in one.proposals))


def replace_text(trace, *ids):
    """The same rounds, with these tokens as their text."""
    left, rounds = iter(ids), []
    for one in trace.rounds:
        path = dict(zip(one.accepted_path, left, strict=False))
        proposals = tuple(replace(decision, token=path.get(i, decision.token)) for i, decision in enumerate(one.proposals))
        rounds.append(replace(one, proposals=proposals, ending=replace(one.ending, token=next(left))))
    return replace(trace, rounds=tuple(rounds))


def test_a_run_that_fits_is_kept():
    assert explain_unsuitable(build_run()) == "" == explain_unsuitable(replace_text(build_run(), 111, 112, 113, 114, 115))


def test_each_sentence_of_the_rule_leaves_a_run_out():
    trace = build_run()
    first, last = trace.rounds
    cases = {
        "accepted and a rejected": replace(trace, rounds=(last, first)),
        "rejected draft token of its first round": replace(trace, rounds=(replace_q(first, 0.04), last)),
        "first draft token is not accepted": replace(trace, rounds=(replace_u(first, accepted=(0.3, 0.96)), last)),
        "is not a word": replace(trace, pieces={**trace.pieces, first.proposals[1].token: b",".hex()}),
        "accepts no draft token": replace(trace, rounds=(replace_u(first, accepted=(0.3, 0.95)), last)),
        "nearer than 0.1": replace(trace, rounds=(replace_u(first, rejected=(0.55, 0.5)), last)),
        "bonus": replace(trace, rounds=(first, first)),
        "tokens per pass": replace(
            trace, rounds=(first, *[last] * 1, *[replace(last, accepted_path=(), ending=last.ending)] * 3)
        ),
        "in a row stand in it twice": replace(trace, prompt_ids=trace.prompt_ids + trace.output_ids[:2]),
        "a token stands in it more than": replace_text(trace, 111, 112, 111, 113, 111),
        "probability below": replace(trace, rounds=(first, replace_q(last, MIN_DRAFT_PROBABILITY / 2))),
    }
    for words, one in cases.items():
        assert words in explain_unsuitable(one), (words, explain_unsuitable(one))
    edge = replace(trace, rounds=(first, replace_q(last, MIN_DRAFT_PROBABILITY)))
    assert explain_unsuitable(edge) == "", "the least itself is allowed"


def test_fluency_is_the_mean_log_probability_of_what_was_written():
    trace = build_run()
    first, last = trace.rounds
    place = max(i for i, decision in enumerate(first.proposals) if decision.accepted is False)
    probs = first.distributions[place]
    expected = [first.proposals[i].p for i in first.accepted_path] + [probs.p[probs.tokens.index(first.ending.token)]]
    expected += [last.proposals[0].p, last.distributions[-1].p[last.distributions[-1].tokens.index(last.ending.token)]]
    assert compute_fluency(trace) == pytest.approx(sum(map(log, expected)) / len(expected))
    assert 0.0 < exp(compute_fluency(trace)) <= 1.0


def test_the_shipped_opening_keeps_the_rule():
    trace = Trace.from_json((ASSETS / "traces" / "opening.json").read_text(encoding="utf-8"))
    assert explain_unsuitable(trace) == ""
