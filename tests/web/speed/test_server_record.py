"""On your server: a record of ``pays`` is read field by field, its pictures show its numbers, and links to former tabs open the page."""

from __future__ import annotations

import json

import pytest

from specviz.audit.pays.load import LoadPlan
from specviz.audit.pays.record import MAX_BYTES, SCHEMA, parse_pays_record
from specviz.audit.pays.report import build_report
from specviz.errors import SettingsError, TraceError
from specviz.export.server_speed import build_server_speed_package
from specviz.figures import server_speed as figures
from specviz.settings import Settings
from specviz.web.speed.state import SpeedQuestion
from tests.audit.pays.simulation import SimulatedServer
from tests.helpers.pages import draw_first_paint

PLAN = LoadPlan((1, 4), turns=5)


@pytest.fixture(scope="module")
def report() -> dict:
    """A server that drafts 3 tokens where more would be better, and that is slower for four users."""
    blocks = SimulatedServer(acceptance=0.9, draft_seconds=0.0001, round_growth=0.02).simulate(PLAN, 3)
    return build_report(blocks, PLAN, {"on": {"name": "vLLM 0.33.0"}}, "2 of 'mine.txt'", {}, "specviz pays URL", "2026-11-27")


def dump(report: dict, **changes) -> bytes:
    return SCHEMA.format_record(report | changes).encode()


def test_a_record_is_read_as_it_was_written(report):
    assert parse_pays_record(dump(report)) == json.loads(dump(report))


@pytest.mark.parametrize(
    ("content", "sentence"),
    (
        (lambda report: b"[]", "no object"),
        (lambda report: b"{", "no JSON"),
        (lambda report: b"\xff", "UTF-8"),
        (lambda report: b" " * (MAX_BYTES + 1), "too large"),
        (lambda report: json.dumps(report).encode(), "has schema"),
        (lambda report: dump(report, sentence=3), "damaged"),
        (lambda report: dump(report, more=1), "damaged"),
        (lambda report: dump(report, unit="<a href='http://a'>tokens</a>"), "damaged"),
        (lambda report: dump(report, levels=[]), "damaged"),
        (lambda report: dump(report, levels=report["levels"] * 40), "damaged"),
        (lambda report: dump(report, levels=[report["levels"][0] | {"verdict": "<b>"}]), "damaged"),
        (lambda report: dump(report, levels=[report["levels"][0] | {"users": "1"}]), "damaged"),
        (lambda report: dump(report, break_even_users=12345.5).replace(b"12345.5", b"1e999"), "damaged"),
    ),
)
def test_anything_else_is_a_sentence(report, content, sentence):
    with pytest.raises(TraceError, match=sentence):
        parse_pays_record(content(report))


def test_the_pictures_show_the_numbers_of_the_record(report):
    line, faster, slower = figures.plot_speedups(report).data
    assert list(line.x) == [1, 4] and list(line.y) == [level["speedup"]["value"] for level in report["levels"]]
    assert (faster.name, slower.name) == ("pays", "hurts") and faster.marker.symbol != slower.marker.symbol, "never color alone"
    assert list(faster.x) == [1] and list(slower.x) == [4]
    high = [level["speedup"]["high"] - level["speedup"]["value"] for level in report["levels"]]
    assert list(line.error_y.array) == high
    on, off = figures.plot_rates(report).data
    assert on.y[0] == report["levels"][0]["on"]["value"] and off.y[1] == report["levels"][1]["off"]["value"]
    lengths, own, measured, extrapolated = figures.plot_gammas(report).data
    assert list(lengths.y) == [row["speedup"] for row in report["gammas"]] and report["gamma"] == 3
    assert (list(own.x), list(measured.x), list(extrapolated.x)) == ([3], [1, 2], [4, 5, 6])
    assert report["lines"] == ['vLLM: "num_speculative_tokens": 6 in --speculative-config']
    package = build_server_speed_package(report)
    assert set(package.pictures) == {"speedup", "rates", "gammas"} and report["sentence"] in package.captions


def test_a_link_opens_one_s_own_server_and_a_former_tab_the_one_that_holds_it_now():
    seen = draw_first_paint("speed", {"tab": "server"})
    assert seen["errors"] == 0 and any("sends prompts to your server" in one for one in seen["said"])
    question, said = SpeedQuestion.from_link({"tab": "drafts"}, Settings())
    assert (question.tab, said) == ("text", [])
    with pytest.raises(SettingsError, match="one of many, text"):
        SpeedQuestion("text", tab="drafts")
