"""Train one causal language model: bf16 weights, fp32 master weights, checkpoints to resume from."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.training.corpus import Batches

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Length and learning rates of a training. Rates are peak values; after a short warm-up they fall linearly to 2%."""

    tokens: int
    rows: int = 16
    context: int = 512
    matrix_rate: float = 0.02  # Muon, for the matrices inside the layers
    table_rate: float = 3e-3  # AdamW, for embeddings and norms
    warmup: float = 0.02
    seed: int = 7
    checkpoint_seconds: float = 240.0

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / (self.rows * self.context))

    def compute_rate_factor(self, step: int) -> float:
        """Learning rate at a step as a fraction of the peak, in (0, 1]."""
        done = (step + 1) / self.steps
        return min(done / self.warmup, 1.0 - 0.98 * max(0.0, done - self.warmup) / (1.0 - self.warmup))


class MasterWeights:
    """fp32 copies of bf16 parameters. Optimizers update the copies; the model computes with the rounded ones."""

    def __init__(self, model: nn.Module):
        self.rounded = dict(model.named_parameters())
        self.master = {name: p.detach().float().clone().requires_grad_() for name, p in self.rounded.items()}

    def take_gradients(self) -> None:
        for name, parameter in self.rounded.items():
            self.master[name].grad = parameter.grad.float()
            parameter.grad = None

    @torch.no_grad()
    def write_back(self) -> None:
        for name, parameter in self.rounded.items():
            parameter.copy_(self.master[name])


def compile_if_possible(function: Callable[..., T]) -> Callable[..., T]:
    """The function compiled by PyTorch where a C++ compiler is installed, else itself."""
    return torch.compile(function) if shutil.which("g++") else function


def round_to_bfloat16(model: nn.Module) -> nn.Module:
    """Round weights to bf16 in place. Buffers stay: rotary frequencies rounded to 8 bits would misplace far tokens."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return model


def build_optimizers(masters: dict[str, Tensor], schedule: Schedule) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for matrices inside the layers, AdamW for embeddings and norms."""
    inner = [p for name, p in masters.items() if p.ndim == 2 and "layers." in name]
    outer = [p for name, p in masters.items() if not (p.ndim == 2 and "layers." in name)]
    return [
        torch.optim.Muon(inner, lr=schedule.matrix_rate, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(outer, lr=schedule.table_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


def compute_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Mean cross-entropy in nats per token over rows of ids (B, T + 1)."""
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    logits = model.lm_head(hidden).float()
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def train(
    model: nn.Module,
    batches: Batches,
    schedule: Schedule,
    folder: Path,
    log: Callable[[str], None] = print,
    loss_of_batch: Callable[[nn.Module, Tensor], Tensor] | None = None,
) -> nn.Module:
    """Train on the schedule's number of tokens, by ``loss_of_batch`` or cross-entropy with the text. Returns the model in bf16.

    Every ``checkpoint_seconds`` the whole state replaces ``folder/checkpoint.pt``, from which a killed run continues.
    ``folder/loss.jsonl`` gets one line for every 20 steps: step, tokens, loss in nats, seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = round_to_bfloat16(model).train()
    weights = MasterWeights(model)
    optimizers = build_optimizers(weights.master, schedule)
    checkpoint, step, seconds = folder / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        step, seconds = state["step"], state["seconds"]
        with torch.no_grad():
            for name, value in state["master"].items():
                weights.master[name].copy_(value)
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        weights.write_back()
        log(f"resumed at step {step} of {schedule.steps}")
    loss_and_graph = loss_of_batch or compile_if_possible(compute_loss)
    last_saved = time.monotonic()
    started, first, recent = last_saved, step, []
    while step < schedule.steps:
        loss = loss_and_graph(model, torch.from_numpy(batches[step]))
        loss.backward()
        weights.take_gradients()
        nn.utils.clip_grad_norm_(weights.master.values(), 1.0)
        for optimizer, peak in zip(optimizers, (schedule.matrix_rate, schedule.table_rate), strict=True):
            optimizer.param_groups[0]["lr"] = peak * schedule.compute_rate_factor(step)
            optimizer.step()
        weights.write_back()
        step += 1
        recent.append(loss.item())
        now = time.monotonic()
        if step % 20 == 0 or step == schedule.steps:
            mean, tokens = sum(recent) / len(recent), step * schedule.rows * schedule.context
            recent = []
            record = {"step": step, "tokens": tokens, "loss": round(mean, 4), "seconds": round(seconds + now - started)}
            with (folder / "loss.jsonl").open("a") as losses:
                losses.write(json.dumps(record) + "\n")
            left = (now - started) / (step - first) * (schedule.steps - step)
            log(f"step {step}/{schedule.steps}  loss {mean:.3f}  {tokens / 1e6:.1f} M tokens  {left / 60:.0f} min left")
        if now - last_saved > schedule.checkpoint_seconds or step == schedule.steps:
            state = {
                "step": step,
                "seconds": seconds + now - started,
                "master": {name: value.detach() for name, value in weights.master.items()},
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "schedule": asdict(schedule),
            }
            torch.save(state, folder / "checkpoint.tmp")
            (folder / "checkpoint.tmp").replace(checkpoint)
            last_saved = now
    return model.eval()
