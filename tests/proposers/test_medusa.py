"""Medusa: heads draft, the rule decides, so 'the distribution of the original model' is kept (Cai et al. 2024, with rejection
sampling in the place of typical acceptance). Heads are random here: bad draft tokens cost speed, never the distribution. On
tables every outcome of the production step is walked; on a tiny random pair the distributions that the heads hand over are held
against fresh passes.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.__main__ import main
from specviz.decoding.engine import decode, sample_target_only, step
from specviz.errors import ModelError, SettingsError
from specviz.evidence.analytic.enumeration import Components, compute_text_tv, enumerate_output, enumerate_target
from specviz.models.attachments import heads as stored
from specviz.models.attachments.folder import ResidualBlock
from specviz.models.attachments.heads import HEADS, WEIGHTS, Heads, load_heads, save_heads
from specviz.models.pairs.catalog import PAIRS, PairEntry
from specviz.models.table import TableModel
from specviz.proposers.base import HiddenStateProposer
from specviz.proposers.medusa import HeadDistributions, build_heads_proposer
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.verification.block import BlockRule
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.draw import draw_tokens
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from specviz.verification.warp import build_one_hot, warp
from tests.helpers.proposer_cases import remove_marks
from tests.helpers.round_cases import enumerate_written
from tests.helpers.toy_tables import RecordingRandomness, model
from tests.helpers.toy_tables import pair as tables

WIDTH, V, COUNT = 4, 3, 3


def build_random_heads(width: int, vocabulary: int, count: int = COUNT, seed: int = 0) -> Heads:
    make = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(*shape, generator=make, dtype=torch.float64)

    blocks = tuple((ResidualBlock(rand(width, width), rand(width)),) for _ in range(count))
    return Heads(blocks, tuple(rand(vocabulary, width) for _ in range(count)))


class Feeling(TableModel):
    """A table that also has a state after every prefix, as a network has one: some vector, the same each time."""

    def compute_features(self, rows):
        dice = [random.Random(repr(row.ids[:-1])) for row in rows]
        return torch.tensor([[one.gauss(0, 1) for _ in range(WIDTH)] for one in dice], dtype=torch.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random heads in the published layout, with output matrices of their own, for the tiny pair's target."""
    place, make = tmp_path_factory.mktemp("heads"), torch.Generator().manual_seed(1)
    save_heads([[(torch.randn(32, 32, generator=make) / 6, torch.randn(32, generator=make))] for _ in range(COUNT)], place)
    own = {f"{k}.1.weight": torch.randn(300, 32, generator=make) / 3 for k in range(COUNT)}
    save_file(load_file(place / WEIGHTS) | own, place / WEIGHTS)
    return place


@pytest.fixture
def allowed_folder(folder, monkeypatch):
    monkeypatch.setattr(stored.HEADS, "allowed", set())
    return stored.HEADS.allow(str(folder))


SHAPES = (  # with the vocabulary of the world
    *(("1-1", "top", 3), ("1-1", "independent", 3), ("2-1", "top", 3)),
    *(("2-1", "independent", 2), ("2-1", "distinct", 2), ("2", "distinct", 3)),
)


def build_world(seed: int, vocabulary: int, settings: Settings) -> tuple[Feeling, HiddenStateProposer]:
    target = model(tables("random", seed, vocabulary, 7)[0], vocabulary, settings, kind=Feeling)
    return target, build_heads_proposer(target, build_random_heads(WIDTH, vocabulary), settings)


@pytest.mark.parametrize("temperature", (0.0, 1.0))
@pytest.mark.parametrize(("shape", "siblings", "vocabulary"), SHAPES)
def test_the_distribution_of_the_text_is_the_targets_whatever_the_heads_draft(shape, siblings, vocabulary, temperature):
    target, proposer = build_world(11, vocabulary, Settings(temperature=temperature, tree=shape, siblings=siblings))
    probs = enumerate_output(Components(target, proposer, TokenRule()), (0, 1), 3)
    assert compute_text_tv(probs, enumerate_target(target, (0, 1), 3)) < 1e-12


def test_a_chain_of_heads_keeps_the_distribution_under_block_verification_too():
    target, proposer = build_world(12, 3, Settings(tree="1-1", siblings="independent"))
    probs = enumerate_output(Components(target, proposer, BlockRule()), (0, 1), 3)
    assert compute_text_tv(probs, enumerate_target(target, (0, 1), 3)) < 1e-12


@pytest.mark.fast_cases(5)
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)], ids="{}".format)
@pytest.mark.parametrize(("shape", "nodes"), (("4", 4), ("2-2", 4), ("2-2", 5), pytest.param("3-2", 5, marks=pytest.mark.slow)))
@pytest.mark.parametrize(
    ("siblings", "rule"),
    (("independent", TokenRule()), ("independent", SequentialRule()), ("distinct", TokenRule()), ("top", TokenRule())),
)
def test_one_round_of_a_tree_of_heads_under_a_budget_has_the_targets_distribution(siblings, rule, shape, nodes, seeds):
    """Every outcome, tables of three tokens. The heads are less sure than random ones would be, so that the budget has a choice."""
    settings, heads, length = (
        Settings(tree=shape, tree_budget=nodes, siblings=siblings),
        build_random_heads(WIDTH, V),
        len(shape) // 2 + 2,
    )
    unsure = replace(heads, outputs=tuple(output / 20 for output in heads.outputs))
    for seed in seeds:
        target, _ = build_world(seed, V, settings)
        probs = enumerate_written(target, build_heads_proposer(target, unsure, settings), rule, (0, 1), length)
        assert compute_text_tv(probs, enumerate_target(target, (0, 1), length)) < 1e-12


