"""Preflight checks: what would invalidate samples of a server. Each check takes a few requests and gives a sentence.

Most use continuations at the highest temperature that the server takes. There two honest ones are practically never
equal, so equal ones mean something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import eq
from typing import Any

from specviz.audit.profiles.answers import sum_counts
from specviz.audit.profiles.base import SampledText, ServerAnswer, ServerProfile
from specviz.audit.protocol.endpoint import FEW_TRIES, MAX_TRIES, Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import EndpointError
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import load_toml
from specviz.statistics.finding import format_count

OUTCOMES = load_toml("texts/audit_preflight")  # check -> its name, and state -> outcome -> sentence
OPENAI_PENALTIES = frozenset(("presence_penalty", "frequency_penalty"))
PENALTIES = ("repeat_penalty", "repetition_penalty", *OPENAI_PENALTIES)
PENALTY_TOKENS = 48  # tokens of a greedy text in which a penalty shows
HOT_TOKENS = 16  # tokens of a continuation that is compared with another
HOT_REQUESTS = 8  # continuations that should differ
HOT_DRAWS = 300  # single tokens at the highest temperature
MAX_HOT_CHOICES = 50  # of these in one request
MIN_REACHABLE = 400  # fewer tokens than this are a filter's: no vocabulary is as small
DRAFTING_TOKENS = 32  # tokens after which every drafting method has drafted
DRAFTING_REQUESTS = 8  # requests that show whether a length is enough to draft
MIN_SHARE = 0.5  # share of seeds that must give the same text again, and of a small vocabulary that must be reachable
LOGPROB_TOLERANCE = 0.02  # difference of log probabilities that rounding explains
FILTERED_TOKENS = 100  # more different ones in 300 draws are not left by any filter that servers have by default
PROMPT_CHECKS = ("prompt", "length")  # the checks whose result may be another after another prompt
FLAT_TEMPERATURE = 50.0  # temperature from which tokens are so alike that their number can be estimated


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """Result of one check.

    Attributes:
        name: Short, the same for every server.
        state: "safe", "caught", or "unknown" where this server does not show it.
        stops: Whether samples would show nothing, or something else than they seem to.
    """

    name: str
    state: str
    sentence: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """All checks, and what follows for the collection.

    Attributes:
        concurrency: Requests at a time: 1 where seeds are mixed.
        choices: Most samples of a request: 1 where they would be equal, or are not given.
        drafted: Draft tokens during the probes; None where the server does not show them.
    """

    checks: tuple[PreflightCheck, ...]
    concurrency: int
    choices: int
    drafted: int | None

    @property
    def blocking(self) -> list[PreflightCheck]:
        return [check for check in self.checks if check.stops]

    def find(self, check: str) -> PreflightCheck:
        """The result of a check, by its key in assets/texts/audit_preflight.toml."""
        return next(one for one in self.checks if one.name == OUTCOMES[check]["name"])


class ServerProbe:
    """Requests continuations from one server, each with a seed that no other request of the probes has.

    Attributes:
        concurrency: Most requests at a time.
        seeds: From where they are taken: no sample uses one of these.
        prompt_ids: Ids of the prompt by the local tokenizer; None: there is none.
        vocabulary: Number of tokens, where it is known.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        profile: ServerProfile,
        sampling: SamplingRequest,
        concurrency: int,
        seeds: int,
        prompt_ids: tuple[int, ...] | None = None,
        vocabulary: int | None = None,
    ):
        self.endpoint, self.profile, self.sampling = endpoint, profile, sampling
        self.concurrency, self.seeds = 1 if profile.is_sequential else concurrency, seeds
        self.prompt_ids, self.vocabulary = prompt_ids, vocabulary
        self.drafted, self.choices = 0, 1
        self.on_answer: Callable[[], None] = lambda: None
        self.hot_sampling = sampling.with_temperature(profile.max_temperature, HOT_TOKENS)

    def take_seed(self) -> int:
        self.seeds += 1
        return self.seeds

    def request(self, sampling: SamplingRequest, seed: int | None, choices: int = 1, max_tries: int = MAX_TRIES) -> ServerAnswer:
        answer = self.profile.request(self.endpoint, sampling, seed, choices, max_tries)
        self.drafted += answer.drafted or 0
        return answer

    def request_all(
        self, sampling: SamplingRequest, seeds: Sequence[int | None], choices: int = 1, max_tries: int = MAX_TRIES
    ) -> list[ServerAnswer]:
        """Answers in the order of the seeds, as many at a time as samples will be.

        ``on_answer`` is called after each; what it raises ends the work.
        """
        pool, answers = DaemonThreadPool(self.concurrency, "probe"), []
        try:
            for future in [pool.submit(self.request, sampling, seed, choices, max_tries) for seed in seeds]:
                answers.append(future.result())
                self.on_answer()
        finally:
            pool.close()
        return answers

    def reserve_seeds(self, choices: int) -> int:
        """A seed that is followed by as many free ones."""
        self.seeds += choices
        return self.seeds - choices + 1

    def sample_contents(self, sampling: SamplingRequest, seeds: Sequence[int | None]) -> list[tuple[int, ...] | str]:
        return [get_content(answer.samples[0]) for answer in self.request_all(sampling, seeds)]

    def sample_content(self, sampling: SamplingRequest, seed: int | None) -> tuple[int, ...] | str:
        return get_content(self.request(sampling, seed).samples[0])


