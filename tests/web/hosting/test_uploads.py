"""A page holds a few files of its visitor and no more, whether they are here or on their way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from specviz.web.hosting import uploads
from specviz.web.hosting.server_options import ServerOptions
from specviz.web.hosting.uploads import MAX_FILES, MAX_LARGE_FILES, UploadLimitMiddleware

MB = 2**20


@pytest.fixture
def file_sizes(monkeypatch) -> dict[str, list[int]]:
    """Sizes of the files that are here, by page."""
    found: dict[str, list[int]] = {}
    monkeypatch.setattr(uploads, "list_held_sizes", lambda session: found.get(session, []))
    monkeypatch.setattr(uploads, "measure_memory_mb", lambda: 100.0)
    return found


class HeldApp:
    def __init__(self):
        self.came, self.let_go = 0, asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.came += 1
        await self.let_go.wait()


async def put_request(door: UploadLimitMiddleware, session: str = "a", method: str = "PUT") -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await door({"type": "http", "method": method, "path": f"/_stcore/upload_file/{session}/1", "headers": []}, None, send)
    return sent


@pytest.mark.parametrize(
    "sizes",
    [[5 * MB] * MAX_LARGE_FILES, [1] * MAX_FILES, [5 * MB] * (MAX_LARGE_FILES - 1) + [1]],
    ids=["large", "many", "one more"],
)
def test_a_page_that_holds_enough_gets_a_sentence_and_others_are_not_concerned(file_sizes, sizes):
    file_sizes["a"] = sizes
    door = UploadLimitMiddleware(None, ServerOptions(mode="hosted"))
    assert f"holds {len(sizes)} files" in door.explain_refusal("a") and not door.explain_refusal("b")


def test_files_on_their_way_count(file_sizes):
    async def story() -> None:
        inside = HeldApp()
        door = UploadLimitMiddleware(inside, ServerOptions(mode="hosted"))
        tasks = [asyncio.create_task(put_request(door)) for _ in range(MAX_LARGE_FILES)]
        await asyncio.sleep(0)
        (start, body), other = await put_request(door), asyncio.create_task(put_request(door, "b"))
        await asyncio.sleep(0)
        assert (start["status"], inside.came) == (413, MAX_LARGE_FILES + 1) and body["body"].decode().endswith(".")
        inside.let_go.set()
        await asyncio.gather(*tasks, other)
        assert not door.coming and await put_request(door) == []

    asyncio.run(story())


def test_a_full_memory_takes_no_file_and_lets_one_be_removed(file_sizes, monkeypatch):
    monkeypatch.setattr(uploads, "measure_memory_mb", lambda: 3000.0)
    inside = HeldApp()
    door = UploadLimitMiddleware(inside, ServerOptions(mode="hosted"))
    assert "memory is full" in door.explain_refusal("a") and not UploadLimitMiddleware(
        None, ServerOptions(mode="local")
    ).explain_refusal("a")
    inside.let_go.set()
    assert asyncio.run(put_request(door, method="DELETE")) == [] and inside.came == 1
