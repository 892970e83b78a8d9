"""Load on a server with speculation on and off, in turns: who is asked, how much, and in which order.

A block is one load on one arm: ``users`` clients take prompts from one queue. A client that finds it empty goes on with further
prompts, which are not measured and are cancelled at the end, so every measured answer is written under the full load. A turn is a block
of each arm with the same prompts, in the order A B, then B A, and so on: a server that grows slower meets both arms alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

from specviz.audit.pays.streams import Prompt, StreamedAnswer, StreamRequest, stream_answer
from specviz.audit.profiles.base import DraftCounters, ServerProfile
from specviz.audit.protocol.endpoint import Endpoint
from specviz.errors import EndpointError, SettingsError
from specviz.jobs.daemon_threads import DaemonThreadPool
from specviz.progress import ProgressCallback, ignore_progress
from specviz.settings import check_declared, check_whole, declare_count

ON, OFF = "on", "off"  # the arms: speculation on, and off
MAX_USERS = 256
POLL_SECONDS = 0.2  # seconds between two checks whether to stop


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How much is sent.

    Attributes:
        users: Levels of concurrency, ascending: clients that each send their next prompt when an answer ends.
    """

    users: tuple[int, ...] = (1, 2, 4, 8)
    turns: int = declare_count(10, 2, 200, "turns at each level: a block of each arm")
    prompts_per_user: int = declare_count(2, 1, 100, "prompts of each user in a block")
    max_new_tokens: int = declare_count(96, 8, 4096, "most tokens of an answer")

    def __post_init__(self) -> None:
        check_declared(self)
        if not self.users or len(set(self.users)) < len(self.users) or list(self.users) != sorted(self.users):
            raise SettingsError("concurrency", ",".join(map(str, self.users)), "ascending whole numbers, such as 1,2,4,8")
        for users in self.users:
            check_whole("concurrency", users, 1, MAX_USERS)

    def pick_prompts(self, prompts: Sequence[Prompt], users: int, turn: int) -> list[Prompt]:
        """The prompts of a turn, the same for both arms. Later turns go on where earlier ones ended."""
        size = users * self.prompts_per_user
        return [prompts[(turn * size + number) % len(prompts)] for number in range(size)]


@dataclass(frozen=True, slots=True)
class Arm:
    """A server with speculation on, or off. name: ``on`` or ``off``."""

    name: str
    endpoint: Endpoint
    profile: ServerProfile
    request: StreamRequest


@dataclass(frozen=True, slots=True)
class Block:
    """One load on one arm.

    Attributes:
        began: Seconds by ``time.monotonic``; when the first prompt was sent.
        answers: Whole answers, in any order.
        errors: A sentence for each prompt that got none.
        counters: What the server counted during the block; None where it has no counters.
    """

    arm: str
    users: int
    turn: int
    began: float
    answers: tuple[StreamedAnswer, ...]
    errors: tuple[str, ...] = ()
    counters: DraftCounters | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the server counted the tokens of every answer."""
        return all(answer.tokens is not None for answer in self.answers)

    def compute_rate(self, in_tokens: bool) -> float:
        """Tokens, or characters, per second of all users together: each user's, from the request to the last piece."""
        sizes = [answer.tokens if in_tokens else answer.characters for answer in self.answers]
        return self.users * sum(size or 0 for size in sizes) / sum(answer.ended - answer.began for answer in self.answers)


class _Queue:
    """The prompts of a block, for several threads. After them it gives them again, not to be measured, until ``finish`` is called for all."""

    def __init__(self, prompts: Sequence[Prompt]):
        self._prompts, self._taken, self._finished, self._lock = prompts, 0, 0, threading.Lock()

    def take(self) -> tuple[Prompt, bool] | None:
        """The next prompt and whether it is measured; None when all measured ones are finished."""
        with self._lock:
            if self.is_done():
                return None
            number, self._taken = self._taken, self._taken + 1
        return self._prompts[number % len(self._prompts)], number < len(self._prompts)

    def finish(self) -> None:
        """A measured prompt was answered, or failed."""
        with self._lock:
            self._finished += 1

    def is_done(self) -> bool:
        return self._finished >= len(self._prompts)


