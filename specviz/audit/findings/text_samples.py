"""Samples that are texts without token ids, against the exact distribution of texts under local weights.

A server that tells no ids cannot be asked which tokens it wrote, and tokenizing its text again may give other ones. So the weights'
distribution of token sequences is turned into one of texts: the likely texts are found along the target, and the mass of each is the
sum over all sequences of tokens whose bytes are that text. Everything else is pooled in one cell.
"""

from __future__ import annotations

import codecs
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from specviz.decoding.samples import NONE
from specviz.errors import EvidenceError, SettingsError
from specviz.evidence.decoder import build_decoder
from specviz.evidence.sampling.sample_files import FEWEST, SampleFile, refuse_other_settings, refuse_repeats
from specviz.evidence.testing import results
from specviz.evidence.testing.hypothesis_tests import CELLS, TestPlan, TestReport, run_joint_tests
from specviz.evidence.testing.partition import Partition
from specviz.evidence.testing.report import build_report
from specviz.models.base import LanguageModel
from specviz.models.continuations import iterate_distributions_after
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, scale_progress
from specviz.settings import Settings
from specviz.statistics.finding import format_count
from specviz.statistics.twosample import compute_permutation_test

TEXT_MODE = "texts"
MIN_EXPECTED = 5.0  # samples that a cell expects at least
SEARCH_SHARE = 0.25  # a sequence is looked for if it has this share of the least mass of a cell
PRUNED_SHARE = 1e-3  # other ways to write a text are followed down to this share of it
BEAM_FACTOR = 4  # sequences kept at each length, for each cell
REPLACEMENT_CHARACTER = "\ufffd"  # in place of bytes that are no character
MIN_BROKEN = 7.0  # expected broken texts of which one would have been seen, 999 times in 1,000


WritingState = tuple[
    int, int, bytes
]  # of a sequence that is to write a text: which text, how many of its bytes are written, half a character


@dataclass(frozen=True, slots=True)
class LikelySequences:
    """Token sequences found along the target: ids -> probability, and the mass of those that end in half a character."""

    sequences: dict[tuple[int, ...], float]
    broken: float


@dataclass(frozen=True, slots=True)
class TextDistribution:
    """The exact distribution of a server's texts, as far as they are likely.

    Attributes:
        masses: Text -> probability, all sequences of tokens that write it added up.
        names: Text -> the likeliest of these sequences.
        several: Texts that several sequences write.
        ambiguous: Mass of all but the likeliest sequence of each.
        left_out: Mass at most of sequences that were not followed to their end: it belongs to some text and is counted as other
            texts.
        broken: Mass of texts that end in half a character.
        held_back: Whether the server leaves that half out.
    """

    masses: dict[str, float]
    names: dict[str, tuple[int, ...]]
    several: int
    ambiguous: float
    left_out: float
    broken: float
    held_back: bool


class TokenBytes:
    """The bytes of every token; special tokens have none, as servers leave them out."""

    def __init__(self, pieces: Mapping[int, bytes], silent: Iterable[int]):
        self.pieces = {token: b"" if token in set(silent) else raw for token, raw in pieces.items()}
        self.writing: dict[bytes, list[int]] = defaultdict(list)
        self.cut: dict[bytes, list[int]] = defaultdict(list)  # by the whole characters before half a one
        for token, raw in self.pieces.items():
            if raw:
                self.writing[raw].append(token)
                if (whole := strip_partial_character(raw)) is not None and whole != raw:
                    self.cut[whole].append(token)
        halves = [
            (raw, token) for token, raw in self.pieces.items() if 0 < len(raw) < 4 and all(byte & 0xC0 == 0x80 for byte in raw)
        ]
        self.halves = tuple(halves)  # bytes that can only go on with a character
        self.longest = max(map(len, self.writing), default=0)

    @classmethod
    def from_pair(cls, pair: LoadedPair) -> TokenBytes:
        raw = {token: bytes.fromhex(one) for token, one in pair.read_pieces(range(len(pair.tokenizer))).items()}
        return cls(raw, {*pair.tokenizer.all_special_ids, *pair.eos_token_ids})

    def join_bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.pieces.get(token, b"") for token in ids)

    def decode(self, ids: Sequence[int], held_back: bool) -> str:
        """As a server writes it: half a character at the end is left out, or stands as U+FFFD."""
        raw = self.join_bytes(ids)
        whole = strip_partial_character(raw)
        return (whole if held_back and whole is not None else raw).decode("utf-8", "replace")


