"""A server with known costs and acceptance, without a network: blocks as a client would have seen them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from specviz.audit.pays.load import OFF, ON, Block, LoadPlan
from specviz.audit.pays.streams import StreamedAnswer

INSIDE = 2e-5  # seconds between two tokens of one round, as a client reads them


@dataclass(frozen=True)
class SimulatedServer:
    """Times in seconds. A round accepts draft tokens one after the other, each with probability ``acceptance``.

    round_growth, token_growth: seconds that each further user adds to a round and to a token.
    noise: standard deviation of the logarithm of each time; drift: of the server's speed from turn to turn, both arms alike.
    """

    acceptance: float = 0.7
    gamma: int = 3
    token_seconds: float = 0.010
    draft_seconds: float = 0.001
    token_growth: float = 0.0
    round_growth: float = 0.0
    noise: float = 0.05
    drift: float = 0.1
    prompt_seconds: float = 0.0
    counts_tokens: bool = True

    def round_seconds(self, users: int) -> float:
        return self.token_seconds + self.gamma * self.draft_seconds + self.round_growth * (users - 1)

    def plain_seconds(self, users: int) -> float:
        return self.token_seconds + self.token_growth * (users - 1)

    @property
    def tokens_per_round(self) -> float:
        return float(sum(self.acceptance**place for place in range(self.gamma + 1)))

    def true_speedup(self, users: int) -> float:
        """Of long texts. Shorter ones have less: their first token, and what a last round writes beyond the end."""
        return self.tokens_per_round * self.plain_seconds(users) / self.round_seconds(users)

    def measure_speedup(self, users: int, length: int = 96, answers: int = 1_000) -> float:
        """Of texts of these lengths, from one long run without drift and noise: the number that intervals should cover."""
        quiet = replace(self, noise=0.0, drift=0.0)
        seconds, dice = {ON: 0.0, OFF: 0.0}, np.random.default_rng(99)
        for _ in range(answers):
            tokens = int(length * dice.uniform(0.7, 1.3))
            for arm in (ON, OFF):
                seconds[arm] += quiet._simulate_answer(arm, users, 0.0, 1.0, tokens, dice).ended
        return seconds[OFF] / seconds[ON]

    def simulate(self, plan: LoadPlan, seed: int, length: int = 96) -> list[Block]:
        """All blocks. Lengths of answers are random, 0.7 to 1.3 times ``length``."""
        dice = np.random.default_rng(seed)
        blocks = []
        for users in plan.users:
            for turn in range(plan.turns):
                speed = float(np.exp(self.drift * dice.standard_normal()))
                blocks += [self._simulate_block(arm, users, turn, plan, speed, length, dice) for arm in (ON, OFF)]
        return blocks

    def _simulate_block(
        self, arm: str, users: int, turn: int, plan: LoadPlan, speed: float, length: int, dice: np.random.Generator
    ) -> Block:
        free = [(0.0, number) for number in range(users)]
        answers = []
        for _ in range(users * plan.prompts_per_user):
            began, number = heapq.heappop(free)
            answers.append(self._simulate_answer(arm, users, began, speed, int(length * dice.uniform(0.7, 1.3)), dice))
            heapq.heappush(free, (answers[-1].ended, number))
        return Block(arm, users, turn, 0.0, tuple(answers))

    def _simulate_answer(
        self, arm: str, users: int, began: float, speed: float, tokens: int, dice: np.random.Generator
    ) -> StreamedAnswer:
        sizes, seconds = np.ones(tokens, dtype=int), np.full(tokens, self.plain_seconds(users))
        if arm == ON:  # the first token comes with the prompt's pass
            sizes[1:] += np.minimum(dice.geometric(1.0 - self.acceptance, tokens - 1) - 1, self.gamma)
            seconds[1:] = self.round_seconds(users)
        noise = np.exp(self.noise * dice.standard_normal(tokens) - self.noise**2 / 2)
        ends = began + speed * (self.prompt_seconds + np.cumsum(seconds * noise))
        places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        arrivals = (np.repeat(ends, sizes) + INSIDE * places)[:tokens].tolist()
        return StreamedAnswer(began, tuple(arrivals), 4 * tokens, tokens if self.counts_tokens else None, "stop")
