"""Shutdown at SIGTERM: the queue closes, short jobs finish, the others fail with a sentence, and the process ends with 0.

uvicorn closes all sockets as soon as it stops. So the queue is drained first, while pages still show results.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any

from specviz.web.hosting.server_queue import get_server_queue

PATIENCE = 10.0  # seconds that work may take to end
LAST_LOOK = (
    3.0  # seconds after that in which pages draw what came of their work; they look for it every other second at the latest
)
SENTENCE = "The server is about to stop, and this would have taken too long. Please ask again in a minute; this page comes back by itself."


def install_sigterm_handler() -> None:
    """Drain the queue before the server stops. Call it in the main thread, after the server has set its own handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)
    # uvicorn's: its flag ends it with 0, the signal with 143
    server: Any = getattr(before, "__self__", None)
    if not hasattr(server, "should_exit"):
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if get_server_queue().is_closed:  # a second signal: at once
            server.should_exit = True
            return
        threading.Thread(target=_drain_queue, args=(server,), name="drain", daemon=True).start()

    signal.signal(signal.SIGTERM, stop)


def _drain_queue(server: Any) -> None:
    asked = get_server_queue().waiting + get_server_queue().working
    left = get_server_queue().close(PATIENCE, SENTENCE)
    if asked:
        time.sleep(LAST_LOOK)
    logging.getLogger(__name__).info("stopping; %d jobs were told to end", left)
    server.should_exit = True
