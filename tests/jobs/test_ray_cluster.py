"""'The samples are the same bit for bit, whatever happens to the workers': a real cluster of two nodes on loopback, a worker killed.

Two nodes of one CPU each on this machine, started and ended here. A million samples of the tiny random pair.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.matrix import evaluate_matrix
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import SHARD_SIZES, SamplingSpec, SamplingTask, Session, ShardRange, draw_shard
from specviz.jobs import ray as cluster_module
from specviz.jobs.remote import RemoteCaller, open_pool
from specviz.models.pairs.loading import load_pair
from specviz.settings import Settings
from specviz.speed.prediction.study import StudySize, run_study
from tests.jobs.fake_workers import list_pids

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # Ray's own
    pytest.mark.skipif(cluster_module.find_spec("ray") is None, reason="Ray is not installed: pip install 'specviz[cluster]'"),
]
SAMPLES, SHARD = 1_000_000, 20_000


@pytest.fixture(scope="module")
def address():
    """HOST:PORT of a cluster of two nodes, both on 127.0.0.1."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv(cluster_module.MODE, "disabled")  # loopback only
        import ray
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 1024**2, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        try:
            del node["include_dashboard"]
            cluster.add_node(**node)
            yield cluster.address
        finally:
            ray.shutdown()
            cluster.shutdown()


def draw_tokens(pair, settings, executor=None, on_progress=lambda share: None):
    plan = SamplingPlan(samples=SAMPLES, seconds=1.0)
    return Session(build_decoder("speculative", pair, settings), plan, executor=executor).draw(SHARED, on_progress).tokens


def test_the_command_gives_the_same_report_on_a_cluster_of_its_own_and_leaves_no_process(pair_folders):
    """In a process of its own, because Ray keeps the token of its first cluster."""
    import psutil

    arguments = [sys.executable, "-m", "specviz", "verify", "--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    arguments += [
        "--max-new-tokens",
        "2",
        "--gamma",
        "2",
        "--mode",
        "engine",
        "--samples",
        "3000",
        "--seconds",
        "10000",
        "--min-tv",
        "0.9",
    ]
    arguments += ["--device", "cpu", "--format", "json"]
    here = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    tmp_path = Path(tempfile.mkdtemp(dir="/tmp"))  # a short one: paths of sockets have at most 107 bytes
    there = subprocess.run(
        [*arguments, "--cluster", "auto"], capture_output=True, text=True, timeout=300, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout), there.stderr
    assert here.stdout and list(tmp_path.glob("ray-*")) == []
    shutil.rmtree(tmp_path)
    assert [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(one.info["cmdline"] or [])] == []


def test_a_text_decoded_on_a_cluster_of_its_own_is_the_text_decoded_here(pair_folders):
    arguments = [sys.executable, "-m", "specviz", "decode", "--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    arguments += ["--prompt", "Once upon", "--device", "cpu"]
    here, there = (
        subprocess.run([*arguments, *more], capture_output=True, text=True, timeout=300, env=os.environ | {"TMPDIR": "/tmp"})
        for more in ((), ("--cluster", "auto"))
    )
    assert there.stdout == here.stdout and here.stdout.startswith("Once upon"), there.stderr


def test_ctrl_c_twice_ends_a_study_on_a_cluster_of_its_own_with_its_cells_and_no_process_or_file_of_ray():
    """The signal goes to the whole group, as from a terminal."""
    import psutil

    place = Path(tempfile.mkdtemp(dir="/tmp"))
    arguments = [
        sys.executable,
        "-m",
        "specviz",
        "study",
        "--continuations",
        "2",
        "--cluster",
        "auto",
        "--resume",
        str(place / "cells"),
    ]
    process = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | {"TMPDIR": str(place)}
    )
    try:
        while not (place / "cells").is_file() or not json.loads((place / "cells").read_text())["cells"]:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        started = psutil.Process(process.pid).children(recursive=True)
        assert any("raylet" in one.name() for one in started)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130 and "every finished cell is saved" in said and "Traceback" not in said, said
        assert psutil.wait_procs(started, timeout=30)[1] == [] and not [*place.glob("ray*")]
    finally:
        process.kill()
        shutil.rmtree(place)