def strip_partial_character(raw: bytes) -> bytes | None:
    """The bytes without half a character at their end; None if they are no UTF-8 elsewhere."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(raw).encode()
    except UnicodeDecodeError:
        return None


def find_likely_sequences(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    least: float,
    most: int,
    tokens: TokenBytes,
    eos_token_ids: frozenset[int],
) -> LikelySequences:
    """Sequences of ``length`` tokens, or fewer up to an end token, of probability ``least`` or more; at most ``most`` at each length."""
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    closed: dict[tuple[int, ...], float] = {}
    for place in range(length):
        grown: dict[tuple[int, ...], float] = {}
        paths = sorted(open_)
        for where, probs in iterate_distributions_after(
            target, prompt, np.array(paths, dtype=np.int64).reshape(len(paths), place)
        ):
            for path, row in zip(paths[where], probs, strict=True):
                for token in torch.nonzero(row * open_[path] >= least)[:, 0].tolist():
                    grown[(*path, token)] = open_[path] * float(row[token])
        grown = dict(sorted(grown.items(), key=lambda one: (-one[1], one[0]))[:most])
        ended = {ids for ids in grown if len(ids) == length or ids[-1] in eos_token_ids}
        closed |= {ids: grown[ids] for ids in ended}
        open_ = {ids: mass for ids, mass in grown.items() if ids not in ended}
        if not open_:
            break
    return LikelySequences(
        closed, sum(mass for ids, mass in closed.items() if strip_partial_character(raw := tokens.join_bytes(ids)) != raw)
    )


def compute_text_distribution(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    least: float,
    cells: int,
    tokens: TokenBytes,
    eos_token_ids: frozenset[int],
    held_back: Callable[[float], bool] = lambda broken: False,
) -> TextDistribution:
    """Every text of probability ``least`` or more, at most ``cells`` of them, with its exact probability.

    held_back: mass of texts that end in half a character -> whether the server leaves the half out.

    Raises EvidenceError where no text is as likely as that.
    """
    likely = find_likely_sequences(target, prompt, length, SEARCH_SHARE * least, BEAM_FACTOR * cells, tokens, eos_token_ids)
    hidden = held_back(likely.broken)
    found: dict[str, float] = defaultdict(float)
    best: dict[str, tuple[int, ...]] = {}
    for ids, mass in sorted(likely.sequences.items(), key=lambda one: (-one[1], one[0])):
        text = tokens.decode(ids, hidden)
        if REPLACEMENT_CHARACTER not in text:
            found[text] += mass
            best.setdefault(text, ids)
    wanted = sorted((text for text, mass in found.items() if mass >= SEARCH_SHARE * least), key=lambda text: (-found[text], text))
    masses, left_out = sum_over_tokenizations(target, prompt, length, wanted, PRUNED_SHARE * least, tokens, eos_token_ids, hidden)
    kept = sorted((text for text in wanted if masses[text] >= least), key=lambda text: (-masses[text], text))[:cells]
    if not kept:
        raise EvidenceError(
            f"No text of {format_count(length, 'token')} has a probability of {least:.2g}: collect more samples, or shorter ones."
        )
    others = {text: masses[text] - likely.sequences[best[text]] for text in kept}
    several = sum(other > PRUNED_SHARE * least for other in others.values())
    return TextDistribution(
        {text: masses[text] for text in kept},
        {text: best[text] for text in kept},
        several,
        max(0.0, sum(others.values())),
        left_out,
        likely.broken,
        hidden,
    )


def sum_over_tokenizations(
    target: LanguageModel,
    prompt: Sequence[int],
    length: int,
    texts: Sequence[str],
    least: float,
    tokens: TokenBytes,
    eos_token_ids: frozenset[int],
    held_back: bool,
) -> tuple[dict[str, float], float]:
    """Text -> probability of all token sequences that write it, and the mass of beginnings below ``least``, which are not followed."""
    goals, result, left_out = [text.encode() for text in texts], dict.fromkeys(texts, 0.0), 0.0
    ends = torch.tensor(sorted(eos_token_ids), dtype=torch.int64)
    open_: dict[tuple[int, ...], tuple[float, list[WritingState]]] = {(): (1.0, [(goal, 0, b"") for goal in range(len(goals))])}
    for place in range(length):
        grown: dict[tuple[int, ...], tuple[float, list[WritingState]]] = {}
        paths, last = sorted(open_), place == length - 1
        for where, probs in iterate_distributions_after(
            target, prompt, np.array(paths, dtype=np.int64).reshape(len(paths), place)
        ):
            for path, row in zip(paths[where], probs, strict=True):
                mass, here = open_[path]
                fresh: dict[int, list[WritingState]] = defaultdict(list)
                for goal, begun, half in here:
                    if begun == len(goals[goal]):
                        result[texts[goal]] += mass * float(row[ends].sum())
                    for token, more, cut in iterate_next_tokens(tokens, goals[goal][begun:], half, held_back):
                        if not last:
                            fresh[token].append((goal, begun + more, cut))
                        elif begun + more == len(goals[goal]):
                            result[texts[goal]] += mass * float(row[token])
                for token, states in fresh.items():
                    if (grown_mass := mass * float(row[token])) >= least:
                        grown[(*path, token)] = grown_mass, states
                    else:
                        left_out += grown_mass
        open_ = grown
        if not open_:
            break
    return result, left_out


def iterate_next_tokens(tokens: TokenBytes, rest: bytes, half: bytes, held_back: bool) -> Iterator[tuple[int, int, bytes]]:
    """Tokens that may come next where ``rest`` is still to be written: id, how many bytes of it are written, and the half character then open.

    half: the half character that is open; after it only more of its own bytes.
    """
    if half:
        yield from ((token, 0, half + raw) for raw, token in tokens.halves if strip_partial_character(half + raw) == b"")
        return
    for size in range(1, min(tokens.longest, len(rest)) + 1):
        yield from ((token, size, b"") for token in tokens.writing.get(rest[:size], ()))
    for token in tokens.cut.get(rest, ()) if held_back else ():
        yield token, len(rest), tokens.pieces[token][len(rest) :]


# The test ----------------------------------------------------------------------------------------------------------------------


def run_text_tests(
    file: SampleFile,
    settings: Settings,
    make_plan: Callable[[int, int], TestPlan],
    pair: LoadedPair,
    on_progress: ProgressCallback,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report of a file of texts, and a description of the texts, both JSON-ready. Arguments as ``report_against_weights``.

    Texts cannot be cut to fewer tokens, so ``settings.max_new_tokens`` must be the length of the requests.

    Raises EvidenceError if the file cannot be tested, SettingsError if it was sampled from another distribution.
    """
    if len(file.samples) < FEWEST:
        raise EvidenceError(f"'{file.name}' holds {format_count(len(file.samples), 'sample')}; at least {FEWEST} are needed.")
    refuse_other_settings(file, settings)
    recorded = file.settings.get("max_tokens", settings.max_new_tokens)
    if recorded != settings.max_new_tokens:
        raise SettingsError(
            "max-new-tokens", settings.max_new_tokens, f"{recorded}, as '{file.name}' says: a text cannot be cut to fewer tokens"
        )
    texts = [str(text) for text in file.samples]
    said = refuse_repeats(file)
    ids, target, tokens = pair.encode(settings.prompt), pair.open(settings)[0], TokenBytes.from_pair(pair)
    plan = make_plan(len(texts), settings.max_new_tokens)
    distribution = compute_text_distribution(
        target,
        ids,
        settings.max_new_tokens,
        MIN_EXPECTED / plan.n,
        (plan.cells or CELLS[0]) - 1,
        tokens,
        pair.eos_token_ids,
        lambda broken: omits_partial_character(texts, broken),
    )
    on_progress(0.6)
    partition, counts = count_cells(distribution, Counter(texts), plan, settings.max_new_tokens)
    reference = build_decoder("target", pair, settings, ids).sample_target(on_progress=scale_progress(on_progress, 0.6, 0.7))
    arm = [tokens.decode([token for token in row if token != NONE], distribution.held_back) for row in reference.tokens.tolist()]
    two = compute_permutation_test(
        texts[: results.REFERENCE_SAMPLES],
        arm,
        alpha=plan.level,
        name="two samples: these and target-only",
        on_progress=scale_progress(on_progress, 0.7, 1.0),
    )
    found = TestReport(TEXT_MODE, plan, (*run_joint_tests(plan, partition, counts), two), partition, counts)
    about = describe_texts(distribution, partition, counts)
    return build_report(
        file.name, [found], pair, settings, files=[file.describe()], file_note=" ".join(filter(None, (said, about["sentence"])))
    ), about


