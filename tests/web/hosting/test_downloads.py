"""A file that was built for a download outlives the scripts of other pages, for a while."""

from __future__ import annotations

import pytest
from streamlit.runtime import media_file_manager
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage

from specviz.web.hosting import streamlit_patches


@pytest.fixture
def manager(monkeypatch) -> MediaFileManager:
    monkeypatch.setattr(media_file_manager, "MediaFileMetadata", media_file_manager.MediaFileMetadata)
    streamlit_patches.keep_downloads()
    return MediaFileManager(MemoryMediaFileStorage("/media"))


def build_file(manager: MediaFileManager) -> str:
    """Where a file is found after its button was pressed."""
    file = manager.add_deferred(lambda: b"zip", "application/zip", "1.2", "a.zip")
    url = manager.execute_deferred(file)
    return url.rpartition("/")[2]


def test_a_file_is_there_after_the_scripts_of_many_pages_have_ended_and_gone_when_its_time_is_over(manager, monkeypatch):
    name = build_file(manager)
    for _ in range(5):
        manager.remove_orphaned_files()
    assert manager._storage.get_file(name).content == b"zip"
    monkeypatch.setattr(streamlit_patches, "KEPT", 0.0)
    manager.remove_orphaned_files()
    with pytest.raises(Exception, match=name.partition(".")[0]):
        manager._storage.get_file(name)


def test_without_it_the_file_is_gone_after_the_second_script(monkeypatch):
    manager = MediaFileManager(MemoryMediaFileStorage("/media"))
    name = build_file(manager)
    for _ in range(2):
        manager.remove_orphaned_files()
    with pytest.raises(Exception, match=name.partition(".")[0]):
        manager._storage.get_file(name)
