"""Tiny pairs written to a folder as any transformers pair would be: random weights, one byte-level tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.training.corpus import save_tokenizer, train_tokenizer

TEXT = [
    "Once upon a time there was a little rabbit who lived in a wood. He was hungry, and he ran to the river.\n"
    '"Where are you going?" asked the old bear.\n"To the river," said the rabbit, "to look for my mother."\n'
]


def build_tiny_model(
    vocabulary: int, layers: int = 2, seed: int = 0, context: int = 128, spread: float = 0.3
) -> LlamaForCausalLM:
    """A Llama decoder of width 32 whose distributions are uneven enough to accept and reject."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=context,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=spread)
    return model


def write_pair(folder: Path, vocabulary: int = 300) -> tuple[Path, Path]:
    """Folders of a target and a draft that is the target with some noise, so that many draft tokens are kept."""
    tokenizer = train_tokenizer(TEXT, vocabulary)
    size = tokenizer.get_vocab_size()
    target = build_tiny_model(size)
    draft = build_tiny_model(size)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    for name, model in (("target", target), ("draft", draft)):
        model.save_pretrained(folder / name)
        save_tokenizer(tokenizer, folder / name)
    return folder / "target", folder / "draft"
