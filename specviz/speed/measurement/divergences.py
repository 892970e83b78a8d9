"""How far the draft's distribution lies from the target's, along texts that the target writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.request import open_proposer
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import cut_openings, decode_texts
from specviz.speed.measurement.text_passes import iterate_distributions
from specviz.speed.records.estimate import Estimate
from specviz.verification.overlap import compare_distributions

SAMPLE_LETTERS = 2000  # of the text that is kept
TOKENS_PER_PASS = 16  # both models' distributions of a pass are held together, 64 MB at a vocabulary of 262,144


def measure_divergences(
    pair: LoadedPair,
    settings: Settings,
    text: str,
    texts: int,
    opening: int,
    on_progress: ProgressCallback = ignore_progress,
) -> tuple[dict[str, Estimate], str]:
    """Means of the statistics of ``compare_distributions`` over the tokens of texts, with intervals over texts, and the first text.

    Statistics that are infinite somewhere are left out. Empty for a proposer without a model.
    """
    prompts = [prompt for prompt, _ in cut_openings(pair, text, opening, settings.max_new_tokens, texts)]
    written = decode_texts(pair, settings, prompts)[0]
    sample = pair.decode([*prompts[0], *written[0].tolist()])
    sample = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in sample)[:SAMPLE_LETTERS]
    means: dict[str, list[float]] = {}
    for number, (prompt, tokens) in enumerate(zip(prompts, written.tolist(), strict=True)):
        target, proposer = open_proposer(pair, replace(settings, max_new_tokens=len(tokens)))
        draft = getattr(proposer, "draft", None)
        if draft is None:
            return {}, sample
        found: dict[str, list[float]] = {}
        both = (iterate_distributions(one, prompt, tokens, TOKENS_PER_PASS) for one in (target, draft))
        for (_, p), (_, q) in zip(*both, strict=True):
            for name, values in compare_distributions(p.cpu(), q.cpu()).items():
                found.setdefault(name, []).extend(values.tolist())
        for name, values in found.items():
            means.setdefault(name, []).append(float(np.mean(values)))
        on_progress((number + 1) / len(prompts))
    return {name: Estimate.from_mean(values) for name, values in means.items() if np.isfinite(values).all()}, sample
