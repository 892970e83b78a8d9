"""Samples of transformers' assisted generation, through its public interface."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
import transformers
from transformers.generation.streamers import BaseStreamer

from specviz.decoding.engine import build_first_prefix
from specviz.decoding.samples import NONE, Samples
from specviz.errors import EvidenceError, SettingsError
from specviz.models.pairs.families import find_context
from specviz.models.pairs.generation_rules import NO_RULES
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import MappedPair
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.uncached import build_generate_inputs, build_model_inputs
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import Settings
from specviz.threads import FEW, PassThreads

NAME, MODE = "assisted", "transformers"


def sample_assisted(
    pair: LoadedPair,
    settings: Settings,
    ids: Sequence[int],
    first: int,
    count: int,
    on_progress: ProgressCallback = ignore_progress,
) -> Samples:
    """Samples of assisted generation on the same pair, one after the other, with its own rule and random numbers.

    The number of draft tokens is gamma, and the confidence threshold is off. Sample i runs under a ``torch.manual_seed`` made of
    seed and i.

    Raises SettingsError for a pair whose tokenizers differ, EvidenceError for gamma 0.
    """
    if isinstance(pair, MappedPair):
        allowed = "speculative or target for a pair whose tokenizers differ: there transformers drafts in another way"
        raise SettingsError("decoder", NAME, allowed)
    remaining = build_first_prefix(ids, settings, find_context(pair.target.config)).remaining
    draft, log = make_assistant(pair, settings.gamma)
    target = copy(pair.target)
    target.generation_config = pair.rules.make_config(pair.target, pair.eos_token_ids)
    options = build_generation_options(settings) | {"max_new_tokens": remaining, "assistant_model": draft, "pad_token_id": 0}
    tokens, events = np.full((count, remaining), NONE, dtype=np.int32), np.zeros((count, 8), dtype=np.int32)
    read = pair.encode_for_encoder(settings.prompt)
    prompt = build_generate_inputs(pair.target, ids, read)
    for row in range(count):
        torch.manual_seed((settings.seed * 1_000_003 + first + row) % 2**63)
        log.begin_text()
        PassThreads.for_model(pair.target).prepare(1, lambda: pair.target(**build_model_inputs(pair.target, ids[:FEW], read)))
        with silence_transformers():
            written = target.generate(**prompt, **options, streamer=log)[0, len(ids) :].tolist()
        tokens[row, : len(written)], events[row] = written, log.count_events()
        on_progress((row + 1) / count)
    return Samples(tokens, settings.to_record(), f"assisted generation of transformers {transformers.__version__}", first, events)


def build_generation_options(settings: Settings) -> dict[str, object]:
    """The sampling settings as arguments of ``generate``.

    Raises SettingsError for warpers of other packages, which transformers does not apply.
    """
    if settings.warpers:
        raise SettingsError("warpers", settings.warpers, "left out for transformers, which does not apply them")
    if settings.temperature == 0.0:
        return {"do_sample": False}
    cuts = {"top_k": settings.top_k or 0, "top_p": settings.top_p or 1.0}
    min_p = {"min_p": settings.min_p} if settings.min_p is not None else {}
    return {"do_sample": True, "temperature": settings.temperature, **cuts, **min_p}


def make_assistant(pair: LoadedPair, gamma: int) -> tuple[Any, RoundLog]:
    """The draft with options of its own (gamma tokens per round, no confidence threshold), and a log of what it drafts.

    Of its generation_config nothing else counts: generate() hands it the target's processors.
    """
    if gamma < 1:
        raise EvidenceError("Assisted generation needs at least 1 draft token, got gamma 0.")
    draft, log = copy(pair.draft), RoundLog()
    draft.generation_config = options = NO_RULES.make_config(pair.draft, pair.eos_token_ids)
    options.num_assistant_tokens, options.num_assistant_tokens_schedule = gamma, "constant"
    options.assistant_confidence_threshold = 0
    generate = draft.generate

    def generate_and_log(*arguments: Any, **options: Any) -> Any:
        made = generate(*arguments, **options)
        log.add_draft(made.sequences[0].tolist())
        return made

    object.__setattr__(draft, "generate", generate_and_log)
    return draft, log


class RoundLog(BaseStreamer):
    """What transformers drafts and commits in one text: the draft model's ``generate`` is logged, and ``generate`` streams to this.

    The rule's decisions are not published. A committed token after a rejected one always differs from it, because the residual
    distribution excludes it, so the accepted draft tokens are those that the committed tokens begin with.
    """

    def __init__(self) -> None:
        self.begin_text()

    def begin_text(self) -> None:
        self.rounds: list[tuple[tuple[int, ...], tuple[int, ...]]] = []  # draft tokens and committed tokens of each
        self._text: list[int] | None = None
        self._draft: tuple[int, ...] = ()

    def add_draft(self, sequence: list[int]) -> None:
        """Note the draft model's output: the text so far, then the draft tokens."""
        self._draft = tuple(sequence[len(self._text or ()) :])

    def put(self, value: torch.Tensor) -> None:
        """Take the prompt first, then the committed tokens of each round."""
        tokens = value.reshape(-1).tolist()
        if self._text is None:
            self._text = tokens
            return
        self.rounds.append((self._draft, tuple(tokens)))
        self._text, self._draft = self._text + tokens, ()

    def end(self) -> None:
        """Nothing is left to do after a text."""

    def count_events(self) -> np.ndarray:
        """The fields of Coverage for this text, (8,)."""
        events = np.zeros(8, dtype=np.int32)
        for place, (draft, committed) in enumerate(self.rounds):
            pairs = list(zip(draft, committed, strict=False))
            accepted = next((number for number, (one, other) in enumerate(pairs) if one != other), len(pairs))
            rejected = accepted < len(pairs)
            dropped = accepted < len(draft) and place + 1 < len(self.rounds)
            ended_with_bonus = bool(draft) and accepted == len(draft) and len(committed) > accepted
            events += (
                len(draft),
                accepted,
                rejected,
                len(draft) - accepted - rejected,
                rejected,
                ended_with_bonus,
                not draft,
                dropped,
            )
        return events
