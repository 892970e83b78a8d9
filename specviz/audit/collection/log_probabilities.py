"""The server's own log probabilities against the model's: a few requests show a wrong row, a stale cache or another temperature.

They say nothing of the rule that accepts and replaces draft tokens: that needs counts of samples. So they are evidence beside the
verdict, and the report says which of the two shows a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specviz.audit.collection.audited_server import AuditTarget
from specviz.audit.collection.preflight import parse_log_probabilities
from specviz.audit.collection.size import CONFIRMATION_REGION, SEED_REGION, compute_first_seed
from specviz.audit.profiles.base import ServerProfile
from specviz.decoding.samples import NONE
from specviz.errors import EndpointError
from specviz.evidence.sampling.whole_texts import LOG_FLOOR, score_texts
from specviz.models.pairs.pair import LoadedPair
from specviz.records import to_json_fields
from specviz.settings import Settings
from specviz.statistics.finding import format_count

TEXTS = 20
MIN_LIMIT = 0.05  # difference of two log probabilities that is never called one
PRECISION_FACTOR = 3.0  # times the largest difference between two precisions of the same weights
WARPED = "Log probabilities were not compared: most servers give those before temperature and cuts."
ABSENT = "Log probabilities were not compared: the server gives none beside token ids."
ZEROS = "Log probabilities were not compared: {count} of {tokens} are 0, as after a verifying pass that computes none."


@dataclass(frozen=True, slots=True)
class LogProbabilityComparison:
    """Largest and median absolute difference over all tokens, and how many differ by more than the limit; None: not compared."""

    texts: int
    tokens: int
    largest: float | None
    median: float | None
    limit: float | None
    different: int | None
    sentence: str

    def to_record(self) -> dict[str, Any]:
        return to_json_fields(self)


def compare_log_probabilities(
    target: AuditTarget, pair: LoadedPair, other: LoadedPair | None, settings: Settings
) -> LogProbabilityComparison:
    """Request TEXTS texts with their log probabilities, and compare each with the model's.

    Args:
        target: A prepared server.
        pair: The reference.
        other: The reference in another precision, whose distance bounds what rounding explains; None: not at hand.
        settings: Of the requests.

    Raises:
        EndpointError: The server stops answering; refusing the field is no error.
    """
    if settings.temperature != 1.0 or settings.cuts or target.sampling.chat:
        return _explain(WARPED)
    texts, said = _request_texts(target, settings.seed)
    if not texts:
        return _explain(ABSENT)
    given = np.array([value for values in said for value in values])
    if zeros := int((given == 0.0).sum()):
        return _explain(ZEROS.format(count=f"{zeros:,}", tokens=f"{len(given):,}"))
    tokens = np.full((len(texts), max(map(len, texts))), NONE, dtype=np.int32)
    for row, ids in enumerate(texts):
        tokens[row, : len(ids)] = ids
    model = _compute(pair, settings, tokens)
    differences = np.abs(np.maximum(given, LOG_FLOOR) - model)
    limit = (
        MIN_LIMIT
        if other is None
        else max(MIN_LIMIT, PRECISION_FACTOR * float(np.abs(_compute(other, settings, tokens) - model).max()))
    )
    far = differences > limit
    largest, median = float(differences.max()), float(np.median(differences))
    read = f"log probabilities of {format_count(len(given), 'token')} in {len(texts)} texts"
    if far.any():
        places = np.concatenate([np.arange(1, len(ids) + 1) for ids in texts])
        sentence = (
            f"The server's {read} differ from the model's by more than {limit:.2g} at {format_count(int(far.sum()), 'token')} (largest "
            f"difference {largest:.2g}, first at token {int(places[far].min())} of a text): the distribution that it computes is another one."
        )
    else:
        sentence = f"The server's {read} lie within {largest:.2g} of the model's: the rows that it computes are right. The rule is tested by counts."
    return LogProbabilityComparison(len(texts), len(given), largest, median, limit, int(far.sum()), sentence)


def _request_texts(target: AuditTarget, seed: int) -> tuple[list[tuple[int, ...]], list[list[float]]]:
    """Texts and their log probabilities; empty where the server does not give both."""
    profile, endpoint = target.preparation.server.profile, target.endpoint
    first = compute_first_seed(seed, CONFIRMATION_REGION) + SEED_REGION // 4
    texts, said = [], []
    for number in range(TEXTS):
        body = ServerProfile.build_body(profile, target.sampling, first + number) | {"logprobs": 1}
        try:
            answer = endpoint.request_json(ServerProfile.select_path(profile, target.sampling), body, 1)
            ids = profile.read_answer(answer).samples[0].tokens
        except EndpointError as error:
            if error.status in (400, 404, 405, 422, 501):  # it does not know the field, or the path
                return [], []
            raise
        values, _ = parse_log_probabilities(answer)
        if not ids or len(values) != len(ids) or not np.isfinite(values).all():
            return [], []
        texts.append(ids)
        said.append(values)
    return texts, said


def _compute(pair: LoadedPair, settings: Settings, tokens: np.ndarray) -> np.ndarray:
    """(N,) the model's log probabilities, of all texts in turn."""
    if int(tokens.max()) >= pair.vocabulary:
        raise EndpointError(
            f"The server answered with the id {int(tokens.max())}, outside the vocabulary of {pair.vocabulary} tokens."
        )
    found = score_texts(pair.open(settings)[0], None, pair.encode(settings.prompt), tokens, pair.eos_token_ids, 0)
    return found.scores.log_probability.score


def _explain(sentence: str) -> LogProbabilityComparison:
    return LogProbabilityComparison(0, 0, None, None, None, None, sentence)
