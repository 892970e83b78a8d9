"""Pairs of public models to run at home or in class, with the memory that they need. No torch here.

Parameters are those of the published checkpoints, in millions; tied matrices count once. Vocabularies are the sizes of the output
distributions. They may differ within a family: ids that one model lacks have probability 0 in its distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SEQ2SEQ = "encoder-decoder"
PICKLED = "published weights are only pickled and therefore not read: save them as safetensors first"
OVERHEAD = 1.2  # memory over the weights alone, for caches, distributions and the library: a rule of thumb


@dataclass(frozen=True, slots=True)
class PublicPair:
    """Target and draft on the model hub."""

    target: str
    draft: str
    family: str  # name of their common tokenizer
    millions: tuple[float, float]  # parameters of target and draft
    vocabulary: tuple[int, int]  # vocabulary sizes of target and draft
    license: str  # as the model cards name it
    kind: str = "causal"  # causal or encoder-decoder
    note: str = ""

    def gigabytes(self, dtype: str) -> float:
        """Memory for weights and ordinary use, in GB (10**9 bytes)."""
        return sum(self.millions) * 1e6 * BYTES[dtype] * OVERHEAD / 1e9


PUBLIC: tuple[PublicPair, ...] = (
    PublicPair("openai-community/gpt2-medium", "distilbert/distilgpt2", "GPT-2", (355, 82), (50257, 50257), "MIT; Apache-2.0"),
    PublicPair("openai-community/gpt2-xl", "openai-community/gpt2", "GPT-2", (1558, 124), (50257, 50257), "MIT"),
    PublicPair("EleutherAI/pythia-410m", "EleutherAI/pythia-70m", "GPT-NeoX", (405, 70), (50304, 50304), "Apache-2.0"),
    PublicPair("EleutherAI/pythia-2.8b", "EleutherAI/pythia-160m", "GPT-NeoX", (2775, 162), (50304, 50304), "Apache-2.0"),
    PublicPair("HuggingFaceTB/SmolLM2-360M", "HuggingFaceTB/SmolLM2-135M", "SmolLM2", (362, 135), (49152, 49152), "Apache-2.0"),
    PublicPair("HuggingFaceTB/SmolLM2-1.7B", "HuggingFaceTB/SmolLM2-135M", "SmolLM2", (1711, 135), (49152, 49152), "Apache-2.0"),
    PublicPair("facebook/opt-1.3b", "facebook/opt-125m", "OPT", (1316, 125), (50272, 50272), "OPT license, research only"),
    PublicPair("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B", "Qwen", (1721, 596), (151936, 151936), "Apache-2.0"),
    PublicPair("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen", (8191, 596), (151936, 151936), "Apache-2.0"),
    PublicPair(
        *("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-0.5B", "Qwen", (7616, 494), (152064, 151936), "Apache-2.0"),
        note="vocabularies padded to different sizes",
    ),
    PublicPair(
        *("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B", "Llama 3", (8030, 1236), (128256, 128256), "Llama community"),
        note="needs an account",
    ),
    PublicPair(*("google-t5/t5-large", "google-t5/t5-small", "T5", (738, 61), (32128, 32128), "Apache-2.0"), kind=SEQ2SEQ),
    PublicPair(*("google-t5/t5-3b", "google-t5/t5-small", "T5", (2852, 61), (32128, 32128), "Apache-2.0"), kind=SEQ2SEQ),
    PublicPair(
        *("google/flan-t5-xl", "google/flan-t5-small", "T5", (2850, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note="T5 v1.1, fine-tuned on instructions",
    ),
    PublicPair(
        *("google/flan-t5-xxl", "google/flan-t5-small", "T5", (11135, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note="T5 v1.1 in the sizes of Leviathan et al. 2023, fine-tuned on instructions",
    ),
    PublicPair(
        *("google/t5-v1_1-large", "google/t5-v1_1-small", "T5", (783, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note=PICKLED,
    ),
    PublicPair(
        *("google/t5-v1_1-xl", "google/t5-v1_1-small", "T5", (2850, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note=PICKLED,
    ),
    PublicPair(
        *("google/t5-v1_1-xxl", "google/t5-v1_1-small", "T5", (11135, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note=f"the models that Leviathan et al. 2023 began with, table 2; {PICKLED}",
    ),
    PublicPair(
        *("google/t5-xxl-lm-adapt", "google/t5-small-lm-adapt", "T5", (11135, 77), (32128, 32128), "Apache-2.0"),
        kind=SEQ2SEQ,
        note=f"T5 v1.1, trained further as a language model; {PICKLED}",
    ),
)
