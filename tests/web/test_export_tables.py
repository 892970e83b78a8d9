"""Every table of every export is compared with its record cell by cell: a number in the wrong column or a little off is found.

Recorded exports are held against the file on the disk, read as plain JSON; made ones against the numbers they were made of.
Nothing here is random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from specviz.evidence.serving_setups.records import COMPARISONS
from specviz.evidence.serving_setups.records import SETUPS as SERVED
from specviz.glyphs import build_glyphs, name_token, read_piece
from specviz.speed.records.word_kinds import KINDS
from specviz.theory import compute_wall_clock_factor
from tests.helpers import export_packages as e
from tests.helpers.export_packages import assert_cells, list_interval, read_raw, read_table

SPOKEN = {True: "True", False: "False", None: "not checked"}


def dump_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read_word(pieces: Mapping[str, str], token: int | None) -> str:
    return (
        ""
        if token is None
        else dump_text(name_token(read_piece({int(key): value for key, value in pieces.items()}, token), token))
    )


def read_letters(pieces: Mapping[str, str], token: int) -> str:
    """A token as glyphs, nothing named."""
    return "".join(one["t"] for one in build_glyphs(bytes.fromhex(pieces[str(token)]), token))


def test_no_table_is_left_out():
    """A new table of an export needs its comparison here."""
    compared = {
        ("report", "cells.csv"), ("report", "tests.csv"), ("exactness", "cells.csv"), ("exactness", "looks.csv"), ("exactness", "p-values.csv"),
        ("mistakes", "cells.csv"), ("mistakes", "looks.csv"), ("mistakes", "curve.csv"), ("mistakes", "speeds.csv"), ("one_round", "decisions.csv"),
        ("one_round", "distributions.csv"), ("one_token", "token.csv"), ("one_token", "rules.csv"), ("speed", "gammas.csv"), ("speed", "study.csv"), ("speed", "positions.csv"),
        ("speed", "many-texts.csv"), ("speed", "what-if.csv"), ("drafting_methods", "rows.csv"), ("drafting_methods", "first-tokens.csv"),
        ("drafting_methods", "block-gain.csv"), ("drafting_methods", "matrix.csv"), ("whole_text", "tokens.csv"), ("whole_text", "places.csv"),
        ("whole_text", "lorenz.csv"), ("whole_text", "kinds.csv"), ("serving_limits", "rows.csv"), ("serving_limits", "greedy.csv"),
    }  # fmt: skip
    assert compared == {(kind, name) for kind, package in e.build_packages().items() for name in package.tables}


def test_the_cells_of_a_report():
    labels = ["any other text", "·1 …", "·2 …", "·3 …", "·4 …", "·4·5"]
    expected = []
    for one in e.build_report()["answers"]:
        for cell, text in zip(one["cells"], labels, strict=True):
            n, mass = one["n"], cell["mass"]
            expected.append(
                {"mode": one["mode"], "begins": " ".join(map(str, cell["begins"])), "text": dump_text(text), "one_text": cell["whole"],
                 "mass": mass, "expected": mass * n, "count": cell["count"],
                 "low": stats.binom.ppf(0.005, n, mass) / n, "high": stats.binom.ppf(0.995, n, mass) / n}
            )  # fmt: skip
    assert_cells(read_table("report", "cells.csv"), expected, rel=1e-12)


def test_the_tests_of_a_report():
    columns = ("name", "n", "statistic", "df", "p_value", "adjusted_p", "detectable_tv", "alpha", "power", "note")
    expected = [
        {"mode": one["mode"], **{key: test[key] for key in columns}}
        for one in e.build_report()["answers"]
        for test in one["tests"]
    ]
    assert_cells(read_table("report", "tests.csv"), expected)


@pytest.mark.parametrize("kind", ["exactness", "mistakes"])
def test_the_cells_of_draws(kind):
    expected = [
        {"decoder": one.name, "begins_with": dump_text(one.labels[k]), "one_text": one.is_whole_text[k], "exact_probability": one.probs[k],
         "draws": one.counts[k], "share": one.counts[k] / 1000, "low": one.low[k], "high": one.high[k]}
        for one in (e.FILLING, e.WRONG)
        for k in (3, 0, 1, 2)
    ]  # fmt: skip
    assert_cells(read_table(kind, "cells.csv"), expected)
    record = e.build_packages()[kind].data["draws.json"]["arms"]
    held = [row for arm in record for row in arm["cells"]]
    assert [{**row, "begins_with": dump_text(row["begins_with"])} for row in held] == [
        {key: value for key, value in row.items() if key != "decoder"} for row in expected
    ]
    assert [(arm["decoder"], arm["n"]) for arm in record] == [("Speculative decoding", 1000), ("R5", 1000)]


@pytest.mark.parametrize("kind", ["exactness", "mistakes"])
def test_the_looks_at_draws(kind):
    assert_cells(read_table(kind, "looks.csv"), [dict(one) for one in e.LOOKS])


def test_p_values_under_many_seeds():
    edges = np.arange(11) / 10
    counts = np.histogram(e.FLAT.values, edges)[0].tolist()
    expected = [
        {"from": edges[k], "to": edges[k + 1], "runs": counts[k], "expected": 4.0, "low": 0, "high": 12} for k in range(10)
    ]
    assert_cells(read_table("exactness", "p-values.csv"), expected, rel=1e-12)


def test_the_curve_and_the_speeds_of_two_decoders():
    one = e.CURVE
    expected = [
        {"draws": one.n[k], "decoder": one.names[arm], "total_variation": one.tv[k][arm], "noise_mean": one.mean[k],
         "noise_99": one.upper[k]}
        for k in range(3)
        for arm in range(2)
    ]  # fmt: skip
    assert_cells(read_table("mistakes", "curve.csv"), expected)
    expected = [
        {
            "decoder": "right rule",
            "texts": 96,
            "draft_tokens_tested": 1000,
            "accepted": 600,
            "tokens": 1500,
            "target_passes": 800,
        },
        {
            "decoder": "wrong rule",
            "texts": 95,
            "draft_tokens_tested": 1001,
            "accepted": 703,
            "tokens": 1607,
            "target_passes": 809,
        },
    ]
    assert_cells(read_table("mistakes", "speeds.csv"), expected)


def test_the_decisions_of_a_run():
    trace, expected = read_raw("opening"), []
    for number, one in enumerate(trace["rounds"], start=1):
        for node, found in enumerate(one["proposals"], start=1):
            expected.append(
                {"round": number, "kind": "draft", "node": node, "parent": found["parent"] + 1, "token": found["token"],
                 "text": read_word(trace["pieces"], found["token"]), "q": found["q"], "p": found["p"], "u": found["u"],
                 "threshold": found["threshold"], "accepted": SPOKEN[found["accepted"]], "stand_in": found["stand_in"],
                 "stand_in_text": read_word(trace["pieces"], found["stand_in"]), "uniform_of_stand_in": found["u_stand_in"]}
            )  # fmt: skip
        end = one["ending"]
        empty = dict.fromkeys(("threshold", "accepted", "stand_in", "stand_in_text", "uniform_of_stand_in"))
        expected.append(
            {"round": number, "kind": end["kind"], "node": None, "parent": None, "token": end["token"],
             "text": read_word(trace["pieces"], end["token"]), "q": None, "p": None, "u": end["u"], **empty}
        )  # fmt: skip
    assert_cells(read_table("one_round", "decisions.csv"), expected)
    assert any(row["kind"] == "draft" and row["q"] != row["p"] for row in read_table("one_round", "decisions.csv"))


def test_the_distributions_of_a_run():
    trace, expected = read_raw("opening"), []
    for number, one in enumerate(trace["rounds"], start=1):
        for after, probs in enumerate(one["distributions"]):
            columns = {key: probs[key] or [None] * len(probs["tokens"]) for key in ("p", "q", "overlap", "residual")}
            for place, token in enumerate(probs["tokens"]):
                expected.append(
                    {"round": number, "after": after, "token": token, "text": read_word(trace["pieces"], token)}
                    | {key: column[place] for key, column in columns.items()}
                )
            rest = {key: probs["rest"].get(key) for key in columns}
            expected.append({"round": number, "after": after, "token": None, "text": "all other tokens", **rest})
    assert_cells(read_table("one_round", "distributions.csv"), expected)


def test_one_token_and_its_rules():
    expected = [{"token": dump_text(one), **{key: e.COLUMNS[key][k] for key in e.COLUMNS}} for k, one in enumerate("abc")]
    assert_cells(read_table("one_token", "token.csv"), expected)
    expected = [
        dict(zip(("rule", "first_draft_token_accepted", "both_accepted", "largest_error"), one, strict=True))
        for one in e.TWO_RULES
    ]
    assert_cells(read_table("one_token", "rules.csv"), expected)
    record = e.build_packages()["one_token"].data["token.json"]
    assert {key: tuple(record[key]) for key in e.COLUMNS} == e.COLUMNS and record["overlap_total"] == 0.75
    assert record["rules"] == expected


def test_every_gamma_of_a_plan():
    plan = read_raw("plans")["plans"][e.PLAN]
    measured, expected = {one["gamma"]: one for one in plan["checked"]}, []
    for row in plan["rows"]:
        one = measured.get(row["gamma"], {"tokens": None, "factor": None})
        expected.append(
            {"gamma": row["gamma"], **list_interval("tokens", row["tokens"]), **list_interval("measured_tokens", one["tokens"]),
             **list_interval("factor", row["factor"]), **list_interval("measured_factor", one["factor"]), "hazards": row["hazards"],
             "one_alpha": row["independent"], "text_read_on": row["own_text"], "alpha": row["alpha"], "leviathan": row["leviathan"],
             "hazards_linear_cost": row["linear"], "operations": row["operations"]}
        )  # fmt: skip
    assert_cells(read_table("speed", "gammas.csv"), expected)


def test_every_position_of_a_plan():
    found = read_raw("plans")["plans"][e.PLAN]["positions"]
    assert_cells(
        read_table("speed", "positions.csv"),
        [{"position": number, **list_interval("accepted", one)} for number, one in enumerate(found, 1)],
    )


def test_every_cell_of_a_study():
    expected = [
        {"kind": one["kind"], "temperature": one["temperature"], "top_p": one["top_p"], "draft": one["draft"], "checked": one["checked"],
         "accepted": one["accepted"], "predicted_acceptance_rate": one["predicted"],
         **{key: one["statistics"].get(key) for key in ("overlap", "kl_pq", "kl_qp", "entropy_p", "entropy_q", "agreement", "calibration")},
         "blank_because": one["reason"]}
        for one in read_raw("study")["cells"]
    ]  # fmt: skip
    assert_cells(read_table("speed", "study.csv"), expected)


def test_many_texts_at_once():
    """Values by hand from the seconds and rounds of the record; the ends of intervals are the record's own."""
    found, one = read_raw("batches"), e.build_packages()["speed"].tables["many-texts.csv"]
    rounds, rows = found["rounds"][e.BATCH], list(one()[1])
    expected = []
    for place, texts in enumerate(found["rows"]):
        for k, gamma in enumerate(found["gammas"]):
            passes = np.array(found["passes"][place])
            whole = passes[1 + k] + np.array(found["drafting"][place][k]) + np.array(found["rule"][place][k])
            tokens = found["length"] * len(rounds[k]) / sum(rounds[k])
            values = (
                tokens * np.median(passes[0]) / np.median(whole),
                np.median(passes[1 + k]) / np.median(passes[0]),
                tokens,
            )
            line = {"texts": texts, "gamma": gamma}
            for number, (key, value) in enumerate(zip(("factor", "pass", "tokens"), values, strict=True)):
                low, high = rows[len(expected)][3 + 3 * number : 5 + 3 * number]
                assert low <= value * (1 + 1e-12) and value * (1 - 1e-12) <= high, (texts, gamma, key)
                line |= list_interval(key, {"value": value, "low": low, "high": high})
            expected.append(line)
    assert_cells(read_table("speed", "many-texts.csv"), expected, rel=1e-9)


