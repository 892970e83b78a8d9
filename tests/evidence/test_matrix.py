"""'Exactness comes from the acceptance rule, not from the proposer': every proposer under every rule, on a tiny random pair.

All samples are fixed by their seed. A correct matrix has a wrong cell with probability 0.001 over seeds; the seed here is the default.
"""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from specviz.__main__ import main
from specviz.cli import matrix as command
from specviz.decoding.engine import decode
from specviz.decoding.method_checks import build_rule
from specviz.evidence import matrix as matrix_module
from specviz.evidence.analytic.enumeration import Components, compute_text_tv, enumerate_output, enumerate_target
from specviz.evidence.decoder import MEMOIZED
from specviz.evidence.matrix import (
    COLUMNS,
    LENGTH,
    CellEvaluator,
    Matrix,
    choose_lines_and_rules,
    compute_unwritten_mass,
    derive_seed,
    evaluate_matrix,
    list_lines,
    open_session,
)
from specviz.jobs.remote import open_pool
from specviz.jobs.tasks import PairRef
from specviz.models.attachments import eagle as stored_eagle
from specviz.models.attachments import heads as stored
from specviz.models.attachments.heads import save_heads
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.loading import load_pair
from specviz.proposers.draft import DraftModel
from specviz.proposers.registry import PROPOSERS
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.registry import RULES
from specviz.verification.token import TokenRule
from specviz.verification.typical import TypicalRule
from specviz.verification.warp import build_one_hot
from tests.helpers.toy_tables import model
from tests.helpers.toy_tables import pair as tables
from tests.jobs.fake_workers import list_pids
from tests.proposers.test_eagle import save_random_head

