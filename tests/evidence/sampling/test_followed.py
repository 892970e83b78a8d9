"""Where a distribution is expensive, samples are drawn until their cell is known, and only the first ones to their end.

No chance: the same samples are drawn both ways, so they agree token by token, and so do their counts.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from specviz.decoding.samples import NONE
from specviz.evidence import decoder as decoders
from specviz.evidence.decoder import SHARED, build_decoder, count_whole_samples
from specviz.evidence.sampling.certificate import ALTERED, read_certificate, redraw_certificate
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import Session, follow_cells
from specviz.evidence.testing.report import seal
from specviz.progress import ignore_progress
from specviz.settings import Settings

SETTINGS = Settings(prompt="Once upon", max_new_tokens=3, gamma=2, seed=11)
N, WHOLE = 3000, 200


@pytest.fixture(scope="module")
def sessions(pair):
    """All samples drawn to their end, and the same ones drawn until their cell is known; both tested."""
    found = []
    with pytest.MonkeyPatch.context() as patched:
        for is_large in (False, True):
            if is_large:
                patched.setattr(decoders, "LARGE_VOCABULARY", 0)
                patched.setattr(decoders, "WHOLE", WHOLE * pair.vocabulary)
            session = Session(build_decoder("speculative", pair, SETTINGS), SamplingPlan("shared-distributions", N, 0.3))
            session.run(lambda stage: ignore_progress)
            found.append(session)
    return found


def test_samples_are_beginnings_of_those_drawn_to_their_end_and_lie_in_the_same_cells(sessions):
    plain, followed = sessions
    full, cut = plain.samples[SHARED].tokens, followed.samples[SHARED].tokens
    cells = followed.reports[SHARED].partition
    assert (cut[:WHOLE] == full[:WHOLE]).all()
    drawn = cut != NONE
    assert (cut[drawn] == full[drawn]).all()
    for row, own in zip(cut[WHOLE:].tolist(), full[WHOLE:].tolist(), strict=True):
        length = next((n for n in range(1, len(own)) if tuple(own[:n]) not in cells.inner_names), len(own))
        wanted = [token for token in own[:length] if token != NONE]
        assert [token for token in row if token != NONE] == wanted
    assert (drawn.sum(1)[WHOLE:] < (full != NONE).sum(1)[WHOLE:]).any(), "some were not drawn to their end"
    assert np.array_equal(followed.reports[SHARED].counts, plain.reports[SHARED].counts)
    for one, other in zip(plain.reports[SHARED].tests[:2], followed.reports[SHARED].tests[:2], strict=True):
        assert one == other, "the test of the joint distribution has the same samples, cells and power"
    two = next(test for test in followed.reports[SHARED].tests if test.name.startswith("two samples"))
    assert two.note.startswith(f"{WHOLE} and {WHOLE} continuations"), "a text that was cut is not compared with whole ones"
    assert {session.reports[SHARED].verdict for session in sessions} == {"consistent"}
    assert followed.reports[SHARED].borderline == plain.reports[SHARED].borderline


def test_a_certificate_says_how_many_and_is_drawn_again(sessions, pair, tmp_path, monkeypatch):
    monkeypatch.setattr(decoders, "LARGE_VOCABULARY", 0)
    monkeypatch.setattr(decoders, "WHOLE", WHOLE * pair.vocabulary)
    plain, followed = (session.report() for session in sessions)
    assert "whole_samples" not in plain["answers"][0] and followed["answers"][0]["whole_samples"] == WHOLE
    path = tmp_path / "report.json"
    path.write_text(json.dumps(followed))

    def find_altered(record):
        return [one.field for one in redraw_certificate(record, pair, lambda label: ignore_progress) if one.state == ALTERED]

    record = read_certificate(path)
    assert not find_altered(record)
    del record["answers"][0]["whole_samples"]
    assert find_altered(seal(record)), "drawn to their end, the samples have other scores"


def test_cells_of_a_few_samples_are_followed_by_workers_too(pair):
    decoder = build_decoder("speculative", pair, SETTINGS)
    session = Session(decoder, SamplingPlan("shared-distributions", 300, 0.3, reference=0))
    session.draw(SHARED)
    cells = session.test(SHARED).partition
    parts = [follow_cells(decoder, cells, 100).sample(SHARED, first, 150).tokens for first in (0, 150)]
    assert np.array_equal(np.concatenate(parts), follow_cells(decoder, cells, 100).sample(SHARED, 0, 300).tokens)


def test_only_large_vocabularies_have_a_limit():
    assert count_whole_samples(20_000_000, 4096) == 20_000_000
    assert count_whole_samples(200_000, 262_144) == 1024 and count_whole_samples(1000, 262_144) == 1000
