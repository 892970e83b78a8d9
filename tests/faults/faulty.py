"""The app on a tiny pair, with what breaks in it: ``python -m tests.faults.faulty PORT FOLDER [no-torch] [no-disk] [clock] [held] [no-memory]``.

no-torch  as where it is not installed
no-disk   no byte can be written into any file, that of the log among them
clock     each SIGUSR1 puts the clock of the wall a day on, each SIGUSR2 two days back; clocks of the machine's own stay
no-memory a million samples need more of it than there is
held      10,000 samples are drawn once there is a file FOLDER/go, and a million never are

The test itself takes away files and memory, from the process that runs.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path

DAY = 86_400.0

port, place, *faults = sys.argv[1:]
if "no-torch" in faults:
    sys.modules["torch"] = None
if "no-disk" in faults:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
if "clock" in faults:
    wall, put = time.time, [0.0]
    time.time = lambda: wall() + put[0]
    time.time_ns = lambda: int(time.time() * 1e9)
    for number, days in ((signal.SIGUSR1, 1), (signal.SIGUSR2, -2)):
        signal.signal(number, lambda *_, days=days: put.append(put.pop() + days * DAY))


def use_up_memory() -> None:
    import numpy

    from specviz.web.common.side_by_side import work

    draw = work.draw_in_shards
    work.draw_in_shards = lambda state, ticket, count, *others, **more: (
        numpy.empty(1 << 46) if count > 100_000 else draw(state, ticket, count, *others, **more)
    )


def hold(place: Path) -> None:
    from specviz.web.common.side_by_side import work

    draw = work.draw_in_shards

    def held(state, ticket, count, *others, **more):
        while count > 100_000 or not (place / "go").exists():
            ticket.tick(0.05 if count > 100_000 else 0.99, "Sampling")
            time.sleep(0.02)
        return draw(state, ticket, count, *others, **more)

    work.draw_in_shards = held


if __name__ == "__main__":
    from streamlit.web import cli

    from tests.browser.serve import ROOT, use_pair

    use_pair(Path(place))
    if "no-memory" in faults:
        use_up_memory()
    if "held" in faults:
        hold(Path(place))
    sys.argv = ["streamlit", "run", str(ROOT / "app.py"), "--server.port", port, "--server.address", "127.0.0.1"]
    cli.main()