TV = 0.6  # detected by 61 samples
PROMPT = "Once upon a time. Once upon"
QUESTION = Settings(prompt=PROMPT)


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Random heads for the tiny target."""
    place, make = tmp_path_factory.mktemp("heads"), torch.Generator().manual_seed(1)
    save_heads([[(torch.randn(32, 32, generator=make) / 6, torch.randn(32, generator=make))] for _ in range(2)], place)
    return stored.HEADS.allow(str(place))


@pytest.fixture(scope="module")
def attachment_folders(heads, tmp_path_factory):
    """Heads, an EAGLE head and an exit for the tiny target."""
    eagle = stored_eagle.EAGLES.allow(save_random_head(tmp_path_factory.mktemp("eagle") / "head"))
    return {"heads": heads, "eagle": eagle, "exit_layer": 1}


@pytest.fixture(scope="module")
def matrix(pair, attachment_folders):
    return evaluate_matrix(pair, Settings(prompt=PROMPT, **attachment_folders), TV)


def select_cells(found, **wanted) -> list:
    return [cell for cell in found.cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def test_every_cell_of_the_matrix_is_as_it_should_be(matrix):
    assert [cell for cell in matrix.cells if not cell.right] == [] and matrix.right
    assert len(matrix.cells) == len(list_lines()) * len(RULES) * len(COLUMNS)
    sampled = [cell for cell in matrix.cells if cell.verdict != "blank"]
    assert all(cell.exercised is not None and cell.exercised.proposed for cell in sampled if cell.line != "none")
    assert {"No cache was rolled back." in cell.sentence for cell in sampled if cell.column == "T = 0"} == {True, False}, (
        "a part that no sample reached is named"
    )


def test_every_exact_rule_is_consistent_in_every_column_and_would_have_shown_the_distance(matrix):
    for rule in ("token", "block", "k-seq"):
        for column in COLUMNS:
            found = [cell for cell in select_cells(matrix, rule=rule, column=column) if cell.verdict != "blank"]
            assert found and {cell.verdict for cell in found} == {"consistent"}
            assert all(cell.n == 64 if column == "T = 0" else cell.seen <= TV for cell in found)
    judged = {cell.line for cell in select_cells(matrix, rule="token", verdict="consistent", column="T = 1")}
    assert judged == {*list_lines()} - {"draft-gain"}, "every proposer of the gallery is tested under the token rule"


def test_typical_acceptance_is_rejected_wherever_its_distribution_differs_and_coincides_where_it_does_not(matrix):
    for column, verdict in (("T = 0", "coincides"), ("T = 1", "rejected"), ("top-p .9", "rejected")):
        found = [cell for cell in select_cells(matrix, rule="typical", column=column) if cell.verdict != "blank"]
        assert len(found) >= 12 and {cell.verdict for cell in found} == {verdict}
        assert all((cell.lost == 0) is (verdict == "coincides") for cell in found)


def test_a_blank_cell_says_why(matrix):
    blanks = {(cell.line, cell.rule): cell.sentence for cell in select_cells(matrix, verdict="blank", column="T = 1")}
    for key, why in (
        (("tree-top", "block"), "block judges chains"),
        (("several", "block"), "block judges chains"),
        (("tree-distinct", "k-seq"), "independent drafts from one distribution"),
        (("draft", "k-seq"), "k-seq is the token rule"),
        (("none", "typical"), "nothing to verify"),
        (("draft-gain", "token"), "no past to adapt to"),
    ):
        assert why in blanks.pop(key)
    assert ("medusa-tree", "block") in blanks and ("tree-independent", "k-seq") not in blanks


def test_heads_that_a_pair_lacks_leave_their_lines_blank_with_the_reason(pair):
    found = evaluate_matrix(pair, QUESTION, TV, ("medusa-chain", "token"))
    assert {cell.verdict for cell in found.cells} == {"blank"} and "no Medusa heads of its own" in found.cells[0].sentence


class FromTarget(TokenRule):
    """A published mistake: the replacement is drawn from p instead of the residual."""

    def compute_replacement(self, p, q):
        return p


class SecondTokenRule(TokenRule):
    """Ends each round with the second most probable token."""

    def compute_bonus(self, p):
        return build_one_hot(p.topk(2).indices[-1], p.shape[-1])


class FalselyExactRule(TypicalRule):
    exact = True


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("rule", "column"),
    ((FromTarget(), "T = 1"), (SecondTokenRule(), "T = 0"), (SecondTokenRule(), "T = 1"), (FalselyExactRule(0.09), "top-p .9")),
)
def test_a_wrong_rule_turns_red(pair, monkeypatch, rule, column):
    monkeypatch.setitem(RULES, "token", replace(RULES["token"], build=lambda settings: rule))
    cell = CellEvaluator(pair, QUESTION, 0.1).compute_cell((column, "draft", "token"))
    assert cell.verdict == "rejected" and not cell.right and not Matrix(QUESTION, 0.1, (cell,)).right


def test_what_a_lossy_rule_never_writes_is_a_lower_bound_of_its_distance():
    """Five tables of 4 tokens in sevenths: the rule's distribution by enumeration, the mass of its missing texts by counting them."""
    rule, eos_token_ids, found = TypicalRule(1.0), frozenset({3}), []
    for seed in range(5):
        p, q = tables("random", seed, 4, 7)
        target = model(p, 4)
        truth = enumerate_target(target, (0,), LENGTH, eos_token_ids)
        probs = enumerate_output(Components(target, DraftModel(model(q, 4), 2), rule, eos_token_ids=eos_token_ids), (0,), LENGTH)
        never = [
            text
            for text in truth
            if any(rule.find_impossible_tokens(target.compute_probs((0, *text[:i])))[text[i]] for i in range(len(text)))
        ]
        found.append(compute_unwritten_mass(target, (0,), rule, eos_token_ids))
        assert found[-1] == pytest.approx(sum(truth[text] for text in never), abs=1e-12)
        assert not set(never) & set(probs) and compute_text_tv(probs, truth) >= found[-1] - 1e-12
    assert sum(lost > 0.1 for lost in found) >= 3


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("line", "rule"),
    (
        pytest.param("draft", "token", marks=pytest.mark.slow),
        ("draft", "block"),
        ("tree-distinct", "token"),
        ("several", "k-seq"),
    ),
)
def test_the_samples_of_a_cell_are_those_of_the_engine_with_its_caches(pair_folders, line, rule):
    """In float64, number by number. No distribution after the second token affects either token, so none is needed."""
    pair = load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="float64")
    settings = Settings(rule=rule, gamma=LENGTH, max_new_tokens=LENGTH + 1, seed=5, **list_lines()[line])
    ids = pair.encode(PROMPT)
    memoized = MemoizedPair(pair, longest=len(ids) + LENGTH - 1)
    session = open_session(memoized, settings, ids, open_proposer(memoized, settings)[1], build_rule(settings), 35)
    tokens = session.draw(MEMOIZED).tokens
    target, proposer = open_proposer(pair, settings)
    for draw, text in enumerate(tokens.tolist()):
        shorter = replace(settings, max_new_tokens=settings.max_new_tokens - draw % 2)
        rounds = decode(target, proposer, build_rule(settings), PhiloxRandomness(5), shorter, ids, pair.eos_token_ids, draw=draw)
        written = [token for round_ in rounds for token in round_.committed]
        assert text == [*written, *[-1] * LENGTH][:LENGTH]


