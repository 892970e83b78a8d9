"""Files that were built for a download stay until their browser can have fetched them.

Streamlit drops such a file when the scripts of any two pages have ended since it was built. With many visitors that is a fraction of
a second, and the browser is told that there is no file.
"""

from __future__ import annotations

import time

from streamlit.runtime import media_file_manager
from streamlit.runtime.media_file_manager import MediaFileKind, MediaFileMetadata

KEPT = 60.0  # seconds from the first time that nobody refers to a file


class LastingFile(MediaFileMetadata):
    """As Streamlit's note about a file, but it is not deleted before KEPT seconds are over."""

    def __init__(self, kind: MediaFileKind = MediaFileKind.MEDIA):
        super().__init__(kind)
        self._unused_since: float | None = None

    @property
    def is_marked_for_delete(self) -> bool:
        return self._unused_since is not None and time.monotonic() - self._unused_since > KEPT

    def mark_for_delete(self) -> None:
        if self._unused_since is None:
            self._unused_since = time.monotonic()


def keep() -> None:
    """From now on."""
    media_file_manager.MediaFileMetadata = LastingFile
