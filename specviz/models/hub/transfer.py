"""Download of one file into the cache of the hub's clients: each content once, under its hash, and names that point to it.

The hub announces the hash of every file: SHA-256 of a large one, git's own of a small one. Bytes arrive in a file beside their
place, which the next download continues. Only a content of the announced hash takes its place.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import get_session, hf_hub_url
from huggingface_hub.utils import WeakFileLock, build_hf_headers, hf_raise_for_status

from specviz.errors import DamagedModelError
from specviz.models.hub.client import TIMEOUT, call_hub, find_cache_folder, find_hub
from specviz.models.pairs.names import HubName
from specviz.progress import ProgressCallback, ignore_progress

PIECE = 1 << 20  # bytes read at once for a hash
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model."""

    name: str
    size: int  # bytes
    digest: str = ""  # SHA-256 (64 hexadecimal digits) or git's hash (40) of its content; empty for a file of a folder
    here: bool = True  # whether its content is on this machine

    @property
    def is_plausible(self) -> bool:
        """Whether name, size and hash can be those of a file at the root of a model."""
        return bool(_HASH.fullmatch(self.digest)) and self.size >= 0 and self.name == os.path.basename(self.name) != ""


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The cache's folder for one model."""

    repo: str
    commit: str  # 40 hexadecimal digits

    @property
    def folder(self) -> Path:
        return find_cache_folder() / f"models--{self.repo.replace('/', '--')}"

    @property
    def snapshot(self) -> Path:
        """The folder with the files of this commit; what a library reads."""
        return self.folder / "snapshots" / self.commit

    def locate_content(self, file: ModelFile) -> Path:
        return self.folder / "blobs" / file.digest

    def has_file(self, file: ModelFile) -> bool:
        """Whether a file's content has been downloaded, by this program or by another client of the hub."""
        return self.locate_content(file).is_file() or (self.snapshot / file.name).is_file()

    def count_arrived(self, file: ModelFile) -> int:
        """Bytes of a file that are here, of a download that ended early too."""
        if self.has_file(file):
            return file.size
        partial = self.locate_partial(file)
        return min(partial.stat().st_size, file.size) if partial.is_file() else 0

    def locate_partial(self, file: ModelFile) -> Path:
        return self.locate_content(file).with_suffix(".partial")


def is_commit(text: object) -> bool:
    """Whether a revision is the full hash of a commit."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


def fetch_file(store: ModelCache, file: ModelFile, on_progress: ProgressCallback = ignore_progress) -> Path:
    """The file's path in the snapshot, after a download if its content is not here.

    ``on_progress`` is called for each piece with the share of this file that is here, and while nothing arrives; what it raises
    ends the download, and what has arrived is kept. Raises DamagedModelError if another content arrives than was announced (it is
    removed), and ModelError as ``call_hub``.
    """
    pointer, content = store.snapshot / file.name, store.locate_content(file)
    if pointer.is_file():
        return pointer
    content.parent.mkdir(parents=True, exist_ok=True)
    lock = find_cache_folder() / ".locks" / store.folder.name / f"{file.digest}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    while not content.is_file():
        on_progress(_compute_share(file, store.count_arrived(file)))
        try:
            with WeakFileLock(lock, timeout=0.5):
                if not content.is_file():
                    _download(store, file, on_progress)
        except TimeoutError:  # another process downloads it
            continue
    _link_content(pointer, content)
    return pointer


def _compute_share(file: ModelFile, arrived: int) -> float:
    return min(arrived, file.size) / file.size if file.size else 1.0


def _download(store: ModelCache, file: ModelFile, on_progress: ProgressCallback) -> None:
    partial, name = store.locate_partial(file), HubName(store.repo, store.commit)
    size = partial.stat().st_size if partial.is_file() else 0
    if size > file.size:
        partial.unlink()
    with partial.open("ab") as out:

        def report_share() -> None:
            on_progress(_compute_share(file, out.tell()))

        def stream() -> None:
            have = out.tell()
            if have == file.size:
                return
            address = hf_hub_url(store.repo, file.name, revision=store.commit, endpoint=find_hub())
            headers = {**build_hf_headers(), "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
            with get_session().stream("GET", address, headers=headers, timeout=TIMEOUT) as response:
                if response.status_code == 416:  # there are no bytes from there on
                    return
                hf_raise_for_status(response)
                if have and response.status_code != 206:  # the whole file comes again
                    out.truncate(0)
                    out.seek(0)
                for piece in response.iter_bytes():
                    out.write(piece)
                    report_share()
                    if out.tell() > file.size:
                        return
            out.flush()

        while out.tell() < file.size:
            before = out.tell()
            call_hub(name, stream, report_share, out.tell)
            if out.tell() <= before:  # an answer without the requested bytes
                break
    if partial.stat().st_size != file.size or not _has_digest(partial, file, on_progress):
        partial.unlink()
        raise DamagedModelError(
            f"'{file.name}' of '{store.repo}' arrived with another content than {find_hub()} announced, and was removed. "
            "Try again; if it happens again, the hub or what lies between is at fault."
        )
    os.replace(partial, store.locate_content(file))


def _has_digest(path: Path, file: ModelFile, on_progress: ProgressCallback) -> bool:
    """Whether a file's content has the announced hash. Git hashes a header with the size before the content."""
    made = hashlib.sha256() if len(file.digest) == 64 else hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while piece := content.read(PIECE):
            on_progress(1.0)
            made.update(piece)
    return made.hexdigest() == file.digest


def _link_content(pointer: Path, content: Path) -> None:
    """Let a name of the snapshot stand for a content; where the disk has no links, as a copy."""
    pointer.parent.mkdir(parents=True, exist_ok=True)
    try:
        pointer.symlink_to(os.path.relpath(content, pointer.parent))
    except FileExistsError:
        pass
    except OSError:
        shutil.copyfile(content, pointer)
