"""Tiny random encoder-decoder pairs: T5 as first published, T5 v1.1 and mT5, with a SentencePiece-like tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoModelForSeq2SeqLM, MT5Config, PreTrainedModel, PreTrainedTokenizerFast, T5Config

from tests.helpers.tiny_pairs import TEXT

SPECIAL = ["<pad>", "</s>", "<unk>"]
GERMAN = "Für das süße Kaninchen war der Fluß zu groß. Ähnlich übel ging es dem Bären, und er aß die Äpfel."
NEAR = 6  # farther back than that, all distances share one bias: texts cross it
KINDS = {
    "t5": (T5Config, {"feed_forward_proj": "relu", "tie_word_embeddings": True}),
    "t5 v1.1": (T5Config, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": (MT5Config, {"feed_forward_proj": "gated-gelu"}),
}
MARKED_KINDS = [pytest.param(kind, marks=pytest.mark.slow) if kind == "t5 v1.1" else kind for kind in KINDS]  # mt5 has its layers


def build_tiny_encoder_decoder(kind: str, vocabulary: int, seed: int = 0, spread: float = 0.25, **more) -> PreTrainedModel:
    """Three layers of encoder, two of decoder, width 32; distances matter as much as tokens do."""
    torch.manual_seed(10 * list(KINDS).index(kind) + seed)
    make, options = KINDS[kind]
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 2}
    near = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": NEAR}
    config = make(vocab_size=vocabulary, decoder_start_token_id=0, **{**sizes, **near, **options, **more})
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    if kind != "t5":  # published checkpoints hold an output matrix of their own
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(std=1.0 if "bias" in name or name == "shared.weight" else spread)
    return model.requires_grad_(False)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Words with a mark for the space before them, characters, and the end of text after every prompt, as T5's writes it."""
    text = " ".join([*TEXT, GERMAN]).split()
    words, characters = ({f"\u2581{word}" for word in text}, {*"".join(text), "\u2581"})
    scores = [(word, -2.0) for word in sorted(words - characters)] + [(character, -4.0) for character in sorted(characters)]
    made = Tokenizer(models.Unigram([*((name, 0.0) for name in SPECIAL), *scores], unk_id=2))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def write_encoder_decoders(folder: Path, kind: str = "t5") -> tuple[Path, Path]:
    """Folders of a target and a draft that is the target with some noise."""
    words = build_tokenizer()
    for name in ("target", "draft"):
        model = build_tiny_encoder_decoder(kind, len(words))
        if name == "draft":
            with torch.no_grad():
                for weight in model.parameters():
                    weight.add_(torch.randn_like(weight) * 0.025)
        model.save_pretrained(folder / name)
        words.save_pretrained(folder / name)
    return folder / "target", folder / "draft"
