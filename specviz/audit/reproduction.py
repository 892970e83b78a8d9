"""The smallest experiment that shows a difference again: one prompt, one token after one prefix, as few samples as will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from specviz.audit.first_difference import FirstDifference, FrequencyShift
from specviz.audit.profiles.base import ServerProfile
from specviz.audit.sampling_request import SamplingRequest
from specviz.statistics.finding import ALPHA, POWER
from specviz.statistics.power import count_equality_draws_needed, count_rate_draws_needed, count_two_rates_draws_needed

Z = 2.326  # a normal variable is above it once in 100
SCRIPT = """\
import json, os, urllib.request

prefix, token, n, hits, reached = {prefix}, {token}, {samples}, 0, 0
for seed in range(1, n + 1):
    body = {body}
    request = urllib.request.Request("{address}", json.dumps(body).encode(), {headers})
    answer = json.load(urllib.request.urlopen(request))
    wrote = {wrote}
    if wrote[:{position}] == prefix:
        reached, hits = reached + 1, hits + (wrote[{position}:{after}] == [token])
print(f"{{hits}} of {{reached}}: {{hits / max(1, reached):.3f}}, the model's own distribution says {exact:.3f}")
"""

TWO_SERVER_SCRIPT = """\
import json, os, urllib.request
from math import erfc, sqrt

prefix, token, n, hits, reached = {prefix}, {token}, {samples}, [0, 0], [0, 0]
servers = [  # address, headers, the request with a seed, what an answer wrote
{servers}
]
for seed in range(1, n + 1):
    for number in ((0, 1) if seed % 2 else (1, 0)):
        address, headers, ask, read = servers[number]
        request = urllib.request.Request(address, json.dumps(ask(seed + number * n)).encode(), headers)
        wrote = read(json.load(urllib.request.urlopen(request)))
        if wrote[:{position}] == prefix:
            reached[number], hits[number] = reached[number] + 1, hits[number] + (wrote[{position}:{after}] == [token])
for number in (0, 1):
    print(f"server {{number + 1}}: {{hits[number]}} of {{reached[number]}}: {{hits[number] / max(1, reached[number]):.3f}}")
m, per = sum(hits) / max(1, sum(reached)), sum(1 / max(1, count) for count in reached)
apart = abs(hits[0] / max(1, reached[0]) - hits[1] / max(1, reached[1])) - per / 2
print(f"one rate for both: p = {{erfc(max(0.0, apart) / sqrt(2 * m * (1 - m) * per or 1)):.2g}}, rejected below {level:g}")
"""
SERVER_LINE = '    ("{address}", {headers},\n     lambda seed: {body},\n     lambda answer: {wrote}),'


@dataclass(frozen=True, slots=True)
class ReproducibleRequest:
    """How a program without this project asks a server for one sample.

    address  of the request
    body     Python source of its body, in which ``seed`` stands for the seed
    wrote    Python source that takes the token ids from the ``answer``, or its text as a list of one
    variable environment variable that holds the key; empty for none
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
    """What to ask a server, or two of them, and what to count.

    prompt, prompt_ids; prefix, prefix_ids  what a sample must begin with; position  of the token that is counted, from 1
    token, text  that token; exact, seen  its probability after the prefix, or its share on the second server, and how often it came
    reaching     samples with the prefix, of each server, that show the difference with power 99% at a level of 0.001; samples  to
                 have as many
    script       a program in Python that does it
    whole        whether ``text`` is a whole text
    counts       of two servers: the tokens that gain and those that lose; n, m  samples of each that have the prefix, None against
                 weights
    """

    prompt: str
    prompt_ids: tuple[int, ...]
    prefix: str
    prefix_ids: tuple[int, ...]
    position: int
    token: int
    text: str
    exact: float
    seen: float
    reaching: int
    samples: int
    script: str
    whole: bool = False
    counts: tuple[TokenCounts, ...] = ()
    n: int | None = None
    m: int | None = None

    @property
    def sentence(self) -> str:
        where = f"after \u201c{self.prompt}\u201d" + (f" and \u201c{self.prefix}\u201d" if self.prefix_ids else "")
        what = "the text" if self.whole else f"token {self.position}"
        if self.m is not None:
            return (
                f"To show it again: {where}, {what} is \u201c{self.text}\u201d in {self.seen:.1%} of the samples of the first server and "
                f"in {self.exact:.1%} of the second's. With {self.samples:,} samples of each, a two-sample test at a level of {ALPHA:g} "
                f"rejects with power {POWER:.0%}."
            )
        return (
            f"To show it again: {where}, {what} is \u201c{self.text}\u201d in {self.seen:.1%} of the samples, and the model says "
            f"{self.exact:.1%}. {self.samples:,} samples show that with power {POWER:.0%}."
        )


