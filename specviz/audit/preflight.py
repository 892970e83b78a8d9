"""Preflight checks: what would invalidate samples of a server. Each check takes a few requests and gives a sentence.

Most use continuations at the highest temperature that the server takes. There two honest ones are practically never
equal, so equal ones mean something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specviz.audit.endpoint import Endpoint
from specviz.audit.profiles.base import SampledText, ServerAnswer, ServerProfile
from specviz.audit.sampling_request import SamplingRequest
from specviz.errors import EndpointError
from specviz.progress import ProgressCallback, ignore_progress
from specviz.statistics.finding import format_count

PENALTIES = ("repeat_penalty", "repetition_penalty", "presence_penalty", "frequency_penalty")
PENALTY_TOKENS = 48  # tokens of a greedy text in which a penalty shows
HOT_TOKENS = 16  # tokens of a continuation that is compared with another
HOT_REQUESTS = 8  # continuations that should differ
HOT_DRAWS = 300  # single tokens at the highest temperature
MIN_REACHABLE = 400  # fewer tokens than this are a filter's: no vocabulary is as small
DRAFTING_TOKENS = 32  # tokens after which every drafting method has drafted
DRAFTING_REQUESTS = 8  # requests that show whether a length is enough to draft
MIN_SHARE = 0.5  # share of seeds that must give the same text again, and of a small vocabulary that must be reachable
LOGPROB_TOLERANCE = 0.02  # difference of log probabilities that rounding explains
FILTERED_TOKENS = 100  # more different ones in 300 draws are not left by any filter that servers have by default
FLAT_TEMPERATURE = 50.0  # temperature from which tokens are so alike that their number can be estimated


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """Result of one check.

    name      short, the same for every server
    state     "safe", "caught", or "unknown" where this server does not show it
    sentence  what was seen
    stops     whether samples would show nothing, or something else than they seem to
    """

    name: str
    state: str
    sentence: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """All checks, and what follows for the collection.

    at_once   requests at a time: 1 where seeds are mixed
    choices   samples that one request may be asked for: 1 where they would be equal, or are not given
    drafted   draft tokens during the probes; None where the server does not show them
    """

    checks: tuple[PreflightCheck, ...]
    at_once: int
    choices: int
    drafted: int | None

    @property
    def blocking(self) -> list[PreflightCheck]:
        return [check for check in self.checks if check.stops]


class ServerProbe:
    """Requests continuations from one server, each with a seed that no other request of the probes has.

    at_once     most requests at a time
    seeds       from where they are taken: no sample uses one of these
    prompt_ids  ids of the prompt by the local tokenizer; None: there is none
    vocabulary  number of tokens, where it is known
    """

    def __init__(
        self,
        endpoint: Endpoint,
        profile: ServerProfile,
        sampling: SamplingRequest,
        at_once: int,
        seeds: int,
        prompt_ids: tuple[int, ...] | None = None,
        vocabulary: int | None = None,
    ):
        self.endpoint, self.profile, self.sampling = endpoint, profile, sampling
        self.at_once, self.seeds = 1 if profile.is_sequential else at_once, seeds
        self.prompt_ids, self.vocabulary = prompt_ids, vocabulary
        self.drafted, self.choices = 0, 1
        self.on_answer: Callable[[], None] = lambda: None
        self.hot_sampling = sampling.at_temperature(profile.max_temperature, HOT_TOKENS)

    def next_seed(self) -> int:
        self.seeds += 1
        return self.seeds

    def request(self, sampling: SamplingRequest, seed: int | None, choices: int = 1) -> ServerAnswer:
        path, body = self.profile.select_path(sampling, choices), self.profile.build_body(sampling, seed, choices)
        found = self.profile.read_answer(self.endpoint.request_json(path, body))
        self.drafted += found.drafted or 0
        return found

    def request_all(self, sampling: SamplingRequest, seeds: Sequence[int | None], choices: int = 1) -> list[ServerAnswer]:
        """Answers in the order of the seeds, as many at a time as samples will be. ``on_answer`` is called after each; what it raises ends it."""
        pool, found = ThreadPoolExecutor(self.at_once), []
        try:
            for answer in pool.map(lambda seed: self.request(sampling, seed, choices), seeds):
                found.append(answer)
                self.on_answer()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return found

    def reserve_seeds(self, choices: int) -> int:
        """A seed that is followed by as many free ones."""
        self.seeds += choices
        return self.seeds - choices + 1

    def sample_contents(self, sampling: SamplingRequest, seeds: Sequence[int | None]) -> list[Any]:
        return [get_content(answer.samples[0]) for answer in self.request_all(sampling, seeds)]


def get_content(sample: SampledText) -> tuple[int, ...] | str:
    """What a sample is compared by: its ids, else its text."""
    return sample.text if sample.tokens is None else sample.tokens


def run_preflight(probe: ServerProbe, on_progress: ProgressCallback = ignore_progress) -> PreflightResult:
    """Run every check. Raises EndpointError where the server does not answer; SpecvizError as ``on_progress`` raises."""
    found: list[PreflightCheck] = []
    looks = (
        check_prompt,
        check_temperature,
        check_filters,
        check_penalties,
        check_seeds,
        check_default_seed,
        check_choices,
        check_prompt_list,
        check_length,
        check_log_probabilities,
    )
    at_once = probe.at_once
    for number, look in enumerate(looks):
        probe.on_answer = partial(on_progress, number / (len(looks) + 1), f"looking for traps: {look.__name__.replace('_', ' ')}")
        probe.on_answer()
        found.append(look(probe))
        if found[-1].stops and look is check_temperature:  # nothing that follows would mean anything
            break
    else:
        probe.on_answer = partial(on_progress, len(looks) / (len(looks) + 1), "looking for traps: seeds at the same time")
        probe.on_answer()
        together = check_concurrent_seeds(probe, are_seeds_honored=found[looks.index(check_seeds)].state == "safe")
        found.append(together)
        at_once = 1 if together.state == "caught" else at_once
    on_progress(1.0, "")
    visible = bool(probe.profile.drafting_evidence)
    return PreflightResult(tuple(found), at_once, probe.choices, probe.drafted if visible else None)


def check_prompt(probe: ServerProbe) -> PreflightCheck:
    """Whether the server reads the tokens that the local tokenizer makes of the text."""
    name, answer = (
        "a prompt that is read differently",
        probe.request(replace(probe.hot_sampling, max_tokens=1), probe.next_seed()),
    )
    if probe.prompt_ids is None:
        return PreflightCheck(
            name,
            "unknown",
            f"The server read {format_count(answer.prompt_tokens, 'token')} of the prompt; no local tokenizer says which they should be."
            if answer.prompt_tokens
            else "Nothing says which tokens the server reads.",
        )
    if (ids := answer.prompt_ids or probe.profile.fetch_prompt_ids(probe.endpoint, probe.sampling)) is not None:
        if ids == probe.prompt_ids:
            return PreflightCheck(
                name,
                "safe",
                f"The server read the same {format_count(len(probe.prompt_ids), 'token')} of the prompt as the local model.",
            )
        sentence = f"The server read the tokens {list(ids[:8])}, the local tokenizer makes {list(probe.prompt_ids[:8])}"
        return PreflightCheck(name, "caught", f"{sentence}: another chat template or another start token.", True)
    if answer.prompt_tokens is None:
        return PreflightCheck(name, "unknown", "The server does not say how many tokens it read.")
    if answer.prompt_tokens == len(probe.prompt_ids):
        return PreflightCheck(
            name, "safe", f"The server read {format_count(answer.prompt_tokens, 'token')}, as many as the local model."
        )
    sentence = f"The server read {format_count(answer.prompt_tokens, 'token')}, the local tokenizer makes {len(probe.prompt_ids)}"
    return PreflightCheck(name, "caught", f"{sentence}: another chat template or another start token.", True)


def check_temperature(probe: ServerProbe) -> PreflightCheck:
    """Greedy whatever the temperature, or one answer for all."""
    name, hot = "greedy at every temperature", probe.profile.max_temperature
    texts = probe.sample_contents(probe.hot_sampling, [probe.next_seed() for _ in range(HOT_REQUESTS)])
    if len(set(texts)) > 1:
        return PreflightCheck(name, "safe", f"{format_count(len(set(texts)), 'text')} in {HOT_REQUESTS} at temperature {hot:g}.")
    cold = probe.sample_contents(replace(probe.hot_sampling, temperature=0.0), [probe.next_seed()])[0]
    if cold == texts[0]:
        sentence = f"At temperature {hot:g} all {HOT_REQUESTS} texts are the greedy one: the server does not sample."
    else:
        sentence = (
            f"{HOT_REQUESTS} requests with different seeds gave one text: the server uses one seed, or answers from a cache."
        )
    return PreflightCheck(name, "caught", sentence, True)


def check_filters(probe: ServerProbe) -> PreflightCheck:
    """How many tokens can be reached at all (Chao 1984: from those seen once and those seen twice)."""
    name, hot = "filters that nobody asked for", probe.profile.max_temperature
    tokens = probe.sample_contents(replace(probe.hot_sampling, max_tokens=1), [probe.next_seed() for _ in range(HOT_DRAWS)])
    times = Counter(Counter(tokens).values())
    distinct, once, twice = len(set(tokens)), times[1], times[2]
    reachable = distinct + once * (once - 1) / (2.0 * (twice + 1))
    sentence = f"{HOT_DRAWS} draws of one token at temperature {hot:g} gave {distinct} different ones"
    if hot < FLAT_TEMPERATURE:  # the model's own distribution may be this narrow
        if distinct > FILTERED_TOKENS:
            return PreflightCheck(
                name, "safe", f"{sentence}, so no top-k below {distinct} is in force. A mild top-p would not show here."
            )
        return PreflightCheck(
            name, "unknown", f"{sentence}: filters may be on. This server takes no temperature at which that would be certain."
        )
    if reachable >= min(MIN_REACHABLE, MIN_SHARE * (probe.vocabulary or MIN_REACHABLE / MIN_SHARE)):
        return PreflightCheck(name, "safe", f"{sentence}, as many as without filters.")
    about = f"{distinct}" if once <= 1 else f"about {reachable:.0f}"
    return PreflightCheck(name, "caught", f"The filters are on: {about} tokens are reachable ({sentence}).", True)


def check_penalties(probe: ServerProbe) -> PreflightCheck:
    """A penalty on tokens that were there before: greedy texts with the penalties as they are sent, left out, and named off."""
    name, cold = "penalties that nobody asked for", replace(probe.sampling.at_temperature(0.0, PENALTY_TOKENS))

    def text(profile: ServerProfile, **extra: float) -> Any:
        asked = replace(cold, extra=dict(cold.extra) | extra)
        found = profile.read_answer(
            probe.endpoint.request_json(profile.select_path(asked), profile.build_body(asked, probe.next_seed()))
        )
        return get_content(found.samples[0])

    usual = text(probe.profile)
    if usual != text(probe.profile):
        return PreflightCheck(name, "unknown", "Greedy texts differ from one request to the next, so a penalty would not show.")
    try:
        off = text(probe.profile, repeat_penalty=1.0, repetition_penalty=1.0)
    except EndpointError:
        off = usual  # the server refuses the fields, so it has none of them
    if usual != off:
        sentence = "Tokens that were there before are penalized. Fields that switch this off are given with --body, such as "
        return PreflightCheck(name, "caught", sentence + "'{\"repeat_penalty\": 1.0}'.", True)
    try:
        default = text(type(probe.profile)(probe.profile.refused_fields | set(PENALTIES)))
    except EndpointError:
        default = usual
    if usual != default:
        return PreflightCheck(
            name, "caught", "Unless it is told otherwise, the server penalizes tokens that were there before. Here it is told."
        )
    return PreflightCheck(name, "safe", "A greedy text is the same whether penalties are named off or not named.")


def check_seeds(probe: ServerProbe) -> PreflightCheck:
    """Whether a seed fixes a text. It need not: it only makes samples repeatable."""
    name, seeds = "seeds that are ignored", [probe.next_seed() for _ in range(3)]
    first, second = (
        [probe.request(probe.hot_sampling, seed) for seed in seeds],
        [probe.request(probe.hot_sampling, seed) for seed in seeds],
    )
    same = sum(get_content(one.samples[0]) == get_content(other.samples[0]) for one, other in zip(first, second, strict=True))
    if same == len(seeds):
        return PreflightCheck(name, "safe", f"{same} of {len(seeds)} seeds gave the same text twice.")
    return PreflightCheck(
        name, "caught", f"{same} of {len(seeds)} seeds gave the same text twice: samples cannot be drawn again."
    )


def check_concurrent_seeds(probe: ServerProbe, are_seeds_honored: bool) -> PreflightCheck:
    """Whether a seed fixes a text also while others are answered. Where it does not, requests share one generator."""
    name = "seeds that are mixed at the same time"
    if probe.at_once == 1:
        return PreflightCheck(name, "safe", "Requests are sent one by one.")
    if not are_seeds_honored:
        return PreflightCheck(name, "unknown", "Seeds are ignored, so this cannot be seen.")
    seeds = [probe.next_seed() for _ in range(HOT_REQUESTS)]
    lone = [get_content(probe.request(probe.hot_sampling, seed).samples[0]) for seed in seeds]
    together = probe.sample_contents(probe.hot_sampling, [*seeds, *seeds])
    same = sum(one == other for one, other in zip([*lone, *lone], together, strict=True))
    if same >= MIN_SHARE * len(together):
        return PreflightCheck(name, "safe", f"{same} of {len(together)} texts are the same alone and {probe.at_once} at a time.")
    sentence = (
        f"Only {same} of {len(together)} texts are the same alone and {probe.at_once} at a time: requests share one generator"
    )
    return PreflightCheck(name, "caught", f"{sentence}, so they are sent one by one.")


def check_default_seed(probe: ServerProbe) -> PreflightCheck:
    """A fixed default seed, and a cache of answers. Our requests all have seeds of their own; those of others may not."""
    name, shorter = "a default seed that is fixed, or a cache of answers", replace(probe.hot_sampling, max_tokens=HOT_TOKENS - 1)
    rounds = []
    for _ in range(2):  # some servers draw on from the last seed that anybody named
        probe.request(probe.hot_sampling, probe.seeds)
        rounds.append([get_content(probe.request(probe.hot_sampling, None).samples[0]) for _ in range(2)])
    if rounds[0][0] == rounds[0][1]:
        other = get_content(probe.request(shorter, None).samples[0])
        if rounds[0][0][: len(other)] == other:
            return PreflightCheck(
                name,
                "caught",
                "Requests without a seed all give the same text: the default seed is fixed. Every request here has its own.",
            )
        return PreflightCheck(
            name,
            "caught",
            "Equal requests get equal answers: a cache of answers. Every request here has its own seed, so no two are equal.",
        )
    if rounds[0] == rounds[1]:
        sentence = "After a request with a seed, those without one repeat the same series. Every request here has its own seed."
        return PreflightCheck(name, "caught", sentence)
    return PreflightCheck(name, "safe", "Requests without a seed give different texts.")


def check_choices(probe: ServerProbe) -> PreflightCheck:
    """How several samples of one request are seeded."""
    name = "n samples with seeds s, s + 1, ..."
    if probe.profile.max_choices < 2:
        return PreflightCheck(name, "safe", "One sample is asked for at a time.")
    seed = probe.next_seed()
    probe.next_seed()
    try:
        both = [get_content(one) for one in probe.request(probe.hot_sampling, seed, 2).samples]
    except EndpointError as error:
        return PreflightCheck(name, "unknown", f"Two samples in one request are refused ({str(error)[:120]}).")
    if len(both) < 2:
        return PreflightCheck(name, "caught", "n = 2 gave one sample: n is ignored. Samples are counted as they come.")
    if both[0] == both[1]:
        return PreflightCheck(name, "caught", "The two samples of one request are equal. One sample is asked for at a time.")
    probe.choices = probe.profile.max_choices
    if both[1] == get_content(probe.request(probe.hot_sampling, seed + 1).samples[0]):
        return PreflightCheck(
            name, "caught", "Sample i of a request has the seed s + i. Seeds of different requests are at least n apart here."
        )
    return PreflightCheck(name, "safe", "The samples of one request are different, and not those of the next seed.")


def check_prompt_list(probe: ServerProbe) -> PreflightCheck:
    """Whether equal prompts in one request get equal texts."""
    name = "one seed for a list of prompts"
    if probe.sampling.chat:
        return PreflightCheck(name, "safe", "A chat is asked with one list of messages.")
    plain = ServerProfile(probe.profile.refused_fields)
    body = plain.build_body(probe.hot_sampling, probe.next_seed()) | {"prompt": [probe.sampling.prompt] * 2}
    for name_of_field in ("presence_penalty", "frequency_penalty"):
        body.pop(name_of_field, None)
    try:
        texts = [get_content(one) for one in plain.read_answer(probe.endpoint.request_json("/completions", body, 1)).samples]
    except EndpointError:
        return PreflightCheck(name, "safe", "The server does not take a list of prompts.")
    if len(texts) == 2 and texts[0] == texts[1]:
        return PreflightCheck(name, "caught", "Two equal prompts in one request give the same text. No lists are sent here.")
    return PreflightCheck(name, "safe", "Two equal prompts in one request give different texts.")


def check_length(probe: ServerProbe) -> PreflightCheck:
    """Whether the server drafts in samples of this length, where it shows drafting at all."""
    name, profile = "requests too short to draft", probe.profile
    if not profile.drafting_evidence:
        return PreflightCheck(name, "unknown", "This server does not show whether it drafts.")
    short = count_drafted(probe, [probe.next_seed() for _ in range(DRAFTING_REQUESTS)], probe.sampling)
    if short is None:
        return PreflightCheck(
            name,
            "unknown",
            f"{profile.drafting_evidence[0].upper()}{profile.drafting_evidence[1:]} could not be read, so drafting is not seen.",
        )
    if short:
        return PreflightCheck(
            name,
            "safe",
            f"{format_count(short, 'token')} drafted in {DRAFTING_REQUESTS} requests of {probe.sampling.max_tokens}.",
        )
    if long := count_drafted(probe, [probe.next_seed() for _ in range(2)], replace(probe.sampling, max_tokens=DRAFTING_TOKENS)):
        sentence = f"Nothing is drafted in requests of {format_count(probe.sampling.max_tokens, 'token')}, and {long} in two of {DRAFTING_TOKENS}"
        return PreflightCheck(name, "caught", f"{sentence}: ask for longer ones (--max-new-tokens, --max-tokens).", True)
    return PreflightCheck(
        name,
        "unknown",
        f"Speculation was not seen at work: nothing is drafted in requests of {probe.sampling.max_tokens} or {DRAFTING_TOKENS} tokens.",
    )


def count_drafted(probe: ServerProbe, seeds: Iterable[int], sampling: SamplingRequest) -> int | None:
    """Tokens drafted while these requests were answered; None where it cannot be seen."""
    before = probe.profile.read_draft_counters(probe.endpoint)
    answers = probe.request_all(sampling, list(seeds))
    after = probe.profile.read_draft_counters(probe.endpoint)
    if before is not None and after is not None:
        probe.drafted += int(after[0] - before[0])
        return int(after[0] - before[0])
    counts = [answer.drafted for answer in answers]
    return None if None in counts else sum(count for count in counts if count is not None)


def check_log_probabilities(probe: ServerProbe) -> PreflightCheck:
    """Which log probabilities the server tells. Nothing here uses them: samples are counted."""
    name = "log probabilities of another distribution"
    asked = {"logprobs": True, "top_logprobs": 1} if probe.sampling.chat else {"logprobs": 1}
    zeros, tokens = 0, 0
    tops: list[float | None] = []
    for hot in (1.0, 2.0):
        sampling = replace(probe.hot_sampling, temperature=hot, extra=dict(probe.sampling.extra) | asked)
        plain = ServerProfile(probe.profile.refused_fields | {"presence_penalty", "frequency_penalty"})
        try:
            values, top = _parse_log_probabilities(
                probe.endpoint.request_json(plain.select_path(sampling), plain.build_body(sampling, probe.seeds), 1)
            )
        except EndpointError:
            values, top = [], None
        zeros, tokens, tops = zeros + values.count(0.0), tokens + len(values), [*tops, top]
    if not tokens:
        return PreflightCheck(name, "unknown", "The server tells no log probabilities. None are needed.")
    if zeros:
        sentence = f"{zeros} of {tokens} log probabilities are 0, as after a verifying pass that computes none."
        return PreflightCheck(name, "caught", f"{sentence} None are used here.")
    low, high = tops
    if low is None or high is None:
        return PreflightCheck(
            name, "unknown", "The server tells the log probability of the drawn token alone. None are used here."
        )
    if abs(low - high) < LOGPROB_TOLERANCE:
        return PreflightCheck(
            name, "caught", "Log probabilities are the model's own, before the temperature. None are used here."
        )
    return PreflightCheck(name, "safe", "Log probabilities follow the temperature. None are used here.")


def _parse_log_probabilities(answer: Any) -> tuple[list[float], float | None]:
    """The log probabilities of an answer's tokens, and that of the likeliest first token, in OpenAI's older form or its newer one."""
    try:
        told = answer["choices"][0]["logprobs"]
        if "content" in told:
            values = [one["logprob"] for one in told["content"]]
            first = [one["logprob"] for one in told["content"][0].get("top_logprobs") or ()]
        else:
            values, first = told["token_logprobs"], list((told.get("top_logprobs") or [{}])[0].values())
        return [float(value) for value in values if value is not None], max(map(float, first), default=None)
    except (LookupError, TypeError, ValueError, AttributeError):
        return [], None
