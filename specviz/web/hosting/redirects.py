"""Redirects: the first page by its name, which Streamlit serves at the root only, and addresses of version 0.1.0."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route

from specviz.web.common.frame import FIRST

MOVED = {  # as it was -> as it is
    "step": FIRST,
    "token": "one_token",
    "whole": "whole_text",
    "exact": "exactness",
    "broken": "mistakes",
    "around": "serving_limits",
    "fast": "speed",
    "proposers": "drafting_methods",
}


def build_redirects() -> list[Route]:
    """Routes of addresses that moved."""
    return [
        *(Route(f"/{name}", redirect, methods=["GET"]) for name in (FIRST, *MOVED)),
        Route("/room", redirect_to_room, methods=["GET"]),
    ]


async def redirect_to_room(request: Request) -> RedirectResponse:
    """Redirect to the students' page, whose addresses begin with a slash after its name."""
    return RedirectResponse("room/", status_code=308)


async def redirect(request: Request) -> RedirectResponse:
    """Redirect to the present name with the same query. Relative, so that it works under any path of a proxy."""
    name = request.url.path.rstrip("/").rsplit("/", 1)[-1]
    page = MOVED.get(name, name)
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(("./" if page == FIRST else page) + query, status_code=308)