def omits_partial_character(texts: Sequence[str], broken: float) -> bool:
    """Whether a server leaves out half a character at the end: none is seen in its texts, though their probability is ``broken``."""
    return broken * len(texts) >= MIN_BROKEN and not any(REPLACEMENT_CHARACTER in text for text in texts)


def count_cells(
    distribution: TextDistribution, text_counts: Counter[str], plan: TestPlan, length: int
) -> tuple[Partition, np.ndarray]:
    """A cell for each likely text, named by its likeliest tokens, and one for all others; with how many samples lie in each.

    The lightest texts join the others until these expect MIN_EXPECTED samples too.
    """
    texts = list(distribution.masses)
    while len(texts) > 1 and 1e-9 < (1.0 - sum(distribution.masses[text] for text in texts)) * plan.n < MIN_EXPECTED:
        texts.pop()
    texts.sort(key=lambda text: distribution.names[text])
    masses = [distribution.masses[text] for text in texts]
    rest = max(0.0, 1.0 - sum(masses))
    names = ((), *(distribution.names[text] for text in texts))
    own = [text_counts[text] for text in texts]
    partition = Partition(
        names, np.array([0.0 if rest < 1e-9 else rest, *masses]), length, np.array([False] + [True] * len(texts))
    )
    return partition, np.array([sum(text_counts.values()) - sum(own), *own], dtype=np.int64)


def describe_texts(distribution: TextDistribution, partition: Partition, counts: np.ndarray) -> dict[str, Any]:
    """The fields of a report of texts, with a sentence."""
    n, pooled = int(counts.sum()), float(partition.masses[0])
    whole = "left out" if distribution.held_back else "shown as U+FFFD"
    sentence = (
        f"The server gave no token ids, so texts were compared: {format_count(len(partition.names) - 1, 'text')}, and all others ({pooled:.1%} of the "
        f"mass) in one cell. {distribution.several:,} of them can be written by several sequences of tokens, which are added up "
        f"({distribution.ambiguous:.2%} of the mass); a difference between sequences of one text cannot be seen."
    )
    if distribution.broken > 0.0:
        sentence += f" Half a character at the end ({distribution.broken:.2%}) is taken to be {whole}."
    return {
        "texts": len(partition.names) - 1,
        "pooled": pooled,
        "pooled_seen": int(counts[0]) / n,
        "several": distribution.several,
        "ambiguous": distribution.ambiguous,
        "left_out": distribution.left_out,
        "broken": distribution.broken,
        "held_back": distribution.held_back,
        "sentence": sentence,
    }
