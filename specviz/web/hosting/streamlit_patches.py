"""Parts of Streamlit that this server replaces: how long a built download is kept, and the theme in every run's message.

Streamlit drops a file that was built for a download when the scripts of any two pages have ended since. With many visitors that is a
fraction of a second, and the browser gets a 404. It also reads its theme options anew for every run of a page, which takes 5 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from streamlit.runtime import app_session, media_file_manager
from streamlit.runtime.media_file_manager import MediaFileKind, MediaFileMetadata

KEPT = 60.0  # seconds from the first time that nobody refers to a file


class LastingFile(MediaFileMetadata):
    """Streamlit's record of a file, which is not deleted before KEPT seconds are over."""

    def __init__(self, kind: MediaFileKind = MediaFileKind.MEDIA):
        super().__init__(kind)
        self._unused_since: float | None = None

    @property
    def is_marked_for_delete(self) -> bool:
        return self._unused_since is not None and time.monotonic() - self._unused_since > KEPT

    def mark_for_delete(self) -> None:
        if self._unused_since is None:
            self._unused_since = time.monotonic()


def keep_downloads() -> None:
    """Keep files of downloads for KEPT seconds after the last reference. Applies to the whole process."""
    media_file_manager.MediaFileMetadata = LastingFile  # type: ignore[misc]


def cache_theme_messages() -> None:
    """Fill the theme of every run's message from the first one. The options do not change while a server runs."""
    app_session._populate_theme_msg = memoize_theme(app_session._populate_theme_msg)


def memoize_theme(populate: Callable[[Any, str], None]) -> Callable[..., None]:
    """Wrap ``populate(message, section)`` so that it reads the options of each section once."""
    known: dict[str, Any] = {}

    def from_known(message: Any, section: str = "theme") -> None:
        if section not in known:
            made = type(message)()
            populate(made, section)
            known[section] = made
        if known[section].ByteSize():  # an empty one would say that there is such a part
            message.MergeFrom(known[section])

    return from_known
