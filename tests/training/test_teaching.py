"""Distillation from a frozen target to a draft, heads and an early exit: what is minimized, what is stored, what is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.errors import DamagedModelError, ModelError, TrainingError
from specviz.models.attachments.eagle import load_eagle
from specviz.models.attachments.exits import load_exit
from specviz.models.attachments.folder import CONFIG
from specviz.models.attachments.heads import WEIGHTS, load_heads, save_heads
from specviz.training import loop, losses, pair_training
from specviz.training.corpus import END_OF_TEXT
from specviz.training.loop import Schedule
from specviz.training.losses import (
    DIVERGENCES,
    DistillationLoss,
    EagleLoss,
    ExitLoss,
    HeadsLoss,
    average_divergence,
    compute_total_variation,
    unroll_two_steps,
)
from specviz.training.students import TrainableEagle, TrainableExit, TrainableHeads
from tests.helpers.tiny_pairs import TEXT, build_tiny_model

P, Q = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.2, 0.5, 0.3]])


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """No compiler in tests: it takes longer than these runs."""
    monkeypatch.setattr(loop.shutil, "which", lambda name: None)


@pytest.mark.parametrize(("name", "value"), [("forward-kl", 0.2392782), ("reverse-kl", 0.2180118), ("tv", 0.3)])
def test_a_divergence_is_its_formula(name, value):
    assert DIVERGENCES[name](P.log(), Q.log()).item() == pytest.approx(value, rel=1e-5)
    assert DIVERGENCES[name](P.log(), P.log()).item() == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_lesson_is_the_mean_divergence_of_the_two_models_distributions(name, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", 7)
    teacher, student = build_tiny_model(60, seed=1), build_tiny_model(60, seed=2).to(torch.bfloat16)
    ids = torch.randint(0, 60, (2, 11), generator=torch.Generator().manual_seed(0))
    loss_of = DistillationLoss(teacher, average_divergence(DIVERGENCES[name]))
    loss = loss_of(student, ids)
    distributions = [
        torch.log_softmax(model(ids[:, :-1]).logits.float(), -1).flatten(0, 1) for model in (loss_of.teacher, student)
    ]
    assert loss.item() == pytest.approx(DIVERGENCES[name](*distributions).mean().item(), rel=1e-4)
    loss.backward()
    assert student.model.embed_tokens.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in loss_of.teacher.parameters())


def test_fresh_heads_say_what_the_target_says_and_learn_what_it_says_later():
    teacher = build_tiny_model(60, seed=1)
    ids = torch.randint(0, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    loss_of, heads = HeadsLoss(teacher), TrainableHeads(32, count=2, layers=1).to(torch.bfloat16)
    hidden = loss_of.teacher.model(input_ids=ids).last_hidden_state
    assert torch.equal(heads(hidden[0], 1), hidden[0])
    probs = torch.log_softmax(loss_of.teacher.lm_head(hidden).float(), -1)
    parts = [-(probs[:, k:].exp() * probs[:, :-k]).sum(-1).mean().item() for k in (1, 2)]
    loss = loss_of(heads, ids)
    assert loss.item() == pytest.approx((parts[0] + 0.8 * parts[1]) / 1.8, rel=2e-3)
    loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in heads.parameters())


def test_a_fresh_exit_is_the_targets_last_norm_and_learns_what_the_target_says_there():
    teacher = build_tiny_model(60, layers=3, seed=1)
    ids = torch.randint(0, 60, (2, 11), generator=torch.Generator().manual_seed(0))
    loss_of, learner = (
        ExitLoss(teacher, average_divergence(compute_total_variation)),
        TrainableExit(teacher.model.norm, 2, blocks=1).to(torch.bfloat16),
    )
    out = loss_of.teacher(input_ids=ids[:, :-1], output_hidden_states=True)
    early = loss_of.teacher.lm_head(loss_of.teacher.model.norm(out.hidden_states[2]))
    p, q = (torch.log_softmax(logits.float(), -1).flatten(0, 1) for logits in (out.logits, early))
    loss = loss_of(learner, ids)
    assert loss.item() == pytest.approx(compute_total_variation(p, q).mean().item(), rel=1e-2)
    loss.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in learner.parameters())
    assert all(parameter.grad is None for parameter in loss_of.teacher.parameters())


def test_a_draft_head_learns_states_and_distributions_in_two_steps():
    """The second step reads the head's own state for the latest token and the target's before it; by hand, column by column."""
    teacher = build_tiny_model(60, seed=1)
    ids = torch.randint(0, 60, (2, 8), generator=torch.Generator().manual_seed(0))
    head = TrainableEagle(teacher.config)
    states, embedded = teacher.model(input_ids=ids).last_hidden_state, teacher.model.embed_tokens(ids[:, 1:])
    first, second = unroll_two_steps(head, embedded, states[:, :-1])
    for column in range(1, ids.shape[1] - 1):
        own = torch.cat([states[:, :column], first[:, column - 1 : column]], 1)
        assert torch.allclose(head(embedded[:, : column + 1], own)[0][:, -1], second[:, column], atol=1e-5)
    loss_of, learner = EagleLoss(teacher), TrainableEagle(teacher.config).to(torch.bfloat16)
    loss_of(learner, ids).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in learner.parameters())
    assert all(parameter.grad is None for parameter in loss_of.teacher.parameters())


def test_the_loss_of_a_draft_head_is_smooth_l1_of_states_and_cross_entropy_of_distributions(monkeypatch):
    monkeypatch.setattr(losses, "CHUNK", 5)
    teacher = build_tiny_model(60, seed=1)
    ids = torch.randint(0, 60, (2, 8), generator=torch.Generator().manual_seed(0))
    loss_of, head = EagleLoss(teacher), TrainableEagle(teacher.config).to(torch.bfloat16)
    states, embedded = loss_of.teacher.model(input_ids=ids).last_hidden_state, loss_of.teacher.model.embed_tokens(ids[:, 1:])
    p = torch.softmax(loss_of.teacher.lm_head(states[:, 1:]).float(), -1)
    wanted = 0.0
    for made in unroll_two_steps(head, embedded, states[:, :-1]):
        q = torch.log_softmax(loss_of.teacher.lm_head(made).float(), -1)
        wanted += torch.nn.functional.smooth_l1_loss(made.float(), states[:, 1:].float()) - (p * q).sum(-1).mean()
    assert loss_of(head, ids).item() == pytest.approx(wanted.item() / 2, rel=2e-3)


def test_a_pair_can_be_taught_from_its_folder_and_nothing_is_taught_without_a_target(tmp_path, monkeypatch):
    data, out = tmp_path / "books.txt", tmp_path / "run"
    data.write_text((TEXT[0] * 20 + END_OF_TEXT + "\n") * 3)
    short = Schedule(tokens=2 * 32 * 2, rows=2, context=32)
    monkeypatch.setattr(
        pair_training,
        "SHAPES",
        {role: pair_training.ModelShape(layers, 64, short) for role, layers in (("target", 2), ("draft", 1))},
    )
    monkeypatch.setattr(pair_training, "DISTILLED", {role: short for role in ("distilled", "heads", "exit", "eagle")})
    with pytest.raises(TrainingError, match=r"no trained target and no draft yet\. Train it first: distilled learns from it"):
        pair_training.train_pair(data, out, ("distilled",), log=lambda _: None)
    pair_training.train_pair(data, out, ("draft", "target", "distilled", "heads", "exit", "eagle"), log=lambda _: None)
    weights = [load_file(out / role / "model.safetensors") for role in ("draft", "distilled")]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    from transformers import AutoModelForCausalLM

    target = AutoModelForCausalLM.from_pretrained(out / "target", dtype=torch.float32)
    assert load_heads(out / "heads", target).compute_logits(torch.zeros(3, 64), 2).shape == (3, 2, target.config.vocab_size)
    assert load_exit(out / "exit", target).compute_logits(torch.zeros(3, 2, 64)).shape == (3, 2, target.config.vocab_size)
    assert load_eagle(out / "eagle", target).embed_inputs(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(3, 2, 64)).shape == (
        3,
        2,
        64,
    )


def test_heads_in_the_published_layout_may_bring_their_own_output_matrix(tmp_path):
    target, make = build_tiny_model(60), torch.Generator().manual_seed(0)
    save_heads([[(torch.randn(32, 32, generator=make), torch.randn(32, generator=make))] for _ in range(2)], tmp_path)
    shared = load_heads(tmp_path, target)
    x = torch.randn(3, 32, generator=make)
    block = load_file(tmp_path / WEIGHTS)
    by_hand = x + torch.nn.functional.silu(x @ block["1.0.linear.weight"].T + block["1.0.linear.bias"])
    assert torch.allclose(shared.compute_logits(x)[:, 1], by_hand @ target.lm_head.weight.T, atol=1e-4)
    own = torch.randn(60, 32, generator=make)
    save_file(block | {"1.1.weight": own}, tmp_path / WEIGHTS)
    mixed = load_heads(tmp_path, target)
    assert torch.allclose(mixed.compute_logits(x)[:, 1], by_hand @ own.T, atol=1e-4)
    assert torch.allclose(mixed.compute_logits(x)[:, 0], shared.compute_logits(x)[:, 0], atol=1e-4)


@pytest.mark.parametrize("prefix", ("", "medusa_heads."))
def test_heads_in_the_layout_of_vllm_are_the_same_heads(tmp_path, prefix):
    """Other names, another file, other words for the numbers, and blocks that may lack a bias."""
    target, make = build_tiny_model(60), torch.Generator().manual_seed(0)
    usual, other = tmp_path / "usual", tmp_path / "other"
    biases = (torch.randn(32, generator=make), torch.zeros(32))
    save_heads([[(torch.randn(32, 32, generator=make), bias)] for bias in biases], usual)
    output, weights = torch.randn(60, 32, generator=make), load_file(usual / WEIGHTS)
    save_file(weights | {"1.1.weight": output}, usual / WEIGHTS)
    named = {f"{prefix}blocks.{k}.layers.0.weight": weights[f"{k}.0.linear.weight"] for k in range(2)}
    named |= {f"{prefix}blocks.0.layers.0.bias": biases[0], f"{prefix}lm_heads.1.weight": output}
    other.mkdir()
    save_file(named, other / "model.safetensors")
    (other / CONFIG).write_text(json.dumps({"model_type": "medusa", "num_heads": 2, "num_hidden_layers": 1}))
    x = torch.randn(3, 32, generator=make)
    assert torch.equal(load_heads(other, target).compute_logits(x), load_heads(usual, target).compute_logits(x))


def test_pickled_heads_are_not_read(tmp_path):
    (tmp_path / CONFIG).write_text(json.dumps({"medusa_num_heads": 2, "medusa_num_layers": 1}))
    torch.save({}, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(
        ModelError, match=r"medusa_lm_head\.pt is pickled, and reading that can run code, so save its weights as safe"
    ):
        load_heads(tmp_path, build_tiny_model(60))


def test_heads_that_do_not_fit_are_a_sentence(tmp_path):
    target = build_tiny_model(60)
    with pytest.raises(ModelError, match="holds no Medusa heads"):
        load_heads(tmp_path, target)
    save_heads([[(torch.zeros(48, 48), torch.zeros(48))]], tmp_path)
    with pytest.raises(ModelError, match=r"made for another target: 0.0.linear.* 48.* needs 32"):
        load_heads(tmp_path, target)
    (tmp_path / CONFIG).write_text(json.dumps({"medusa_num_heads": 3, "medusa_num_layers": 1}))
    with pytest.raises(DamagedModelError, match="lacks 4 of the 6 weights of 3 heads"):
        load_heads(tmp_path, target)
    for config, why in (({"medusa_num_heads": 99, "medusa_num_layers": 1}, "medusa_num_heads 99"), ({}, "does not hold medusa")):
        (tmp_path / CONFIG).write_text(json.dumps(config))
        with pytest.raises(DamagedModelError, match=why):
            load_heads(tmp_path, target)
    (tmp_path / CONFIG).write_text(json.dumps({"medusa_num_heads": 1, "medusa_num_layers": 1}))
    (tmp_path / WEIGHTS).write_bytes(b"not safetensors")
    with pytest.raises(DamagedModelError, match="cannot be read"):
        load_heads(tmp_path, target)
