"""From settings and a pair to a trace: look up names, decode, and collect what the record needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from specviz.decoding.device.choice import choose_engine
from specviz.decoding.engine import build_randomness, decode
from specviz.decoding.method_checks import build_rule
from specviz.models.pairs.families import find_context
from specviz.models.pairs.loading import LoadedPair
from specviz.models.pairs.mapped import add_draftable_share, find_draftable_share
from specviz.proposers.request import open_proposer
from specviz.settings import Settings
from specviz.trace import Round, Trace


def record_run(
    pair: LoadedPair,
    settings: Settings,
    rounds: int | None = None,
    earlier: Sequence[Round] = (),
    bars: int = 12,
    on_round: Callable[[Round], None] | None = None,
) -> Trace:
    """Decode and record the run, at most ``rounds`` rounds in all, after the ``earlier`` ones of the same run.

    ``bars`` tokens of each distribution are kept for figures. ``on_round`` is called with each new round, which still holds its
    whole distributions where bars are kept. Raises SettingsError as ``decode``.
    """
    rule = build_rule(settings)
    target, proposer = open_proposer(pair, settings)
    prompt = pair.encode(settings.prompt)
    arguments = (target, proposer, rule, build_randomness(settings))
    choice = choose_engine(
        settings.engine, *arguments, pair.eos_token_ids, columns=len(prompt) + settings.max_new_tokens, bars=bars
    )
    stream = decode(*arguments, settings, prompt, pair.eos_token_ids, bars, earlier=earlier, steps=choice.steps)
    recorded = list(earlier)
    for round_ in islice(stream, None if rounds is None else max(0, rounds - len(earlier))):
        if on_round:
            on_round(round_)
        recorded.append(replace(round_, full=None))
    trace = build_trace(pair, settings, prompt, tuple(recorded), find_draftable_share(getattr(proposer, "draft", None)))
    committed = sum(len(round_.committed) for round_ in recorded)
    note = choice.note or choice.explain_loss(committed / max(1, len(recorded)))
    return replace(trace, models=trace.models | {"engine": choice.name} | ({"engine_note": note} if note else {}))


def build_trace(
    pair: LoadedPair, settings: Settings, prompt: Sequence[int], rounds: tuple[Round, ...], share: float | None = None
) -> Trace:
    """The trace of these rounds, with the text and the bytes of every token that it mentions.

    ``share``: of the draft's mass that could be proposed, where its tokenizer differs from the target's (models/pairs/mapped.py).
    """
    output = [token for round_ in rounds for token in round_.committed]
    read = pair.encode_for_encoder(settings.prompt)
    mentioned = {*prompt, *output, *read}
    for round_ in rounds:
        mentioned.update(decision.token for decision in round_.proposals)
        mentioned.update(d.replacement_if_rejected for d in round_.proposals if d.replacement_if_rejected is not None)
        mentioned.update(token for probs in round_.distributions for token in probs.tokens)
    text, bytes_of = pair.decode(output), pair.read_pieces(mentioned)
    notes = pair.list_notes(settings)
    models = add_draftable_share(pair.describe(), share) | ({"notes": notes} if notes else {})
    reason = _find_finish_reason(pair, settings, prompt, output)
    return Trace(settings.to_record(), tuple(prompt), rounds, text, bytes_of, models, encoder_ids=read, finish_reason=reason)


def _find_finish_reason(pair: LoadedPair, settings: Settings, prompt: Sequence[int], output: Sequence[int]) -> str:
    """Why a text ends: stop, length, context; empty where it does not end yet."""
    if output and output[-1] in pair.eos_token_ids:
        return "stop"
    if len(output) >= settings.max_new_tokens:
        return "length"
    context = find_context(pair.target.config)
    return "context" if context is not None and len(prompt) + len(output) > context else ""
