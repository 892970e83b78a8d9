"""Fills a passage's records: one text both ways, side by side on one machine, then the target's text read by both models.

The two ways alternate: whichever has worked for less time writes its next round. So they share whatever else the machine
does, and at every moment both have had the same time, to a round. What is read afterwards costs neither of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from specviz.decoding.engine import decode, target_only
from specviz.decoding.run import written
from specviz.measure.bench import machine
from specviz.measure.clock import taking_turns
from specviz.measure.divergence import FORKS, Read
from specviz.measure.passage import ALONE, LANES, SPECULATIVE, Event, Lane, Passage
from specviz.measure.word_kinds import kinds
from specviz.models.pairs.loading import Pair
from specviz.proposers.registry import opened
from specviz.proposers.texts import TEXTS
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.trace import Distribution, Round
from specviz.verification.draft_tree import ROOT, DraftTree
from specviz.verification.overlap import overlap
from specviz.verification.registry import rule_of
from specviz.verification.views import two_distributions

WARM = 8  # tokens that both ways write before anything is timed
BARS = 6  # largest tokens of a fork's distributions
AT_ONCE = 32  # tokens that a pass reads: memory stays flat at large vocabularies
OPENING = 12  # words of a paragraph that a text of the survey goes on with

Watch = Callable[[float, str, Sequence[Event]], None]


def writing(pair: Pair, settings: Settings) -> Iterator[Event]:
    """Both ways on one prompt, each with random numbers of its own, as their rounds end.

    A lane's seconds are those of its own rounds, opening its models and reading the prompt included. Stopping between two
    events leaves nothing behind.
    """
    for lane, round_, at in taking_turns({ALONE: _alone(pair, settings), SPECULATIVE: _drafted(pair, settings)}):
        yield Event(lane, replace(round_, full=None, timing={}), at)


def _alone(pair: Pair, settings: Settings) -> Iterator[Round]:
    target, ids = pair.source(pair.target, settings, pair.vocabulary), pair.encode(settings.prompt)
    yield from target_only(target, PhiloxRandomness(settings.seed), settings, ids, pair.eos_token_ids)


def _drafted(pair: Pair, settings: Settings) -> Iterator[Round]:
    target, proposer = opened(pair, settings)
    ids = pair.encode(settings.prompt)
    yield from decode(target, proposer, rule_of(settings), PhiloxRandomness(settings.seed), settings, ids, pair.eos_token_ids)


def write(pair: Pair, settings: Settings, runs: int = 3, watch: Watch = lambda share, doing, events: None) -> Passage:
    """A whole passage: a warm-up, ``runs`` runs (the first is seen as it goes on), and the reading of the target's text.

    watch  (share done, what is done, events of the first run so far), after every round; what it raises ends the work
    Raises SettingsError for names that are not known and prompts that do not fit.
    """
    settings = replace(settings, uniforms={})
    where = machine(pair)
    spent = dict.fromkeys(LANES, 0.0)
    for event in writing(pair, replace(settings, length=min(WARM, settings.length))):
        spent[event.lane] = event.at
        watch(0.0, "Warming up", ())
    made: list[list[Event]] = []
    for run in range(runs):
        made.append([])
        doing = "Writing both ways" if run == 0 else f"Writing them again to measure: run {run + 1} of {runs}"
        done = 0
        for event in writing(pair, settings):
            made[-1].append(event)
            done += len(event.round.committed)
            watch((run + min(1.0, done / (2 * settings.length))) / (runs + 0.5), doing, made[0])
    one = measured(so_far(pair, settings, made[0]), made)
    last = partial(watch, runs / (runs + 0.5), "Both models read the target’s text", made[0])
    text = read(pair, settings, one.target.trace.prompt_ids, one.target.trace.output_ids, last)
    now = datetime.now(UTC).strftime("%-d %B %Y")
    return replace(one, read=text, warm=sum(spent.values()), machine=where, models=pair.describe(), date=now)


def measured(one: Passage, runs: Sequence[Sequence[Event]]) -> Passage:
    """The passage of the first run with the rates of all, and the clocks of the middle one where it wrote the same rounds."""
    rates, lanes = {lane: [] for lane in LANES}, [{lane: _of(events, lane) for lane in LANES} for events in runs]
    for run in lanes:
        for lane, mine in run.items():
            rates[lane].append(sum(len(event.round.committed) for event in mine) / mine[-1].at)
    one = replace(one, **{lane: replace(getattr(one, lane), rates=tuple(rates[lane])) for lane in LANES})
    first, middle = lanes[0], lanes[one.middle]
    if all([event.round for event in first[lane]] == [event.round for event in middle[lane]] for lane in LANES):
        clocks = {lane: tuple(event.at for event in middle[lane]) for lane in LANES}
        one = replace(one, **{lane: replace(getattr(one, lane), clock=clocks[lane]) for lane in LANES})
    return one


def _of(events: Sequence[Event], lane: str) -> list[Event]:
    return [event for event in events if event.lane == lane]


def so_far(pair: Pair, settings: Settings, events: Sequence[Event]) -> Passage:
    """What stands after these events."""
    ids = pair.encode(settings.prompt)
    lanes = {}
    for lane in LANES:
        mine = _of(events, lane)
        rounds = tuple(event.round for event in mine)
        lanes[lane] = Lane(written(pair, settings, ids, rounds), tuple(event.at for event in mine))
    return Passage(settings, **lanes, models=pair.describe())


def read(
    pair: Pair, settings: Settings, prompt: Sequence[int], tokens: Sequence[int], watch: Callable[[], None] = lambda: None
) -> Read:
    """A text read by both models: p, q and beta at every token of it, AT_ONCE tokens to a pass.

    prompt  at least one id; tokens  what was written after it, at least one
    """
    target, draft = pair.open(settings)
    found: list[tuple[float, float, float, Distribution]] = []
    for begin in range(0, len(tokens), AT_ONCE):
        part = tuple(tokens[begin : begin + AT_ONCE])
        row, chain = Prefix((*prompt, *tokens[:begin]), begin, len(part)), _chain(part[:-1])
        p, q = (model.distributions([row], chain)[0] for model in (target, draft))
        for place, (token, beta) in enumerate(zip(part, overlap(p, q).tolist(), strict=True)):
            probs = two_distributions(p[place], q[place], BARS, (token,))
            found.append((float(p[place, token]), float(q[place, token]), min(1.0, beta), probs))
        watch()
    p, q, betas, distributions = zip(*found, strict=True)
    forks = {place: distributions[place] for place in sorted(range(len(betas)), key=lambda place: (betas[place], place))[:FORKS]}
    mentioned = {*tokens, *(token for probs in forks.values() for token in probs.tokens)}
    sorts = kinds(b"".join(_raws(pair, prompt)), _raws(pair, tokens))
    return Read(tuple(tokens), p, q, betas, sorts, dict(sorted(forks.items())), pair.pieces(mentioned))


def _chain(tokens: tuple[int, ...]) -> DraftTree:
    """A text as a block that nobody drafted."""
    return DraftTree((tokens,), (tuple(range(ROOT, len(tokens) - 1)),), (None,), ((None,) * len(tokens),), "none")


def _raws(pair: Pair, tokens: Sequence[int]) -> list[bytes]:
    """Each token's bytes; none for one that is no text."""
    known, special = pair.pieces(tokens), {*pair.tokenizer.all_special_ids}
    return [b"" if token in special else bytes.fromhex(known[token]) for token in tokens]


def survey(
    pair: Pair, settings: Settings, texts: int, length: int, watch: Callable[[float], None] = lambda share: None
) -> tuple[Read, ...]:
    """Texts that the target writes on after the first words of paragraphs of a book, evenly spread over it, read by both models.

    texts  how many; length  tokens of each. Only their numbers are kept
    """
    found = []
    for number, prompt in enumerate(openings(texts)):
        own = replace(settings, prompt=prompt, length=length, seed=settings.seed + number, uniforms={})
        ids = pair.encode(prompt)
        tokens = [token for round_ in _alone(pair, own) for token in round_.committed]
        found.append(replace(read(pair, own, ids, tokens), forks={}, pieces={}))
        watch((number + 1) / texts)
    return tuple(found)


def openings(texts: int) -> list[str]:
    """The first OPENING words of so many paragraphs of the first bundled book that have more of them, evenly spread."""
    book = next(iter(TEXTS.values())).read_text(encoding="utf-8")
    long = [words[:OPENING] for line in book.splitlines() if len(words := line.split()) > OPENING]
    return [" ".join(long[number * len(long) // texts]) for number in range(texts)]
