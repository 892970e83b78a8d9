"""``specviz app``: serve the pages with Streamlit."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from specviz.records import HERE
from specviz.settings import whole

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8501, help="port, 1 to 65535 (default: 8501)")
    parser.add_argument(
        "--host",
        default="localhost",
        help="address to serve at (default: localhost, reachable only from this machine; only there may visitors load their own models)",
    )


def run(options: argparse.Namespace) -> int:
    whole("port", options.port, 1, 65535)
    place = next(place for place in (HERE / "served", HERE.parent) if (place / "app.py").is_file())  # installed; in a checkout
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={options.port}"]
    command += [f"--server.address={options.host}", "--"]
    if options.host in LOOPBACK:
        command.append("--allow-own-pairs")
    path = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    return subprocess.run(command, cwd=place, env=os.environ | {"PYTHONPATH": path}, check=False).returncode
