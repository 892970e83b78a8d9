"""Train the shipped pair: shapes, numbers of tokens, and folders of target and draft."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from specviz.errors import TrainingError
from specviz.models.attachments.eagle import save_eagle
from specviz.models.attachments.exits import save_exit
from specviz.models.attachments.heads import save_heads
from specviz.training.corpus import Batches, encode_works, read_works, save_tokenizer, train_tokenizer
from specviz.training.loop import Schedule, train
from specviz.training.losses import DIVERGENCES, DistillationLoss, EagleLoss, ExitLoss, HeadsLoss, average_divergence
from specviz.training.students import TrainableEagle, TrainableExit, TrainableHeads

CONTEXT = 512
HEAD = 64


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama-style decoder: layers, width and training schedule."""

    layers: int
    width: int
    schedule: Schedule

    def build_model(self, vocabulary: int, seed: int = 7) -> LlamaForCausalLM:
        """A new model. Matrices that write to the residual stream start smaller by sqrt(2 layers) (Radford et al. 2019)."""
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=self.width,
            intermediate_size=-(-8 * self.width // 3 // 64) * 64,
            num_hidden_layers=self.layers,
            num_attention_heads=self.width // HEAD,
            num_key_value_heads=self.width // HEAD,
            max_position_embeddings=CONTEXT,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=None,
        )
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            for layer in model.model.layers:
                layer.self_attn.o_proj.weight.div_((2 * self.layers) ** 0.5)
                layer.mlp.down_proj.weight.div_((2 * self.layers) ** 0.5)
        return model


SHAPES = {
    "target": ModelShape(layers=12, width=256, schedule=Schedule(tokens=20_500_000)),
    "draft": ModelShape(layers=1, width=256, schedule=Schedule(tokens=30_000_000)),
}
DISTILLED = {  # parts that learn from the finished target; the distilled draft starts from the plain one
    "distilled": Schedule(tokens=4_000_000, matrix_rate=0.01, table_rate=1.5e-3, seed=11),
    "heads": Schedule(tokens=2_000_000, matrix_rate=0.01, table_rate=1.5e-3, seed=13),
    "exit": Schedule(tokens=2_000_000, matrix_rate=0.01, table_rate=1.5e-3, seed=17),
    "eagle": Schedule(tokens=3_000_000, matrix_rate=0.02, table_rate=3e-3, seed=19),
}
DIVERGENCE = "tv"  # of three, the one with the highest acceptance rate after a million tokens (numbers in the model card)

EXIT_LAYER = 1  # layers of the target below its exit; deeper exits cost more time than they save (numbers in the model card)


def train_pair(
    data: Path,
    out: Path,
    roles: tuple[str, ...] = ("draft", "target"),
    tokens: int | None = None,
    log: Callable[[str], None] = print,
) -> None:
    """Train the tokenizer, then each role, into ``out``. Finished parts stay, an unfinished one is resumed.

    ``tokens`` shortens every schedule, for a trial. Writes ``out/{target,draft}`` as transformers folders (safetensors, bf16),
    and ``out/run`` with checkpoints and losses.
    """
    works = read_works(data)
    run = out / "run"
    run.mkdir(parents=True, exist_ok=True)
    table = run / "tokenizer.json"
    if not table.exists():
        log("training the tokenizer")
        train_tokenizer(works).save(str(table))
    tokenizer = Tokenizer.from_file(str(table))
    ids = encode_works(works, tokenizer)
    log(f"{len(works)} works, {sum(map(len, ids)) / 1e6:.2f} M tokens")
    for role in roles:
        schedule = DISTILLED[role] if role in DISTILLED else SHAPES[role].schedule
        schedule = schedule if tokens is None else replace(schedule, tokens=tokens)
        batches = Batches(ids, schedule.rows, schedule.context, schedule.seed)
        if role in DISTILLED:
            train_student(role, out, batches, schedule, log)
            continue
        shape = SHAPES[role]
        model = shape.build_model(tokenizer.get_vocab_size())
        model.set_attn_implementation("eager")  # its backward pass is faster than the fused one on a CPU
        log(f"{role}: {shape.layers} x {shape.width}, {model.num_parameters() / 1e6:.2f} M parameters")
        model = train(model, batches, schedule, run / role, log)
        model.save_pretrained(out / role)
        save_tokenizer(tokenizer, out / role)


def train_student(role: str, out: Path, batches: Batches, schedule: Schedule, log: Callable[[str], None]) -> None:
    """Train one of DISTILLED from the finished target in ``out/target``. The distilled draft also needs ``out/draft``.

    Raises TrainingError if they are missing.
    """
    needed = ["target", "draft"] if role == "distilled" else ["target"]
    if missing := [name for name in needed if not (out / name / "config.json").is_file()]:
        raise TrainingError(f"'{out}' has no trained {' and no '.join(missing)} yet. Train it first: {role} learns from it.")
    target = AutoModelForCausalLM.from_pretrained(out / "target", dtype=torch.bfloat16)
    divergence = average_divergence(DIVERGENCES[DIVERGENCE])
    student: Any
    loss: DistillationLoss
    if role == "heads":
        student, loss = TrainableHeads(target.config.hidden_size), HeadsLoss(target)
    elif role == "exit":
        student, loss = TrainableExit(target.model.norm, EXIT_LAYER), ExitLoss(target, divergence)
    elif role == "eagle":
        student, loss = TrainableEagle(target.config), EagleLoss(target)
    else:
        student, loss = (
            AutoModelForCausalLM.from_pretrained(out / "draft", dtype=torch.bfloat16),
            DistillationLoss(target, divergence),
        )
        student.set_attn_implementation("eager")
    log(f"{role}: {sum(p.numel() for p in student.parameters()) / 1e6:.2f} M parameters")
    student = train(student, batches, schedule, out / "run" / role, log, loss)
    if role == "heads":
        save_heads(student.list_blocks(), out / role)
    elif role == "exit":
        save_exit(student.layer, student.norm.detach(), student.list_blocks(), out / role)
    elif role == "eagle":
        save_eagle(student.list_weights(), target.config, out / role)
    else:
        student.save_pretrained(out / role)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(out / "draft" / file, out / role / file)
