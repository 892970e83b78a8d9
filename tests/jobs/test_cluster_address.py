"""Who may be joined: what is refused before Ray is imported, each with a sentence."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import pytest

from specviz.__main__ import main
from specviz.errors import ClusterError, SettingsError
from specviz.jobs import ray


@pytest.fixture
def listening_port():
    """A port of this machine where something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def no_token(monkeypatch, tmp_path):
    for name in (ray.MODE, ray.TOKEN, ray.TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    "where", ["", "here", "127.0.0.1", "127.0.0.1:", ":6379", "127.0.0.1:0", "127.0.0.1:70000", "ray://h:1", "http://h:80", "h:٣"]
)
def test_a_malformed_address_is_refused_with_what_is_allowed(where):
    with pytest.raises(SettingsError, match=r"cluster must be auto, .* or HOST:PORT"):
        ray.check_cluster(where)


def test_an_address_without_a_listener_is_refused_at_once(listening_port):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ClusterError, match=rf"Nothing answers at 127\.0\.0\.1:{port} .*Is the Ray cluster running"):
        ray.check_cluster(f"127.0.0.1:{port}")


def test_an_address_outside_this_machine_needs_a_token(monkeypatch, tmp_path):
    """192.0.2.1 is for documentation: nothing is ever there, and without a token nothing is sent there."""
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("it was probed"))
    with pytest.raises(ClusterError, match="there is no token"):
        ray.check_cluster("192.0.2.1:6379")


@pytest.mark.parametrize("how", ["environment", "file", "usual file"])
def test_with_a_token_it_is_probed(monkeypatch, tmp_path, how):
    (tmp_path / ".ray").mkdir()
    file = tmp_path / (".ray/auth_token" if how == "usual file" else "token")
    if how == "environment":
        monkeypatch.setenv(ray.TOKEN, "a" * 64)
    else:
        file.write_text("a" * 64)
    if how == "file":
        monkeypatch.setenv(ray.TOKEN_FILE, str(file))

    def refuse_connection(*_, **__):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse_connection)
    with pytest.raises(ClusterError, match=r"Nothing answers at 192\.0\.2\.1:6379 \(Connection refused\)"):
        ray.check_cluster("192.0.2.1:6379")


def test_a_name_with_one_address_outside_is_outside(monkeypatch):
    both = [(0, 0, 0, "", ("127.0.0.1", 0)), (0, 0, 0, "", ("192.0.2.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: both)
    with pytest.raises(ClusterError, match="is not on this machine"):
        ray.check_cluster("both:6379")


def test_without_ray_the_sentence_says_how_to_install_it(monkeypatch, listening_port):
    monkeypatch.setattr(ray, "find_spec", lambda name: None)
    for where in ("auto", f"127.0.0.1:{listening_port}", f"[::ffff:127.0.0.1]:{listening_port}"):
        with pytest.raises(ClusterError, match=r"pip install 'specviz\[cluster\]'"):
            ray.check_cluster(where)


def test_the_command_refuses_before_any_weights_are_read(capsys):
    assert main(["verify", "--target", "/nowhere", "--draft", "/nowhere", "--cluster", "here"]) == 2
    assert "cluster must be auto" in capsys.readouterr().err
    assert main(["verify", "--sample-file", "x.jsonl", "--cluster", "auto"]) == 2
    assert "cluster must be left out with --sample-file" in capsys.readouterr().err
    assert main(["matrix", "--target", "/nowhere", "--draft", "/nowhere", "--cluster", "here"]) == 2
    assert "cluster must be auto" in capsys.readouterr().err
    assert main(["study", "--cluster", "here"]) == 2
    assert "cluster must be auto" in capsys.readouterr().err
    for command in ("decode", "bench"):
        assert main([command, "--target", "/nowhere", "--draft", "/nowhere", "--cluster", "here"]) == 2
        assert "cluster must be auto" in capsys.readouterr().err
    assert main(["decode", "--probs", "x.npz", "--cluster", "auto"]) == 2
    assert "cluster must be left out with --probs" in capsys.readouterr().err
    assert main(["bench", "curves", "--cluster", "auto"]) == 2
    assert "There is no option --cluster" in capsys.readouterr().err
    assert main(["study", "--read", "x.json", "--cluster", "auto"]) == 2
    assert "cluster must be left out with --read" in capsys.readouterr().err


def test_ray_is_imported_only_once_a_cluster_is_asked_for():
    """It takes seconds, and few have it: no file imports it when it is itself imported."""
    for path in Path(ray.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        inside = {id(node) for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) for node in ast.walk(one)}
        named = [node for node in ast.walk(tree) if isinstance(node, ast.Import) and node.names[0].name in ("ray", "psutil")]
        assert all(id(node) in inside for node in named), path.name


def test_a_process_that_listens_where_others_reach_it_is_refused(listening_port):
    pytest.importorskip("psutil", reason="psutil is not installed: pip install 'specviz[cluster]'")
    ray.refuse_new_listeners()  # loopback only, as answering is
    with (
        socket.create_server(("0.0.0.0", 0)) as server,
        pytest.raises(ClusterError, match=rf"0\.0\.0\.0:{server.getsockname()[1]}"),
    ):
        ray.refuse_new_listeners()


def test_where_listeners_cannot_be_seen_it_is_refused_too(monkeypatch):
    psutil = pytest.importorskip("psutil", reason="psutil is not installed: pip install 'specviz[cluster]'")

    def denied(*_, **__):
        raise psutil.AccessDenied(1)

    monkeypatch.setattr(psutil.Process, "net_connections", denied)
    with pytest.raises(ClusterError, match="it cannot be seen where its processes listen"):
        ray.refuse_new_listeners()
