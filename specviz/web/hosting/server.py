"""The server of the pages, once for each process: what is settled before the first visitor comes."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

from starlette.middleware import Middleware
from starlette.routing import Route
from streamlit import config, net_util
from streamlit.runtime.pages_manager import PagesManager

from specviz import process
from specviz.errors import SpecvizError
from specviz.web.classroom import host
from specviz.web.classroom import routes as classroom
from specviz.web.hosting import downloads, drain, health, logs, metrics, redirects, theme
from specviz.web.hosting.arrival import Arrival
from specviz.web.hosting.doors import Doors
from specviz.web.hosting.headers import Headers
from specviz.web.hosting.messages import Messages
from specviz.web.hosting.options import check_address, options
from specviz.web.hosting.uploads import Uploads
from specviz.web.jobs import placement

DOWNLOADS = 64  # files that are waited for at the same time: a thread each, which sleeps until the queue has built its file
SWEEP = 600.0  # seconds between two looks for classrooms that are over
MEMORY = "/dev/shm"  # a folder that needs no disk


def prepare() -> None:
    """Before anything is served: the options hold, and Streamlit knows of them. Exits with a sentence where they do not."""
    try:
        check_address(config.get_option("server.address"))
        placement.check()
    except SpecvizError as error:
        raise SystemExit(str(error)) from None
    process.configure_process()
    downloads.keep()
    theme.keep()
    config.set_option("server.maxUploadSize", options().upload_mb)
    config.set_option("server.disconnectedSessionTTL", options().away_seconds)
    # Streamlit would ask a server outside for its own address whenever somebody comes with another site's Origin.
    net_util.get_external_ip = lambda: None
    # torch and matplotlib are not imported where no folder for temporary files can be written to: a full disk, a read-only one.
    # None of them keeps anything there that a page needs.
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = MEMORY
    # Streamlit takes a folder called pages/ for its older kind of app, until it is told otherwise: it would open the pages of
    # the first visitors by their files, without app.py around them.
    PagesManager.uses_pages_directory = False


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """Around everything that is served."""
    if options().log == "json":
        logs.as_json()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(DOWNLOADS, "download"))
    drain.at_sigterm()
    with ExitStack() as opened:
        try:
            opened.enter_context(placement.joined())
        except SpecvizError as error:  # a cluster that cannot be joined; the server around this would print a traceback
            print(error, file=sys.stderr, flush=True)
            os._exit(2)
        health.begin()
        sweeping = asyncio.create_task(_sweep())
        yield
        sweeping.cancel()


async def _sweep() -> None:
    """Delete classrooms whose day is over, now and then."""
    while True:
        with suppress(SpecvizError):  # where rooms cannot be kept, the page says so
            await asyncio.to_thread(host.sweep)
        await asyncio.sleep(SWEEP)


def routes() -> list[Route]:
    """Beside Streamlit's own."""
    own = {"/healthz": health.lives, "/readyz": health.ready, "/metrics": health.counted}
    return [*(Route(path, answer, methods=["GET"]) for path, answer in own.items()), *redirects.routes(), *classroom.routes()]


def unexpected(error: Exception) -> None:
    """A page's script ended in an error that nothing caught. Streamlit logs it and shows no traceback."""
    metrics.ERRORS.inc()


def middleware() -> list[Middleware]:
    """Around every request, the outermost first."""
    return [Middleware(one, options=options()) for one in (Headers, Doors, Messages, Arrival, Uploads)]