def get_content(sample: SampledText) -> tuple[int, ...] | str:
    """What a sample is compared by: its ids, else its text."""
    return sample.text if sample.tokens is None else sample.tokens


def run_preflight(
    probe: ServerProbe, on_progress: ProgressCallback = ignore_progress, previous: PreflightResult | None = None
) -> PreflightResult:
    """Run every check.

    Args:
        probe: Of the server.
        on_progress: Called with the share done and what is being done; may raise to stop.
        previous: The result for the same server and settings after another prompt: only PROMPT_CHECKS are run again.

    Raises:
        EndpointError: The server does not answer.
    """
    if previous is not None and len(previous.checks) <= len(CHECKS):  # it ended early
        previous = None
    checks: dict[str, PreflightCheck] = {}
    if previous is not None:
        probe.choices = previous.choices
    for number, (name, check) in enumerate(CHECKS.items()):
        if previous is not None and name not in PROMPT_CHECKS:
            checks[name] = previous.find(name)
            continue
        probe.on_answer = partial(on_progress, number / (len(CHECKS) + 1), f"preflight check: {name.replace('_', ' ')}")
        probe.on_answer()
        checks[name] = check(probe)
        if name == "temperature" and checks[name].stops:  # nothing that follows would mean anything
            break
    else:
        if previous is None:
            probe.on_answer = partial(on_progress, len(CHECKS) / (len(CHECKS) + 1), "preflight check: seeds at the same time")
            probe.on_answer()
            checks["concurrent_seeds"] = _check_concurrent_seeds(probe, are_seeds_honored=checks["seeds"].state == "safe")
        else:
            checks["concurrent_seeds"] = previous.find("concurrent_seeds")
    is_mixed = "concurrent_seeds" in checks and checks["concurrent_seeds"].state == "caught"
    on_progress(1.0, "")
    visible = bool(probe.profile.drafting_evidence)
    concurrency = 1 if is_mixed else probe.concurrency
    return PreflightResult(tuple(checks.values()), concurrency, probe.choices, probe.drafted if visible else None)


def _build_check(check: str, state: str, outcome: str, **values: Any) -> PreflightCheck:
    """The result of a check, with its sentence from assets/texts/audit_preflight.toml. values: what the sentence has in braces."""
    is_blocking, known = state == "blocking", OUTCOMES[check]
    return PreflightCheck(known["name"], "caught" if is_blocking else state, known[state][outcome].format(**values), is_blocking)


def _check_prompt(probe: ServerProbe) -> PreflightCheck:
    """Whether the server reads the tokens that the local tokenizer makes of the text."""
    answer, wanted = probe.request(replace(probe.hot_sampling, max_tokens=1), probe.take_seed()), probe.prompt_ids
    count = answer.prompt_tokens
    if wanted is None:
        if not count:
            return _build_check("prompt", "unknown", "nothing")
        return _build_check("prompt", "unknown", "no_tokenizer", tokens=format_count(count, "token"))
    if (ids := answer.prompt_ids or probe.profile.fetch_prompt_ids(probe.endpoint, probe.sampling)) is not None:
        if ids == wanted:
            return _build_check("prompt", "safe", "same_ids", tokens=format_count(len(wanted), "token"))
        return _build_check("prompt", "blocking", "other_ids", ids=list(ids[:8]), wanted=list(wanted[:8]))
    if count is None:
        return _build_check("prompt", "unknown", "no_count")
    outcome = ("safe", "same_count") if count == len(wanted) else ("blocking", "other_count")
    return _build_check("prompt", *outcome, tokens=format_count(count, "token"), wanted=len(wanted))


