"""Files of an export, or of a site, in a folder: all of them or none, and only an earlier one of its kind is replaced."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from specviz.errors import SettingsError, TraceError
from specviz.records import read_json, write_flushed

MANIFEST, ZIP = "manifest.json", "evidence.zip"
SCHEMA, SITE = "specviz-evidence-3", "specviz-site-1"  # of the manifest
KINDS = {SCHEMA: "an earlier export", SITE: "an earlier site"}
ALLOWED = "a folder that is new, empty, or holds {}"


def check_writable(folder: Path) -> None:
    """Check before hours of sampling that ``write`` can succeed. Raises SettingsError."""
    _check_replaceable(folder, SCHEMA)
    try:
        Path(tempfile.mkdtemp(prefix=".specviz-", dir=folder.absolute().parent)).rmdir()
    except OSError as error:
        raise _build_unwritable_error(folder, error) from error


def write_folder(folder: Path, files: Mapping[str, bytes], schema: str = SCHEMA) -> None:
    """Write all files or none: made beside the folder and put in its place by one renaming.

    found   name of a file -> its bytes; a manifest with their names is among them
    ``schema``: of that manifest: what is replaced must have one of the same.

    Raises SettingsError for a folder that holds anything but an earlier one, and where the disk is full or not writable.
    """
    _check_replaceable(folder, schema)
    folder = folder.absolute()
    beside = old = None
    try:
        beside = Path(tempfile.mkdtemp(prefix=".specviz-", dir=folder.parent))
        beside.chmod(0o755)
        for name, content in files.items():
            write_flushed(beside / name, (content,))
        if folder.is_dir() and any(folder.iterdir()):
            old = Path(tempfile.mkdtemp(prefix=".specviz-", dir=folder.parent))
            os.replace(folder, old)
        os.replace(beside, folder)
    except OSError as error:
        if old is not None and not folder.exists():
            with suppress(OSError):
                os.replace(old, folder)
        raise _build_unwritable_error(folder, error) from error
    finally:
        for left in (beside, old):
            if left is not None and left != folder:
                shutil.rmtree(left, ignore_errors=True)


def _check_replaceable(folder: Path, schema: str) -> None:
    """Raises SettingsError unless the folder is new, empty or holds nothing but an earlier one of this kind."""
    allowed = ALLOWED.format(KINDS[schema])
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise SettingsError("out", str(folder), allowed, f"'{folder}' is a file. Give {allowed}.")
        inside = {path.name for path in folder.iterdir()}
        earlier = read_json(folder / MANIFEST, "The manifest") if MANIFEST in inside else {}
    except OSError as error:
        raise _build_unwritable_error(folder, error) from error
    except TraceError:
        earlier = {}
    ours = set(earlier.get("files", ())) | {MANIFEST, ZIP} if earlier.get("schema") == schema else set()
    if others := sorted(inside - ours):
        sentence = f"The folder '{folder}' holds other files, such as '{others[0]}'. Give {allowed}."
        raise SettingsError("out", str(folder), allowed, sentence)


def _build_unwritable_error(folder: Path, error: OSError) -> SettingsError:
    sentence = f"The folder '{folder}' could not be written ({error.strerror})."
    return SettingsError("out", str(folder), "a folder that can be written", sentence)
