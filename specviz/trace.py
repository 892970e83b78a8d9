"""The trace: what the engine records and everything else reads. Frozen records, JSON both ways, no torch.

A record stores what the rule decided; nothing derives it again. Timing is separate: equality, hashes and exports ignore it. A
trace can be replayed without models: besides the decisions it holds the largest bars of each distribution, and one *rest* entry
with sums over all other tokens.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from specviz.errors import TraceError

SCHEMA = "specviz-trace-2"
ENDINGS = ("residual", "bonus", "eos", "length")


@dataclass(frozen=True, slots=True)
class Decision:
    """One draft token and what the rule decided about it.

    token      id
    parent     index of the parent within the round, -1 for the prefix
    source     name of the proposer
    q          probability of the token in the distribution it was drawn from
    p          target probability that it was tested with; after a rejected sibling, its probability in the residual distribution
    u_draft    random number that drew the token from q; None where the proposer draws nothing
    u          the random number in [0, 1); None: not checked
    threshold  what u was compared with, min(1, p/q) under the token rule; None: not checked
    accepted   True, False, or None: not checked
    stand_in   the token that a rejection here would put in place; None where p <= q everywhere, and if not checked
    u_stand_in the random number that would draw it
    """

    token: int
    parent: int
    source: str
    q: float
    p: float
    u_draft: float | None
    u: float | None
    threshold: float | None
    accepted: bool | None
    stand_in: int | None = None
    u_stand_in: float | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a round ended: kind, the token that the rule added (None for eos on the path and for length), the u that drew it."""

    kind: str
    token: int | None
    u: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule decided about one row. It alone determines what is committed: the path's tokens, then the ending's."""

    decisions: tuple[Decision, ...]
    accepted_path: tuple[int, ...]
    ending: Ending

    @property
    def committed(self) -> tuple[int, ...]:
        """Token ids that join the text, in order."""
        last = () if self.ending.token is None else (self.ending.token,)
        return tuple(self.decisions[i].token for i in self.accepted_path) + last


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a figure shows of p and q after one prefix: the largest bars, and the rest of the vocabulary as four sums.

    tokens    ids, largest max(p, q) first; the draft token and its replacement are always among them
    p, q      their probabilities; q is None where nothing was drafted
    overlap   min(p, q) of each
    residual  max(0, p - q) of each, not rescaled
    rest      {"p", "q", "overlap", "residual"}: sums over all other ids, each taken id by id
    beta      sum of min(p, q) over the whole vocabulary: probability that a draft token here is accepted
    """

    tokens: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float, ...] | None
    overlap: tuple[float, ...] | None
    residual: tuple[float, ...] | None
    rest: dict[str, float]
    beta: float | None


@dataclass(frozen=True, slots=True)
class Round:
    """One round: draft tokens, the target pass over them, and the result.

    distributions  a Distribution per draft token and one more for the bonus token; empty when not asked for
    timing         seconds: draft, target, rule. Ignored by equality
    full           the whole distributions (p: (N + 1, V), q: (N, V) float64), while a run holds them; never written to JSON
    """

    prefix_length: int
    proposals: tuple[Decision, ...]
    accepted_path: tuple[int, ...]
    ending: Ending
    distributions: tuple[Distribution, ...] = ()
    timing: dict[str, float] = field(default_factory=dict, compare=False)
    full: Any = field(default=None, compare=False, repr=False)

    @property
    def committed(self) -> tuple[int, ...]:
        return Outcome(self.proposals, self.accepted_path, self.ending).committed


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run: settings, prompt, rounds and text.

    pieces       id -> the token's bytes as hex, for every id that the trace mentions
    models       the models of the run: names, device, dtype, parameter counts
    encoder_ids  for encoder-decoder models the prompt that the encoders read; prompt_ids is then the decoder's start token
    """

    settings: dict[str, Any]
    prompt_ids: tuple[int, ...]
    rounds: tuple[Round, ...]
    text: str
    pieces: dict[int, str] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict, compare=False)
    encoder_ids: tuple[int, ...] = ()

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Generated ids only."""
        return tuple(token for round_ in self.rounds for token in round_.committed)

    def to_json(self, indent: int | None = None) -> str:
        rounds = []
        for round_ in self.rounds:
            row = asdict(replace(round_, full=None))
            del row["timing"], row["full"]
            rounds.append(row)
        record = {
            "schema": SCHEMA,
            "settings": self.settings,
            "prompt_ids": self.prompt_ids,
            "rounds": rounds,
            "output_ids": self.output_ids,
            "text": self.text,
            "pieces": self.pieces,
            "models": self.models,
            "timing": [round_.timing for round_ in self.rounds],
        } | ({"encoder_ids": self.encoder_ids} if self.encoder_ids else {})
        return json.dumps(record, indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read a trace. Raises TraceError for anything that is not a trace of this schema."""
        try:
            record = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise TraceError(f"The trace is not JSON: {str(error)[:200]}.") from error
        schema = record.get("schema") if isinstance(record, dict) else None
        if schema != SCHEMA:
            raise TraceError(f"The trace has schema {schema!r}; this version reads {SCHEMA!r}.")
        try:
            timing = record.get("timing") or [{}] * len(record["rounds"])
            rounds = tuple(_round(row, times) for row, times in zip(record["rounds"], timing, strict=True))
            trace = cls(
                settings=record["settings"],
                prompt_ids=tuple(record["prompt_ids"]),
                rounds=rounds,
                text=record["text"],
                pieces={int(key): value for key, value in record.get("pieces", {}).items()},
                models=record.get("models", {}),
                encoder_ids=tuple(record.get("encoder_ids", ())),
            )
            committed = list(trace.output_ids)
            _typed(settings=(trace.settings, dict), text=(trace.text, str), models=(trace.models, dict))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise TraceError(f"The trace is damaged: {type(error).__name__} {error}.") from error
        if committed != record.get("output_ids"):
            raise TraceError("The trace is damaged: output_ids are not what its rounds commit.")
        return trace

    def digest(self) -> str:
        """SHA-256 over what equality compares: without timing and models."""
        record = json.loads(self.to_json())
        del record["timing"], record["models"]
        return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _typed(**values: tuple[Any, type]) -> None:
    """Raises TypeError for the first value that does not have its type."""
    for name, (value, kind) in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} is not a {kind.__name__}")


def _round(row: dict[str, Any], timing: dict[str, float]) -> Round:
    _typed(prefix_length=(row["prefix_length"], int), timing=(timing, dict))
    ending = Ending(**row["ending"])
    if ending.kind not in ENDINGS:
        raise ValueError(f"ending {ending.kind!r}, known are {', '.join(ENDINGS)}")
    return Round(
        prefix_length=row["prefix_length"],
        proposals=tuple(Decision(**one) for one in row["proposals"]),
        accepted_path=tuple(row["accepted_path"]),
        ending=ending,
        distributions=tuple(
            Distribution(**{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()})
            for one in row.get("distributions", ())
        ),
        timing=timing,
    )
