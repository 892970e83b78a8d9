"""The shipped pair: shapes, tokens and folders of target and draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.training.corpus import Batches, encode, read_works
from specviz.training.loop import Schedule, train
from specviz.training.tokenizer import save_tokenizer, train_tokenizer

CONTEXT = 512
HEAD = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama-style decoder: depth, width and how many tokens it is to see."""

    layers: int
    width: int
    schedule: Schedule

    def model(self, vocabulary: int, seed: int = 7) -> LlamaForCausalLM:
        """Fresh weights; matrices that write to the residual stream start smaller by sqrt(2 layers) (Radford et al. 2019)."""
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
    "target": Shape(layers=12, width=256, schedule=Schedule(tokens=20_500_000)),
    "draft": Shape(layers=1, width=256, schedule=Schedule(tokens=30_000_000)),
}


def train_pair(
    data: Path,
    out: Path,
    roles: tuple[str, ...] = ("draft", "target"),
    tokens: int | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Tokenizer, then each role, into ``out``; every part that is already there is kept, an unfinished one is resumed.

    tokens  shortens the schedule of both, for a trial

    Leaves ``out/{target,draft}`` as transformers folders (safetensors, bf16) and ``out/run`` with checkpoints and losses.
    """
    works = read_works(data)
    run = out / "run"
    run.mkdir(parents=True, exist_ok=True)
    table = run / "tokenizer.json"
    if not table.exists():
        say("training the tokenizer")
        train_tokenizer(works).save(str(table))
    tokenizer = Tokenizer.from_file(str(table))
    ids = encode(works, tokenizer)
    say(f"{len(works)} works, {sum(map(len, ids)) / 1e6:.2f} M tokens")
    for role in roles:
        shape = SHAPES[role]
        schedule = shape.schedule if tokens is None else replace(shape.schedule, tokens=tokens)
        model = shape.model(tokenizer.get_vocab_size())
        model.set_attn_implementation("eager")  # its backward pass is faster than the fused one on a CPU
        say(f"{role}: {shape.layers} x {shape.width}, {model.num_parameters() / 1e6:.2f} M parameters")
        model = train(model, Batches(ids, schedule.rows, schedule.context, schedule.seed), schedule, run / role, say)
        model.save_pretrained(out / role)
        save_tokenizer(tokenizer, out / role)
