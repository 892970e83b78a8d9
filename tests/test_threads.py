"""The number of PyTorch's threads is measured: another process that computes costs decoding its share of the cores, not a factor of 50."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from types import SimpleNamespace

import pytest

from specviz import threads
from specviz.decoding.engine import build_randomness
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.models.pairs.loading import load_pair
from specviz.process import count_usable_cores
from specviz.proposers.request import open_proposer
from specviz.settings import Settings
from specviz.threads import PassThreads, count_max_threads, limit_threads, preserve_thread_count
from specviz.verification.token import TokenRule

CORES = 8


class FakeMachine:
    """PyTorch and a clock of its own. seconds_of: how long a pass takes with a number of threads."""

    def __init__(self, seconds_of: Callable[[int], float]):
        self.seconds_of, self.now, self.count, self.passes = seconds_of, 0.0, CORES, 0

    def get_num_threads(self) -> int:
        return self.count

    def set_num_threads(self, count: int) -> None:
        self.count = count

    def read_clock(self) -> float:
        return self.now

    def make_pass(self) -> None:
        self.passes += 1
        self.now += self.seconds_of(self.count)


@pytest.fixture
def unset_threads(monkeypatch):
    """A process in which nobody has chosen a number of threads; the tests' own have OMP_NUM_THREADS."""
    for name in threads.SET_BY_USER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_default", None)
    monkeypatch.setattr(threads, "_limit", None)
    monkeypatch.setattr(threads, "_list_default_counts", lambda: {CORES})


@pytest.fixture
def machine(unset_threads, monkeypatch):
    made = FakeMachine(lambda count: 1.0 / count)
    monkeypatch.setattr(threads, "torch", made)
    monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter=made.read_clock, monotonic=made.read_clock))
    return made


def run_passes(machine: FakeMachine, chosen: PassThreads, count: int = 1, tokens: int = 1) -> None:
    for _ in range(count):
        chosen.run(tokens, machine.make_pass, machine.make_pass)


@pytest.mark.parametrize(
    ("seconds_of", "count"),
    (
        (lambda count: 1.0 / count, CORES),  # perfect
        (lambda count: 1.0 / min(count, 4), 4),  # four cores are ours, the others belong to somebody else
        (lambda count: 1.0 - 0.1 * (count > 1), 1),  # a tenth is not worth a core
        (lambda count: 1.0 if count == 1 else 50.0, 1),  # the other core is busy
    ),
)
@pytest.mark.parametrize("tokens", (1, 256))
def test_the_number_doubles_as_long_as_passes_become_faster_by_more_than_an_eighth(machine, seconds_of, count, tokens):
    machine.seconds_of = seconds_of
    run_passes(machine, PassThreads(True), tokens=tokens)
    assert machine.count == count


def test_a_few_tokens_and_many_have_numbers_of_their_own(machine):
    chosen = PassThreads(True)
    run_passes(machine, chosen, tokens=threads.FEW + 1)
    machine.seconds_of = lambda count: 1.0 * count
    run_passes(machine, chosen, tokens=threads.FEW)
    assert (chosen.few.count, chosen.many.count, chosen.count_in_rounds) == (1, CORES, 1)


def test_one_pass_that_waits_for_a_core_ends_the_probe(machine):
    machine.seconds_of = lambda count: 1.0 if count == 1 else 50.0
    run_passes(machine, PassThreads(True))
    with_one, with_two, the_pass = threads.REPEATS_FEW + 1, 2, 1
    assert machine.passes <= with_one + with_two + the_pass


def test_slow_passes_call_for_a_new_probe_but_not_too_often(machine):
    machine.seconds_of = lambda count: 0.01 / count
    chosen = PassThreads(True)
    run_passes(machine, chosen, 10)
    assert machine.count == CORES
    machine.now += 60.0
    machine.seconds_of = lambda count: 0.01 if count == 1 else 0.5
    run_passes(machine, chosen, threads.STRIKES + 1)
    assert machine.count == 1, "another process computes now"
    before = machine.passes
    run_passes(machine, chosen, 100)
    assert machine.passes == before + 100
    machine.seconds_of = lambda count: 0.01 / count
    run_passes(machine, chosen)
    assert machine.count == 1
    machine.now += 10 * threads.IDLE_INTERVAL
    run_passes(machine, chosen)
    assert machine.count == CORES, "it has ended"


