"""The walked tree: its numbers are the trace's, its mask is the ancestors', its steps are the checks, in order."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from specviz.decoding.run import record_run
from specviz.figures.components import load_component, read_modules
from specviz.figures.numbers import format_probability
from specviz.settings import Settings
from specviz.speed.records.methods import DRAFTING_METHODS, choose_distribution
from specviz.trace import Decision, Ending, Round, Trace
from specviz.web.drafting_methods.state import load_recorded_comparisons
from specviz.web.drafting_methods.tree import GAP, build_mask, build_tree, lay_out_tree, list_by_branch, order_checks
from specviz.web.one_round.words import list_checked
from tests.helpers.fresh_process import run_fresh

ROOT = Path(__file__).resolve().parents[3]
BASE = choose_distribution(Settings(prompt="Once upon a time", max_new_tokens=24, gamma=3), "1")
ROWS = ("draft", "block", "tree-top", "tree", "several", "several-kseq", "ngram", "adversarial", "oracle", "typical")


@pytest.fixture(scope="module")
def traces(pair) -> list[Trace]:
    """Every round of every row as a trace of its own."""
    found = []
    for key in ROWS:
        whole = record_run(pair, DRAFTING_METHODS[key].build_settings(BASE), bars=6)
        found += [replace(whole, rounds=(one,)) for one in whole.rounds]
    return found


def test_every_number_is_the_traces(traces):
    for trace in traces:
        (round_,), payload = trace.rounds, build_tree(trace)
        assert len(payload["nodes"]) == len(round_.proposals)
        for node, one, probs in zip(payload["nodes"], round_.proposals, round_.distributions, strict=False):
            assert (node["p"], node["q"], node["u"], node["threshold"]) == (one.p, one.q, one.u, one.threshold)
            *bars, rest = node["bars"]
            shown = [i for i, token in enumerate(probs.tokens) if probs.p[i] or probs.q[i] or token == one.token]
            for name in ("p", "q", "overlap", "residual"):
                assert [bar[name] for bar in bars] == [getattr(probs, name)[i] for i in shown]
            assert rest == {"glyphs": None, "mine": False} | probs.rest
            assert sum(bar["mine"] for bar in bars) == 1


def test_fates_are_the_rounds(traces):
    for trace in traces:
        (round_,), payload = trace.rounds, build_tree(trace)
        accepted = {i for i, node in enumerate(payload["nodes"]) if node["status"] == "accepted"}
        unchecked = {i for i, node in enumerate(payload["nodes"]) if node["status"] == "unchecked"}
        assert accepted == set(round_.accepted_path)
        assert unchecked == set(range(len(round_.proposals))) - set(list_checked(round_))
        assert (payload["ending"] is None) is (round_.ending.token is None)


def test_the_mask_shows_each_draft_token_its_ancestors_and_itself(traces):
    for trace in traces:
        parents = [one.parent for one in trace.rounds[0].proposals]
        for node, row in enumerate(build_mask(parents)):
            seen, at = set(), node
            while at != -1:
                seen, at = seen | {at}, parents[at]
            assert {other for other, sees in enumerate(row) if sees} == seen
    assert build_mask([-1, -1, 0]) == [[1, 0, 0], [0, 1, 0], [1, 0, 1]]


def test_no_two_chips_stand_in_one_place_and_children_stand_one_column_on(traces):
    for trace in traces:
        payload = build_tree(trace)
        chips = [*payload["nodes"], *([payload["ending"]] if payload["ending"] else [])]
        assert len({(one["col"], one["line"]) for one in chips}) == len(chips)
        for one in chips:
            parent = payload["nodes"][one["parent"]]["col"] if one["parent"] >= 0 else -1
            assert one["col"] == parent + 1 < payload["columns"]
            assert 0.0 <= one["line"] <= payload["lines"] - 0.5 - GAP / 2 + 1e-9, "in a line, or in the middle of a gap"


def test_a_tree_of_two_levels_stands_as_drawn_by_hand():
    places, lines = lay_out_tree([-1, -1, 0, 0], end=3, has_ending=True)
    below = 1.5 + GAP / 2  # the middle of the gap below the first branch
    assert [(one["col"], one["line"]) for one in places] == [(0, 0.0), (0, 2.0 + GAP), (1, 0.0), (1, 1.0), (2, below)]
    assert lines == pytest.approx(3 + 2 * GAP)


@pytest.mark.parametrize("end", (-1, 0, 2))
def test_branches_are_evenly_apart_wherever_the_ending_comes(end):
    """Three branches of two leaves, as of the larger tree: nothing moves for the ending, which stands in a gap below its own branch."""
    parents = [-1, -1, -1, 0, 0, 1, 1, 2, 2]
    places, _ = lay_out_tree(parents, end, has_ending=True)
    assert places[:-1] == lay_out_tree(parents, end, has_ending=False)[0]
    starts = [places[node]["line"] for node in (0, 1, 2)]
    assert starts[1] - starts[0] == pytest.approx(starts[2] - starts[1]) == pytest.approx(2 + GAP)
    branch = 2 if end == -1 else end
    assert starts[branch] + 1 < places[-1]["line"] < starts[branch] + 2 + GAP


def test_a_chain_has_its_bonus_token_behind_it_and_a_replacement_below():
    assert lay_out_tree([-1, 0], end=1, has_ending=True) == (
        [{"col": 0, "line": 0.0}, {"col": 1, "line": 0.0}, {"col": 2, "line": 0.0}],
        1.0,
    )
    assert lay_out_tree([-1, 0], end=0, has_ending=True)[0][-1] == {"col": 1, "line": 1.0}


def test_the_bars_after_the_text_have_every_drafted_token_that_met_the_target():
    """Of the recorded larger tree. The mass that is added is taken from the rest, so both distributions still sum to 1."""
    for choice in ("1", "top-p .9"):
        trace = load_recorded_comparisons()[choice].find_row("tree-wide").trace
        round_, payload = trace.rounds[-1], build_tree(trace)
        *bars, rest = payload["first"]
        roots = [one for one in round_.proposals if one.parent == -1 and (one.accepted is None or one is round_.proposals[0])]
        assert sum(bar["mine"] for bar in bars) >= len(roots)
        for name in ("p", "q"):
            assert sum(bar[name] for bar in bars) + rest[name] == pytest.approx(1.0, abs=1e-6)
        drawn, found = 0.0, {str(bar["glyphs"]): bar for bar in bars}
        for node, one in zip(payload["nodes"], round_.proposals, strict=True):
            if len(roots) == 3 and one in roots and (bar := found.get(str(node["glyphs"]))):
                assert bar["q"] == pytest.approx(one.q * (1.0 - drawn), abs=1e-6), "a sibling is drawn without those before it"
                drawn += bar["q"]
        sizes = [max(bar["p"], bar["q"]) for bar in bars]
        assert sizes == sorted(sizes, reverse=True)


def test_rows_of_the_mask_stand_branch_by_branch():
    assert list_by_branch([-1, -1, 0, 1, 0]) == [0, 2, 4, 1, 3]


def test_a_first_child_stands_level_with_its_parent(traces):
    for trace in traces:
        payload = build_tree(trace)
        first = {node["parent"]: node for node in reversed(payload["nodes"])}
        assert all(child["line"] == payload["nodes"][parent]["line"] for parent, child in first.items() if parent >= 0)


def test_a_replacement_is_drawn_from_bars_that_sum_to_1_with_the_random_number_of_the_record(traces):
    drawn = 0
    for trace in traces:
        end, payload = trace.rounds[0].ending, build_tree(trace)
        if end.kind != "residual" or trace.settings["rule"] == "typical":
            continue
        bars, said = payload["ending"]["bars"], payload["steps"][-2]["sentence"]
        assert sum(bar["drawn"] for bar in bars) == pytest.approx(1.0, abs=1e-12)
        (mine,) = (bar for bar in bars if bar["mine"])
        assert (
            mine["drawn"] > 0.0
            and payload["ending"]["u"] == end.u
            and said.endswith(f"The random number of this draw is {format_probability(end.u)}.")
        )
        drawn += 1
    assert drawn > 5


def test_what_a_rejection_leaves_is_said_with_its_sum(traces):
    for trace in traces:
        payload = build_tree(trace)
        for step in payload["steps"]:
            if step["kind"] == "residual":
                node = payload["nodes"][step["node"]]
                assert node["left"] == pytest.approx(sum(bar["residual"] for bar in node["bars"]), abs=1e-12)
                assert f"{format_probability(node['left'])} remains" in step["sentence"]


def test_every_checked_draft_token_is_a_step_once_and_siblings_come_in_their_order(traces):
    for trace in traces:
        round_ = trace.rounds[0]
        order = order_checks(round_)
        assert sorted(order) == list_checked(round_)
        payload = build_tree(trace)
        assert [step["node"] for step in payload["steps"] if step["kind"] == "uniform"] == order
        assert [step["kind"] for step in payload["steps"]][-2:] == ["end", "tally"]
        if trace.settings["rule"] == "block":  # checks its whole chain
            assert order == list_checked(round_)
            continue
        for before, after in pairwise(order):
            same = round_.proposals[before].parent == round_.proposals[after].parent
            assert after > before if same else round_.proposals[before].accepted


def test_sentences_of_the_token_rule_state_uniform_threshold_and_verdict(traces):
    for trace in (one for one in traces if one.settings["rule"] == "token"):
        round_ = trace.rounds[0]
        for step in build_tree(trace)["steps"]:
            if step["kind"] == "uniform":
                one = round_.proposals[step["node"]]
                assert format_probability(one.p) in step["sentence"] and step["sentence"].endswith(
                    "accepted." if one.accepted else "rejected."
                )
                assert re.search(r"accepted with probability \S+\. The random number u is ", step["sentence"])


def test_a_rejected_siblings_residual_is_what_the_next_one_meets(pair):
    """Two siblings: where the first is rejected, the second is checked against its residual, and the payload says so."""
    whole = record_run(pair, DRAFTING_METHODS["tree-top"].build_settings(BASE), bars=6)
    seconds = 0
    for one in whole.rounds:
        payload = build_tree(replace(whole, rounds=(one,)))
        for step in payload["steps"]:
            if step["kind"] != "residual":
                continue
            node = step["node"]
            later = [
                n
                for n in range(node + 1, len(payload["nodes"]))
                if payload["nodes"][n]["parent"] == payload["nodes"][node]["parent"]
            ]
            left = sum(bar["residual"] for bar in payload["nodes"][node]["bars"])
            if later and payload["nodes"][later[0]]["u"] is not None:
                seconds += 1
                assert payload["nodes"][later[0]]["met"] == "left"
                for bar in payload["nodes"][node]["bars"]:
                    again = [b for b in payload["nodes"][later[0]]["bars"] if b["glyphs"] == bar["glyphs"] is not None]
                    for b in again:
                        assert b["p"] == pytest.approx(bar["residual"] / left, abs=1e-9)
    assert seconds, "no second sibling was checked: choose another seed"


def test_typical_acceptance_names_no_u_and_says_where_the_text_leaves_the_distribution(traces):
    for trace in (one for one in traces if one.settings["rule"] == "typical"):
        said = " ".join(step["sentence"] for step in build_tree(trace)["steps"])
        assert "random number u is" not in said
        assert "leaves the target’s distribution" in said or trace.rounds[0].ending.token is None


def test_draft_tokens_after_the_end_of_a_text_are_not_checked():
    """The rule accepted three; the second one ended the text, and the one after it counts no more."""
    accepted = [Decision(token, node - 1, "draft", 0.5, 0.6, 0.1, 0.2, 1.0, True) for node, token in enumerate((4, 0, 7))]
    one = Round(2, tuple(accepted), (0, 1), Ending("eos", None, None))
    payload = build_tree(Trace({"rule": "token"}, (1, 2), (one,), ""))
    assert [node["status"] for node in payload["nodes"]] == ["accepted", "accepted", "unchecked"] and payload["ending"] is None
    assert [step["node"] for step in payload["steps"] if step["kind"] == "uniform"] == [0, 1]
    assert (
        payload["steps"][-1]["sentence"]
        == "2 tokens from 1 target pass. The pass also read 1 draft token that the rule did not reach."
    )


def test_javascript_computes_no_probability():
    """Contract: numbers come from the trace. No division or product of p, q or residual stands in the tree's script."""
    source = "\n".join(read_modules("drafting_methods/tree/main.js").values())
    own = "\n".join(
        text for name, text in read_modules("drafting_methods/tree/main.js").items() if name.startswith("drafting_methods/")
    )
    assert not re.search(r"\.(p|q|residual|overlap)\s*[*/]|[*/]\s*\w+\.(p|q|residual|overlap)\b|Math\.random", own)
    assert "innerHTML" not in source and (sheet := load_component("drafting_methods/tree")["css"]).count("{") == sheet.count("}")


def test_the_payload_needs_no_torch():
    code = (
        "import sys; from specviz.web.drafting_methods.state import load_recorded_comparisons; from specviz.web.drafting_methods.tree import build_tree\n"
        "rows = [row for one in load_recorded_comparisons().values() for row in one.rows if row.trace]\n"
        "assert len(rows) > 20; [build_tree(row.trace) for row in rows]; assert 'torch' not in sys.modules"
    )
    done = run_fresh(code)
    assert done.returncode == 0, done.stderr
