"""'A bounded queue shares two cores among visitors, shows one's place in it, and a cancel frees the slot within a second.'

Twenty clients are twenty threads, as on the page; work is time that passes, in ticks of 10 ms.
"""

from __future__ import annotations

import threading
import time

import pytest

from specviz.errors import SpecvizError
from specviz.jobs import queue as module
from specviz.jobs.queue import FairQueue

CLIENTS = 20
pytestmark = pytest.mark.timeout(30)  # what never comes hangs


def wait_for(condition) -> None:
    """Return once the condition holds."""
    while not condition():
        time.sleep(0.002)


def build_ticking_job(ticks: int, present: list | None = None, most: list | None = None):
    """Work of so many ticks; counts who is at the machine at the same time."""

    def work(ticket):
        for number in range(ticks):
            if present is not None:
                present.append(ticket)
                most.append(len(set(present)))
            time.sleep(0.01)
            if present is not None:
                present.remove(ticket)
            ticket.tick((number + 1) / ticks)
        return ticks

    return work


def test_brief_jobs_use_the_extra_places_of_a_queue_that_has_some():
    queue, go = FairQueue(places=1, extra=1), threading.Event()

    def waits(ticket):
        while not go.is_set():
            time.sleep(0.002)

    long, other = queue.submit(waits), queue.submit(waits)
    brief = queue.submit(waits, is_brief=True)
    more = queue.submit(waits, is_brief=True)
    assert [one.state for one in (long, other, brief, more)] == ["working", "waiting", "working", "waiting"]
    go.set()
    wait_for(lambda: not any(one.is_open for one in (long, other, brief, more)))


def test_twenty_clients_share_two_places_and_all_come_to_their_end():
    queue, present, most, tickets = FairQueue(time_slice=0.05), [], [], []
    together = threading.Barrier(CLIENTS)

    def client():
        together.wait(30)
        tickets.append(queue.submit(build_ticking_job(20, present, most)))

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    [one.start() for one in clients]
    [one.join(30) for one in clients]
    wait_for(lambda: not any(ticket.is_open for ticket in tickets))
    assert [(ticket.state, ticket.result, ticket.share) for ticket in tickets] == [("done", 20, 1.0)] * CLIENTS
    assert max(most) == 2


def test_each_of_twenty_sees_a_place_of_its_own_in_the_queue():
    queue = FairQueue()
    tickets = [queue.submit(build_ticking_job(1000)) for _ in range(CLIENTS)]
    wait_for(lambda: sum(ticket.state == "working" for ticket in tickets) == 2)
    assert [ticket.jobs_ahead for ticket in tickets[2:]] == list(range(CLIENTS - 2))
    [ticket.cancel() for ticket in tickets]
    wait_for(lambda: not any(ticket.is_open for ticket in tickets))


def test_a_cancel_frees_the_place_at_the_next_tick_and_the_next_one_gets_it():
    queue, was_cancelled, late = FairQueue(time_slice=1e9), threading.Event(), []

    def work(ticket):
        while True:
            time.sleep(0.01)
            late.extend([ticket] * was_cancelled.is_set())
            ticket.tick(0.5)

    tickets = [queue.submit(work), *(queue.submit(build_ticking_job(100_000)) for _ in range(CLIENTS - 1))]
    wait_for(lambda: tickets[1].state == "working")
    tickets[0].cancel()
    was_cancelled.set()
    wait_for(lambda: tickets[2].state == "working")
    assert (tickets[0].state, len(late) <= 1) == ("stopped", True)
    tickets[10].cancel()  # still in the line
    assert tickets[10].state == "stopped" and tickets[11].jobs_ahead == 7  # 3 to 9 before it
    [ticket.cancel() for ticket in tickets]
    wait_for(lambda: not any(ticket.is_open for ticket in tickets))


def test_short_work_does_not_wait_for_long_work():
    """Two hold the machine for 'an hour'; the third needs 50 ms and gets them after a time slice."""
    queue = FairQueue(time_slice=0.1)
    long = [queue.submit(build_ticking_job(360_000)) for _ in range(2)]
    wait_for(lambda: all(ticket.state == "working" for ticket in long))
    short = queue.submit(build_ticking_job(5))
    wait_for(lambda: short.state == "done")
    assert all(ticket.is_open for ticket in long)
    [ticket.cancel() for ticket in long]
    wait_for(lambda: not any(ticket.is_open for ticket in long))


@pytest.mark.parametrize(
    ("error", "sentence"),
    ((SpecvizError("Too long."), "Too long."), (ZeroDivisionError(), "The computation failed (ZeroDivisionError).")),
)
def test_work_that_fails_says_why_and_frees_its_place(error, sentence):
    queue = FairQueue(places=1)

    def work(ticket):
        raise error

    broken, after = queue.submit(work), queue.submit(build_ticking_job(1))
    wait_for(lambda: not after.is_open)
    assert (broken.state, after.state) == ("failed", "done")
    assert broken.sentence.startswith(sentence)


def test_a_full_queue_refuses_jobs_with_a_sentence():
    queue = FairQueue(max_open=3)
    tickets = [queue.submit(build_ticking_job(1000)) for _ in range(3)]
    with pytest.raises(SpecvizError, match="3 requests are already waiting"):
        queue.submit(build_ticking_job(1))
    [ticket.cancel() for ticket in tickets]
    wait_for(lambda: not any(ticket.is_open for ticket in tickets))
    after = queue.submit(build_ticking_job(1))
    wait_for(lambda: after.state == "done")