def plan_reproduction(
    parting: FirstDifference, prompt: str, prompt_ids: Sequence[int], samples: int, request: ReproducibleRequest
) -> Reproduction:
    """The token after the parting prefix that needs the fewest samples. samples: that were tested."""
    shift = min((*parting.gains, *parting.loses), key=lambda one: (count_needed(one), one.token))
    reaching = count_needed(shift)
    total = count_samples_to_reach(reaching, parting.n / samples)
    script = SCRIPT.format(
        prefix=list(parting.prefix),
        token=repr(shift.text) if parting.whole else shift.token,
        samples=total,
        headers=request.headers,
        body=request.body,
        address=request.address,
        wrote=request.wrote,
        position=len(parting.prefix),
        after=len(parting.prefix) + 1,
        exact=shift.exact,
    )
    return Reproduction(
        prompt,
        tuple(prompt_ids),
        parting.text,
        parting.prefix,
        parting.position,
        shift.token,
        shift.text,
        shift.exact,
        shift.seen,
        reaching,
        total,
        script,
        parting.whole,
    )


def plan_reproduction_of_two(
    parting: FirstDifference, prompt: str, samples: tuple[int, int], requests: tuple[ReproducibleRequest, ReproducibleRequest]
) -> Reproduction:
    """The same between two servers: both are asked in turn, with seeds of their own. samples: of each that were compared."""
    assert parting.m is not None, "a parting of two servers counts both"
    shift = min((*parting.gains, *parting.loses), key=lambda one: (count_needed_of_each(one), one.token))
    reaching = count_needed_of_each(shift)
    total = count_samples_to_reach(reaching, min(parting.n / samples[0], parting.m / samples[1]))
    script = TWO_SERVER_SCRIPT.format(
        prefix=list(parting.prefix),
        token=repr(shift.text) if parting.whole else shift.token,
        samples=total,
        servers="\n".join(
            SERVER_LINE.format(address=one.address, headers=one.headers, body=one.body, wrote=one.wrote) for one in requests
        ),
        position=len(parting.prefix),
        after=len(parting.prefix) + 1,
        level=ALPHA,
    )
    counts = tuple(
        TokenCounts(one.token, one.text, round(one.seen * parting.n), round(one.exact * parting.m))
        for one in (*parting.gains, *parting.loses)
    )
    return Reproduction(
        prompt,
        (),
        parting.text,
        parting.prefix,
        parting.position,
        shift.token,
        shift.text,
        shift.exact,
        shift.seen,
        reaching,
        total,
        script,
        parting.whole,
        counts,
        parting.n,
        parting.m,
    )


def count_samples_to_reach(reaching: int, share: float) -> int:
    """Samples of which ``reaching`` have the prefix 99 times in 100. share: of samples that have it, above 0."""
    total = reaching
    while total * share - Z * sqrt(total * share * (1.0 - share)) < reaching:
        total = ceil(total * 1.01) + 1
    return total


def count_needed_of_each(shift: FrequencyShift) -> int:
    """Fewest samples of each of two servers with the prefix that tell the two frequencies apart: level 0.001, power 99%."""
    return count_two_rates_draws_needed(shift.exact, shift.seen)


def count_needed(shift: FrequencyShift) -> int:
    """Fewest samples with the prefix that tell the two frequencies apart: level 0.001, power 99%."""
    return count_equality_draws_needed(shift.seen) if shift.exact == 0.0 else count_rate_draws_needed(shift.exact, shift.seen)
