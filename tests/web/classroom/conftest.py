"""What tests of rooms on a server share: the rooms of a test, and students and a teacher who speak to its routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from specviz.web.classroom.room import drawing, routes
from specviz.web.classroom.room import host as hosts
from specviz.web.classroom.room.host import ClassroomHost
from specviz.web.classroom.room.records import Room
from specviz.web.hosting.admission import AdmissionMiddleware
from specviz.web.hosting.headers import SecurityHeadersMiddleware
from specviz.web.hosting.server_options import load_options
from tests.web.classroom.rooms import SETTINGS


@pytest.fixture
def rooms(page_pair, monkeypatch) -> Iterator[ClassroomHost]:
    """The rooms of this process, in a folder of the test's own, on the tiny pair. A class votes on 1,000 samples."""
    monkeypatch.setattr(drawing, "VOTE_SAMPLES", 1000)
    hosts.open_host.forget()
    yield hosts.open_host()
    hosts.open_host().store.close()
    hosts.open_host.forget()


@pytest.fixture
def web(rooms) -> Iterator[TestClient]:
    """The routes as they are served: behind the headers and the doors."""
    around = [Middleware(one, options=load_options()) for one in (SecurityHeadersMiddleware, AdmissionMiddleware)]
    with TestClient(Starlette(routes=routes.list_routes(), middleware=around)) as client:
        yield client


@pytest.fixture
def room(rooms) -> Room:
    return rooms.open_room(SETTINGS, "somebody")


@dataclass
class Phone:
    """A student's browser. ticket: what it made up for itself."""

    web: TestClient
    room: Room
    ticket: str
    said: dict[str, Any] = field(default_factory=dict)

    def join(self) -> Phone:
        self.said = self.web.post(f"/room/{self.room.code}/join", json={"ticket": self.ticket}).json()
        return self

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.said['number']}.{self.said['token']}"}

    def now(self, mark: str = "") -> Any:
        return self.web.get(f"/room/{self.room.code}/now", params={"mark": mark}, headers=self.headers)

    def post(self, what: str, **sent: Any) -> Any:
        return self.web.post(f"/room/{self.room.code}/{what}", json=sent, headers=self.headers)

    def draw(self, first: int, count: int, task: int = 1) -> Any:
        return self.post("draw", task=task, first=first, count=count)


@pytest.fixture
def phone(web, room):
    """phone(3): a student who has come in, by the number of their ticket."""
    return lambda number=0: Phone(web, room, f"a ticket number-{number:04d}".replace(" ", "-")).join()


@pytest.fixture
def teacher(web, room):
    """teacher(do="show"): what the teacher asks, as JSON. teacher.begin("sample") begins the next task."""

    def ask(**sent: Any) -> Any:
        answer = web.post(f"/room/{room.code}/steer", json=sent, headers={"Authorization": f"Bearer {room.teacher_code}"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask
