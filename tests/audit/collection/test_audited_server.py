"""What is said before the first sample: the number that a distance needs, what a given number shows, and how long it takes."""

from __future__ import annotations

import pytest

from specviz.audit.collection import audited_server
from specviz.audit.collection.audited_server import (
    CollectionForecast,
    choose_sample_count,
    count_needed_samples,
    describe_needed_samples,
    describe_window,
    format_duration,
    measure_rate,
)
from specviz.audit.collection.collect import CollectionCounts
from specviz.audit.collection.preflight import ServerProbe
from specviz.audit.collection.size import PROBE_REGION, compute_first_seed
from specviz.audit.profiles.recognition import recognize_server
from specviz.audit.protocol.endpoint import Endpoint
from specviz.audit.protocol.sampling_request import SamplingRequest
from specviz.errors import SettingsError
from specviz.evidence.testing.hypothesis_tests import TestPlan
from tests.audit.server import FakeClock, run_server


@pytest.mark.parametrize("two_files", [False, True])
@pytest.mark.parametrize("tv", [0.2, 0.05, 0.02])
def test_the_number_that_is_named_shows_the_distance_and_one_in_ten_less_does_not(tv, two_files):
    n = count_needed_samples(tv, 3, two_files)
    enough, few = (CollectionForecast(samples, 0, 3, tv, two_files, 1.0).detectable_tv for samples in (n, int(0.9 * n)))
    assert enough <= tv * 1.001 < few


def test_the_plan_of_the_tests_agrees_with_the_number_that_is_named():
    assert TestPlan.for_distance(count_needed_samples(0.02, 4, False), 4, 0.02).cells >= 16


@pytest.mark.parametrize("two_files", [False, True])
def test_as_many_samples_are_collected_as_the_distance_needs_and_too_few_are_said_before_the_first_request(two_files):
    needed = choose_sample_count(0.05, 3, two_files)
    assert needed == count_needed_samples(0.05, 3, two_files)
    assert describe_needed_samples(0.05, 3, two_files, needed).endswith("with power 99%.")
    assert f'With {needed - 1:,} an exact server ends with the verdict "too few' in describe_needed_samples(
        0.05, 3, two_files, needed - 1
    )
    with pytest.raises(SettingsError, match=r"min-tv must be larger: it needs .* at most 1,000,000"):
        choose_sample_count(0.0005, 3, two_files)


def test_a_round_that_is_longer_than_the_samples_is_named():
    """Gamma 2 fits into four tokens: the prompt's pass, two draft tokens, a bonus token. Gamma 5 does not."""
    assert describe_window(4, [2.0, None]) == describe_window(4, [None]) == ""
    assert "drafts 5 tokens a round, and 4 tokens of each sample are tested" in (said := describe_window(4, [None, 5.0]))
    assert "--request-tokens 14 or more adds a test of whole texts" in said
    counts = CollectionCounts()
    counts.add_drafted(30.0, 10.0, 6.0)
    counts.add_drafted(20.0, 5.0, 4.0)
    assert counts.draft_length == 5.0 and CollectionCounts(drafted=3).draft_length is None


def test_the_rate_of_a_server_is_that_of_its_answers(monkeypatch):
    """An answer comes every 12.5 ms: 80 samples per second, and 400 with five of each request."""
    clock = FakeClock(monkeypatch)
    monkeypatch.setattr(audited_server, "time", clock)

    def pass_time(number: int) -> float:
        clock.now += 0.0125
        return 0.0

    with run_server(slow=pass_time) as server:
        endpoint = Endpoint(server.url)
        probe = ServerProbe(
            endpoint, recognize_server(endpoint).profile, SamplingRequest("a b", 2), 1, compute_first_seed(7, PROBE_REGION)
        )
        found, several = measure_rate(probe), measure_rate(probe, 5)
        endpoint.close()
    assert (found, several) == (pytest.approx(80.0), pytest.approx(400.0))


def test_probes_keep_to_a_limited_rate(monkeypatch):
    """Eight requests at 40 per second take 0.175 s: the first goes at once."""
    clock = FakeClock(monkeypatch)
    monkeypatch.setattr(audited_server, "time", clock)
    with run_server() as server:
        endpoint = Endpoint(server.url, rate=40.0)
        probe = ServerProbe(
            endpoint, recognize_server(endpoint).profile, SamplingRequest("a b", 2), 1, compute_first_seed(7, PROBE_REGION)
        )
        probe.sample_contents(probe.hot_sampling, [probe.take_seed() for _ in range(8)])
        spent, found = clock.now, measure_rate(probe)
        endpoint.close()
    assert (spent, found) == (pytest.approx(0.175), pytest.approx(40.0))


def test_a_forecast_counts_what_is_missing():
    one = CollectionForecast(20_000, 5_000, 4, 0.02, False, 50.0)
    assert one.seconds == 100.0
    assert f"0.02 needs {one.needed:,} samples to be" in describe_needed_samples(0.02, 4, False, 20_000)
    assert "samples of each server" in describe_needed_samples(0.02, 4, True, 20_000)
    assert f"0.02 needs {one.needed:,}" in CollectionForecast(100, 100, 4, 0.02, False, 50.0).sentence
    assert "needs" not in CollectionForecast(10**6, 100, 4, 0.02, False, 50.0).sentence


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "about 1 s"), (60, "about 60 s"), (600, "about 10 minutes"), (7200, "about 2.0 hours")],
)
def test_a_time_ahead_is_said_in_words(seconds, words):
    assert format_duration(seconds) == words
