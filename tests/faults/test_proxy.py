"""A proxy that cuts sockets on which nothing is heard: the server's pings keep them open, and a page that is cut goes on where it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import Faulty, Witness

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
OWNER = "" if os.geteuid() else "user root;"  # pytest lets nobody else into its folders
LINK = "prompt=a+bear&seed=41"
CONFIGURATION = """
daemon off; pid {place}/pid; error_log stderr warn; {owner}
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
    proxy_http_version 1.1;
    proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection "upgrade";
    proxy_read_timeout 2s;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {address}; }}
        location /silent {{ proxy_pass http://127.0.0.1:{silent}; }}
    }}
}}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not on the path; install nginx-light, or another of its packages"),
]


@contextmanager
def open_proxy(server: Faulty, place: Path) -> Iterator[str]:
    """nginx before the server, which cuts what is silent for 2 s. Below /silent stands one that never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        names = {"place": place, "port": port, "address": server.address, "silent": silent.getsockname()[1], "owner": OWNER}
        (place / "nginx.conf").write_text(CONFIGURATION.format(**names))
        proxy = subprocess.Popen([NGINX, "-p", place, "-c", place / "nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            server.run_until(lambda: is_listening(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            proxy.terminate()
            proxy.wait(20)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def request_silent(address: str) -> int:
    """Ask the one who is silent; the status with which the proxy gives up."""
    with pytest.raises(urllib.error.HTTPError) as given_up:
        urllib.request.urlopen(f"{address}/silent", timeout=60)
    return given_up.value.code


def test_a_page_on_which_nothing_happens_stays_open_by_the_servers_pings(faulty, tmp_path):
    server = faulty(STREAMLIT_SERVER_WEBSOCKET_PING_INTERVAL="1")

    async def idle(address: str) -> None:
        guest = Witness(1, LINK)
        async with guest.open_tab(address):
            await guest.enter()
            await guest.run_until(lambda: guest.has_live_run(rounds=1))
            for _ in range(2):  # as long as the proxy bears silence, twice
                assert await asyncio.to_thread(request_silent, address) == 504
            assert not guest.reading.done()
            await guest.request_round()

    with open_proxy(server, tmp_path) as address:
        asyncio.run(idle(address))


def test_a_page_that_the_proxy_cut_is_the_same_one_with_what_it_had(faulty, tmp_path):
    server = faulty(STREAMLIT_SERVER_WEBSOCKET_PING_INTERVAL="600")

    async def back(address: str) -> None:
        guest, again = Witness(1, LINK), Witness(2)
        async with guest.open_tab(address):
            await guest.enter()
            await guest.run_until(lambda: guest.has_live_run(rounds=1))
            await asyncio.wait_for(asyncio.wait([guest.reading]), 60)
            cookie = f"_streamlit_xsrf={guest.http.cookies['_streamlit_xsrf']}"
        again.link = guest.query
        async with again.open_tab(address, cookie=cookie, session=guest.session):
            await again.enter()
            assert again.session == guest.session and again.toasts == []
            assert again.stage["payload"] == guest.stage["payload"]

    with open_proxy(server, tmp_path) as address:
        asyncio.run(back(address))
