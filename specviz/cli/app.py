"""``specviz app``: serve the pages with Streamlit."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec

from specviz.cli.common.command_options import add_choice, add_count
from specviz.records import HERE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_count(add, "port", 1, 65535, "port, 1 to 65535 (default: 8501)")
    parser.set_defaults(port=8501)
    add("--host", default="localhost", help="address to serve at (default: localhost, reachable only from this machine)")
    add_choice(add, "mode", ("local", "hosted"), "for you alone, or for visitors with limits; needed for any other address")


def run(options: argparse.Namespace) -> int:
    if find_spec("streamlit") is None:  # before Python takes this process's place
        raise ModuleNotFoundError("No module named 'streamlit'", name="streamlit")
    place = next(place for place in (HERE / "served", HERE.parent) if (place / "app.py").is_file())  # installed; in a checkout
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    command += [f"--server.port={options.port}", f"--server.address={options.host}"]
    path = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    mode = {"SPECVIZ_MODE": options.mode} if options.mode else {}
    environment = os.environ | {"PYTHONPATH": path} | mode
    if os.name == "posix":  # the server takes this process's place: whoever ends it ends the server
        os.chdir(place)
        os.execve(sys.executable, command, environment)
    return subprocess.run(command, cwd=place, env=environment, check=False).returncode
