"""The download of whole models: with progress, stopped between two pieces, resumed, every file checked against its announced hash."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from specviz.errors import ModelError
from specviz.models.hub.client import cache, never
from specviz.models.hub.files import Listing, reference
from specviz.models.hub.transfer import File, Store, fetch, is_commit
from specviz.records import write
from specviz.statistics.finding import size_in_words

EVERY = 0.1  # seconds between two reports
SPARE = 50_000_000  # bytes of disk that a download leaves free


def silent(done: int, total: int) -> None:
    """No report."""


def download(
    listings: Sequence[Listing],
    progress: Callable[[int, int], None] = silent,
    cancelled: Callable[[], bool] = never,
) -> None:
    """Bring every file of these models onto this machine. Folders are here already, and what is here is not fetched again.

    progress   called with the bytes that are here and those of all files, at most ten times a second and at the end; a file that two
               of the models share counts once
    cancelled  asked before each piece of some kilobytes

    Raises ModelError before anything is written if the disk has not enough room; CancelledError if it was cancelled; DamagedModel
    for a content that is not the announced one; ModelError for what the hub refuses. What arrived stays, and the next call goes on
    from there.
    """
    wanted = [(store, file) for one in listings if (store := one.store) for file in one.files]
    arrived = {_content(*one): one[0].arrived(one[1]) for one in wanted}
    total = sum({_content(store, file): file.size for store, file in wanted}.values())
    _refuse_full_disk(total - sum(arrived.values()))
    last = 0.0
    for store, file in wanted:
        key = _content(store, file)

        def report(count: int, key: tuple[Path, str] = key) -> None:
            nonlocal last
            arrived[key] = count
            if (now := time.monotonic()) - last >= EVERY:
                last = now
                progress(sum(arrived.values()), total)

        fetch(store, file, report, cancelled)
        report(file.size)
    progress(total, total)
    for one in listings:
        _remember(one)


def _content(store: Store, file: File) -> tuple[Path, str]:
    return store.folder, file.digest or file.name


def _remember(listed: Listing) -> None:
    """Keep which commit a branch or tag was, so that its name opens this download without a network too."""
    if listed.repo is None or listed.commit is None or listed.revision is None or is_commit(listed.revision):
        return
    kept = reference(listed.repo, listed.revision)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write(kept, listed.commit, over=True)


def free_disk() -> int:
    """Bytes that a download may take, where the cache is."""
    where = next(path for path in (cache(), *cache().absolute().parents) if path.is_dir())
    return max(0, shutil.disk_usage(where).free - SPARE)


def _refuse_full_disk(needed: int) -> None:
    if needed > (free := free_disk()):
        raise ModelError(
            f"The download needs {size_in_words(needed)} of disk, and {size_in_words(free)} are free in '{cache()}'. "
            "Make room, or name another folder for downloads in HF_HUB_CACHE."
        )
