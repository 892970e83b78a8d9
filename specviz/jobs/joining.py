"""Start a cluster on this machine, or join a running one, and only where nobody else can reach it without a token.

Ray runs whatever code reaches it. So a cluster of our own listens on loopback only, which is checked, and an address outside this
machine needs Ray's token authentication.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from specviz.errors import ClusterError, SettingsError

AUTO = "auto"
ALLOWED = "auto, for the cores of this machine, or HOST:PORT of a running Ray cluster"
PROBE = 3.0  # seconds in which an address must answer
STORE = 200 * 1024**2  # bytes for results on their way, of a cluster of our own
Listeners = frozenset[str]
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # with it Ray takes 127.0.0.1 as the address of this machine


def check_cluster(where: str) -> None:
    """Raises SettingsError or ClusterError for a cluster that cannot be used. Fast: Ray itself would wait for 40 s."""
    if where != AUTO:
        host, port = _split(where)
        if not _is_here(host) and not _has_token():
            raise ClusterError(
                f"The cluster at {where} is not on this machine, and there is no token. Anyone who reaches a Ray cluster without "
                f"tokens can run programs on it: start it with {MODE}=token, and name its token here in {TOKEN_FILE}."
            )
        try:
            socket.create_connection((host, port), timeout=PROBE).close()
        except OSError as error:
            raise ClusterError(f"Nothing answers at {where} ({error.strerror or error}). Is the Ray cluster running?") from error
    if find_spec("ray") is None:
        raise ClusterError("A cluster needs Ray, which is not installed: pip install 'specviz[cluster]'.")


@contextmanager
def join_cluster(where: str, before: Listeners = frozenset()) -> Iterator[Any]:
    """Ray, connected to the cluster at ``where``; left again afterward. A cluster of our own ends with it."""
    check_cluster(where)
    environment = dict(os.environ)
    here = where == AUTO or _is_here(_split(where)[0])
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
            refuse_listeners(before)
        yield ray
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(environment)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, where: str, folder: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    own = {"num_cpus": os.cpu_count() or 1, "object_store_memory": STORE, "include_dashboard": False, "_temp_dir": folder}
    try:
        ray.init(address="local", **own, **quiet) if folder else ray.init(address=where, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        hint = " Is TMPDIR a long path? Ray needs a short one." if "AF_UNIX" in said[0] else ""
        what = "Ray could not start a cluster here" if folder else f"Ray could not join the cluster at {where}"
        raise ClusterError(f"{what}: {said[0]}{hint}") from error


def find_listeners() -> Listeners:
    """Where this process and those it started listen, but for loopback. Raises ClusterError if that cannot be seen."""
    import psutil

    found, me = set(), psutil.Process()
    try:
        for process in [me, *me.children(recursive=True)]:
            try:
                opened = process.net_connections(kind="inet")
            except psutil.NoSuchProcess:
                continue
            found |= {
                f"{one.laddr.ip}:{one.laddr.port}"
                for one in opened
                if one.status == psutil.CONN_LISTEN
                if not _loopback(one.laddr.ip)
            }
    except psutil.Error as error:
        raise ClusterError(f"--cluster was stopped: it cannot be seen where its processes listen ({error}).") from error
    return frozenset(found)


def refuse_listeners(before: Listeners = frozenset()) -> None:
    """Raises ClusterError where something listens that others may reach. before: what did so already, and is not Ray's."""
    if found := find_listeners() - before:
        raise ClusterError(
            f"--cluster was stopped: Ray listens on {', '.join(sorted(found))}, where other machines may reach it. "
            "This version of Ray is not the tested one, or Ray was imported before."
        )


def _split(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingsError("cluster", where, ALLOWED)
    return host, int(port)


def _is_here(host: str) -> bool:
    """Whether every address of a host is loopback. Raises ClusterError for an unknown host."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        raise ClusterError(f"There is no machine called {host!r}.") from error
    return all(_loopback(str(one)) for one in found)


def _loopback(text: str) -> bool:
    address = ip_address(text.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _has_token() -> bool:
    file = os.environ.get(TOKEN_FILE) or Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get(TOKEN)) or Path(file).is_file()