def test_the_formula_at_both_points():
    _, chosen, running = e.WHAT_IF
    expected = [
        {"gamma": gamma, "what if": round(compute_wall_clock_factor(chosen.alpha, gamma, chosen.c), 3),
         "the chosen pair": round(compute_wall_clock_factor(running.alpha, gamma, running.c), 3)}
        for gamma in range(1, 17)
    ]  # fmt: skip
    assert_cells(read_table("speed", "what-if.csv"), expected)


def load_methods() -> list[dict[str, Any]]:
    return read_raw("methods")["comparisons"][e.CHOICE]["rows"]


def test_the_rows_of_the_drafting_methods():
    words, found = {True: "exact", False: "lossy"}, read_table("drafting_methods", "rows.csv")
    expected = []
    for row, cell in zip(load_methods(), found, strict=True):
        measured = dict.fromkeys(
            (
                "tokens",
                "passes",
                "tokens_per_pass",
                "draft_tokens_per_pass",
                "accepted_of_tested",
                "ms_per_token",
                "ms_low",
                "ms_high",
                "speed",
                "speed_low",
                "speed_high",
                "comparison",
            )
        )
        if not row["reason"]:
            counts = " ".join(f"{accepted}/{tested}" for accepted, tested in zip(row["accepted"], row["checked"], strict=True))
            measured |= {"tokens": row["tokens"], "passes": row["passes"], "tokens_per_pass": row["tokens"] / row["passes"]}
            measured |= {"draft_tokens_per_pass": row["nodes"], "accepted_of_tested": counts}
            own, alone = row["ms"], load_methods()[0]["ms"]
            measured |= {"ms_per_token": own["value"], "ms_low": own["low"], "ms_high": own["high"]}
            speed = row["speed"] or {"value": 1.0, "low": alone["low"] / own["high"], "high": alone["high"] / own["low"]}
            low, high = speed["low"], speed["high"]
            compared = "faster" if low > 1.0 else "slower" if high < 1.0 else "undecided"
            measured |= {"speed": speed["value"], "speed_low": low, "speed_high": high}
            measured |= {"comparison": "" if row["key"] == "target" else compared}
        verdict = "" if row["reason"] else words[row["exact"]]
        # no record of a row has the name of the proposer
        expected.append({"row": row["key"], "proposer": cell["proposer"], "rule": row["rule"], "verdict": verdict, **measured,
                         "blank_because": row["reason"]})  # fmt: skip
    assert_cells(found, expected)


