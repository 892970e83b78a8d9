"""Workers on a Ray cluster: an actor for each CPU, or for each GPU if the pair is on one. Ray is imported only when it is used.

Ray runs whatever code reaches it. So a cluster of our own listens on loopback only, which is checked, and an address outside this
machine needs Ray's token authentication.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from specviz.errors import ClusterError, SettingsError
from specviz.jobs.workers import WORKER_POLL, WorkerDiedError

if TYPE_CHECKING:
    from specviz.jobs.tasks import Task

AUTO = "auto"
ALLOWED = "auto, for the cores of this machine, or HOST:PORT of a running Ray cluster"
CONNECT_TIMEOUT = 3.0  # seconds in which an address must answer
STORE_BYTES = 200 * 1024**2  # of the object store, in a cluster of our own
Listeners = frozenset[str]
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # with it Ray takes 127.0.0.1 as the address of this machine
CONTROL_GROUP = "control"  # concurrency group of an actor that answers while a job runs


class RayWorker:
    """A workers.Worker in an actor of Ray. ``actor_class`` is what ``ray.remote`` returns."""

    is_worn_out = False  # Ray replaces processes itself

    def __init__(self, ray: Any, actor_class: Any):
        self.ray, self.actor_class = ray, actor_class
        self.pid: int | None = None
        self.actor: Any = None
        self.reference: Any = None
        self.jobs_sent = 0

    def start(self) -> None:
        self.kill()
        self.actor, self.jobs_sent = self.actor_class.remote(), 0
        self.reference = self.actor.start.remote(os.getcwd())

    def send(self, task: Task, item: Any, urgent: bool = False) -> None:
        self.jobs_sent += 1
        self.reference = self.actor.run.remote(self.jobs_sent, task, item)

    def wait(self, seconds: float) -> bool:
        return bool(self.ray.wait([self.reference], timeout=seconds)[0])

    def receive(self) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(self.reference)
        except errors.RayTaskError as error:
            raise error.cause or error from None
        except errors.RayError:  # the actor died, or the machine that held the result
            raise WorkerDiedError from None

    def read_share(self) -> float:
        with suppress(self.ray.exceptions.RayError):  # it died, or is too busy to answer
            return self.ray.get(self.actor.read_share.options(concurrency_group=CONTROL_GROUP).remote(), timeout=WORKER_POLL)
        return 0.0

    def cancel(self) -> None:
        self.actor.cancel.options(concurrency_group=CONTROL_GROUP).remote(self.jobs_sent)

    def kill(self) -> None:
        self.pid = None
        if self.actor is not None:
            with suppress(self.ray.exceptions.RayError):  # Ray has ended, and the actor with it
                self.ray.kill(self.actor)
            self.actor = None


def create_ray_workers(ray: Any, device: str) -> list[RayWorker]:
    """A worker for each CPU of the cluster, or for each GPU if the pair is on one. Raises ClusterError if there is none."""
    from specviz.jobs.task_runner import TaskRunner  # here, so that checking an address does not import torch

    resource = "GPU" if device == "cuda" else "CPU"
    count = int(ray.cluster_resources().get(resource, 0))
    if not count:
        raise ClusterError(f"The cluster has no {resource}, and the pair is on {device}.")
    needs = {"num_cpus": 0, "num_gpus": 1} if resource == "GPU" else {"num_cpus": 1}
    actor_class = ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups={CONTROL_GROUP: 1}, **needs)(TaskRunner)
    return [RayWorker(ray, actor_class) for _ in range(count)]


def check_cluster(where: str) -> None:
    """Check that a cluster can be used, within 3 s; Ray itself would wait for 40 s. Raises SettingsError or ClusterError."""
    if where != AUTO:
        host, port = _split_address(where)
        if not _is_this_machine(host) and not _has_token():
            raise ClusterError(
                f"The cluster at {where} is not on this machine, and there is no token. Anyone who reaches a Ray cluster without "
                f"tokens can run programs on it: start it with {MODE}=token, and name its token here in {TOKEN_FILE}."
            )
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
        except OSError as error:
            raise ClusterError(f"Nothing answers at {where} ({error.strerror or error}). Is the Ray cluster running?") from error
    if find_spec("ray") is None:
        raise ClusterError("A cluster needs Ray, which is not installed: pip install 'specviz[cluster]'.")


@contextmanager
def join_cluster(where: str, before: Listeners = frozenset()) -> Iterator[Any]:
    """Connect Ray to the cluster at ``where`` while the context is open. A cluster of our own ends with it.

    ``before``: where processes listened before, as ``find_listeners`` returned it.
    """
    check_cluster(where)
    environment = dict(os.environ)
    here = where == AUTO or _is_this_machine(_split_address(where)[0])
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # else a call after the end would start an open cluster
    if here:
        os.environ.update(ON_LOOPBACK)
    else:
        os.environ[MODE] = "token"
    if where == AUTO:
        os.environ |= {MODE: "token", TOKEN: secrets.token_hex(32)}  # in the environment, so that Ray writes none to a file
    import ray

    folder = mkdtemp(prefix="ray-") if where == AUTO else None
    try:
        _connect(ray, where, folder)
        if here:
            refuse_new_listeners(before)
        yield ray
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(environment)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, where: str, folder: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    own = {"num_cpus": os.cpu_count() or 1, "object_store_memory": STORE_BYTES, "include_dashboard": False, "_temp_dir": folder}
    try:
        ray.init(address="local", **own, **quiet) if folder else ray.init(address=where, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        hint = " Is TMPDIR a long path? Ray needs a short one." if "AF_UNIX" in lines[0] else ""
        what = "Ray could not start a cluster here" if folder else f"Ray could not join the cluster at {where}"
        raise ClusterError(f"{what}: {lines[0]}{hint}") from error


def find_listeners() -> Listeners:
    """Addresses other than loopback where this process and its children listen. Raises ClusterError if they cannot be read."""
    import psutil

    addresses, own_process = set(), psutil.Process()
    try:
        for process in [own_process, *own_process.children(recursive=True)]:
            try:
                opened = process.net_connections(kind="inet")
            except psutil.NoSuchProcess:
                continue
            addresses |= {
                f"{one.laddr.ip}:{one.laddr.port}"
                for one in opened
                if one.status == psutil.CONN_LISTEN
                if not _is_loopback(one.laddr.ip)
            }
    except psutil.Error as error:
        raise ClusterError(f"--cluster was stopped: it cannot be seen where its processes listen ({error}).") from error
    return frozenset(addresses)


def refuse_new_listeners(before: Listeners = frozenset()) -> None:
    """Raise ClusterError if something listens where other machines may reach it. before: what did so before Ray started."""
    if new := find_listeners() - before:
        raise ClusterError(
            f"--cluster was stopped: Ray listens on {', '.join(sorted(new))}, where other machines may reach it. "
            "This version of Ray is not the tested one, or Ray was imported before."
        )


def _split_address(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingsError("cluster", where, ALLOWED)
    return host, int(port)


def _is_this_machine(host: str) -> bool:
    """Whether every address of a host is loopback. Raises ClusterError for an unknown host."""
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        raise ClusterError(f"There is no machine called {host!r}.") from error
    return all(_is_loopback(str(address)) for address in addresses)


def _is_loopback(text: str) -> bool:
    address = ip_address(text.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _has_token() -> bool:
    file = os.environ.get(TOKEN_FILE) or Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get(TOKEN)) or Path(file).is_file()