def test_where_choices_are_held_only_a_first_one_is_measured(machine):
    machine.seconds_of = lambda count: 0.01 / count
    chosen = PassThreads(True)
    with threads.hold_choices():
        run_passes(machine, chosen)
    assert machine.count == CORES
    machine.now += 60.0
    machine.seconds_of = lambda count: 0.01 if count == 1 else 0.5
    before = machine.passes
    with threads.hold_choices():
        run_passes(machine, chosen, 10)
    assert (machine.passes, machine.count) == (before + 10, CORES)
    run_passes(machine, chosen)
    assert machine.count == 1


def test_slow_passes_that_stay_slow_cost_a_twentieth_of_the_time_at_most(machine):
    """A machine on which every other pass of all numbers of threads takes ten times as long: probes never help."""
    state = {"number": 0}

    def seconds_of(count: int) -> float:
        state["number"] += 1
        return 0.01 / count * (10.0 if state["number"] % 40 > 20 else 1.0)

    machine.seconds_of = seconds_of
    chosen, own = PassThreads(True), 0.0
    for _ in range(20_000):
        before = machine.now
        chosen.prepare(1, machine.make_pass)
        own += machine.now - before
        began = machine.now
        machine.make_pass()
        chosen.few.note(machine.now - began)
    assert own <= 0.08 * machine.now


def test_a_number_that_the_user_has_set_is_left_alone(machine, monkeypatch):
    machine.count = 3  # torch.set_num_threads(3)
    assert count_max_threads() == 0
    run_passes(machine, PassThreads(True), 5)
    limit_threads(1)
    assert machine.count == 3 and machine.passes == 5, "and nothing was measured"
    for name in threads.SET_BY_USER:
        machine.count = CORES
        monkeypatch.setattr(threads, "_default", None)
        monkeypatch.setenv(name, "8")
        run_passes(machine, PassThreads(True))
        assert count_max_threads() == 0 and machine.count == CORES
        monkeypatch.delenv(name)


def test_a_process_that_shares_the_cores_has_fewer(machine):
    limit_threads(2)
    assert machine.count == count_max_threads() == 2
    run_passes(machine, PassThreads(True), tokens=256)
    assert machine.count == 2
    limit_threads(1)
    before = machine.passes
    run_passes(machine, PassThreads(True), tokens=256)
    assert machine.count == 1 and machine.passes == before + 1, "with one thread there is nothing to measure"
    limit_threads(4 * CORES)
    assert count_max_threads() == CORES


def test_workers_and_the_jobs_of_the_app_have_their_share(machine, monkeypatch):
    from specviz.jobs.task_runner import TaskRunner
    from specviz.web.hosting import warmup

    TaskRunner().start(os.getcwd(), 2)
    gc.unfreeze()
    assert machine.count == count_max_threads() == 2
    monkeypatch.setattr(warmup, "count_threads_per_job", lambda: 4)
    warmup.share_cores()
    assert machine.count == count_max_threads() == 4


def test_a_program_that_decodes_has_its_number_back_afterward(machine):
    machine.seconds_of = lambda count: 1.0 * count
    chosen = PassThreads(True)
    with preserve_thread_count():
        run_passes(machine, chosen)
        assert machine.count == 1
        with preserve_thread_count():
            run_passes(machine, chosen)
    assert machine.count == CORES
    machine.count = 3  # the user's, from now on
    with preserve_thread_count():
        run_passes(machine, chosen)
        assert machine.count == 3
    assert machine.count == 3


def test_passes_on_another_device_leave_the_number_alone(machine):
    run_passes(machine, PassThreads(False))
    assert machine.count == CORES and machine.passes == 1


@pytest.fixture
def probed_threads(unset_threads, monkeypatch):
    """A probe before every pass, and 1 and 2 threads in turns. Returns the numbers of probes by kind of pass.

    The numbers are counted and not set: real threads that share the cores with other tests take 20 times as long.
    """
    made = {"few": 0, "many": 0}

    def measure(self: threads.ThreadChoice, probe: Callable[[], object], most: int) -> None:
        probe()
        self.count = 3 - self.count
        made["few" if self.repeats == threads.REPEATS_FEW else "many"] += 1

    monkeypatch.setattr(threads, "_list_default_counts", lambda: {2})
    monkeypatch.setattr(threads.ThreadChoice, "is_due", lambda self, most: True)
    monkeypatch.setattr(threads.ThreadChoice, "measure", measure)
    machine = FakeMachine(lambda count: 1.0)
    machine.count = 2
    monkeypatch.setattr(threads, "torch", machine)
    return made


