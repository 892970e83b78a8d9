"""Set-up of the server, once per process."""

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
from specviz.web.classroom.room import host
from specviz.web.classroom.room import routes as classroom
from specviz.web.hosting import health, logs, metrics, page_html, redirects, server_workers, shutdown, streamlit_patches
from specviz.web.hosting.admission import AdmissionMiddleware
from specviz.web.hosting.headers import SecurityHeadersMiddleware
from specviz.web.hosting.server_options import check_address, load_options
from specviz.web.hosting.socket_filter import SocketFilterMiddleware
from specviz.web.hosting.uploads import SlowUploadMiddleware, UploadLimitMiddleware

DOWNLOADS = 64  # files that are waited for at the same time: a thread each, which sleeps until the queue has built its file
SWEEP = 600.0  # seconds between two looks for classrooms that are over
MEMORY = "/dev/shm"  # a folder that needs no disk


def prepare_server() -> None:
    """Check the options and pass them to Streamlit. Exits with a sentence if they cannot be used."""
    try:
        check_address(config.get_option("server.address"))
        server_workers.check_cluster()
    except SpecvizError as error:
        raise SystemExit(str(error)) from None
    process.configure_process()
    streamlit_patches.keep_downloads()
    streamlit_patches.cache_theme_messages()
    config.set_option("server.maxUploadSize", load_options().upload_mb)
    config.set_option("server.disconnectedSessionTTL", load_options().away_seconds)
    # Streamlit would ask a server outside for its own address whenever somebody comes with another site's Origin.
    net_util.get_external_ip = lambda: None
    # torch and matplotlib are not imported where no folder for temporary files can be written to: a full disk, a read-only one.
    # None of them keeps anything there that a page needs.
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = MEMORY
    # Streamlit takes a folder called pages/ for its older kind of app, unless a flag says otherwise: it would open the pages of
    # the first visitors by their files, without app.py around them.
    PagesManager.uses_pages_directory = False


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """Start and stop what runs beside the pages."""
    if load_options().log == "json":
        logs.log_as_json()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(DOWNLOADS, "download"))
    shutdown.install_sigterm_handler()
    with ExitStack() as opened:
        try:
            opened.enter_context(server_workers.open_workers())
        except SpecvizError as error:  # a cluster that cannot be joined; the server around this would print a traceback
            print(error, file=sys.stderr, flush=True)
            os._exit(2)
        health.start_loading_pair()
        sweeping = asyncio.create_task(_sweep_rooms())
        yield
        sweeping.cancel()


async def _sweep_rooms() -> None:
    """Delete expired classrooms, every SWEEP seconds."""
    while True:
        with suppress(SpecvizError):  # where rooms cannot be kept, the page says so
            await asyncio.to_thread(host.delete_expired_rooms)
        await asyncio.sleep(SWEEP)


def build_routes() -> list[Route]:
    """Routes beside Streamlit's own."""
    own = {"/healthz": health.answer_healthz, "/readyz": health.answer_readyz, "/metrics": health.answer_metrics}
    return [
        *(Route(path, answer, methods=["GET"]) for path, answer in own.items()),
        *redirects.build_redirects(),
        *page_html.build_page_routes(),
        *classroom.list_routes(),
    ]


def count_unexpected_error(error: Exception) -> None:
    """Count an uncaught error of a page's script; Streamlit logs it."""
    metrics.ERRORS.inc()


def build_middleware() -> list[Middleware]:
    """Middleware of every request, the outermost first."""
    return [
        Middleware(one, options=load_options())
        for one in (
            SecurityHeadersMiddleware,
            AdmissionMiddleware,
            SocketFilterMiddleware,
            SlowUploadMiddleware,
            UploadLimitMiddleware,
        )
    ]
