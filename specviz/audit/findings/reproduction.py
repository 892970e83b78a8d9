"""The smallest experiment that shows a difference again: one prompt, one token after one prefix, as few samples as suffice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt

from specviz.audit.findings.first_difference import FirstDifference, FrequencyShift
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.records import load_toml, record_key
from specviz.settings import CUT_FIELDS, Settings
from specviz.statistics.finding import ALPHA, POWER
from specviz.statistics.power import count_equality_draws_needed, count_rate_draws_needed, count_two_rates_draws_needed

NORMAL_QUANTILE = 2.326  # a normal variable is above it once in 100
SCRIPTS = load_toml("texts/reproduction")


@dataclass(frozen=True, slots=True)
class ReproducibleRequest:
    """A request for one sample, as a program without this project sends it.

    Attributes:
        body: Python source of its body, in which ``seed`` stands for the seed.
        wrote: Python source that takes the token ids from the ``answer``, or its text as a list of one.
        variable: Environment variable that holds the key; empty for none.
    """

    address: str
    body: str
    wrote: str
    variable: str = ""

    @classmethod
    def from_profile(
        cls, address: str, profile: ServerProfile, sampling: SamplingRequest, ids: bool = True, variable: str = ""
    ) -> ReproducibleRequest:
        place = '["message"]["content"]' if sampling.chat else '["text"]'
        wrote = profile.format_ids_expression(sampling) if ids else f'[answer["choices"][0]{place}]'
        return cls(address, repr(profile.build_body(sampling, _SeedVariable())), wrote, variable)

    @property
    def headers(self) -> str:
        """Python source of the request's headers."""
        key = f', "Authorization": "Bearer " + os.environ[{self.variable!r}]' if self.variable else ""
        return f'{{"Content-Type": "application/json"{key}}}'


class _SeedVariable(int):
    """A seed that writes itself as a name."""

    def __repr__(self) -> str:
        return "seed"


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How often a token came after the prefix, on the first server and on the second."""

    token: int
    text: str
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The requests for a server, or for two, and what to count.

    Attributes:
        prefix_ids: What a sample must begin with; prefix is its text.
        position: Of the token that is counted, from 1.
        token: That token; text is its text.
        observed: Its share after the prefix.
        expected: Its probability after the prefix, or its share on the second server.
        samples_with_prefix: How many, of each server, show the difference with power 99% at a level of 0.001.
        samples: Samples to draw to have as many.
        script: A program in Python that does it.
        is_whole_text: Whether ``text`` is a whole text.
        counts: Of two servers: the tokens that gain and those that lose.
        first_samples, second_samples: Tested samples of each of two servers that have the prefix; None against weights.
    """

    prompt: str
    prompt_ids: tuple[int, ...]
    prefix: str
    prefix_ids: tuple[int, ...]
    position: int
    token: int
    text: str
    expected: float = field(metadata=record_key("exact"))
    observed: float = field(metadata=record_key("seen"))
    samples_with_prefix: int = field(metadata=record_key("reaching"))
    samples: int
    script: str
    is_whole_text: bool = field(default=False, metadata=record_key("whole"))
    counts: tuple[TokenCounts, ...] = ()
    first_samples: int | None = field(default=None, metadata=record_key("n"))
    second_samples: int | None = field(default=None, metadata=record_key("m"))

    @property
    def sentence(self) -> str:
        where = f"after \u201c{self.prompt}\u201d" + (f" and \u201c{self.prefix}\u201d" if self.prefix_ids else "")
        what = "the text" if self.is_whole_text else f"the token at position {self.position}"
        if self.second_samples is not None:
            return (
                f"To show it again: {where}, {what} is \u201c{self.text}\u201d in {self.observed:.1%} of the samples of the first server and "
                f"in {self.expected:.1%} of the second's. With {self.samples:,} samples of each, a two-sample test at a level of {ALPHA:g} "
                f"rejects with power {POWER:.0%}."
            )
        return (
            f"To show it again: {where}, {what} is \u201c{self.text}\u201d in {self.observed:.1%} of the samples, and the model says "
            f"{self.expected:.1%}. {self.samples:,} samples show a difference of this size with power {POWER:.0%}; it was the largest of several, so "
            "the true one can be smaller."
        )


