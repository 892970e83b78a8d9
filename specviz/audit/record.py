"""The published part of an audit's record, ``report.json``: the fields that a program may rely on. A record may have further fields.

docs/reference/audit-record.schema.json is generated from these classes. Keys are only added; a key that changes its meaning gets another name.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class StatisticRecord(TypedDict):
    """One statistical test.

    Attributes:
        name: Of the test.
        n: Samples or tokens that it counted.
        p_value: As computed, in [0, 1].
        adjusted_p: Corrected for all tests of the audit (Holm 1979).
        detectable_tv: Total variation that it detects with power ``power`` at level ``alpha``.
        alpha: Level of this test.
        power: Of 1.
        note: A sentence, or empty.
    """

    name: str
    n: int
    p_value: float
    adjusted_p: float
    detectable_tv: float | None
    alpha: float
    power: float
    note: str


class AnswerRecord(TypedDict):
    """The tests of one set of samples.

    Attributes:
        verdict: Of these samples.
        sentence: The verdict in words.
        mode: What was tested; "whole texts": every token of them.
        n: Samples.
        tests: All of them.
        tv: Total variation between counts and exact distribution on the cells; null between two servers.
        detectable_tv: Total variation that these samples detect; of whole texts, the gap in the order of probability over all tokens.
    """

    verdict: str
    sentence: str
    mode: str
    n: int
    tests: list[StatisticRecord]
    tv: float | None
    detectable_tv: float


class SpeculationRecord(TypedDict):
    """Whether speculation was seen at work.

    Attributes:
        drafted: null where the server does not tell.
        verdict: In a few words.
        sentence: In a sentence.
    """

    drafted: bool | None
    verdict: str
    sentence: str


class CheckRecord(TypedDict):
    """One preflight check of a server.

    Attributes:
        name: Of the check.
        state: Whether it found something.
        sentence: What it found.
        stops: Whether samples would show nothing because of it.
    """

    name: str
    state: Literal["safe", "caught", "unknown"]
    sentence: str
    stops: bool


class ServerRecord(TypedDict):
    """One server: who answered what.

    Attributes:
        url: Its address.
        profile: Kind of server.
        about: Its description of itself.
        request: The body of the first request.
        samples: Samples in its file.
        traps: The preflight checks.
        began: ISO 8601.
        ended: ISO 8601.
    """

    url: str
    profile: str
    about: dict[str, Any]
    request: dict[str, Any]
    samples: int
    traps: list[CheckRecord]
    began: str
    ended: str


class AuditFindings(TypedDict):
    """What an audit knows beside the tests.

    Attributes:
        command: The command line that asks the same.
        speculation: Whether the server drafted.
        fields: Which fields of the requests the reference has; empty for none.
        precision: How far another precision of the same weights lies from the reference; null where it was not computed.
        texts: How texts without token ids were compared; null for token ids.
        whole_texts: What the tests of whole texts found, or why there were none; null where requests were not longer than the tested tokens.
        where: The first difference in words; null where the samples were not rejected.
        diagnosis: The known mistake that explains a rejection; null where there is none to explain.
        reproduction: An experiment that shows a rejection again; null where the samples were not rejected.
        confirmation: What that experiment showed when it was run; null where it was not.
        window: What a round longer than the samples leaves untested; empty where nothing is.
        beside: Other traffic while the samples were collected; absent where there was none.
        log_probabilities: How far the server's own log probabilities lie from the model's; absent where they were not requested.
        servers: The server, or both.
    """

    command: str
    speculation: SpeculationRecord
    fields: NotRequired[str]
    precision: dict[str, Any] | None
    texts: dict[str, Any] | None
    whole_texts: NotRequired[str | None]
    where: str | None
    diagnosis: dict[str, Any] | None
    reproduction: dict[str, Any] | None
    confirmation: NotRequired[dict[str, Any] | None]
    window: NotRequired[str]
    beside: NotRequired[dict[str, Any]]
    log_probabilities: NotRequired[dict[str, Any]]
    servers: NotRequired[list[ServerRecord]]


class AuditRecord(TypedDict):
    """The record of an audit.

    Attributes:
        schema: Of the record.
        verdict: Of all tests together.
        sentence: The verdict in words, with the distance that would have been detected.
        note: A sentence on the samples, or empty.
        n: Samples; of both servers together where two are compared.
        detectable_tv: Total variation that the samples detect.
        seed: Of the requests and of the tests.
        settings: Of the distribution that was tested.
        answers: The tests.
        audit: What is known beside them.
        versions: Of the libraries that ran.
        digest: SHA-256 of everything else; ``specviz check`` compares it.
    """

    schema: Literal["specviz-verify-2"]
    verdict: Literal["consistent", "rejected", "too few samples"]
    sentence: str
    note: str
    n: int
    detectable_tv: float
    seed: int
    settings: dict[str, Any]
    answers: list[AnswerRecord]
    audit: AuditFindings
    versions: dict[str, str]
    digest: str
