"""The smallest experiment that shows a difference again: one prompt, one token after one prefix, as few samples as will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from specviz.audit.manner import Manner
from specviz.audit.parting import Parting, Shift
from specviz.audit.profiles import Profile
from specviz.statistics.finding import POWER
from specviz.statistics.power import equal_draws_needed, rate_draws_needed

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


@dataclass(frozen=True, slots=True)
class Request:
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
    def of(cls, address: str, profile: Profile, manner: Manner, ids: bool = True, variable: str = "") -> Request:
        place = '["message"]["content"]' if manner.chat else '["text"]'
        wrote = profile.ids_in_python(manner) if ids else f'[answer["choices"][0]{place}]'
        return cls(address, repr(profile.body(manner, _Seed())), wrote, variable)

    @property
    def headers(self) -> str:
        """Python source of the request's headers."""
        key = f', "Authorization": "Bearer " + os.environ[{self.variable!r}]' if self.variable else ""
        return f'{{"Content-Type": "application/json"{key}}}'


class _Seed(int):
    """A seed that writes itself as a name."""

    def __repr__(self) -> str:
        return "seed"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What to ask a server, and what to count.

    prompt, prompt_ids; prefix, prefix_ids  what a sample must begin with; position  of the token that is counted, from 1
    token, text  that token; exact, seen  its probability after the prefix, and how often it came
    reaching     samples with the prefix that show the difference with power 99% at a level of 0.001; samples  to have as many
    script       a program in Python that does it
    whole        whether ``text`` is a whole text
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

    @property
    def sentence(self) -> str:
        where = f"after \u201c{self.prompt}\u201d" + (f" and \u201c{self.prefix}\u201d" if self.prefix_ids else "")
        what = "the text" if self.whole else f"token {self.position}"
        return (
            f"To show it again: {where}, {what} is \u201c{self.text}\u201d in {self.seen:.1%} of the samples, and the model says "
            f"{self.exact:.1%}. {self.samples:,} samples show that with power {POWER:.0%}."
        )


def reproduction(parting: Parting, prompt: str, prompt_ids: Sequence[int], samples: int, request: Request) -> Reproduction:
    """The token after the parting prefix that needs the fewest samples. samples: that were tested."""
    shift = min((*parting.gains, *parting.loses), key=lambda one: (needed(one), one.token))
    reaching, share = needed(shift), parting.n / samples
    total = reaching
    while total * share - Z * sqrt(total * share * (1.0 - share)) < reaching:
        total = ceil(total * 1.01) + 1
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


def needed(shift: Shift) -> int:
    """Fewest samples with the prefix that tell the two frequencies apart: level 0.001, power 99%."""
    return equal_draws_needed(shift.seen) if shift.exact == 0.0 else rate_draws_needed(shift.exact, shift.seen)
