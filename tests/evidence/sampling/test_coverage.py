"""A verdict says what was exercised: what samples count, the verdict over nothing, and what certificates and resumed runs keep of it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from specviz.__main__ import main
from specviz.decoding.samples import Coverage
from specviz.evidence.assisted import RoundLog
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.sampling.certificate import ALTERED, recompute, redraw_certificate
from specviz.evidence.sampling.sampling_plan import INTERIM, SamplingPlan, make_cells
from specviz.evidence.sampling.session import SamplingSpec, Session, SideBySide
from specviz.evidence.testing.report import seal
from specviz.evidence.testing.results import InterimTest, describe_unreached
from specviz.models.pairs.loading import build_pair
from specviz.progress import ignore_progress
from specviz.records import to_json_value
from specviz.settings import Settings
from tests.helpers.certificate_files import alter_record
from tests.helpers.tiny_pairs import build_tiny_model

SETTINGS = Settings(prompt="Once upon", max_new_tokens=3, gamma=2, seed=11)
QUIET = lambda label: ignore_progress  # noqa: E731


def verify(pair, settings, name="speculative", n=400, mode="both"):
    session = Session(build_decoder(name, pair, settings), SamplingPlan(mode, n, 0.9, 1e6))
    return session.run(QUIET)


def recount(pair, settings, n) -> dict[str, int]:
    """Counted from the recorded rounds of each text, in another way than the sampler counts."""
    rounds = build_decoder("speculative", pair, settings).decode_rounds(range(n))
    every = [round_ for text in rounds for round_ in text]
    decisions = [one for round_ in every for one in round_.proposals]
    committed = [(round_, round_.committed) for text in rounds for round_ in text[:-1]]
    return {
        "proposed": len(decisions),
        "accepted": sum(one.accepted is True for one in decisions),
        "rejected": sum(one.accepted is False for one in decisions),
        "residual": sum(round_.ending.kind == "residual" for round_ in every),
        "bonus": sum(round_.ending.kind == "bonus" for round_ in every if round_.proposals),
        "target_only": sum(len(round_.committed) for round_ in every if not round_.proposals),
        "rollbacks": sum(len(round_.proposals) > len(tokens) - 1 for round_, tokens in committed),
    }


def test_both_modes_count_what_the_rounds_record(pair):
    """Longer texts, so that all parts are reached; on shared distributions no token after a rejected one is drawn."""
    settings = replace(SETTINGS, max_new_tokens=6)
    decoder, wanted = build_decoder("speculative", pair, settings), recount(pair, settings, 150)
    engine, shared = (decoder.sample(mode, 0, 150).coverage for mode in (ENGINE, SHARED))
    assert {name: getattr(engine, name) for name in wanted} == wanted and min(wanted.values()) > 0
    assert engine.proposed == engine.accepted + engine.rejected + engine.not_checked
    same = ("accepted", "rejected", "residual", "bonus", "target_only")
    assert [getattr(shared, name) for name in same] == [getattr(engine, name) for name in same]
    assert (shared.not_checked, shared.rollbacks) == (0, None) and shared.proposed == shared.accepted + shared.rejected


def test_counts_of_parts_add_up_to_those_of_the_whole(pair):
    samples = build_decoder("speculative", pair, SETTINGS).sample(SHARED, 0, 90)
    parts = [samples.slice_samples(begin, begin + 30).coverage for begin in (0, 30, 60)]
    assert parts[0] + parts[1] + parts[2] == samples.coverage and parts[0] != samples.coverage


@pytest.mark.parametrize(
    ("draft", "committed", "wanted"),
    [
        ((5, 6), (5, 6, 7), (2, 2, 0, 0, 0, 1, 0, 0)),
        ((5, 6), (5, 9), (2, 1, 1, 0, 1, 0, 0, 1)),
        ((5, 6), (8,), (2, 0, 1, 1, 1, 0, 0, 1)),
        ((5, 6), (5,), (2, 1, 0, 1, 0, 0, 0, 1)),  # the text ended within the draft
        ((), (4,), (0, 0, 0, 0, 0, 0, 1, 0)),
    ],
)
def test_rounds_of_transformers_are_counted_from_draft_and_committed_tokens(draft, committed, wanted):
    log = RoundLog()
    log.rounds = [(draft, committed), ((), (1,))]
    assert log.count_events().tolist() == [count + (place == 6) for place, count in enumerate(wanted)]


def test_assisted_generation_counts_what_transformers_drafts(pair):
    settings = replace(SETTINGS, max_new_tokens=4)
    coverage = build_decoder("assisted", pair, settings).sample("transformers", 0, 12).coverage
    assert coverage.proposed > 0 and coverage.accepted + coverage.rejected + coverage.not_checked == coverage.proposed
    assert coverage.rejected == coverage.residual > 0


def test_assisted_generation_of_one_token_tests_nothing_and_exits_with_5(pair_folders, capsys):
    """transformers drafts nothing where one new token is allowed."""
    folders = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    asked = ["verify", *folders, "--decoder", "assisted", "--max-new-tokens", "1", "--samples", "64", "--min-tv", "0.9"]
    assert main([*asked, "--seconds", "60", "--format", "json"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "nothing tested" and "no draft token was proposed" in report["sentence"]
    assert report["exercised"]["proposed"] == 0 and report["exercised"]["target_only"] == 64
    assert not alter_record(report)


def test_a_draft_whose_context_is_shorter_than_the_prompt_tests_nothing(pair):
    short = build_pair(pair.target, build_tiny_model(300, layers=1, seed=3, context=32).eval(), pair.tokenizer, "short")
    prompt = tuple(3 + place % 200 for place in range(40))
    for mode in (SHARED, ENGINE):
        session = Session(
            build_decoder("speculative", short, SETTINGS, prompt), SamplingPlan(samples=64, min_tv=0.9, seconds=1e6)
        )
        session.draw(mode)
        found = session.test(mode)
        assert (found.verdict, found.coverage.proposed) == ("nothing tested", 0) and found.coverage.target_only > 0


def test_target_only_sampling_is_the_control_and_says_so(pair):
    report = verify(pair, SETTINGS, "target", mode="shared-distributions")
    assert report["verdict"] == "consistent" and "This is the control" in report["sentence"]
    assert report["exercised"]["proposed"] == 0 and not alter_record(report)
    other = verify(pair, replace(SETTINGS, gamma=0), mode="shared-distributions")
    assert other["verdict"] == "nothing tested" and not alter_record(other)


def test_a_draft_that_is_never_rejected_is_said_in_the_verdict(pair):
    report = verify(pair, replace(SETTINGS, proposer="oracle"), mode="shared-distributions")
    assert report["exercised"]["rejected"] == 0 < report["exercised"]["accepted"]
    assert "No draft token was rejected, so rejection and the residual distribution were not tested." in report["sentence"]


def test_a_mistake_that_is_rejected_is_rejected_whatever_it_exercised(pair):
    """R18 accepts every draft token that the target can write: nothing is ever rejected, and samples still show it."""
    settings = build_decoder("R18", pair, SETTINGS).settings
    found = Session(build_decoder("R18", pair, replace(settings, gamma=2)), SamplingPlan(samples=1000, min_tv=0.9, reference=0))
    found.draw(SHARED)
    result = found.test(SHARED)
    assert result.verdict == "rejected" and result.coverage.rejected == 0 < result.coverage.accepted


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"accepted": 0}, ["No draft token was accepted."]),
        ({"bonus": 0}, ["No bonus token was drawn."]),
        ({"rollbacks": 0}, ["No cache was rolled back."]),
        ({"rollbacks": None}, []),
        ({"residual": 0}, ["No token was drawn from the residual distribution."]),
    ],
)
def test_each_part_that_was_not_reached_is_named(changes, said):
    assert describe_unreached(replace(Coverage(9, 3, 4, 2, 4, 1, 0, 5), **changes)) == said
    assert describe_unreached(None) == []


def test_interim_tests_say_it_too_and_earlier_records_are_read(pair):
    settings = replace(SETTINGS, max_new_tokens=1)
    cells = make_cells(pair, settings, 8, 0.01)
    spec = SamplingSpec("speculative", SHARED, settings, tuple(pair.encode(settings.prompt)))
    session = SideBySide(pair, [spec], cells, ("",) * len(cells.shown.names), 1)
    ((found,),) = session.test(session.draw(100))
    assert found.verdict == "nothing tested" and found.exercised == session.sessions[0].counted
    record = json.loads(json.dumps(to_json_value(found)))
    assert InterimTest.from_record(record) == found
    del record["exercised"]
    assert InterimTest.from_record(record) == replace(found, exercised=None)


def test_a_session_continues_what_was_exercised(pair):
    decoder, cells = build_decoder("speculative", pair, SETTINGS), make_cells(pair, SETTINGS, 8, 0.01)
    samples = decoder.sample(SHARED, 0, 120)
    whole, first, second, old = (Session(decoder, INTERIM, cells=cells) for _ in range(4))
    whole.count(samples)
    kept = json.loads(json.dumps(first.count(samples.slice_samples(0, 70)).to_record()))
    second.restore(70, kept)
    added = second.count(samples.slice_samples(70, 120))
    assert second.counted == whole.counted == samples.coverage
    assert added.due[0].coverage == samples.slice_samples(0, 100).coverage, "a test counts its own samples alone"
    old.restore(70, {name: value for name, value in kept.items() if name != "exercised"})
    assert old.counted is None, "what an earlier version did not count stays unknown"


@pytest.fixture(scope="module")
def report(pair):
    return verify(pair, SETTINGS, n=300, mode="shared-distributions")


def test_a_certificate_of_an_earlier_version_still_checks(report, pair):
    old = copy.deepcopy(report)
    for one in (old, *old["answers"]):
        del one["exercised"]
    old["answers"] = [recompute(one, old["decoder"]) for one in old["answers"]]
    old = seal(old | {"sentence": old["answers"][0]["sentence"]})
    assert not alter_record(old) and all(line.state != ALTERED for line in redraw_certificate(old, pair, QUIET))


@pytest.mark.parametrize("change", [{"accepted": 7}, {"proposed": 0, "accepted": 0, "rejected": 0, "residual": 0}, {"bonus": 1}])
def test_forged_counts_are_found(report, pair, change):
    """Counts that contradict each other without a model; others by drawing again."""
    forged = copy.deepcopy(report)
    for one in (forged, *forged["answers"]):
        one["exercised"] |= change
    found = alter_record(seal(forged))
    assert found or any(line.state == ALTERED for line in redraw_certificate(seal(forged), pair, QUIET))
