"""A model hub that runs here: it speaks the hub's HTTP protocol to the real client library, from folders, and fails as a test asks.

Routes: /api/models/NAME[/revision/REV] (JSON with siblings and hashes), /NAME/resolve/REV/FILE (GET with Range, HEAD), as
huggingface.co answers them: X-Repo-Commit, ETag, X-Linked-Etag, X-Error-Code.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

LARGE = (".safetensors", ".bin", "tokenizer.json")  # what a hub keeps in large-file storage, named by SHA-256


@dataclass
class Repo:
    """A model of the hub.

    folder      with its files
    revisions   branch or tag -> commit
    gated       whether its files need an account; account  the token that may read
    private     whether strangers get the answer that it does not exist
    missing     files that are listed and not there
    wrong       files that are served with one other byte
    """

    folder: Path
    revisions: dict[str, str]
    license: str | None = "mit"
    gated: str | bool = False
    private: bool = False
    account: str = "hf_right"
    missing: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)

    @property
    def commits(self) -> set[str]:
        return set(self.revisions.values())

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


@dataclass
class Hub:
    """What is served, how it fails, and what was asked.

    refuse    status of the next answers, with their Retry-After (None: no such header)
    cuts      bytes after which the next answers with a file's content end, the connection with them
    slow      seconds before each piece of a content
    piece     bytes of a piece
    elsewhere address of another server to which contents of large files are redirected, as to a content network
    html      whether everything is answered with a page of HTML, as by a network that wants a login
    no_range  whether Range is ignored
    asked     method and path of each request; tokens  what each said of its account; ranges  those that were asked for
    sent      bytes of contents by file
    """

    address: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    refuse: list[tuple[int, str | None]] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    slow: float = 0.0
    piece: int = 1 << 16
    elsewhere: str = ""
    html: bool = False
    no_range: bool = False
    asked: list[str] = field(default_factory=list)
    sent: Counter = field(default_factory=Counter)
    ranges: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def add(self, name: str, folder: Path, **more: object) -> Repo:
        """Serve a folder under a name; its commit is made of its contents."""
        made = hashlib.sha1(b"".join(path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file())).hexdigest()
        self.repos[name] = Repo(Path(folder), {"main": made, "v1.0": made}, **more)
        return self.repos[name]

    def contents(self, suffix: str = ".safetensors") -> list[str]:
        """Requests for the content of files of that kind."""
        return [line for line in self.asked if line.startswith("GET") and line.endswith(suffix)]


def compute_digest(path: Path) -> str:
    data = path.read_bytes()
    if path.name.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        if self.hub.html:
            return self._say(200, b"<html>Please log in to this network</html>", {"Content-Type": "text/html"})
        if self.hub.refuse:
            status, wait = self.hub.refuse.pop(0)
            return self._say(status, b"", {"Retry-After": wait} if wait is not None else {})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            return self._info(match[1], match[2] or "main")
        if match := re.fullmatch(r"(/elsewhere)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(match[2], match[3], match[4], elsewhere=bool(match[1]))
        return self._say(404, b"")

    def _repo(self, name: str) -> Repo | None:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not self._may(repo)):
            self._say(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return None
        return repo

    def _may(self, repo: Repo) -> bool:
        return self.headers.get("Authorization") == f"Bearer {repo.account}"

    def _commit(self, repo: Repo, revision: str) -> str | None:
        commit = repo.revisions.get(revision, revision)
        if commit in repo.commits:
            return commit
        self._say(404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
        return None

    def _info(self, name: str, revision: str) -> None:
        if (repo := self._repo(name)) is None or (commit := self._commit(repo, revision)) is None:
            return
        siblings = []
        for path in repo.files():
            one = {"rfilename": str(path.relative_to(repo.folder)), "size": path.stat().st_size, "blobId": compute_digest(path)}
            if path.name.endswith(LARGE):
                one |= {
                    "blobId": "0" * 40,
                    "lfs": {"size": path.stat().st_size, "sha256": compute_digest(path), "pointerSize": 134},
                }
            siblings.append(one)
        body = {"id": name, "modelId": name, "sha": commit, "gated": repo.gated, "private": repo.private, "siblings": siblings}
        body |= {"tags": [f"license:{repo.license}"] if repo.license else [], "downloads": 0, "likes": 0}
        if repo.license:
            body["cardData"] = {"license": repo.license}
        self._say(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, revision: str, file: str, elsewhere: bool) -> None:
        if elsewhere:
            repo = self.hub.repos[name]
        elif (repo := self._repo(name)) is None:
            return
        if (commit := self._commit(repo, revision)) is None:
            return
        if repo.gated and not elsewhere and not self._may(repo):
            return self._say(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to this model is restricted"})
        path = repo.folder / file
        if file in repo.missing or not path.is_file():
            return self._say(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        about = {"X-Repo-Commit": commit, "ETag": f'"{compute_digest(path)}"', "Accept-Ranges": "bytes"}
        if self.hub.elsewhere and not elsewhere and file.endswith(LARGE):
            linked = {"X-Linked-Etag": about["ETag"], "X-Linked-Size": str(path.stat().st_size)}
            return self._say(
                302, b"", about | linked | {"Location": f"{self.hub.elsewhere}/elsewhere/{name}/resolve/{commit}/{file}"}
            )
        content = path.read_bytes()
        if file in repo.wrong:
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._content(file, content, about)

    def _content(self, file: str, content: bytes, about: dict[str, str]) -> None:
        status, first, said = 200, 0, self.headers.get("Range")
        if said and not self.hub.no_range:
            self.hub.ranges.append(said)
            first = int(re.fullmatch(r"bytes=(\d+)-", said)[1])
            if first >= len(content):
                return self._say(416, b"")
            status, about = 206, about | {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
        cut = self.hub.cuts.pop(0) if self.hub.cuts and self.command == "GET" and file.endswith(LARGE) else None
        self._say(status, content[first:], about, cut, file)
        return None

    def _say(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None, file: str = ""
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        body = body if cut is None else body[:cut]
        try:
            for begin in range(0, len(body), self.hub.piece):
                if self.hub.slow and file.endswith(LARGE):
                    time.sleep(self.hub.slow)
                self.wfile.write(body[begin : begin + self.hub.piece])
                self.hub.sent[file] += len(body[begin : begin + self.hub.piece])
        except OSError:  # the client has gone
            self.close_connection = True
        if cut is not None:
            self.close_connection = True


@contextmanager
def run_hub(*hubs: Hub) -> Iterator[Hub]:
    """A hub in a thread; ends with the block."""
    hub = hubs[0] if hubs else Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="hub", daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10.0)


@contextmanager
def connect_hub(cache: Path) -> Iterator[Hub]:
    """A hub in a thread to which this process's clients are pointed, with a cache of their own and no token; waits are short."""
    from huggingface_hub import constants

    from specviz.models.hub import client

    with run_hub() as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.address)
        patch.setenv("HF_HUB_CACHE", str(cache))
        patch.delenv("HF_TOKEN", raising=False)
        patch.delenv("HF_HUB_OFFLINE", raising=False)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
        patch.setattr(client, "RETRY_DELAYS", (0.01,) * 4)
        yield hub