def test_the_distribution_below_a_node_is_that_of_the_head_of_its_depth():
    p, _ = tables("random", 13, V, 7)
    target, heads, settings = model(p, V, kind=Feeling), build_random_heads(WIDTH, V), Settings(tree="2-2-1", siblings="top")
    (row,) = rows = [Prefix((0, 1, 2), 0, 9)]
    block = build_heads_proposer(target, heads, settings).propose(rows, PhiloxRandomness(0))
    distributions, by_hand = (
        HeadDistributions(target, heads, settings, COUNT).compute_distributions(rows, block)[0],
        warp(heads.compute_logits(target.compute_features([row])), settings)[0],
    )
    depths = [
        0,
        *([1] * 2),
        *([2] * 4),
        *([2] * 4),
    ]  # below the last level the last head's distribution stands, and nothing is asked
    assert all(torch.equal(probs, by_hand[depth]) for probs, depth in zip(distributions, depths, strict=True))


@pytest.mark.parametrize("nodes", (None, 5))
@pytest.mark.parametrize("siblings", ("top", "independent", "distinct"))
def test_each_draft_token_was_drawn_from_the_very_distribution_that_the_rule_gets(pair, allowed_folder, siblings, nodes):
    settings = Settings(proposer="medusa", heads=allowed_folder, siblings=siblings, tree="3-2", tree_budget=nodes)
    _, proposer = open_proposer(pair, settings)
    rows = [Prefix(pair.encode("Once upon a time"), 0, 9, number) for number in range(4)]
    block = proposer.propose(rows, PhiloxRandomness(5))
    assert block.source == "medusa" and all(len(tokens) == (nodes or 9) for tokens in block.tokens)
    for tokens, distributions, numbers in zip(block.tokens, block.q, block.u_draft, strict=True):
        for token, probs, u in zip(tokens, distributions, numbers, strict=True):
            if siblings == "top":
                assert u is None and torch.equal(probs, build_one_hot(torch.tensor(token), 300))
            else:
                assert int(draw_tokens(probs, torch.tensor(u, dtype=torch.float64))) == token


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("shape", ("1-1-1", "3-2-1"))
def test_along_a_run_the_heads_read_the_states_of_fresh_passes(pair, allowed_folder, shape):
    """Cached = uncached after every round, whatever was accepted: q of the first draft token against the library's own forward pass."""
    settings = Settings(proposer="medusa", heads=allowed_folder, siblings="independent", tree=shape, max_new_tokens=60)
    target, proposer = open_proposer(pair, settings)
    heads, ids, kept = HEADS.find(pair.name, pair.target, allowed_folder, load_heads), pair.encode("Once upon a time"), set()
    for round_ in decode(target, proposer, TokenRule(), PhiloxRandomness(3), settings, ids):
        if round_.proposals:
            with torch.inference_mode():
                out = pair.target(input_ids=torch.tensor([ids[:-1]]), use_cache=False, output_hidden_states=True)
            fresh = warp(heads.compute_logits(out.hidden_states[-1][:, -1]), settings)[0]
            levels = [0 if one.parent < 0 else None for one in round_.proposals]
            for node, one in enumerate(round_.proposals):
                levels[node] = 0 if one.parent < 0 else levels[one.parent] + 1
                assert (round_.full.q[node] - fresh[levels[node]]).abs().sum() < 1e-4
        ids += round_.committed
        kept.add(len(round_.accepted_path))
    assert len(kept) > 1, "rounds that keep and rounds that refuse were met"


def test_reading_states_costs_no_pass_of_the_target_after_the_first_round(pair, allowed_folder, monkeypatch):
    settings = Settings(proposer="medusa", heads=allowed_folder, tree="2-2", max_new_tokens=40)
    target, proposer = open_proposer(pair, settings)
    passes, inner = [], target.compute_logits
    monkeypatch.setattr(target, "compute_logits", lambda *given: passes.append(given) or inner(*given))
    rounds = list(decode(target, proposer, TokenRule(), PhiloxRandomness(3), settings, pair.encode("Once upon a time")))
    assert len(passes) == len(rounds) + 1


def test_greedy_with_heads_is_target_only_and_no_random_number_is_used_twice(pair, allowed_folder):
    for temperature in (0.0, 1.0):
        settings = Settings(proposer="medusa", heads=allowed_folder, temperature=temperature, max_new_tokens=50)
        target, proposer = open_proposer(pair, settings)
        ids, randomness = pair.encode("Once upon"), RecordingRandomness(PhiloxRandomness(4))
        text = [t for r in decode(target, proposer, TokenRule(), randomness, settings, ids) for t in r.committed]
        assert not randomness.reused
        if temperature == 0.0:
            alone = sample_target_only(pair.open(settings)[0], PhiloxRandomness(9), settings, ids)
            assert text == [t for r in alone for t in r.committed]


