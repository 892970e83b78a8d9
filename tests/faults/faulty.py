"""The app on a tiny pair, with what breaks in it: ``python -m tests.faults.faulty PORT FOLDER [no-torch] [clock]``.

no-torch  as where it is not installed
clock     each SIGUSR1 puts the clock of the wall a day on, each SIGUSR2 two days back; clocks of the machine's own stay

What the system takes away (files, memory) the test takes away itself, from the process that runs.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

DAY = 86_400.0

port, place, *faults = sys.argv[1:]
if "no-torch" in faults:
    sys.modules["torch"] = None
if "clock" in faults:
    wall, put = time.time, [0.0]
    time.time = lambda: wall() + put[0]
    time.time_ns = lambda: int(time.time() * 1e9)
    for number, days in ((signal.SIGUSR1, 1), (signal.SIGUSR2, -2)):
        signal.signal(number, lambda *_, days=days: put.append(put.pop() + days * DAY))

if __name__ == "__main__":
    from streamlit.web import cli

    from tests.e2e.serve import ROOT, use_pair

    use_pair(Path(place))
    sys.argv = ["streamlit", "run", str(ROOT / "app.py"), "--server.port", port, "--server.address", "127.0.0.1"]
    cli.main()