METHODS = (
    {},
    {"proposer": "ngram"},
    {"proposer": "lookahead"},
    {"proposer": "early-exit", "exit_layer": 1},
    {"proposer": "tree", "tree": "2-2"},
    {"engine": "device"},
)


@pytest.fixture(scope="module")
def exact_pair(pair_folders):
    """The tiny pair in float64, where the number of threads moves no token."""
    return load_pair("|".join(map(str, pair_folders)), "cpu", "float64")


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("options", METHODS, ids=lambda options: options.get("proposer") or options.get("engine", "draft"))
def test_probes_change_no_token(exact_pair, options, request):
    """A probe makes the same pass with an empty cache."""
    settings = Settings(pair=exact_pair.name, prompt="the river", max_new_tokens=16, seed=3, **options)
    expected = record_run(exact_pair, settings, bars=0).output_ids
    made = request.getfixturevalue("probed_threads")
    assert record_run(exact_pair, settings, bars=0).output_ids == expected and sum(made.values())


def test_probes_change_no_token_of_an_encoder_decoder(encoder_decoders, request):
    pair = encoder_decoders["t5"]
    settings = Settings(pair=pair.name, prompt="the river", max_new_tokens=16, seed=3)
    expected = record_run(pair, settings).output_ids
    made = request.getfixturevalue("probed_threads")
    assert record_run(pair, settings).output_ids == expected and made["few"]


def test_probes_change_no_sample_of_many_rows(exact_pair, request):
    """Batches and shared distributions read many tokens in a pass."""
    settings = Settings(pair=exact_pair.name, prompt="the river", max_new_tokens=3, seed=3)

    def draw(sampler: Callable) -> list[list[int]]:
        target, proposer = open_proposer(exact_pair, settings)
        shard = Shard(
            target, proposer, TokenRule(), build_randomness(settings), settings, exact_pair.encode("the river"), count=64
        )
        return sampler(shard).tokens.tolist()

    expected = [draw(sampler) for sampler in (sample_with_engine, sample_with_shared_distributions)]
    made = request.getfixturevalue("probed_threads")
    assert [draw(sampler) for sampler in (sample_with_engine, sample_with_shared_distributions)] == expected and made["many"]


# Beside a process that computes ------------------------------------------------------------------------------------------------

BUSY = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
DECODE = """
import os, sys, time
if cores := sys.argv[1:]:
    os.sched_setaffinity(0, map(int, cores))
import specviz
pair = specviz.Pair.from_pretrained("storybook")
print("ready", flush=True)
for line in sys.stdin:
    began = time.process_time()
    pair.decode("Once upon a time", max_new_tokens=48, gamma=3)
    print(time.process_time() - began, flush=True)
"""


def own_environment() -> dict[str, str]:
    """The environment without the number of threads that the tests set for themselves."""
    return {name: value for name, value in os.environ.items() if name not in (*threads.SET_BY_USER, "GOMP_SPINCOUNT")}


@contextmanager
def start_process(*command: str, **options) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([sys.executable, "-c", *command], **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def measure_processor_seconds() -> tuple[list[float], list[float]]:
    """Processor seconds of a text on two cores, quiet and beside a busy process, in turns. The first text of each turn may meet the change."""
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))[-2:]] if hasattr(os, "sched_getaffinity") else []
    pinned = f"import os; os.sched_setaffinity(0, {{{', '.join(cores)}}})\n" if cores else ""
    quiet, beside = [], []
    with start_process(
        DECODE, *cores, env=own_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as decoder:
        assert decoder.stdout.readline() == "ready\n"

        def decode_texts() -> list[float]:
            found = []
            for _ in range(3):
                decoder.stdin.write("\n")
                decoder.stdin.flush()
                found.append(float(decoder.stdout.readline()))
            return found[1:]

        decode_texts()
        for _ in range(4):
            quiet += decode_texts()
            with start_process(pinned + BUSY):
                beside += decode_texts()
    return quiet, beside


@pytest.mark.slow
@pytest.mark.skipif(count_usable_cores() < 2, reason="needs two cores")
def test_decoding_beside_a_busy_process_takes_at_most_three_times_the_processor():
    """One thread keeps a core of the two. Of two threads one loses its core, and the other spins until it comes back.

    Processor time, of which a machine under load gives as much, later.
    """
    quiet, beside = measure_processor_seconds()
    assert median(beside) <= 3.0 * median(quiet), (quiet, beside)
