"""A verification pass whose temperatures come from uninitialized memory: each verified token meets a temperature of its own.

The content of such memory depends on earlier computations. So the temperatures that successive tokens of a text meet follow a Markov chain,
and its probabilities are fitted to the samples by expectation maximization (Baum et al. 1970; Dempster et al. 1977).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.audit.findings.known_mistakes import (
    DraftSchedule,
    EdgeProbabilities,
    KnownMistake,
    MistakeModel,
    NextTokenSplit,
    build_state_mask,
)
from specviz.audit.findings.prefix_table import PrefixTable

EM_ROUNDS = 30  # rounds of expectation maximization
MIN_SHARE = 0.05  # of the verified tokens, from which a temperature is named
MIN_PROBABILITY = 1e-300  # in place of a probability of 0
MIXED = "a temperature of its own for each verified token"


@dataclass(frozen=True, slots=True)
class TemperatureChain:
    """A fitted chain of C temperatures.

    Attributes:
        mistake: pass-temperature with it.
        written: (E,) the probability of each edge's token after its prefix.
        num_parameters: Free probabilities that the samples decide.
    """

    mistake: KnownMistake
    written: np.ndarray
    num_parameters: int


@dataclass(frozen=True, slots=True)
class _ChainInputs:
    """Inputs that are the same in all rounds.

    Attributes:
        accepted, last, either: (E, C) by temperature, as of EdgeProbabilities, and their sum.
        exact: (E,) the target's probability.
        drafting: (L, S, L + 1), of build_state_mask.
    """

    table: PrefixTable
    accepted: Tensor
    last: Tensor
    either: Tensor
    exact: Tensor
    drafting: Tensor


def fit_temperature_chains(
    edges_by_temperature: Mapping[KnownMistake, EdgeProbabilities], table: PrefixTable, schedules: Sequence[DraftSchedule]
) -> list[TemperatureChain]:
    """Fit a chain for each of S schedules, all at once: operations on so few numbers take as long for one.

    edges_by_temperature: pass-temperature at each of C temperatures, all with the same kind of draft.
    """
    ways, edges = list(edges_by_temperature), list(edges_by_temperature.values())
    accepted, last = (
        torch.from_numpy(np.stack([getattr(one, name)[0, 0] for one in edges], axis=-1)) for name in ("accepted", "last")
    )
    drafting = torch.from_numpy(np.stack([build_state_mask(one, table.length) for one in schedules], axis=1)).double()
    inputs = _ChainInputs(table, accepted, last, accepted + last, torch.from_numpy(table.gather(table.p)), drafting)
    count = torch.from_numpy(table.count).double()
    # (S, C + 1, C): how likely each temperature is after that of the verified token before; the last row is for the first one of a text.
    chain = torch.full((len(schedules), len(ways) + 1, len(ways)), 1.0 / len(ways), dtype=torch.float64)
    moves = torch.zeros_like(chain)
    for _ in range(EM_ROUNDS):
        chain.requires_grad_()
        with torch.enable_grad():
            likelihood = (count @ _follow_chain(inputs, chain)[0].clamp(min=MIN_PROBABILITY).log()).sum()
        (slope,) = torch.autograd.grad(likelihood, chain)
        chain = chain.detach()
        moves = chain * slope  # expected numbers of moves, given the samples
        often = moves.sum(-1, keepdim=True)
        chain = torch.where(often > 0.0, moves / often.clamp(min=MIN_PROBABILITY), chain)
    written, states = _follow_chain(inputs, chain)
    found = []
    for number, schedule in enumerate(schedules):
        mine = _build_model(ways, chain[number], states[:, number], schedule)
        mistake = KnownMistake("pass-temperature", ways[0].greedy, mine, words=_name_temperatures(ways, moves[number]))
        num_parameters = (len(ways) - 1) * int((moves[number].sum(-1) > 0.0).sum())
        found.append(TemperatureChain(mistake, written[:, number].numpy(), num_parameters))
    return found


def _follow_chain(inputs: _ChainInputs, chain: Tensor) -> tuple[Tensor, Tensor]:
    """As ``compute_edge_probabilities``, (E, S) and (G, S, C + 1, L + 1): a state is also the temperature of the last verified token, C for none."""
    table, length, (number, _, none) = inputs.table, inputs.table.length, chain.shape
    fresh = torch.zeros(none + 1, length + 1, dtype=torch.float64)
    fresh[none, 0] = 1.0
    states = fresh.repeat(len(table.prefixes), number, 1, 1)
    written = torch.zeros(len(table.edge), number, dtype=torch.float64)
    for here, (mine, child, at) in enumerate(table.levels):
        parents, place = np.unique(table.edge[mine], return_inverse=True)  # edges after one prefix share what came before
        before = states[torch.from_numpy(parents)]
        judging = before * inputs.drafting[here][:, None]
        met, idle = torch.einsum("pntk,ntc->pnck", judging, chain), (before - judging).sum(-1)
        verified = (met.sum(-1)[place] * inputs.either[mine][:, None]).sum(-1)
        total = verified + idle.sum(-1)[place] * inputs.exact[mine][:, None]
        written = written.index_put((torch.from_numpy(mine),), total)
        if not len(child):
            continue
        place, mine = place[at], mine[at]  # of the edges that lead to a longer prefix
        goes_on = met[place] * inputs.accepted[mine][:, None, :, None]
        ends = met.sum(-1)[place] * inputs.last[mine][:, None]
        further = torch.cat((goes_on[..., :1] + goes_on[..., length:], goes_on[..., 1 : length - 1], ends[..., None]), -1)
        further = torch.cat(
            (further, torch.zeros_like(further[:, :, :1])), 2
        )  # where a token was verified, its temperature is known
        after = torch.cat(((idle[place] * inputs.exact[mine][:, None, None])[..., None], further), -1)
        mass = total[at][:, :, None, None]
        after = torch.where(mass > 0.0, after / torch.where(mass > 0.0, mass, 1.0), fresh)
        states = states.index_put((torch.from_numpy(child),), after)
    return written, states


def _build_model(ways: list[KnownMistake], chain: Tensor, states: Tensor, schedule: DraftSchedule) -> MistakeModel:
    """The next token by the number of draft tokens just accepted, which tells something of the temperature too. states: (G, C + 1, L + 1)."""
    length = states.shape[-1] - 1
    places = [*range(min(schedule.gamma, length)), length]  # with gamma accepted ones, nothing is verified
    met = torch.einsum("gsk,sc->gkc", states[..., places], chain)
    met = met / met.sum(-1, keepdim=True).clamp(min=MIN_PROBABILITY)

    def split_tokens(table: PrefixTable) -> list[NextTokenSplit]:
        accepted, last = ([torch.zeros_like(table.p) for _ in places] for _ in range(2))
        for number, one in enumerate(ways):
            (part,) = one.model(table)
            for place in range(len(places)):
                weight = met[:, place, number, None]
                accepted[place] += weight * part.accepted
                last[place] += weight * part.last
        first, *later, fresh = (NextTokenSplit(*parts, table.p) for parts in zip(accepted, last, strict=True))
        return [NextTokenSplit(first.accepted, first.last, table.p, tuple(later), fresh)]

    return split_tokens


def _name_temperatures(ways: list[KnownMistake], moves: Tensor) -> str:
    """The most frequent temperatures and their shares of the verified tokens. moves: (C + 1, C)."""
    shares = moves.sum(0) / moves.sum().clamp(min=MIN_PROBABILITY)
    named = sorted(
        ((share, one) for share, one in zip(shares.tolist(), ways, strict=True) if share >= MIN_SHARE), key=lambda pair: -pair[0]
    )
    return f"{MIXED}: " + ", ".join(f"{one.words.removeprefix('temperature ')} ({share:.0%})" for share, one in named)