def test_a_row_of_one_token_has_no_state_to_read_and_its_neighbors_do_not_mind(pair, allowed_folder):
    settings = Settings(proposer="medusa", heads=allowed_folder, tree="2", siblings="distinct")
    ids = pair.encode("Once upon a time")
    rows = [Prefix((5,), 0, 9, 0), Prefix(ids, 0, 9, 1), Prefix((6,), 0, 9, 2)]
    target, proposer = open_proposer(pair, settings)
    block = proposer.propose(rows, PhiloxRandomness(1))
    assert [len(tokens) for tokens in block.tokens] == [0, 2, 0] and block.q[0] is block.q[2] is None
    rounds = step(rows, target, proposer, TokenRule(), PhiloxRandomness(1))
    assert [len(round_.proposals) for round_ in rounds] == [0, 2, 0] and all(round_.committed for round_ in rounds)
    target, proposer = open_proposer(pair, settings)
    assert proposer.propose(rows[:1], PhiloxRandomness(1)) == replace(build_empty_tree(1), source="medusa")
    (alone,) = step([rows[1]], target, proposer, TokenRule(), PhiloxRandomness(1))
    assert [one.token for one in alone.proposals] == [one.token for one in rounds[1].proposals]


def test_a_pair_of_the_catalog_brings_its_heads_and_others_are_told_how_to(pair, folder, monkeypatch):
    entry = PairEntry("test", "Test", "", "", is_shipped=False, note="", heads=str(folder))
    monkeypatch.setitem(PAIRS, "test", entry)
    assert len(HEADS.find("test", pair.target, "", load_heads)) == COUNT
    assert HEADS.find("test", pair.target, "", load_heads) is HEADS.find("test", pair.target, "", load_heads), "read once"
    with pytest.raises(ModelError, match="no Medusa heads of its own: name a folder with --heads DIR"):
        open_proposer(pair, Settings(proposer="medusa"))


def test_heads_for_another_backbone_are_refused_with_a_sentence_and_nothing_is_stored(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(stored.HEADS, "allowed", set())
    save_heads([[(torch.zeros(48, 48), torch.zeros(48))]], tmp_path)
    settings = Settings(proposer="medusa", heads=stored.HEADS.allow(str(tmp_path)))
    with pytest.raises(ModelError, match=r"made for another target: 0.0.linear.* 48.* needs 32"):
        open_proposer(pair, settings)
    assert str(tmp_path) not in stored.HEADS.read.get(pair.target, {})
    with pytest.raises(ModelError, match="holds no Medusa heads"):
        stored.HEADS.allow(str(tmp_path / "nothing"))


def test_a_folder_is_given_on_the_command_line_only(pair, folder, monkeypatch):
    monkeypatch.setattr(stored.HEADS, "allowed", set())
    with pytest.raises(SettingsError, match=r"heads must be left out .* or a folder named on the command line"):
        open_proposer(pair, Settings(proposer="medusa", heads=str(folder)))
    settings, said = Settings.from_query({"heads": str(folder), "gamma": "3"})
    assert settings == Settings(gamma=3) and "must be given on the command line" in said[0]


def test_decode_takes_heads_by_their_folder(pair_folders, folder, tmp_path, capsys):
    """Greedy, so that both texts are the target's."""
    places = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--prompt", "Once upon", "--temperature", "0"]
    texts = []
    for more in ([], ["--proposer", "medusa", "--heads", str(folder), "--tree", "2-1"]):
        assert main(["decode", *places, "--max-new-tokens", "12", *more]) == 0
        texts.append(capsys.readouterr().out)
    assert remove_marks(texts[0]) == remove_marks(texts[1]) and "proposer medusa" in texts[1]
    assert main(["decode", *places, "--proposer", "medusa", "--heads", str(tmp_path)]) == 2
    assert "holds no Medusa heads: config.json and medusa_lm_head.safetensors are needed" in capsys.readouterr().err
    assert main(["decode", *places, "--proposer", "medusa"]) == 2
    assert "has no Medusa heads of its own: name a folder with --heads DIR" in capsys.readouterr().err


def test_a_tree_deeper_than_the_heads_is_refused_and_the_usual_one_is_cut(pair, allowed_folder):
    with pytest.raises(SettingsError, match="tree must be at most 3 levels deep, one for each head, got '1-1-1-1'"):
        open_proposer(pair, Settings(proposer="medusa", heads=allowed_folder, tree="1-1-1-1"))
    target = pair.open(Settings())[0]
    assert build_heads_proposer(target, load_heads_of_two(allowed_folder, pair), Settings()).tree.widths == (3, 2)


def load_heads_of_two(folder, pair) -> Heads:
    heads = load_heads(stored.Path(folder), pair.target)
    return Heads(heads.blocks[:2], heads.outputs[:2])
