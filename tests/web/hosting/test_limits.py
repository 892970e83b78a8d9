"""A visitor over a limit reads which, and when to go on; others notice nothing."""

from __future__ import annotations

import pytest

from specviz.errors import SettingsError, SpecvizError
from specviz.settings import Settings
from specviz.web.common import links
from specviz.web.common.controls import read_fields
from specviz.web.hosting.limits import REMEMBERED, ActionRateLimiter, SampleAllowance, check_text
from specviz.web.speed.state import SpeedQuestion


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# Samples in a minute -------------------------------------------------------------------------------------------------------


def test_a_minutes_samples_are_granted_at_once_and_no_more():
    allowance = SampleAllowance(1000, Clock())
    assert [allowance.grant("a", 600), allowance.grant("a", 600)] == [600, 400]
    with pytest.raises(
        SpecvizError, match=r"1,000 samples a minute for each visitor\. Samples drawn so far are kept; go on in 3 s\."
    ):
        allowance.grant("a", 600)


def test_who_waits_as_long_as_was_said_may_go_on():
    clock = Clock()
    allowance = SampleAllowance(1000, clock)
    allowance.grant("a", 1000)
    clock.now += 2.9
    with pytest.raises(SpecvizError, match="go on in 1 s"):
        allowance.grant("a", 1000)
    clock.now += 0.2
    assert allowance.grant("a", 1000) == 51


def test_in_any_minute_nobody_draws_more_than_two_minutes_samples():
    clock = Clock()
    allowance, drawn = SampleAllowance(600, clock), []
    for second in range(600):
        clock.now = 100.0 + second
        try:
            drawn.append(allowance.grant("a", 10**6))
        except SpecvizError:
            drawn.append(0)
    assert max(sum(drawn[start : start + 60]) for start in range(540)) <= 2 * 600
    assert sum(drawn) == pytest.approx(600 + 599 * 10, abs=30)


def test_one_visitors_limit_is_not_anothers():
    allowance = SampleAllowance(100, Clock())
    allowance.grant("a", 100)
    assert allowance.grant("b", 100) == 100


def test_a_clock_that_jumps_back_gives_nothing_and_takes_nothing():
    clock = Clock()
    allowance = SampleAllowance(1000, clock)
    allowance.grant("a", 400)
    clock.now = -1e6
    assert allowance.grant("a", 600) == 600


def test_without_a_limit_everything_is_granted_and_nobody_is_remembered():
    allowance = SampleAllowance(0)
    assert allowance.grant("a", 10**9) == 10**9 and not allowance._left


def test_of_many_visitors_the_latest_are_remembered():
    allowance = SampleAllowance(1000, Clock())
    for visitor in range(REMEMBERED + 10):
        allowance.grant(visitor, 1000)
    assert len(allowance._left) == REMEMBERED
    with pytest.raises(SpecvizError):
        allowance.grant(REMEMBERED + 9, 1000)


# Actions in a second -------------------------------------------------------------------------------------------------------


def test_after_a_few_at_once_actions_come_at_the_pace_and_a_pause_is_not_saved_up_for_ever():
    now = [0.0]
    pace = ActionRateLimiter(10, lambda: now[0])
    waits = [pace.wait() for _ in range(70)]
    assert waits[:60] == [0.0] * 60 and waits[69] == pytest.approx(0.9)
    now[0] = 1000.0
    assert [pace.wait() for _ in range(61)][-1] == pytest.approx(0.0, abs=1e-6) and pace.wait() > 0.09
    assert ActionRateLimiter(0).wait(10**9) == 0.0 and ActionRateLimiter(0).left == 0.0


def test_looking_whether_one_may_makes_nobody_wait():
    now = [0.0]
    pace = ActionRateLimiter(10, lambda: now[0])
    assert pace.left == 0.0
    for _ in range(70):
        pace.wait()
    assert [pace.left for _ in range(5000)] == pytest.approx([1.0] * 5000)
    now[0] = 1.0
    assert pace.left == 0.0


# Texts ---------------------------------------------------------------------------------------------------------------------


def test_a_text_is_measured_in_bytes(serve):
    serve(mode="hosted", prompt_bytes=6)
    assert check_text("prompt", "猫猫") == "猫猫"
    with pytest.raises(SettingsError, match="7 bytes"):
        check_text("prompt", "猫猫x")
    assert check_text("prompt", "") == ""


def test_a_field_with_a_text_that_is_too_long_says_so_and_the_old_text_stays(serve):
    serve(mode="hosted", prompt_bytes=6)
    settings, (said,) = read_fields({"prompt": "Once upon"}, Settings(prompt="a"))
    assert settings.prompt == "a" and said == "The prompt is too long: 9 bytes, at most 6, the limit of this server."


def test_a_links_text_that_is_too_long_is_left_out_with_a_sentence(serve):
    serve(mode="hosted", prompt_bytes=6)
    settings, (said,) = links.read_link({"prompt": "Once upon", "seed": "3"})
    assert (settings.prompt, settings.seed) == ("", 3) and said.startswith("The link's prompt was left out: ")


@pytest.mark.parametrize("text", ["x" * 9000, "x" * 30_000])
def test_how_fast_opens_with_its_own_text_where_the_links_is_too_long(serve, text):
    serve(mode="hosted")
    question, (said,) = SpeedQuestion.from_link({"text": text}, Settings())
    assert question == SpeedQuestion.from_link({}, Settings())[0] and said.startswith("The link's text was left out: ")


def test_on_ones_own_machine_the_only_limit_is_the_settings_own(serve):
    serve()
    assert links.read_link({"prompt": "x" * 19_000})[1] == []
