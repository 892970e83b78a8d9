"""The addresses /healthz, /readyz and /metrics. A server is ready once its pair is loaded and its queue takes jobs."""

from __future__ import annotations

import threading

from prometheus_client import generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from specviz.settings import Settings
from specviz.web.hosting import cache, metrics, model_loading, server_workers, warmup
from specviz.web.hosting.server_options import is_loopback, load_options
from specviz.web.hosting.server_queue import get_server_queue

_state = {"pair": "The pair of models is being loaded."}  # or "" once it is there


def start_loading_pair() -> None:
    """Import the libraries and load the pair that pages open with, in the background. Returns at once."""
    threading.Thread(target=_load_pair, name="models", daemon=True).start()


def _load_pair() -> None:
    warmup.start()
    while not warmup.wait(1.0):
        pass
    if trouble := warmup.describe_failure():
        _state["pair"] = trouble
        return
    recording = cache.load_recording()
    settings = Settings.from_record(recording.settings) if recording else Settings()
    try:
        model_loading.start_loading(settings).result()
    except Exception as error:  # whatever it is, the server says that it is not ready
        _state["pair"] = f"The pair of models could not be loaded ({type(error).__name__})."
    else:
        _state["pair"] = ""
        server_workers.start_workers(settings)


def explain_not_ready() -> str:
    """Why this server is not ready for visitors, in a sentence; empty where it is."""
    if get_server_queue().is_closed:
        return "The server is about to stop."
    return _state["pair"]


async def answer_healthz(request: Request) -> Response:
    """Answer GET /healthz."""
    return PlainTextResponse("ok")


async def answer_readyz(request: Request) -> Response:
    """Answer GET /readyz."""
    sentence = explain_not_ready()
    return JSONResponse({"ready": not sentence, "reason": sentence}, status_code=503 if sentence else 200)


async def answer_metrics(request: Request) -> Response:
    """Answer GET /metrics; 404 for clients that may not read it."""
    who, client = load_options().metrics, request.client
    direct = client is not None and is_loopback(client.host) and not {"x-forwarded-for", "forwarded"} & set(request.headers)
    if who == "off" or (who == "loopback" and not direct):
        return PlainTextResponse("Not Found", status_code=404)
    metrics.WAITING.set(get_server_queue().waiting)
    metrics.WORKING.set(get_server_queue().working)
    metrics.WORKERS.set(server_workers.count_ready_workers())
    return Response(generate_latest(metrics.REGISTRY), media_type="text/plain; version=0.0.4; charset=utf-8")