def _check_temperature(probe: ServerProbe) -> PreflightCheck:
    """Whether the server is greedy at any temperature, or gives one answer to all requests."""
    values = {"temperature": probe.profile.max_temperature, "requests": HOT_REQUESTS}
    texts = probe.sample_contents(probe.hot_sampling, [probe.take_seed() for _ in range(HOT_REQUESTS)])
    if len(set(texts)) > 1:
        return _build_check("temperature", "safe", "different", texts=format_count(len(set(texts)), "text"), **values)
    cold = probe.sample_contents(replace(probe.hot_sampling, temperature=0.0), [probe.take_seed()])[0]
    return _build_check("temperature", "blocking", "greedy" if cold == texts[0] else "one_text", **values)


def _check_filters(probe: ServerProbe) -> PreflightCheck:
    """How many tokens can be reached at all. Several draws per request save requests; a finding is drawn again one by one."""
    sampling = replace(probe.hot_sampling, max_tokens=1)
    same_path = probe.profile.select_path(sampling, 2) == probe.profile.select_path(sampling)
    if same_path and (choices := min(probe.choices, MAX_HOT_CHOICES)) > 1:
        seeds = [probe.reserve_seeds(choices) for _ in range(-(-HOT_DRAWS // choices))]
        try:
            answers = probe.request_all(sampling, seeds, choices, FEW_TRIES)
        except EndpointError:  # refuses as many
            answers = []
        tokens = [get_content(sample) for answer in answers for sample in answer.samples][:HOT_DRAWS]
        if len(tokens) == HOT_DRAWS and (found := _judge_hot_draws(probe, tokens)).state == "safe":
            return found
    return _judge_hot_draws(probe, probe.sample_contents(sampling, [probe.take_seed() for _ in range(HOT_DRAWS)]))


def _judge_hot_draws(probe: ServerProbe, tokens: Sequence[tuple[int, ...] | str]) -> PreflightCheck:
    """How many tokens can be reached (Chao 1984: from those seen once and those seen twice)."""
    hot = probe.profile.max_temperature
    times = Counter(Counter(tokens).values())
    distinct, once, twice = len(set(tokens)), times[1], times[2]
    reachable = distinct + once * (once - 1) / (2.0 * (twice + 1))
    draws = f"{HOT_DRAWS} draws of one token at temperature {hot:g} gave {distinct} different ones"
    if hot < FLAT_TEMPERATURE:  # the model's own distribution may be this narrow
        outcome = ("safe", "no_top_k") if distinct > FILTERED_TOKENS else ("unknown", "low_temperature")
    elif reachable >= min(MIN_REACHABLE, MIN_SHARE * (probe.vocabulary or MIN_REACHABLE / MIN_SHARE)):
        outcome = "safe", "none"
    else:
        outcome = "blocking", "on"
    about = f"{distinct}" if once <= 1 else f"about {reachable:.0f}"
    return _build_check("filters", *outcome, draws=draws, distinct=distinct, reachable=about)


def _check_penalties(probe: ServerProbe) -> PreflightCheck:
    """A penalty on tokens that were there before: greedy texts with the penalties as they are sent, left out, and named off."""
    cold = probe.sampling.with_temperature(0.0, PENALTY_TOKENS)

    def write_text(profile: ServerProfile, **extra: float) -> tuple[int, ...] | str:
        sampling = replace(cold, extra=dict(cold.extra) | extra)
        return get_content(profile.request(probe.endpoint, sampling, probe.take_seed()).samples[0])

    def write_or_usual(profile: ServerProfile, **extra: float) -> tuple[int, ...] | str:
        try:
            return write_text(profile, **extra)
        except EndpointError:  # the server refuses the fields, so it has none of them
            return usual

    if set(PENALTIES) & cold.extra.keys():
        return _build_check("penalties", "unknown", "requested")
    usual = write_text(probe.profile)
    if usual != write_text(probe.profile):
        return _build_check("penalties", "unknown", "unstable")
    if usual != write_or_usual(probe.profile, repeat_penalty=1.0, repetition_penalty=1.0):
        return _build_check("penalties", "blocking", "on")
    if usual != write_or_usual(type(probe.profile)(probe.profile.refused_fields | set(PENALTIES))):
        return _build_check("penalties", "caught", "by_default")
    return _build_check("penalties", "safe", "none")


def _check_seeds(probe: ServerProbe) -> PreflightCheck:
    """Whether a seed fixes a text. It need not: it only makes samples repeatable."""
    seeds = [probe.take_seed() for _ in range(3)]
    first, second = ([probe.sample_content(probe.hot_sampling, seed) for seed in seeds] for _ in range(2))
    same = sum(map(eq, first, second))
    return _build_check(
        "seeds", *(("safe", "honored") if same == len(seeds) else ("caught", "ignored")), same=same, seeds=len(seeds)
    )


def _check_concurrent_seeds(probe: ServerProbe, are_seeds_honored: bool) -> PreflightCheck:
    """Whether a seed fixes a text also while others are answered. Where it does not, requests share one generator."""
    if probe.concurrency == 1:
        return _build_check("concurrent_seeds", "safe", "sequential")
    if not are_seeds_honored:
        return _build_check("concurrent_seeds", "unknown", "ignored")
    seeds = [probe.take_seed() for _ in range(HOT_REQUESTS)]
    alone = [probe.sample_content(probe.hot_sampling, seed) for seed in seeds]
    together = probe.sample_contents(probe.hot_sampling, [*seeds, *seeds])
    same = sum(map(eq, [*alone, *alone], together))
    outcome = ("safe", "same") if same >= MIN_SHARE * len(together) else ("caught", "mixed")
    return _build_check("concurrent_seeds", *outcome, same=same, texts=len(together), requests=probe.concurrency)


def _check_default_seed(probe: ServerProbe) -> PreflightCheck:
    """A fixed default seed, and a cache of answers. Our requests all have seeds of their own; those of others may not."""
    rounds = []
    for _ in range(2):  # some servers continue from the last seed of any request
        probe.request(probe.hot_sampling, probe.seeds)
        rounds.append([probe.sample_content(probe.hot_sampling, None) for _ in range(2)])
    if rounds[0][0] == rounds[0][1]:
        other = probe.sample_content(replace(probe.hot_sampling, max_tokens=HOT_TOKENS - 1), None)
        return _build_check("default_seed", "caught", "fixed" if rounds[0][0][: len(other)] == other else "cache")
    return _build_check("default_seed", *(("caught", "series") if rounds[0] == rounds[1] else ("safe", "different")))


def _check_choices(probe: ServerProbe) -> PreflightCheck:
    """How several samples of one request are seeded."""
    if probe.profile.max_choices < 2:
        return _build_check("choices", "safe", "one")
    seed = probe.reserve_seeds(2)
    try:
        both = [get_content(one) for one in probe.request(probe.hot_sampling, seed, 2).samples]
    except EndpointError as error:
        return _build_check("choices", "unknown", "refused", error=str(error)[:120])
    if len(both) < 2:
        return _build_check("choices", "caught", "ignored")
    if both[0] == both[1]:
        return _build_check("choices", "caught", "equal")
    probe.choices = probe.profile.max_choices
    is_next_seed = both[1] == probe.sample_content(probe.hot_sampling, seed + 1)
    return _build_check("choices", *(("caught", "next_seeds") if is_next_seed else ("safe", "different")))


def _check_prompt_list(probe: ServerProbe) -> PreflightCheck:
    """Whether equal prompts in one request get equal texts."""
    if probe.sampling.chat:
        return _build_check("prompt_list", "safe", "chat")
    plain = ServerProfile(probe.profile.refused_fields | OPENAI_PENALTIES)
    body = plain.build_body(probe.hot_sampling, probe.take_seed()) | {"prompt": [probe.sampling.prompt] * 2}
    try:
        texts = [get_content(one) for one in plain.read_answer(probe.endpoint.request_json("/completions", body, 1)).samples]
    except EndpointError:
        return _build_check("prompt_list", "safe", "refused")
    is_equal = len(texts) == 2 and texts[0] == texts[1]
    return _build_check("prompt_list", *(("caught", "equal") if is_equal else ("safe", "different")))


def _check_length(probe: ServerProbe) -> PreflightCheck:
    """Whether the server drafts in samples of this length, where it shows drafting at all."""
    evidence, length = probe.profile.drafting_evidence, probe.sampling.max_tokens
    if not evidence:
        return _build_check("length", "unknown", "hidden")
    drafted = _count_drafted(probe, [probe.take_seed() for _ in range(DRAFTING_REQUESTS)], probe.sampling)
    if drafted is None:
        return _build_check("length", "unknown", "unreadable", evidence=f"{evidence[0].upper()}{evidence[1:]}")
    if drafted:
        return _build_check(
            "length", "safe", "drafted", tokens=format_count(drafted, "token"), requests=DRAFTING_REQUESTS, length=length
        )
    if drafted := _count_drafted(
        probe, [probe.take_seed() for _ in range(2)], replace(probe.sampling, max_tokens=DRAFTING_TOKENS)
    ):
        short = format_count(length, "token")
        return _build_check("length", "blocking", "too_short", short=short, drafted=drafted, long=DRAFTING_TOKENS)
    return _build_check("length", "unknown", "not_seen", short=length, long=DRAFTING_TOKENS)


def _count_drafted(probe: ServerProbe, seeds: Sequence[int], sampling: SamplingRequest) -> int | None:
    """Tokens drafted while these requests were answered; None where it cannot be seen."""
    before = probe.profile.read_draft_counters(probe.endpoint)
    answers = probe.request_all(sampling, seeds)
    after = probe.profile.read_draft_counters(probe.endpoint)
    if before is not None and after is not None:
        drafted = int((after - before).drafted)
        probe.drafted += drafted
        return drafted
    return sum_counts([answer.drafted for answer in answers])


def _check_log_probabilities(probe: ServerProbe) -> PreflightCheck:
    """Which log probabilities the server gives. Nothing here uses them: samples are counted."""
    fields = {"logprobs": True, "top_logprobs": 1} if probe.sampling.chat else {"logprobs": 1}
    plain, found, tops = ServerProfile(probe.profile.refused_fields | OPENAI_PENALTIES), [], []
    for temperature in (1.0, 2.0):
        sampling = replace(probe.hot_sampling, temperature=temperature, extra=dict(probe.sampling.extra) | fields)
        try:
            body = plain.build_body(sampling, probe.seeds)
            values, top = parse_log_probabilities(probe.endpoint.request_json(plain.select_path(sampling), body, 1))
        except EndpointError:
            values, top = [], None
        found += values
        tops.append(top)
    if not found:
        return _build_check("log_probabilities", "unknown", "none")
    if zeros := found.count(0.0):
        return _build_check("log_probabilities", "caught", "zeros", zeros=zeros, tokens=len(found))
    low, high = tops
    if low is None or high is None:
        return _build_check("log_probabilities", "unknown", "drawn_only")
    outcome = ("caught", "unwarped") if abs(low - high) < LOGPROB_TOLERANCE else ("safe", "warped")
    return _build_check("log_probabilities", *outcome)


def parse_log_probabilities(answer: Any) -> tuple[list[float], float | None]:
    """The log probabilities of an answer's tokens, and that of the likeliest first token, in OpenAI's older form or its newer one."""
    try:
        logprobs = answer["choices"][0]["logprobs"]
        if "content" in logprobs:
            values = [one["logprob"] for one in logprobs["content"]]
            first = [one["logprob"] for one in logprobs["content"][0].get("top_logprobs") or ()]
        else:
            values, first = logprobs["token_logprobs"], list((logprobs.get("top_logprobs") or [{}])[0].values())
        return [float(value) for value in values if value is not None], max(map(float, first), default=None)
    except (LookupError, TypeError, ValueError, AttributeError):
        return [], None


CHECKS: dict[str, Callable[[ServerProbe], PreflightCheck]] = {
    "prompt": _check_prompt,
    "temperature": _check_temperature,
    "choices": _check_choices,  # before the filters, which draw several samples of a request
    "filters": _check_filters,
    "penalties": _check_penalties,
    "seeds": _check_seeds,
    "default_seed": _check_default_seed,
    "prompt_list": _check_prompt_list,
    "length": _check_length,
    "log_probabilities": _check_log_probabilities,
}