def test_the_first_tokens_of_the_drafting_methods():
    expected = []
    for row in load_methods():
        first = row["first"]
        for k in range(len(first["probs"]) if first else 0):
            label = first["labels"][k]
            text = "".join(one["t"] for one in build_glyphs(bytes.fromhex(label), 0)) if label else "any other text"
            expected.append(
                {"row": row["key"], "token": dump_text(text), "exact_probability": first["probs"][k], "draws": first["counts"][k],
                 "share": first["counts"][k] / first["n"], "low": first["low"][k], "high": first["high"][k],
                 "written": first["written"][k] if first["written"] else None}
            )  # fmt: skip
    assert_cells(read_table("drafting_methods", "first-tokens.csv"), expected)


def test_what_block_verification_gains():
    plan = read_raw("block")
    measured = {one["gamma"]: one["gain"] for one in plan["checked"]}
    expected = [
        {"draft_tokens": row["gamma"], "tokens_per_pass": row["tokens"]["value"], **list_interval("counted", row["gain"]),
         **list_interval("measured", measured[row["gamma"]])}
        for row in plan["rows"]
    ]  # fmt: skip
    assert_cells(read_table("drafting_methods", "block-gain.csv"), expected)


def test_every_proposer_under_every_rule():
    columns = ("line", "rule", "column", "verdict", "right", "n", "seen", "distance", "p_value", "lost", "said")
    assert_cells(
        read_table("drafting_methods", "matrix.csv"),
        [{key: cell[key] for key in columns} for cell in read_raw("matrix")["cells"]],
    )