def test_work_of_a_closed_page_ends_by_itself(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(module, "time", clock)
    queue = FairQueue()
    left, stays = queue.submit(build_ticking_job(100_000)), queue.submit(build_ticking_job(100_000))
    clock.now = module.ABANDONED_AFTER
    stays.keep_alive()
    assert left.is_open and not left.is_unwanted
    clock.now += 1.0
    wait_for(lambda: left.state == "stopped")
    assert stays.state == "working" and not stays.is_unwanted
    stays.cancel()


def test_time_left_follows_the_share_that_is_done(monkeypatch):
    clock, has_begun, go = FakeClock(), threading.Event(), threading.Event()
    monkeypatch.setattr(module, "time", clock)

    def work(ticket):
        go.wait()
        clock.now += 3.0
        ticket.tick(0.75)
        has_begun.set()
        while True:
            ticket.tick()
            time.sleep(0.002)

    ticket = FairQueue().submit(work)
    assert ticket.seconds_left is None
    go.set()
    has_begun.wait()
    assert ticket.seconds_left == pytest.approx(1.0), "three quarters took 3 s"
    ticket.cancel()


def test_time_left_is_what_a_probe_expects_before_anything_is_done(monkeypatch):
    monkeypatch.setattr(module, "time", FakeClock())
    queue, has_probed = FairQueue(), threading.Event()

    def work(ticket):
        ticket.expect(1000.0)
        has_probed.set()
        while True:
            ticket.tick(0.0)
            time.sleep(0.01)

    ticket = queue.submit(work)
    assert has_probed.wait() and ticket.seconds_left == 1000.0, "nothing of it is done"
    ticket.cancel()


def test_a_visitor_with_many_jobs_gets_no_more_than_one_with_one():
    """One submits eight jobs, then another visitor one: it comes after the job that works, not after all eight."""
    queue, order = FairQueue(places=1, time_slice=1e9), []

    def work(name):
        return lambda ticket: (order.append(name), time.sleep(0.02))

    held = queue.submit(build_ticking_job(20), "somebody")
    many = [queue.submit(work("many"), "many") for _ in range(8)]
    one = queue.submit(work("one"), "one")
    assert (one.jobs_ahead, many[1].jobs_ahead) == (1, 2)
    wait_for(lambda: not any(ticket.is_open for ticket in [held, one, *many]))
    assert order.index("one") == 1 and len(order) == 9


def test_short_work_goes_before_long_work_that_came_earlier_and_long_work_lets_it_in_at_a_tick():
    queue = FairQueue(places=1, time_slice=1e9, short=0.05)
    long = queue.submit(build_ticking_job(100_000), "a")
    wait_for(lambda: long.seconds_worked > 0.1)
    other = queue.submit(build_ticking_job(100_000), "b")
    wait_for(lambda: other.seconds_worked > 0.06)  # short at first, so it was let in; longer work by now
    brief = queue.submit(build_ticking_job(2), "c")
    wait_for(lambda: brief.state == "done")  # with turns that never end, only giving way lets it in
    assert long.is_open and other.is_open
    long.cancel(), other.cancel()


class FakeClock:
    """The queue's clock where work makes the time pass, so that a busy machine changes nothing."""

    def __init__(self) -> None:
        self.now, self._lock = 0.0, threading.Lock()

    def monotonic(self) -> float:
        return self.now

    def work(self, ticket, ticks: int) -> None:
        for _ in range(ticks):
            with self._lock:
                self.now += 0.01
            time.sleep(0.0)  # whoever works at another place goes on too
            ticket.tick()


@pytest.mark.parametrize("overdue", [0.3, 0.01], ids=["the line is quick", "all that waits is overdue"])
@pytest.mark.parametrize("places", [1, 2])
def test_a_stream_of_short_work_does_not_keep_long_work_out_for_ever(places, overdue, monkeypatch):
    """Each short job submits the next one before it ends, so that the line is never empty. 0.4 s of long work end within 60 s."""
    clock, ended = FakeClock(), []
    monkeypatch.setattr(module, "time", clock)
    queue = FairQueue(places, time_slice=0.2, short=0.05, overdue=overdue)

    def work_briefly(ticket):
        clock.work(ticket, 4)
        if not ended and clock.now < 60.0:
            queue.submit(work_briefly, object())

    def work_long(ticket):
        clock.work(ticket, 40)
        ended.append(clock.now)

    long = queue.submit(work_long, "long")
    tickets = [queue.submit(work_briefly, object()) for _ in range(3 * places)]
    assert long.ended.wait(60.0) and ended[0] < 60.0
    wait_for(lambda: not any(ticket.is_open for ticket in tickets))


@pytest.mark.parametrize("places, time_slice", [(2, 1e9), (1, 0.1)])
def test_work_that_waited_long_leaves_room_for_short_work(places, time_slice):
    queue = FairQueue(places, time_slice=time_slice, short=0.05, overdue=0.01)
    long = [queue.submit(build_ticking_job(100_000), n) for n in range(6)]
    wait_for(lambda: sum(one.seconds_worked > 0.06 for one in long) >= places)
    for number in range(3):
        brief = queue.submit(build_ticking_job(2), f"brief {number}")
        wait_for(lambda brief=brief: brief.state == "done")  # all that waits is overdue, yet short work comes next
    assert all(one.is_open for one in long)
    [ticket.cancel() for ticket in long]


def test_few_jobs_have_started_at_a_time_and_brief_ones_are_not_held_back(monkeypatch):
    monkeypatch.setattr(module, "MAX_STARTED", 3)
    queue, most = FairQueue(places=1, time_slice=0.02, short=0.0), []
    tickets = [queue.submit(build_ticking_job(30), n) for n in range(6)]
    wait_for(lambda: sum(one.has_started for one in tickets) == 3)
    brief = queue.submit(build_ticking_job(2), "brief", is_brief=True)
    held = queue.submit(build_ticking_job(2), "not known to be brief")
    wait_for(lambda: brief.state == "done")
    assert not held.has_started

    def all_done() -> bool:
        most.append(sum(one.has_started and one.is_open for one in tickets))
        return all(one.state == "done" for one in tickets)

    wait_for(all_done)
    assert max(most) == 3


def test_brief_work_goes_before_all_and_is_let_in_at_a_tick_even_by_short_work():
    queue = FairQueue(places=1, time_slice=1e9, short=1e9, overdue=0.0)
    tickets = [queue.submit(build_ticking_job(100_000), n) for n in range(3)]
    wait_for(lambda: any(one.seconds_worked > 0.02 for one in tickets))
    brief = queue.submit(build_ticking_job(2), "brief", is_brief=True)
    wait_for(lambda: brief.state == "done")  # none of the others ever has to give way to anything else
    assert all(one.is_open for one in tickets)
    [ticket.cancel() for ticket in tickets]


def test_one_visitor_cannot_fill_the_queue(monkeypatch):
    monkeypatch.setattr(module, "MAX_PER_VISITOR", 3)
    queue = FairQueue()
    tickets = [queue.submit(build_ticking_job(1000), "one") for _ in range(3)]
    with pytest.raises(SpecvizError, match="3 of your requests are already waiting"):
        queue.submit(build_ticking_job(1), "one")
    tickets.append(queue.submit(build_ticking_job(1), "another"))
    [ticket.cancel() for ticket in tickets]


def test_a_waiting_job_has_no_thread_before_it_starts():
    queue = FairQueue(places=1, time_slice=1e9, short=1e9)
    before = threading.active_count()
    tickets = [queue.submit(build_ticking_job(100_000), n) for n in range(20)]
    assert threading.active_count() <= before + 1
    [ticket.cancel() for ticket in tickets]
    assert all(ticket.ended.wait() for ticket in tickets)


def test_a_visitor_with_one_place_of_their_own_leaves_the_others_free():
    queue = FairQueue(2, each=1)
    held = threading.Event()

    def hold(ticket):
        while not held.wait(0.01):
            ticket.tick()

    first, second = (queue.submit(hold, "a") for _ in "12")
    assert (first.state, second.state) == ("working", "waiting"), "the second place is free, and not for this visitor"
    other = queue.submit(hold, "b")
    assert (other.state, second.state) == ("working", "waiting")
    held.set()
    assert all(ticket.ended.wait(10.0) for ticket in (first, second, other))
    assert [ticket.state for ticket in (first, second, other)] == ["done"] * 3


def test_a_job_keeps_its_place_if_no_waiting_one_may_take_it():
    queue = FairQueue(2, time_slice=0.0, each=1)
    held, ticks = threading.Event(), []

    def hold(ticket):
        while not held.wait(0.001):
            ticket.tick()
            ticks.append(ticket.visitor)

    one, two, waits = queue.submit(hold, "a"), queue.submit(hold, "b"), queue.submit(hold, "a")
    wait_for(lambda: ticks.count("b") > 20)
    held.set()
    assert all(ticket.ended.wait(10.0) and ticket.state == "done" for ticket in (one, two, waits))


def test_the_future_of_a_job_is_done_however_it_ends():
    queue, held = FairQueue(1), threading.Event()

    def fail(ticket):
        held.wait(10.0)
        raise SpecvizError("no")

    fails, cancelled, works = queue.submit(fail), queue.submit(fail), queue.submit(lambda ticket: 1)
    assert not any(ticket.end.done() for ticket in (fails, cancelled, works))
    cancelled.cancel()
    assert cancelled.end.result(0) is None and not works.end.done()
    held.set()
    assert (fails.end.result(10.0), works.end.result(10.0)) == (None, None)
    assert [ticket.state for ticket in (fails, cancelled, works)] == ["failed", "stopped", "done"]


def test_a_closing_queue_fails_long_jobs_as_soon_as_their_length_is_known(monkeypatch):
    """Its clock stands still, so its patience never ends."""
    monkeypatch.setattr(module, "time", FakeClock())
    queue, known = FairQueue(), threading.Event()

    def work(ticket):
        while not known.is_set():
            ticket.tick()
            time.sleep(0.002)
        ticket.expect(1000.0)
        while True:
            ticket.tick(0.0)
            time.sleep(0.002)

    ticket = queue.submit(work)
    wait_for(lambda: ticket.has_started)
    threading.Timer(0.2, known.set).start()
    assert queue.close(60.0, "about to stop") == 1
    assert ticket.ended.wait(10.0) and (ticket.state, ticket.sentence) == ("failed", "about to stop")