def test_a_cell_is_the_same_whichever_others_are_asked_for_and_no_two_share_random_numbers(pair, heads, matrix):
    some = evaluate_matrix(pair, Settings(prompt=PROMPT, heads=heads), TV, ("ngram", "block", "several"))
    assert {(cell.line, cell.rule) for cell in some.cells} == {("ngram", "block"), ("several", "block")}
    assert set(some.cells) <= set(matrix.cells)
    seeds = {derive_seed(7, line, rule, column) for line in list_lines() for rule in RULES for column in COLUMNS}
    assert len(seeds) == len(matrix.cells) and max(seeds) < 2**63


def test_the_number_of_samples_follows_from_the_distance_and_from_the_whole_matrix(pair):
    one, half = (CellEvaluator(pair, Settings(prompt=PROMPT), tv) for tv in (0.02, 0.01))
    assert 3.9 < half.plan.n / one.plan.n < 4.1 and one.plan.cells >= 16
    assert one.alpha * len(list_lines()) * len(RULES) * len(COLUMNS) == pytest.approx(0.001)


def test_every_proposer_has_a_line_and_names_that_are_not_known_are_a_sentence():
    assert {more["proposer"] for more in list_lines().values()} == {*PROPOSERS}
    assert choose_lines_and_rules(["tree", "token"]) == (["tree-top", "tree-independent", "tree-distinct"], ["token"])
    assert choose_lines_and_rules(["block"]) == ([*list_lines()], ["block"])
    with pytest.raises(matrix_module.SettingsError, match=r"only must be among draft, .*medusa-tree.*k-seq.*, got 'magic'"):
        choose_lines_and_rules(["magic"])


# The command ---------------------------------------------------------------------------------------------------------------


def run_matrix(folders, *more: str) -> int:
    return main(["matrix", "--target", str(folders[0]), "--draft", str(folders[1]), "--prompt", PROMPT, *more])


def test_the_command_gives_the_whole_record_as_json(pair_folders, pair, monkeypatch, capsys):
    monkeypatch.setattr(command, "WORKERS", 1)
    assert run_matrix(pair_folders, "--only", "several", "k-seq", "--min-tv", "0.6", "--format", "json") == 0
    record, alone = json.loads(capsys.readouterr().out), evaluate_matrix(pair, QUESTION, 0.6, ("several", "k-seq"))
    assert record["cells"] == json.loads(json.dumps(alone.to_record()["cells"])) and len(record["cells"]) == 3
    assert record["schema"] == "specviz-matrix-2" and record["right"] and record["models"]["pair"] == pair.name


def test_the_command_reads_heads_from_a_folder_that_is_named(pair_folders, heads, monkeypatch, capsys):
    monkeypatch.setattr(command, "WORKERS", 1)
    monkeypatch.setattr(stored.HEADS, "allowed", set())
    assert (
        run_matrix(pair_folders, "--only", "medusa-tree", "token", "--min-tv", "0.6", "--heads", heads, "--format", "json") == 0
    )
    assert {cell["line"] for cell in json.loads(capsys.readouterr().out)["cells"]} == {"medusa-tree"}


def test_a_worker_finds_what_is_found_without_workers(pair_folders, heads, matrix, monkeypatch):
    monkeypatch.setattr(stored.HEADS, "allowed", set())
    settings = Settings(pair="|".join(map(str, pair_folders)), device="cpu", prompt=PROMPT, heads=heads)
    there = PairRef.from_pair(load_pair(settings.pair, "cpu"), settings)
    cell = matrix_module.CellsTask(there, settings, TV).prepare()
    for line in ("draft", "medusa-tree"):
        assert cell(matrix_module.MatrixCellKey("T = 1", line, "token"), lambda share: None) in matrix.cells


def test_a_cell_does_not_depend_on_the_cells_before_it(pair, attachment_folders, matrix):
    """To the last bit: another worker computes other cells before it, and so has other contexts beside each other in a pass."""
    worker = CellEvaluator(pair, Settings(prompt=PROMPT, **attachment_folders), TV)
    some = [cell for cell in matrix.cells if cell.rule == "token" and cell.column == "T = 1"]
    assert [
        worker.compute_cell(matrix_module.MatrixCellKey(cell.column, cell.line, cell.rule)) for cell in reversed(some)
    ] == some[::-1]


