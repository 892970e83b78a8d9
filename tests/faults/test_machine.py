"""What the machine takes away while the server runs: its disk, its memory, its clock, its files, its libraries."""

from __future__ import annotations

import asyncio
import signal

import pytest

from specviz.jobs.queue import MEMORY_FULL
from tests.faults.conftest import Faulty, Witness

pytestmark = pytest.mark.slow
FILE = "A file of samples"


async def use_everything(server: Faulty, number: int = 1) -> Witness:
    """A visitor who does everything that can fail: a live run, one more round, samples, an upload, two exports."""
    guest = Witness(number)
    async with guest.open_tab(server.address):
        await guest.enter()
        await guest.run_live()
        await guest.request_round()
        await guest.export()
        await guest.settle(lambda: guest.put("export-name-one_round", "figure.pdf"))
        await guest.sample(10_000, "10,000 samples", "samples")
        await guest.send_file()
    assert guest.exceptions == 0
    return guest


def test_without_a_disk_to_write_on_everything_works(faulty):
    """A home that is read-only and a disk that is full before the start: the server can write no byte into any file."""
    server = faulty("no-disk", HOME="/proc", SPECVIZ_MODE="hosted")
    asyncio.run(use_everything(server))
    assert "Traceback" not in server.written


def test_a_clock_that_jumps_changes_nothing(faulty):
    server = faulty("clock", SPECVIZ_MODE="hosted")

    async def through() -> None:
        guest = Witness(1)
        async with guest.open_tab(server.address):
            await guest.enter()
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                server.process.send_signal(number)
                await guest.run_live() if number == signal.SIGUSR1 else await guest.request_round()
                await use_everything(server)
        again = Witness(2, guest.query)
        async with again.open_tab(server.address, session=guest.session):
            await again.enter()
            assert again.session == guest.session

    asyncio.run(through())
    assert "Traceback" not in server.written


def test_weights_that_are_cut_or_written_over_under_a_running_server_change_nothing(faulty):
    """A live run has a new seed each time, so two visitors ask for a round at one seed of their own."""
    server = faulty(SPECVIZ_MODE="hosted")
    before = asyncio.run(run_at_seed(server))
    for name in ("target", "draft"):
        file = server.folder / name / "model.safetensors"
        file.write_bytes(b"")
        (server.folder / name / "tokenizer.json").write_text("{")
    asyncio.run(use_everything(server))
    assert asyncio.run(run_at_seed(server)) == before


async def run_at_seed(server: Faulty) -> str:
    """The steps of a live round, at the seed that each first visitor of this number takes."""
    guest = Witness(1)
    async with guest.open_tab(server.address):
        await guest.enter()
        await guest.change_settings()
    assert guest.exceptions == 0 and "draft" in guest.traces[-1].run.story
    return guest.traces[-1].run.story


def test_a_pair_that_is_damaged_before_the_start_is_a_sentence_and_recorded_pages_stay(faulty, opening):
    def damaged(folder):
        (folder / "target" / "model.safetensors").write_bytes(b"no weights")

    server = faulty(ready=False, before=damaged)
    server.run_until(lambda: "could not be loaded" in server.ready()["reason"])
    said = asyncio.run(request_live_run(server))
    assert "is damaged: model.safetensors ends within its header" in said and "Traceback" not in said


def test_without_torch_recorded_pages_stay_and_what_needs_it_says_so(faulty):
    server = faulty("no-torch", ready=False)
    server.run_until(lambda: "importing their libraries failed" in server.ready()["reason"])
    assert server.ready()["reason"].startswith("The models cannot run on this machine")
    assert "importing their libraries failed" in asyncio.run(request_live_run(server))


async def request_live_run(server: Faulty) -> str:
    """What a visitor reads who looks at the recorded run and asks for it live."""
    guest = Witness()
    async with guest.open_tab(server.address):
        await guest.enter()
        assert guest.stage["mode"] == "recorded" and guest.stage["payload"]["rounds"]
        rounds = guest.stage["payload"]["rounds"]
        await guest.settle(lambda: guest.ask("live"))
        await guest.run_until(lambda: guest.stage["notices"])
        assert guest.stage["payload"]["rounds"] == rounds and guest.exceptions == 0
        return " ".join(guest.stage["notices"])


def test_where_memory_ends_the_visitor_reads_so_and_what_was_drawn_before_stays(faulty):
    server = faulty("no-memory", SPECVIZ_MODE="hosted")

    async def visit_page() -> None:
        guest = Witness(1)
        async with guest.open_tab(server.address):
            await guest.enter()
            await guest.sample(10_000, "10,000 samples can", "samples")
            await guest.run_until(lambda: guest.can_press("exactness-draw-1000000"))
            await guest.settle(lambda: guest.press("exactness-draw-1000000"))
            await guest.run_until(lambda: guest.reads(MEMORY_FULL))
            await guest.sample(10_000, "20,000 samples", "samples")  # beside the verdict of the last test, at 10,000

    asyncio.run(visit_page())
    assert server.process.poll() is None