def test_every_token_of_a_passage():
    lanes, expected = read_raw("passage")["passages"][e.DISTRIBUTION], []
    for way in ("target", "speculative"):
        lane, number = lanes[way], 0
        pieces = lane["trace"]["pieces"]
        for place, (one, clock) in enumerate(zip(lane["trace"]["rounds"], lane["clock"], strict=True), start=1):
            written = [(one["proposals"][node]["token"], "accepted") for node in one["accepted_path"]]
            if one["ending"]["token"] is not None:
                kind = one["ending"]["kind"]
                origin = "residual" if kind == "residual" else "bonus" if one["proposals"] else "target"
                written.append((one["ending"]["token"], origin))
            for token, origin in written:
                number += 1
                expected.append({"way": way, "token": number, "id": token, "text": dump_text(read_letters(pieces, token)), "origin": origin,
                                 "round": place, "seconds": clock})  # fmt: skip
    assert_cells(read_table("whole_text", "tokens.csv"), expected)


def test_every_place_of_a_passage():
    read = read_raw("passage")["passages"][e.DISTRIBUTION]["read"]
    expected = [
        {"token": k + 1, "id": token, "text": dump_text(read_letters(read["pieces"], token)), "kind": read["kinds"][k],
         "p": read["p"][k], "q": read["q"][k], "beta": read["beta"][k]}
        for k, token in enumerate(read["tokens"])
    ]  # fmt: skip
    assert_cells(read_table("whole_text", "places.csv"), expected)