def summarize_cell(cell) -> tuple:
    return cell.line, cell.rule, cell.column, cell.verdict, cell.right, cell.n, cell.seen, cell.lost


class ReversedExecutor:
    """An executor whose cells come in the opposite order."""

    def run_all(self, task, items):
        evaluate = task.prepare()
        return ((item, evaluate(item, lambda share: None)) for item in reversed(items))


def test_cells_that_come_in_any_order_make_the_same_matrix(pair_folders, pair):
    settings = Settings(pair="|".join(map(str, pair_folders)), device="cpu", prompt=PROMPT)
    only, seen = ("several", "k-seq"), []
    shared = evaluate_matrix(pair, settings, TV, only, lambda share, name: seen.append((share, name)), ReversedExecutor())
    assert shared == evaluate_matrix(pair, settings, TV, only) and len(shared.cells) == 3
    assert [share for share, _ in seen] == sorted(share for share, _ in seen) and seen[-1] == (1.0, "several, k-seq, T = 0")


@pytest.mark.slow  # tests/jobs/test_workers.py kills workers of another task
def test_processes_that_share_the_work_find_the_same_though_one_is_killed(pair_folders, pair):
    settings = Settings(pair="|".join(map(str, pair_folders)), device="cpu", prompt=PROMPT)
    only, seen, killed = ("draft", "several"), [], []
    with open_pool(None, "cpu", processes=2) as executor:

        def on_progress(share, name):
            seen.append(share)
            if not killed:
                killed.append(list_pids(executor)[0])
                os.kill(killed[0], signal.SIGKILL)

        shared = evaluate_matrix(pair, settings, TV, only, on_progress, executor)
    alone = evaluate_matrix(pair, settings, TV, only)
    assert killed and [summarize_cell(cell) for cell in shared.cells] == [summarize_cell(cell) for cell in alone.cells]
    for cell, same in zip(shared.cells, alone.cells, strict=True):
        # Which contexts share a pass depends on what a process has computed before: float32 rounds differently.
        assert (cell.p_value is None, cell.distance is None) == (same.p_value is None, same.distance is None)
        assert np.allclose([cell.p_value or 0, cell.distance or 0], [same.p_value or 0, same.distance or 0], rtol=1e-3, atol=0)
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_the_table_shows_every_cell_and_a_wrong_one_is_named_and_exits_with_1(pair_folders, monkeypatch, capsys):
    monkeypatch.setattr(command, "WORKERS", 1)
    assert run_matrix(pair_folders, "--only", "draft", "--min-tv", "0.6") == 0
    shown = capsys.readouterr()
    head, rules, *body = shown.out.splitlines()
    assert [head.index(title) for title in ("T = 0", "T = 1", "top-p 0.9")] and rules.split() == [*RULES] * 3
    assert body[0].split() == ["draft", *["exact", "exact", ".", "same"], *["exact", "exact", ".", "lossy"] * 2]
    assert "T = 1: typical never writes texts with total probability 0." in shown.out and "k-seq is the token rule" in shown.out
    assert "\x1b" not in shown.out, "no colors where the output is no terminal"
    monkeypatch.setitem(RULES, "token", replace(RULES["token"], build=lambda settings: FromTarget()))
    assert run_matrix(pair_folders, "--only", "draft,token", "--min-tv", "0.3") == 1
    assert "WRONG draft, token, T = 1: Rejected: " in capsys.readouterr().out


def test_on_a_terminal_the_words_have_colors_and_the_same_places(matrix):
    plain, painted = (command.format_matrix(matrix.to_record(), color) for color in (False, True))
    assert "\x1b[32mexact" in painted and "\x1b[31mlossy" in painted
    assert [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", painted).splitlines()] == plain.splitlines()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--only", "magic"), "only must be among draft"),
        (("--min-tv", "0.001"), "min-tv must be a number from 0.005 to 1, got 0.001"),
        (("--samples", "5"), "There is no option --samples"),
        (("--temperature", "0"), "There is no option --temperature"),
        (("--out", "somewhere"), "There is no option --out"),
    ],
)
def test_bad_input_is_one_sentence(pair_folders, capsys, more, said):
    assert run_matrix(pair_folders, *more) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_the_old_spelling_names_the_new_command(capsys):
    assert main(["verify", "--only", "draft"]) == 2
    assert "--only of verify is a command now: specviz matrix --only NAME." in capsys.readouterr().err