def run_block(arm: Arm, prompts: Sequence[Prompt], users: int, turn: int) -> Block:
    """Send prompts by so many clients and wait for all answers.

    Raises EndpointError where no prompt at all was answered.
    """
    queue = _Queue(prompts)
    answers: list[StreamedAnswer] = []
    errors: list[EndpointError] = []
    before = arm.profile.read_draft_counters(arm.endpoint)

    def serve_one_user() -> None:
        while (found := queue.take()) is not None:
            prompt, is_measured = found
            try:
                is_unneeded = queue.is_done if not is_measured else lambda: False
                answer = stream_answer(arm.endpoint, arm.profile, arm.request, prompt, is_unneeded)
            except EndpointError as error:
                if is_measured:
                    errors.append(error)
                elif not queue.is_done():
                    return  # the load is lower for the rest of the block, as the error of a measured prompt says
            else:
                if is_measured:
                    answers.append(answer)
            finally:
                if is_measured:
                    queue.finish()

    pool = DaemonThreadPool(users, "user")
    began = time.monotonic()
    calls = [pool.submit(serve_one_user) for _ in range(users)]
    try:
        while wait(calls, POLL_SECONDS).not_done:
            pass
        for call in calls:
            call.result()
    except BaseException:
        arm.endpoint.stopped.set()
        raise
    finally:
        pool.close()
    if not answers:
        raise errors[0] if errors else EndpointError("The server answered none of the prompts.")
    after = None if before is None else arm.profile.read_draft_counters(arm.endpoint)
    counters = None if before is None or after is None else after - before
    return Block(arm.name, users, turn, began, tuple(answers), tuple(map(str, errors)), counters)


def run_load(
    arms: Sequence[Arm],
    prompts: Sequence[Prompt],
    plan: LoadPlan,
    done: Sequence[Block] = (),
    on_block: Callable[[Block], None] = lambda _: None,
    on_progress: ProgressCallback = ignore_progress,
) -> list[Block]:
    """All blocks of a plan, in turns.

    Args:
        arms: One, or two that are compared.
        prompts: One or more; they are used in their order, again and again.
        plan: Levels, turns and lengths.
        done: Blocks of an earlier run of the same plan, which are not repeated.
        on_block: Called with each new block; the place to store it.
        on_progress: Called with the share done and what is being done; may raise to stop.

    Raises:
        EndpointError: A server answers nothing any more.
    """
    blocks, warm = list(done), set[tuple[str, int]]()
    finished = {(block.arm, block.users, block.turn) for block in done}
    steps = list(list_steps(arms, plan))
    for number, (arm, users, turn) in enumerate(steps):
        on_progress(number / len(steps), f"{users} {'user' if users == 1 else 'users'}, turn {turn + 1} of {plan.turns}")
        if (arm.name, users, turn) in finished:
            continue
        if (arm.name, users) not in warm:  # memory, batch sizes and caches of a new load
            run_block(arm, plan.pick_prompts(prompts, users, turn)[: 2 * users], users, turn)
            warm.add((arm.name, users))
        block = run_block(arm, plan.pick_prompts(prompts, users, turn), users, turn)
        blocks.append(block)
        on_block(block)
    on_progress(1.0, "done")
    return blocks


def list_steps(arms: Sequence[Arm], plan: LoadPlan) -> Iterator[tuple[Arm, int, int]]:
    """Arm, users and turn of every block, in their order: A B, B A, A B, ..."""
    for users in plan.users:
        for turn in range(plan.turns):
            for arm in arms if turn % 2 == 0 else reversed(arms):
                yield arm, users, turn


def block_to_record(block: Block) -> dict[str, Any]:
    """A block as JSON, times from its start on. Texts are not stored."""
    answers = [
        {
            "began": round(answer.began - block.began, 6),
            "arrivals": [round(moment - block.began, 6) for moment in answer.arrivals],
            "characters": answer.characters,
            "tokens": answer.tokens,
            "finish": answer.finish,
            "drafted": answer.drafted,
            "accepted": answer.accepted,
        }
        for answer in block.answers
    ]
    return {
        "arm": block.arm,
        "users": block.users,
        "turn": block.turn,
        "answers": answers,
        "errors": list(block.errors),
        "counters": None if block.counters is None else block.counters.to_record(),
    }


def block_from_record(record: dict[str, Any]) -> Block:
    """The block of a record; its clock begins at 0."""
    answers = tuple(StreamedAnswer(**answer | {"arrivals": tuple(answer["arrivals"])}) for answer in record["answers"])
    counters = None if record["counters"] is None else DraftCounters.from_record(record["counters"])
    return Block(record["arm"], record["users"], record["turn"], 0.0, answers, tuple(record["errors"]), counters)
