"""The download of whole models: with progress, stopped between two pieces, resumed, every file checked against its announced hash."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from specviz.errors import CancelledError, ModelError
from specviz.models.hub.client import find_cache_folder
from specviz.models.hub.files import ModelListing, find_revision_file
from specviz.models.hub.transfer import ModelCache, ModelFile, fetch_file, is_commit
from specviz.progress import ProgressCallback, ignore_progress
from specviz.records import write
from specviz.statistics.finding import format_bytes

EVERY = 0.1  # seconds between two reports
SPARE = 50_000_000  # bytes of disk that a download leaves free


def download_models(listings: Sequence[ModelListing], on_progress: ProgressCallback = ignore_progress) -> None:
    """Download every file of these models that is not on this machine, and go on where an earlier download ended.

    ``on_progress`` is called with the share of all bytes that is here, such as 0.25 and "100 MB of 400 MB", at most ten times a
    second and at the end; a file that two models share counts once. An error that it raises ends the download; a CancelledError gets a
    sentence that says what is kept. Raises ModelError before anything is written if the disk is too full, and for what the hub
    refuses; DamagedModelError for a content that is not the announced one.
    """
    wanted = [(store, file) for one in listings if (store := one.store) for file in one.files]
    arrived = {_build_content_key(*one): one[0].count_arrived(one[1]) for one in wanted}
    total = sum({_build_content_key(store, file): file.size for store, file in wanted}.values())
    _refuse_full_disk(total - sum(arrived.values()))
    last = 0.0

    def report(done: int) -> None:
        on_progress(done / max(total, 1), f"{format_bytes(done)} of {format_bytes(total)}")

    for store, file in wanted:

        def report_file(
            share: float, doing: str = "", key: tuple[Path, str] = _build_content_key(store, file), size: int = file.size
        ) -> None:
            nonlocal last
            arrived[key] = round(share * size)
            if (now := time.monotonic()) - last >= EVERY:
                last = now
                report(sum(arrived.values()))

        try:
            fetch_file(store, file, report_file)
            report_file(1.0)
        except CancelledError as error:
            raise CancelledError(
                f"The download of '{store.repo}' was stopped. The part that has arrived is kept, and the next download goes on from there."
            ) from error
    report(total)
    for one in listings:
        _save_revision(one)


def _build_content_key(store: ModelCache, file: ModelFile) -> tuple[Path, str]:
    return store.folder, file.digest or file.name


def _save_revision(listed: ModelListing) -> None:
    """Keep which commit a branch or tag was, so that its name opens this download without a network too."""
    if listed.repo is None or listed.commit is None or listed.revision is None or is_commit(listed.revision):
        return
    kept = find_revision_file(listed.repo, listed.revision)
    kept.parent.mkdir(parents=True, exist_ok=True)
    write(kept, listed.commit, over=True)


def find_free_disk() -> int:
    """Bytes that a download may take, where the cache is."""
    where = next(path for path in (find_cache_folder(), *find_cache_folder().absolute().parents) if path.is_dir())
    return max(0, shutil.disk_usage(where).free - SPARE)


def _refuse_full_disk(needed: int) -> None:
    if needed > (free := find_free_disk()):
        raise ModelError(
            f"The download needs {format_bytes(needed)} of disk, and {format_bytes(free)} are free in '{find_cache_folder()}'. "
            "Make room, or name another folder for downloads in HF_HUB_CACHE."
        )
