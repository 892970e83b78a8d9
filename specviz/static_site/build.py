"""All files of the static edition, and the folder that they are written to."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from specviz import __version__
from specviz.errors import SettingsError
from specviz.export.folder import MANIFEST, SITE, write_folder
from specviz.figures.preview import PICTURE
from specviz.static_site.document import FONT, FONTS, PAGES, build_document
from specviz.static_site.pages import build_contents

LICENSE = "OFL.txt"  # of the font
ALLOWED = "an http:// or https:// address without user name, query or fragment, such as https://example.org/specviz/"


def build_files(live: str | None = None) -> dict[str, bytes]:
    """Name of a file -> its bytes. live: as ``read_live_address`` gives it."""
    made = build_contents(live)
    found = {f"{name}.html": build_document(name, made[name], live).encode() for name in PAGES}
    found["index.html"] = found["front.html"]  # the app opens with the same page
    found |= {name: (FONTS / name).read_bytes() for name in (FONT, LICENSE, PICTURE)}
    manifest = {"schema": SITE, "version": __version__, "live": live, "files": sorted(found)}
    return found | {MANIFEST: f"{json.dumps(manifest, indent=1)}\n".encode()}


def write_site(folder: Path, live: str | None = None) -> dict[str, bytes]:
    """Write the site, all files or none, and return them. Raises SettingsError for an address or a folder that cannot be used."""
    found = build_files(None if live is None else read_live_address(live))
    write_folder(folder, found, SITE)
    return found


def read_live_address(text: str) -> str:
    """The app's address with a slash at its end. Raises SettingsError for one that a browser must not be led to."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        good = False
    if not good or "?" in text or "#" in text or "\\" in text or not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError("live", text[:200], ALLOWED)
    return text if text.endswith("/") else f"{text}/"
