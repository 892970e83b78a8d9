"""Fills a passage's records: one text both ways, side by side on one machine, then the target's text scored by both models.

The two ways alternate: the one that has worked for less time writes its next round. So both share whatever else the machine does, and
at every moment both have had the same time, up to a round. Scoring comes afterward and costs neither of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from specviz.decoding.run import build_trace
from specviz.models.pairs.loading import LoadedPair
from specviz.progress import Expect, ProgressCallback, ignore_progress, scale_progress, split_progress
from specviz.proposers.source_texts import TEXTS
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.clock import alternate_streams
from specviz.speed.measurement.machine import describe_measurement
from specviz.speed.measurement.text_passes import describe_pair, iterate_distributions
from specviz.speed.measurement.timed_decoding import (
    BATCH_PASS_ROUNDS,
    DecodingPace,
    compile_ahead,
    decode_speculatively,
    decode_target_only,
)
from specviz.speed.records.baseline import Baseline
from specviz.speed.records.divergence_profile import MAX_DIVERGENCES, ScoredText
from specviz.speed.records.passage import LANES, SPECULATIVE, TARGET_ONLY, Lane, Passage, TimedRound
from specviz.speed.records.word_kinds import classify_tokens
from specviz.trace import Distribution
from specviz.verification.overlap import compute_overlap
from specviz.verification.views import view_two_distributions

WARM_TOKENS = 8  # tokens that both ways write before anything is timed
BARS = 6  # largest tokens of a divergence's distributions
TOKENS_PER_PASS = 32  # tokens of one scoring pass: memory stays flat at large vocabularies
TIME_DECIMALS = 6  # of seconds in a record
OPENING_WORDS = 12  # words of a paragraph that a text of the survey continues

RoundsCallback = Callable[[Sequence[TimedRound]], None]  # an event, no progress: the rounds so far, at the end of each


def stream_rounds(pair: LoadedPair, settings: Settings) -> Iterator[TimedRound]:
    """Both ways on one prompt, each with random streams of its own, as their rounds end.

    A lane's seconds are those of its own rounds, with opening its models and reading the prompt. Stopping between two rounds leaves
    nothing behind.
    """
    asked = pair, settings, pair.encode(settings.prompt), pair.eos_token_ids
    for lane, round_, at in alternate_streams(
        {TARGET_ONLY: decode_target_only(*asked), SPECULATIVE: decode_speculatively(*asked)}
    ):
        timing = {part: round(seconds, TIME_DECIMALS) for part, seconds in round_.timing.items()}
        yield TimedRound(lane, replace(round_, timing=timing), at)


def write_passage(
    pair: LoadedPair,
    settings: Settings,
    runs: int = 3,
    on_progress: ProgressCallback = ignore_progress,
    on_rounds: RoundsCallback = ignore_progress,
    expect: Expect = ignore_progress,
    show: Callable[[Passage], None] = ignore_progress,
) -> Passage:
    """A whole passage: a warm-up, a run that is shown as it is written, the scoring of the target's text, then the other runs.

    runs: timed ones, the first among them; on_progress: called after every round; what it raises ends the work; on_rounds: called
    with the rounds of the first run after each of them, and before it with those of the warm-up that it will write again; expect:
    called after the warm-up how long the rest will take; show: called with the passage after each run but the last, with the
    rates so far.

    Raises:
        SettingsError: For names that are not known and prompts that do not fit.
    """
    settings = replace(settings, uniforms={})
    where = describe_measurement(pair)
    warming: list[TimedRound] = []
    shown: list[TimedRound] = []  # of the warm-up, those that the first run will write again: the first words stand at once
    warm_settings = replace(settings, max_new_tokens=min(WARM_TOKENS, settings.max_new_tokens))
    for one in stream_rounds(pair, warm_settings):
        if not _is_cut_short(one, warming, warm_settings):
            shown.append(one)
        warming.append(one)
        on_rounds(shown)
        on_progress(0.0, "Warming up")
    baseline: Baseline | None = None
    made: list[list[TimedRound]] = [[]]
    both, reading = estimate_stage_seconds(warming, settings.max_new_tokens)
    first, read, again = "Writing both ways", "Both models read the target’s text", "Writing them again to measure"
    weights = {first: both, read: reading, again: both * (runs - 1)}
    expect(sum(weights.values()))
    parts = split_progress(on_progress, weights)

    def run(on_part: ProgressCallback) -> None:
        done = 0
        for one in stream_rounds(pair, settings):
            made[-1].append(_rescale(one, baseline))
            done += len(one.round.committed)
            if len(made) == 1:
                on_rounds(made[0])
            on_part(min(1.0, done / (2 * settings.max_new_tokens)))

    run(parts[first])
    baseline = find_baseline(pair, settings, pair.encode(settings.prompt))  # not before: the first tokens would wait for it
    made[0] = [_rescale(one, baseline) for one in made[0]]
    passage = build_passage(pair, settings, made[0])
    text = score_text(pair, settings, passage.target.trace.prompt_ids, passage.target.trace.output_ids, partial(parts[read], 0.0))
    where["models"] = describe_pair(pair, settings, [(passage.target.trace.prompt_ids, passage.target.trace.output_ids)])
    spent = {one.lane: one.at for one in warming}
    passage = replace(passage, read=text, warm=sum(spent.values()), baseline=baseline, **where)
    for number in range(1, runs):
        show(add_rates(passage, made))
        made.append([])
        run(scale_progress(parts[again], (number - 1) / (runs - 1), number / (runs - 1), f"{again}: run {number + 1} of {runs}"))
    compile_ahead(pair, settings, passage.target.trace.prompt_ids, waits=False)  # for the next passage, not beside this one
    return add_rates(passage, made)


def _is_cut_short(timed: TimedRound, before: Sequence[TimedRound], settings: Settings) -> bool:
    """Whether a longer text may go on otherwise than with this round, which has fewer tokens left than a round can write."""
    written = sum(len(other.round.committed) for other in before if other.lane == timed.lane)
    return timed.lane == SPECULATIVE and written + settings.gamma + 1 > settings.max_new_tokens


def _rescale(timed: TimedRound, baseline: Baseline | None) -> TimedRound:
    """The round as the fastest target-only way would have timed it. Its parts are left out: they are this project's loop's."""
    if baseline is None or timed.lane != TARGET_ONLY:
        return timed
    return replace(timed, at=timed.at / baseline.factor, round=replace(timed.round, timing={}))


def estimate_stage_seconds(warming: Sequence[TimedRound], length: int) -> tuple[float, float]:
    """Seconds that a run of both ways will take, and the reading of a text, by the rounds of the warm-up."""
    mine = {lane: [one for one in warming if one.lane == lane] for lane in LANES}
    paces = {
        lane: DecodingPace.from_rounds([one.at for one in found], [one.round for one in found]) for lane, found in mine.items()
    }
    passes = 2 * -(-length // TOKENS_PER_PASS)
    return sum(pace.estimate_seconds(length) for pace in paces.values()), passes * BATCH_PASS_ROUNDS * paces[TARGET_ONLY].each


def add_rates(passage: Passage, runs: Sequence[Sequence[TimedRound]]) -> Passage:
    """The passage of the first run with the rates of all, and the clocks of the middle run if it wrote the same rounds."""
    lanes = {lane: [[one for one in rounds if one.lane == lane] for rounds in runs] for lane in LANES}
    rates = {
        lane: tuple(sum(len(one.round.committed) for one in mine) / mine[-1].at for mine in found)
        for lane, found in lanes.items()
    }
    passage = replace(passage, **{lane: replace(getattr(passage, lane), rates=rates[lane]) for lane in LANES})
    assert passage.middle is not None, "a run has ended"
    middle = {lane: found[passage.middle] for lane, found in lanes.items()}
    if all([one.round for one in lanes[lane][0]] == [one.round for one in middle[lane]] for lane in LANES):
        timed: dict[str, Any] = {lane: _replace_times(getattr(passage, lane), middle[lane]) for lane in LANES}
        passage = replace(passage, **timed)
    return passage


def _replace_times(lane: Lane, rounds: Sequence[TimedRound]) -> Lane:
    """The lane with the clock, and the parts of each round, of another run of the same rounds."""
    trace = replace(lane.trace, rounds=tuple(one.round for one in rounds))
    return replace(lane, trace=trace, clock=tuple(one.at for one in rounds))


def build_passage(pair: LoadedPair, settings: Settings, rounds: Sequence[TimedRound]) -> Passage:
    """The passage after these rounds."""
    ids = pair.encode(settings.prompt)
    lanes: dict[str, Any] = {}
    for lane in LANES:
        mine = [one for one in rounds if one.lane == lane]
        lanes[lane] = Lane(build_trace(pair, settings, ids, tuple(one.round for one in mine)), tuple(one.at for one in mine))
    return Passage(settings, **lanes, models=pair.describe())


def score_text(
    pair: LoadedPair,
    settings: Settings,
    prompt: Sequence[int],
    tokens: Sequence[int],
    on_round: Callable[[], None] = lambda: None,
) -> ScoredText:
    """A text scored by both models: p, q and beta at each of its tokens, TOKENS_PER_PASS tokens in a pass.

    prompt: at least one id; tokens: of the text after it, at least one.
    """
    found: list[tuple[float, float, float, Distribution]] = []
    for (part, p), (_, q) in zip(
        *(iterate_distributions(model, prompt, tokens, TOKENS_PER_PASS) for model in pair.open(settings)), strict=True
    ):
        for place, (token, beta) in enumerate(zip(tokens[part], compute_overlap(p, q).tolist(), strict=True)):
            probs = view_two_distributions(p[place], q[place], BARS, (token,))
            found.append((float(p[place, token]), float(q[place, token]), min(1.0, beta), probs))
        on_round()
    p, q, betas, distributions = zip(*found, strict=True)
    divergences = {
        place: distributions[place]
        for place in sorted(range(len(betas)), key=lambda place: (betas[place], place))[:MAX_DIVERGENCES]
    }
    mentioned = {*tokens, *(token for probs in divergences.values() for token in probs.tokens)}
    words = classify_tokens(b"".join(_list_token_bytes(pair, prompt)), _list_token_bytes(pair, tokens))
    return ScoredText(tuple(tokens), p, q, betas, words, dict(sorted(divergences.items())), pair.read_pieces(mentioned))


def _list_token_bytes(pair: LoadedPair, tokens: Sequence[int]) -> list[bytes]:
    """Each token's bytes; none for one that is no text."""
    known, special = pair.read_pieces(tokens), {*pair.tokenizer.all_special_ids}
    return [b"" if token in special else bytes.fromhex(known[token]) for token in tokens]


def survey_texts(
    pair: LoadedPair, settings: Settings, texts: int, length: int, on_progress: ProgressCallback = ignore_progress
) -> tuple[ScoredText, ...]:
    """Texts that the target writes after the first words of paragraphs of a book, evenly spread over it, scored by both models.

    texts: how many; length: tokens of each. Only their numbers are kept.
    """
    book = next(iter(TEXTS.values())).read_text(encoding="utf-8")
    paragraphs = [words[:OPENING_WORDS] for line in book.splitlines() if len(words := line.split()) > OPENING_WORDS]
    found = []
    for number in range(texts):
        prompt = " ".join(paragraphs[number * len(paragraphs) // texts])
        own = replace(settings, prompt=prompt, max_new_tokens=length, seed=settings.seed + number, uniforms={})
        ids = pair.encode(prompt)
        tokens = [token for round_ in decode_target_only(pair, own, ids, pair.eos_token_ids) for token in round_.committed]
        found.append(replace(score_text(pair, own, ids, tokens), divergences={}, pieces={}))
        on_progress((number + 1) / texts)
    return tuple(found)