def list_curves() -> dict[str, list[dict[str, Any]]]:
    one = read_raw("passage")["passages"][e.DISTRIBUTION]
    return {"this text": [one["read"]], f"{len(one['survey'])} recorded texts, {e.DISTRIBUTION}": one["survey"]}


def test_how_much_the_places_furthest_apart_hold():
    """The shares by hand: sums of the largest 1 - beta, on a straight line between two tokens; intervals hold them."""
    found, expected = read_table("whole_text", "lorenz.csv"), []
    for texts, reads in list_curves().items():
        apart = np.sort(np.concatenate([1.0 - np.array(one["beta"]) for one in reads]))[::-1]
        for top in (0.01, 0.05, 0.1):
            whole = int(top * apart.size)
            held = (apart[:whole].sum() + (top * apart.size - whole) * apart[whole]) / apart.sum()
            cell = found[len(expected)]
            low, high = float(cell["low"]), float(cell["high"])
            assert 0.0 <= low <= held <= high <= 1.0
            expected.append(
                {"texts": texts, "tokens": int(apart.size), "top": top, "share_of_divergence": held, "low": low, "high": high}
            )
    assert_cells(found, expected, rel=1e-9)


def test_the_kinds_of_word():
    (read,), found, expected = list_curves()["this text"], read_table("whole_text", "kinds.csv"), []
    apart, kinds = 1.0 - np.array(read["beta"]), np.array(read["kinds"])
    assert set(read["kinds"]) <= set(KINDS)
    for kind in KINDS:
        chosen = apart[kinds == kind]
        if not chosen.size:
            continue
        cell, share = found[len(expected)], chosen.sum() / apart.sum()
        ends = {key: float(cell[key]) if cell[key] else None for key in ("low", "high", "share_low", "share_high")}
        assert chosen.size < 2 or (
            ends["low"] <= chosen.mean() <= ends["high"] and ends["share_low"] <= share <= ends["share_high"]
        )
        expected.append(
            {"kind": kind, "tokens": int(chosen.size), "share_of_tokens": chosen.size / apart.size, "mean_rejection_probability": chosen.mean(),
             "low": ends["low"], "high": ends["high"], "share_of_divergence": share, "share_low": ends["share_low"],
             "share_high": ends["share_high"]}
        )  # fmt: skip
    assert_cells(found, expected, rel=1e-9)


def test_the_rows_of_the_serving_setups():
    columns = ("tv_to_reference", "overlap", "target_only_speed", "speculative_speed")
    verdicts = {row["row"]: row["verdict"] for row in read_table("serving_limits", "rows.csv")}
    assert set(verdicts.values()) <= {"exact", "exact up to rounding", "lossy", ""}
    expected = []
    for row in read_raw("setups")["rows"]:
        own, ms = row["own"] or {}, row["ms"] or (None, None)
        spans = [
            list_interval(column, row[key]) for column, key in zip(columns, ("apart", "overlap", "alone", "drafted"), strict=True)
        ]
        expected.append(
            {"row": row["key"], "served_as": SERVED[row["key"]].name, "verdict": verdicts[row["key"]]}
            | {key: value for one in spans for key, value in one.items()}
            | {"draft_tokens_mean_tv": own.get("mean"), "draft_tokens_worst_tv": own.get("worst"), "prefixes": own.get("prefixes"),
               "near_ties": own.get("near_ties"), "tokens": row["tokens"], "passes": row["passes"], "tested": row["checked"],
               "accepted": row["accepted"], "ms_target_only": ms[0], "ms_speculative": ms[1], "blank_because": row["reason"]}
        )  # fmt: skip
    assert_cells(read_table("serving_limits", "rows.csv"), expected)


def test_every_token_of_the_greedy_texts():
    expected = []
    for key, pairings in read_raw("setups")["near_ties"]["comparisons"].items():
        for prompt, one in enumerate(pairings):
            first, second = one["first"], one["second"]
            for place, tokens in enumerate(zip(first["tokens"], second["tokens"], strict=False)):
                expected.append(
                    {"arm": COMPARISONS[key].name, "prompt": prompt, "place": place,
                     "first_token": dump_text(read_letters(one["pieces"], tokens[0])), "second_token": dump_text(read_letters(one["pieces"], tokens[1])),
                     "first_margin": first["margins"][place], "second_margin": second["margins"][place],
                     "same": tokens[0] == tokens[1]}
                )  # fmt: skip
                if tokens[0] != tokens[1]:
                    break
    assert_cells(read_table("serving_limits", "greedy.csv"), expected)