def test_a_million_samples_with_a_worker_killed_are_those_of_this_process(pair, address, monkeypatch):
    monkeypatch.setitem(SHARD_SIZES, SHARED, SHARD)
    settings = Settings(pair=pair.name, prompt="Once upon", max_new_tokens=3, gamma=2, device="cpu")
    killed = []
    with open_pool(address, "cpu") as executor:
        assert executor.size == 2

        def kill(share):
            if share > 0.2 and not killed:
                killed.append(list_pids(executor)[0])
                os.kill(killed[0], signal.SIGKILL)

        found = draw_tokens(pair, settings, executor, kill)
        assert killed and killed[0] not in list_pids(executor)
    assert len(found) == SAMPLES and np.array_equal(found, draw_tokens(pair, settings))


def test_a_matrix_with_a_worker_killed_is_that_of_this_process(pair, address):
    settings = Settings(pair=pair.name, prompt="Once upon a time. Once upon", device="cpu")
    only, killed = ("draft", "several", "ngram"), []
    with open_pool(address, "cpu") as executor:

        def kill(share, name):
            if not killed:
                killed.append(list_pids(executor)[0])
                os.kill(killed[0], signal.SIGKILL)

        found = evaluate_matrix(pair, settings, 0.4, only, kill, executor)
    assert killed and found == evaluate_matrix(pair, settings, 0.4, only)


def test_a_study_with_a_worker_killed_is_that_of_this_process(address, tmp_path):
    """With shipped pairs, which each worker finds by name."""
    size = StudySize(openings=2, opening=8, length=4, gamma=2)
    arguments = (size, 7, ("bedtime",), (0.0, 1.0), (0.5,), ("storybook", "ngram"), partial(load_pair, device="cpu"))
    killed = []
    with open_pool(address, "cpu") as executor:

        def kill(share):
            if not killed:
                killed.append(list_pids(executor)[0])
                os.kill(killed[0], signal.SIGKILL)

        found = run_study(*arguments, on_progress=kill, resume=tmp_path / "cells", executor=executor)
    assert killed and found.cells == run_study(*arguments).cells


class PageClosedError(Exception):
    """A visitor goes away."""


def test_the_pages_draw_on_it_from_several_threads_and_a_cancelled_shard_ends_without_its_worker(pair, address):
    settings = Settings(pair=pair.name, prompt="Once upon", max_new_tokens=3, gamma=2, device="cpu")
    ids = tuple(pair.encode(settings.prompt))
    works = [SamplingSpec(name, SHARED, settings, ids) for name in ("speculative", "target", "R5")]
    with open_pool(address, "cpu") as executor:
        caller = RemoteCaller(executor, lambda settings: pair)
        caller.warm_up(draw_shard, settings, (works[0], ShardRange(0, 10)))
        assert caller.is_ready
        with ThreadPoolExecutor(3) as threads:
            found = list(
                threads.map(lambda work: caller.call(draw_shard, settings, (work, ShardRange(100, 5_000))).tokens, works)
            )
        for work, tokens in zip(works, found, strict=True):
            alone = build_decoder(work.name, pair, settings, ids).sample(work.mode, 100, 5_000).tokens
            assert np.array_equal(tokens, alone), work.name

        before, shares = set(list_pids(executor)), []

        def leave(share):
            shares.append(share)
            if share:
                raise PageClosedError

        long = SamplingSpec("speculative", ENGINE, settings, ids)
        with pytest.raises(PageClosedError):
            caller.call(draw_shard, settings, (long, ShardRange(0, 1_000_000)), leave)
        assert shares[-1] < 0.5
        again = list(
            executor.run_all(SamplingTask(caller.pair_refs[settings.pair, "cpu", "auto"], works[0]), [ShardRange(0, 50)])
        )
        assert len(again[0][1]) == 50 and before <= set(list_pids(executor))  # the second may have started meanwhile
