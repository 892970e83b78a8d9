"""Many texts at once: numbers worked out by hand, a verdict only where runs agree, and the command's record comes back.

No test looks at how fast anything is: seconds are given by hand, or only asked to be there.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specviz.__main__ import main
from specviz.cli import record as command
from specviz.errors import TraceError
from specviz.records import ASSETS
from specviz.settings import Settings
from specviz.speed.prediction import batches
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.estimate import Estimate
from specviz.web.speed import batch_figures as figures
from tests.speed.prediction.test_planning import TEXT

KEY = "storybook 1"


def by_hand(costly: float = 3.0, wobble: float = 0.0) -> BatchSpeeds:
    """One and four texts, gamma 2, a token 1 s: alone a block costs 1.2 passes, on four texts ``costly``; draft .2, rule .1.

    Two texts of 20 tokens took 8 and 12 rounds: 2 tokens per pass. Every other run takes ``wobble`` longer, as a share.
    """

    def runs(seconds: float) -> tuple[float, ...]:
        return tuple(seconds * (1.0 + wobble * (run % 2)) for run in range(6))

    return BatchSpeeds(
        Settings(), (1, 4), (2,),
        passes=((runs(1.0), runs(1.2)), (runs(1.0), runs(costly))),
        drafting=((runs(0.2),), (runs(0.2),)), rule=((runs(0.1),), (runs(0.1),)),
        rounds={KEY: ((8, 12),)}, length=20, cached_tokens=128,
    )  # fmt: skip


def test_the_factor_is_tokens_over_the_seconds_of_a_round():
    found = by_hand()
    assert found.estimate_tokens(KEY, 2) == Estimate(2.0, 20 / 12, 20 / 8, 2, "tokens/pass")
    assert found.estimate_cost(1, 2).value == pytest.approx(1.2) and found.estimate_cost(4, 2).value == pytest.approx(3.0)
    assert found.estimate_factor(KEY, 1, 2).value == pytest.approx(2.0 / 1.5) and found.estimate_factor(
        KEY, 4, 2
    ).value == pytest.approx(2.0 / 3.3)
    assert found.c == pytest.approx(0.1)


def test_the_sentence_gives_the_speed_up_of_one_text_and_of_more_with_their_intervals():
    found = by_hand()
    one, four = found.estimate_factor(KEY, 1, 2), found.estimate_factor(KEY, 4, 2)
    said = found.describe(KEY)
    assert said.startswith(f"With one text the speed-up is {one.format()}. With 4 texts at once it is")
    assert f"{four.format()}, each with its fastest draft length. Below 1, as with 4 texts" in said and "rises" not in said
    assert "Below 1" not in by_hand(costly=1.2).describe(KEY), "nothing is slower there"


def test_a_speed_up_that_rises_with_more_texts_is_explained_by_the_cost_of_the_passes():
    found = by_hand()
    back = replace(found, passes=found.passes[::-1], rows=(1, 4), rounds={KEY: ((8, 8),)})
    back = replace(
        back, rows=(1, 2, 4), passes=(found.passes[0], *back.passes), drafting=found.drafting[:1] * 3, rule=found.rule[:1] * 3
    )
    dear, cheap = (back.estimate_cost(rows, 2).value for rows in (2, 4))
    assert f"rises from 2 to 4 texts: on this machine, a pass over 3 tokens of each costs {cheap:.2f}" in back.describe(KEY)
    assert f"one-token passes with 4 texts, and {dear:.2f} with 2." in back.describe(KEY)


def test_runs_far_apart_give_no_verdict():
    assert by_hand(wobble=0.1).steady and not by_hand(wobble=1.0).steady
    assert "middle half" in by_hand(wobble=1.0).describe(KEY)
    few = replace(by_hand(), **{name: tuple(tuple(runs[:3] for runs in row) for row in getattr(by_hand(), name))
                                for name in ("passes", "drafting", "rule")})  # fmt: skip
    assert not few.steady and "timed 3 times" in few.describe(KEY)


def test_the_record_comes_back_and_damage_is_refused():
    found = by_hand()
    again = BatchSpeeds.from_json(found.to_json())
    assert again == found
    whole = json.loads(found.to_json())
    for damaged in (
        {**whole, "schema": "x"},
        {**whole, "rule": [[[1.0]]]},
        {**whole, "passes": []},
        {k: v for k, v in whole.items() if k != "rows"},
        [],
    ):
        with pytest.raises(TraceError):
            BatchSpeeds.from_json(json.dumps(damaged))


def test_the_pictures_show_the_records_numbers():
    found = by_hand()
    assert [line["texts"] for line in figures.build_rows(found, KEY)] == [1, 4]


def test_the_command_measures_the_drafts_of_the_page_and_keeps_a_record(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("specviz.models.pairs.loading.load_pair", lambda *key: pair)
    monkeypatch.setattr("specviz.speed.prediction.study.TEXTS_FOLDER", tmp_path)
    (tmp_path / "bedtime.txt").write_text(TEXT)
    monkeypatch.setattr(command, "OPENING_TOKENS", 8)
    monkeypatch.setattr(command, "CONTINUATION_TOKENS", 12)
    measure = batches.measure_batches
    monkeypatch.setattr(batches, "measure_batches", lambda *given, **more: measure(*given, **more, rows=(1, 3), gammas=(1, 2)))
    file = tmp_path / "batches.json"
    code = main(["record", "batches", "--runs", "1", "--continuations", "3", "--out", str(file)])
    found = BatchSpeeds.from_json(file.read_text())
    assert code == (0 if found.steady else command.NO_VERDICT)
    assert len(found.rounds) == 6 and all(len(counts) == 3 for counts in found.rounds[KEY])
    assert all(12 / 3 <= count <= 12 for count in found.rounds[KEY][1])
    assert found.seconds.shape == (2, 3, 3) and (found.seconds > 0.0).all()
    for option, said in (
        ("--continuations", "--continuations must be 2 or more"),
        ("--texts", "--texts is called --continuations now."),
    ):
        assert main(["record", "batches", option, "1"]) == 2
        assert said in capsys.readouterr().err


def test_the_recorded_measurement_is_whole():
    found = BatchSpeeds.from_json((ASSETS / "traces" / "batches.json").read_text(encoding="utf-8"))
    assert (found.rows, found.gammas) == (batches.ROWS, batches.GAMMAS)
    assert next(iter(found.rounds)) == KEY and found.describe(KEY)