def plan_reproduction(
    difference: FirstDifference,
    prompt: str,
    prompt_ids: Sequence[int],
    samples: Sequence[int],
    requests: Sequence[ReproducibleRequest],
) -> Reproduction:
    """The token after the first prefix that differs that needs the fewest samples.

    Args:
        difference: The first one.
        prompt: The text that the samples continue.
        prompt_ids: Its token ids; empty where two servers are compared.
        samples: Number of samples that were tested, of each server.
        requests: One server, which is compared with weights, or two, which get requests in turn, with seeds of their own.
    """
    count = count_needed if difference.second_samples is None else count_needed_of_each
    shift = min((*difference.gains, *difference.loses), key=lambda one: (count(one), one.token))
    reached = [n for n in (difference.samples, difference.second_samples) if n is not None]
    reaching = count(shift)
    total = count_samples_to_reach(reaching, min(n / tested for n, tested in zip(reached, samples, strict=True)))
    values: dict[str, object] = {
        "prefix": list(difference.prefix),
        "token": repr(shift.text) if difference.is_whole_text else shift.token,
        "samples": total,
        "position": len(difference.prefix),
        "after": len(difference.prefix) + 1,
        "exact": shift.expected,
        "level": ALPHA,
    }
    servers = [{"address": one.address, "headers": one.headers, "body": one.body, "wrote": one.wrote} for one in requests]
    if difference.second_samples is None:
        script = SCRIPTS["one_server"].format(**values, **servers[0])
    else:
        script = SCRIPTS["two_servers"].format(**values, servers="\n".join(SCRIPTS["server"].format(**one) for one in servers))
    found = Reproduction(
        prompt=prompt,
        prompt_ids=tuple(prompt_ids),
        prefix=difference.text,
        prefix_ids=difference.prefix,
        position=difference.position,
        token=shift.token,
        text=shift.text,
        expected=shift.expected,
        observed=shift.observed,
        samples_with_prefix=reaching,
        samples=total,
        script=script,
        is_whole_text=difference.is_whole_text,
    )
    if difference.second_samples is None:
        return found
    counts = (
        TokenCounts(
            one.token, one.text, round(one.observed * difference.samples), round(one.expected * difference.second_samples)
        )
        for one in (*difference.gains, *difference.loses)
    )
    return replace(found, counts=tuple(counts), first_samples=difference.samples, second_samples=difference.second_samples)


def write_model_script(made: Reproduction, settings: Settings, target: str) -> str:
    """A program that computes the one exact probability with transformers alone.

    Empty where tokens are cut (top-k, top-p, min-p), at temperature 0, and for whole texts.

    Args:
        made: Against weights.
        settings: Of the audit.
        target: Folder or hub name of the model.
    """
    if (
        made.is_whole_text
        or settings.temperature == 0.0
        or any(getattr(settings, name) is not None for name in CUT_FIELDS)
        or settings.warpers
    ):
        return ""
    ids = [*made.prompt_ids, *made.prefix_ids]
    return SCRIPTS["model"].format(target=target, ids=ids, temperature=settings.temperature, token=made.token)


def count_samples_to_reach(reaching: int, share: float) -> int:
    """Samples of which ``reaching`` have the prefix 99 times in 100. share: of samples that have it, above 0."""
    total = reaching
    while total * share - NORMAL_QUANTILE * sqrt(total * share * (1.0 - share)) < reaching:
        total = ceil(total * 1.01) + 1
    return total


def count_needed_of_each(shift: FrequencyShift) -> int:
    """Fewest samples of each of two servers with the prefix that tell the two frequencies apart: level 0.001, power 99%."""
    return count_two_rates_draws_needed(shift.expected, shift.observed)


def count_needed(shift: FrequencyShift) -> int:
    """Fewest samples with the prefix that tell the two frequencies apart: level 0.001, power 99%."""
    return (
        count_equality_draws_needed(shift.observed)
        if shift.expected == 0.0
        else count_rate_draws_needed(shift.expected, shift.observed)
    )
