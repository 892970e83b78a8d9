"""The trace: what the engine records and everything else reads. Frozen records, JSON both ways, no torch.

A record stores what the rule decided; nothing derives it again. Equality, hashes and exports ignore timing. A trace can be
replayed without models: it holds the largest bars of each distribution, and one *rest* entry with sums over all other tokens.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.records import Schema, build, build_fields, record_key, to_json_value

SCHEMA = Schema("trace", 2, "The trace")
ENDINGS = ("residual", "bonus", "eos", "length")
FINISH_REASONS = ("stop", "length", "context", "")


@dataclass(frozen=True, slots=True)
class Decision:
    """One draft token and what the rule decided about it.

    Attributes:
        token: Id of the token.
        parent: Index of the parent within the round, -1 for the prefix.
        source: Name of the proposer.
        q: Probability of the token in the distribution it was drawn from.
        p: Target probability that it was tested with; after a rejected sibling, its probability in the residual distribution.
        u_draft: Random number that drew the token from q; None where the proposer draws nothing.
        u: The random number in [0, 1); None: not checked.
        threshold: What u was compared with, min(1, p/q) under the token rule; None: not checked.
        accepted: True, False, or None: not checked.
        replacement_if_rejected: The token that a rejection here would put in place; None where p <= q everywhere, and if not
            checked.
        u_replacement_if_rejected: The random number that would draw it.
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
    replacement_if_rejected: int | None = field(default=None, metadata=record_key("stand_in"))
    u_replacement_if_rejected: float | None = field(default=None, metadata=record_key("u_stand_in"))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a round ended: kind, the token that the rule added (None for eos on the path and for length), the u that drew it."""

    kind: str
    token: int | None
    u: float | None

    def __post_init__(self) -> None:
        if self.kind not in ENDINGS:
            raise ValueError(f"the ending {self.kind!r} is not known; known are {', '.join(ENDINGS)}")


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

    Attributes:
        tokens: Ids, largest max(p, q) first; the draft token and its replacement are always among them.
        p, q: Their probabilities; q is None where nothing was drafted.
        overlap: min(p, q) of each.
        residual: max(0, p - q) of each, not rescaled.
        rest: {"p", "q", "overlap", "residual"}: sums over all other ids, each taken id by id.
        beta: Sum of min(p, q) over the whole vocabulary: probability that a draft token here is accepted.
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

    Attributes:
        distributions: A Distribution per draft token and one more for the bonus token; empty when not recorded.
        timing: Seconds: draft, target, rule. Ignored by equality.
        full: The whole distributions (p: (N + 1, V), q: (N, V) float64), while a run holds them; never written to JSON.
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

    Attributes:
        pieces: The bytes of every token that the trace mentions, as hex, by id.
        models: The models of the run: names, device, dtype, parameter counts.
        encoder_ids: For encoder-decoder models the prompt that the encoders read; prompt_ids is then the decoder's start token.
        finish_reason: Why the text ends, in the words of servers: ``stop`` (a token that ends a text), ``length`` (as many tokens
            as were asked for), ``context`` (the target's context is full); empty while it does not, and in older records.
    """

    settings: dict[str, Any]
    prompt_ids: tuple[int, ...]
    rounds: tuple[Round, ...]
    text: str
    pieces: dict[int, str] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict, compare=False)
    encoder_ids: tuple[int, ...] = ()
    finish_reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.finish_reason not in FINISH_REASONS:
            raise ValueError(f"the finish reason {self.finish_reason!r} is not known; known are stop, length and context")

    @property
    def output_ids(self) -> tuple[int, ...]:
        """Generated ids only."""
        return tuple(token for round_ in self.rounds for token in round_.committed)

    @property
    def tokens_per_pass(self) -> float:
        """Mean number of tokens that a pass of the target gave; 0 for a run without rounds."""
        return len(self.output_ids) / len(self.rounds) if self.rounds else 0.0

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, under its schema; timing stands by itself."""
        rounds = []
        for round_ in self.rounds:
            row = to_json_value(replace(round_, full=None))
            del row["timing"], row["full"]
            rounds.append(row)
        record = {
            "schema": SCHEMA.tag,
            "settings": self.settings,
            "prompt_ids": self.prompt_ids,
            "rounds": rounds,
            "output_ids": self.output_ids,
            "text": self.text,
            "pieces": self.pieces,
            "models": self.models,
            "timing": [round_.timing for round_ in self.rounds],
        }
        more = {"encoder_ids": self.encoder_ids, "finish_reason": self.finish_reason}
        return record | {name: value for name, value in more.items() if value}

    def to_json(self, indent: int | None = None) -> str:
        return SCHEMA.format_record(self.to_record(), indent)

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read a trace back. Raises TraceError for anything that is not one of this schema."""
        return SCHEMA.read(text, cls._build)

    @classmethod
    def from_record(cls, record: Any) -> Trace:
        """The same from a part of another record."""
        return SCHEMA.build(record, cls._build)

    @classmethod
    def _build(cls, record: dict[str, Any]) -> Trace:
        committed = build(tuple[int, ...], record.pop("output_ids"), "output_ids")
        timing = record.pop("timing", None) or [{}] * len(record["rounds"])
        parts = [{"timing": times, "full": None} for times in timing]
        rounds = [row | part for row, part in zip(record["rounds"], parts, strict=True)]
        made = build_fields(cls, {"encoder_ids": [], "finish_reason": ""} | record | {"rounds": rounds}, "it")
        if made.output_ids != committed:
            raise ValueError("output_ids are not what its rounds commit")
        return made

    def compute_digest(self) -> str:
        """SHA-256 over what equality compares: without timing, models and finish reason."""
        record = self.to_record() | {"settings": to_json_value(self.settings), "pieces": to_json_value(self.pieces)}
        for name in ("timing", "models", "finish_reason"):
            record.pop(name, None)
        return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
