"""Every figure of every export shows the numbers of its record: each series of the screen point by point.

Expected points are computed from the recorded files as plain JSON, or from the numbers that a record was made of. Only the ends of
bootstrap intervals are taken from the figure, where None stands for the points; they must hold the value between them. That print
shows the same points is tested in test_matplotlib_adapter.py. Nothing here is random.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from specviz.records import ASSETS
from specviz.speed.records.word_kinds import KINDS
from specviz.theory import compute_wall_clock_factor
from tests.helpers import export_packages as e
from tests.helpers.export_packages import Points, list_series, list_values, read_raw

Series = dict[str, Points | None]  # by name of a trace; None: points that no record states

CASES = [(kind, name) for kind, names in e.PICTURES.items() for name in names]


def list_downwards(numbers: Any) -> Points:
    """Numbers to the right of rows, the first on top."""
    numbers = list(numbers)
    return [(float(x), float(len(numbers) - 1 - k)) for k, x in enumerate(numbers)]


def list_points(xs: Any, ys: Any) -> Points:
    return [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]


def expect_histogram(number: int) -> Series:
    one = e.build_report()["answers"][number]
    n, order = one["n"], sorted(range(6), key=lambda k: -one["cells"][k]["mass"])
    masses = [one["cells"][k]["mass"] for k in order]
    shares = [one["cells"][k]["count"] / n for k in order]
    edge = min(*masses, *(x for x in shares if x), 1 / n) / 2
    low, high = (stats.binom.ppf(tail, n, masses) / n for tail in (0.005, 0.995))
    probs = "exact distribution, 99% band"
    return {probs: list_downwards(masses), f"{probs}, low": list_downwards(np.maximum(low, edge)), f"{probs}, high": list_downwards(high),
            f"share of {n:,} samples": list_downwards(np.maximum(shares, edge))}  # fmt: skip


def expect_tests(number: int) -> Series:
    found = e.build_report()["answers"][number]["tests"]
    return {
        "not rejected": list_downwards(max(1e-6, one["adjusted_p"]) for one in found),
        "level 0.001 of all tests together": [(0.001, -0.5), (0.001, 1.5)],
    }


def expect_cells(one: Any, name: str = "share of the samples") -> Series:
    """The heaviest cell first: the fourth, then the first two as they stand, and all other texts last."""
    order = (3, 0, 1, 2)
    columns = {key: [getattr(one, key)[k] for k in order] for key in ("probs", "low", "high", "counts")}
    shares = [count / 1000 for count in columns["counts"]]
    beyond = [(share, 3.0 - row) for row, share in enumerate(shares) if not columns["low"][row] <= share <= columns["high"][row]]
    return {name: list_downwards(shares), "sampling noise, 99%": list_downwards(columns["high"]), "sampling noise, 99%, start": list_downwards(columns["low"]),
            "exact distribution": list_downwards(columns["probs"])} | ({"beyond sampling noise": beyond} if beyond else {})  # fmt: skip


def expect_panels() -> Series:
    """The first round of the opening: the eight largest bars of each distribution that was met, those that count always among them."""
    trace = read_raw("opening")
    round_ = trace["rounds"][0]
    met = [k for k, one in enumerate(round_["proposals"]) if one["accepted"] is not None]
    rejected = next((k for k in met if not round_["proposals"][k]["accepted"]), None)
    seen = met + ([len(round_["proposals"])] if round_["ending"]["kind"] == "bonus" else [])
    found: Series = {}
    for number, node in enumerate(seen):
        probs = round_["distributions"][node]
        must = {round_["proposals"][node]["token"]} if node < len(round_["proposals"]) else set()
        must |= {round_["ending"]["token"]} if node in (rejected, len(round_["proposals"])) else set()
        others = [token for token in probs["tokens"] if token not in must][: 8 - len(must)]
        places = [k for k, token in enumerate(probs["tokens"]) if token in must or token in others]
        for key, name in (("p", "target p"), ("q", "draft q"), ("residual", "residual")):
            if probs[key] and (key != "residual" or node == rejected):
                found[name + "'" * (number if key != "residual" else 0)] = list_downwards(probs[key][k] for k in places)
    return found


def expect_forecast(measure: str, plain: tuple[str, ...], names: tuple[str, ...]) -> Series:
    plan = read_raw("plans")["plans"][e.PLAN]
    rows, checked = plan["rows"], [one for one in plan["checked"] if one[measure]]
    gammas, met = [row["gamma"] for row in rows], [one["gamma"] for one in checked]
    highs, lows = [row[measure]["high"] for row in rows], [row[measure]["low"] for row in rows]
    found = {"middle 95%": list_points([*gammas, *gammas[::-1]], [*highs, *lows[::-1]])}
    found["predicted"] = list_points(gammas, [row[measure]["value"] for row in rows])
    found |= {name: list_points(gammas, [row[key] for row in rows]) for key, name in zip(plain, names, strict=True)}
    for end, key in (("", "value"), (", low", "low"), (", high", "high")):
        found[f"measured{end}"] = list_points(met, [one[measure][key] for one in checked])
    return found


def expect_positions() -> Series:
    found = read_raw("plans")["plans"][e.PLAN]["positions"]
    return {
        f"accepted{end}": list_points(range(1, len(found) + 1), [one[key] for one in found])
        for end, key in (("", "value"), (", low", "low"), (", high", "high"))
    }


def expect_study(**wanted: Any) -> list[dict[str, Any]]:
    cells = [one for one in read_raw("study")["cells"] if one["draft"] == e.STUDIED and not one["reason"]]
    return [one for one in cells if all(one[key] == value for key, value in wanted.items())]


def expect_acceptance(axis: str) -> Series:
    from specviz.speed.records.study import KINDS as TEXTS

    cells = expect_study(top_p=None) if axis == "temperature" else expect_study(temperature=1.0)
    at = lambda one: one["temperature"] if axis == "temperature" else one["top_p"] or 1.0  # noqa: E731
    places = sorted({at(one) for one in cells})
    share = {(TEXTS[one["kind"]], at(one)): one["accepted"] / one["checked"] for one in cells}
    found = {name: list_points(places, [share.get((name, x)) for x in places]) for name in TEXTS.values()}
    mean = [float(np.mean([value for (_, x), value in share.items() if x == place])) for place in places]
    return found | {"middle 95%": None, "mean over kinds of text": list_points(places, mean)}


def expect_predictions() -> Series:
    cells = expect_study()
    shares = [one["accepted"] / one["checked"] for one in cells]
    noise = [
        1.96 * (max(s * (1 - s), 0.25 / one["checked"]) / one["checked"]) ** 0.5 for s, one in zip(shares, cells, strict=True)
    ]
    drafted = np.array([one["predicted"] for one in cells])
    groups = np.array_split(np.argsort(drafted), 8)
    found = {
        "equal": [(0, 0), (1, 1)],
        "overlap on the text itself": list_points([one["statistics"]["overlap"] for one in cells], shares),
    }
    for end, sign in (("", 0), (", low", -1), (", high", 1)):
        found[f"predicted{end}"] = list_points(drafted, [s + sign * w for s, w in zip(shares, noise, strict=True)])
    return found | {"means of eighths": [(drafted[one].mean(), np.array(shares)[one].mean()) for one in groups]}


def expect_confidence() -> Series:
    bins = np.array([one["bins"] for one in expect_study(temperature=1.0, top_p=None)], dtype=float).sum(0)
    points = [(sure / n, right / n) for n, sure, right in bins if n >= 30]
    return {"equal": [(0, 0), (1, 1)], "the draft": points, "the draft, low": None, "the draft, high": None}


def expect_batches() -> tuple[Series, Series]:
    """The speeds of the model have their test in tests/web/speed/test_page.py."""
    found = read_raw("batches")
    many: Series = {
        "target only": [(-0.4, 1.0), (len(found["rows"]) - 0.6, 1.0)],
        "with a draft": None,
        "with a draft, low": None,
        "with a draft, high": None,
        "measured": None,
    }
    rows = json.loads((ASSETS / "gpus" / "h200.json").read_text(encoding="utf-8"))["rows"]["8B"]
    there = [(found["rows"].index(texts), rows[f"{texts} x 5"] / rows[f"{texts} x 1"]) for texts in (1, 8, 32, 64)]
    return many, {"one token": [(-0.4, 1.0), (len(found["rows"]) - 0.6, 1.0)], "two CPU cores": None, "an H200 (8B)": there}


def expect_what_if() -> Series:
    """The names of the lines alone; that each reaches its factor is a test of its own."""
    lines = ("0.5", "1: drafting pays above", "1.25", "1.5", "2", "3")
    _, chosen, running = e.WHAT_IF
    return dict.fromkeys(lines) | {
        "the pair": [(running.c, running.alpha)],
        "the sliders": [(chosen.c, chosen.alpha)],
    }


def expect_timeline() -> Series:
    """By hand from the formula: ten passes of the target alone, and rounds of gamma draft steps and a pass until ten tokens are written."""
    gamma, chosen, _ = e.WHAT_IF
    round_ = gamma * chosen.c + 1.0
    end = 10.0 * round_ * (1.0 - chosen.alpha) / (1.0 - chosen.alpha ** (gamma + 1))
    begins = [number * round_ for number in range(int(end / round_) + 1)]
    steps = [begin + step * chosen.c for begin in begins for step in range(gamma)]
    passes = [(float(number), 1.0) for number in range(10)] + [(begin + gamma * chosen.c, 0.0) for begin in begins]
    return {
        "draft step": [(step + chosen.c, 0.0) for step in steps],
        "draft step, start": [(step, 0.0) for step in steps],
        "target pass": [(min(start + 1.0, 10.0 if lane else end), lane) for start, lane in passes],
        "target pass, start": passes,
    }  # nothing of the rule and the work between passes: the paper's formula has none


def expect_first_tokens(key: str) -> Series:
    first = next(row["first"] for row in read_raw("methods")["comparisons"][e.CHOICE]["rows"] if row["key"] == key)
    places = [k for k, label in enumerate(first["labels"]) if label][:8]  # the likeliest
    column = {name: list_downwards(first[name][k] for k in places) for name in ("probs", "low", "high")}
    probs = {"target’s exact distribution": column["probs"]}
    if key == "typical":
        return {"what it writes": list_downwards(first["written"][k] for k in places), **probs}
    drawn = {f"{first['n']:,} samples": list_downwards(first["counts"][k] / first["n"] for k in places)}
    return {"sampling noise, 99%": column["high"], "sampling noise, 99%, start": column["low"], **drawn, **probs}


def read_passage() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    one = read_raw("passage")["passages"][e.DISTRIBUTION]
    return one["read"], one["survey"]


def expect_along() -> Series:
    read, _ = read_passage()
    apart, divergences = (
        [1.0 - beta for beta in read["beta"]],
        set(sorted((int(k) for k in read["forks"]), key=lambda k: read["beta"][k])[:6]),
    )
    both = {name: [(k + 1, x) for k, x in enumerate(apart) if (k in divergences) == chosen]
            for chosen, name in ((False, "all tokens"), (True, f"the {len(divergences)} largest"))}  # fmt: skip
    assert len(divergences) == 6 and min(apart[k] for k in divergences) >= max(
        x for k, x in enumerate(apart) if k not in divergences
    )
    return both


def expect_lorenz() -> Series:
    read, survey = read_passage()
    found: Series = {"spread evenly": [(0, 0), (1, 1)]}
    for name, texts in (("this text", [read]), (e.DISTRIBUTION, survey)):
        apart = np.sort(np.concatenate([1.0 - np.array(one["beta"]) for one in texts]))[::-1]
        held = np.concatenate([[0.0], np.cumsum(apart)]) / apart.sum()
        found[name] = list_points(np.arange(held.size) / (held.size - 1), held)
    found["trace 3"] = [(top, float(np.interp(top, *zip(*found["this text"], strict=True)))) for top in (0.01, 0.05, 0.1)]
    return found


def expect_kinds() -> Series:
    read, _ = read_passage()
    apart, kind = 1.0 - np.array(read["beta"]), np.array(read["kinds"])
    means = sorted(apart[kind == one].mean() for one in KINDS if one in read["kinds"])
    return {"these tokens": [(x, float(k)) for k, x in enumerate(means)], "these tokens, low": None, "these tokens, high": None}


def expect_distances() -> Series:
    rows = [row for row in read_raw("setups")["rows"] if row["own"]]
    low = lambda x: max(1e-8, x)  # noqa: E731
    place = {row["key"]: float(len(rows) - 1 - k) for k, row in enumerate(rows)}
    found = {f"trace {k}": [(low(row["own"]["mean"]), place[row["key"]]), (low(row["own"]["worst"]), place[row["key"]])]
             for k, row in enumerate(rows)}  # fmt: skip
    found["what the setting changes, mean"] = [(low(row["apart"]["value"]), place[row["key"]]) for row in rows if row["apart"]]
    found["what draft tokens add, mean to largest"] = list_downwards(low(row["own"]["worst"]) for row in rows)
    return found


def expect_greedy() -> tuple[Points, Points, list[float], list[float]]:
    """(place, margin) where both texts have the same token, and where texts differ; then the margins of all these places and of the latter."""
    together, parted, everywhere, there = [], [], [], []
    for one in read_raw("setups")["near_ties"]["comparisons"][e.ARM]:
        margins = one["first"]["margins"]
        pairs = list(zip(one["first"]["tokens"], one["second"]["tokens"], strict=False))
        place = next((k for k, (a, b) in enumerate(pairs) if a != b), None)
        shared = len(one["first"]["tokens"]) if place is None else place
        together += [(k + 1, max(1e-4, margins[k])) for k in range(shared)]
        everywhere += margins[: shared + (place is not None)]
        if place is not None:
            parted.append((place + 1, max(1e-4, margins[place])))
            there.append(margins[place])
    return together, parted, everywhere, there


def expect_spread() -> Series:
    """Shares of equal bins of the logarithm; what is smaller than a ten thousandth stands in the first."""
    *_, everywhere, there = expect_greedy()
    edges = np.linspace(-4.0, np.log10(max(10.0, *everywhere)), 21)
    middles = (edges[1:] + edges[:-1]) / 2
    shares = [np.histogram(np.log10(np.maximum(1e-4, one)), edges)[0] / len(one) for one in (everywhere, there)]
    dots = [(middle, n + 0.5) for middle, share in zip(middles, shares[1], strict=True) for n in range(round(share * len(there)))]
    return {"all positions": list_points(middles, shares[0]), "a text, where it first differs": dots}


def expect_curve() -> Series:
    one = e.CURVE
    arms = {name: list_points(one.n, [row[arm] for row in one.tv]) for arm, name in enumerate(one.names)}
    return {
        "sampling noise, 99%": list_points(one.n, one.upper),
        "sampling noise, its edge": list_points(one.n, one.upper),
        **arms,
    }


def compute_expected(kind: str, name: str) -> Series:
    speeds = {"trace 0": [("right rule", 0.6), ("wrong rule", 703 / 1001)],
              "trace 1": [("right rule", 1500 / 800), ("wrong rule", 1607 / 809)]}  # fmt: skip
    return {
        ("report", "histogram-1-shared-distributions"): lambda: expect_histogram(0),
        ("report", "histogram-2-engine"): lambda: expect_histogram(1),
        ("report", "tests-1-shared-distributions"): lambda: expect_tests(0),
        ("report", "tests-2-engine"): lambda: expect_tests(1),
        ("exactness", "draws-1"): lambda: expect_cells(e.FILLING),
        ("exactness", "draws-2"): lambda: expect_cells(e.WRONG),
        ("exactness", "p-values"): lambda: {"sampling noise, 99%": list_points(np.arange(10) / 10 + 0.05, [e.FLAT.high - e.FLAT.low] * 10),
                                          "runs": list_points(np.arange(10) / 10 + 0.05, np.histogram(e.FLAT.values, np.arange(11) / 10)[0]),
                                          "expected": [(0, 4.0), (1, 4.0)]},
        ("mistakes", "distance"): expect_curve,
        ("mistakes", "speed"): lambda: speeds,
        ("mistakes", "draws"): lambda: expect_cells(e.WRONG),
        ("one_round", "round-1"): expect_panels,
        ("one_token", "distributions"): lambda: {"target p": list_downwards(e.COLUMNS["p"]), "draft q": list_downwards(e.COLUMNS["q"])},
        ("one_token", "out"): lambda: {"accepted": list_downwards(e.COLUMNS["accepted"]), "replaced": list_downwards(e.COLUMNS["replaced"]),
                                   "target p (mark)": list_downwards(e.COLUMNS["p"])},
        ("speed", "tokens"): lambda: expect_forecast("tokens", ("hazards", "independent"), ("one alpha per position", "one alpha")),
        ("speed", "speed"): lambda: expect_forecast("factor", (), ()),
        ("speed", "positions"): expect_positions,
        ("speed", "acceptance-over-temperature"): lambda: expect_acceptance("temperature"),
        ("speed", "acceptance-over-top-p"): lambda: expect_acceptance("top-p"),
        ("speed", "foretold"): expect_predictions,
        ("speed", "confidence"): expect_confidence,
        ("speed", "many-texts"): lambda: expect_batches()[0],
        ("speed", "passes"): lambda: expect_batches()[1],
        ("speed", "timeline"): expect_timeline,
        ("speed", "what-if"): expect_what_if,
        ("drafting_methods", "same-distribution"): lambda: expect_first_tokens("adversarial"),
        ("drafting_methods", "shortcut"): lambda: expect_first_tokens("typical"),
        ("whole_text", "along"): expect_along,
        ("whole_text", "lorenz"): expect_lorenz,
        ("whole_text", "kinds"): expect_kinds,
        ("serving_limits", "distances"): expect_distances,
        ("serving_limits", "margins"): lambda: dict(zip(("both texts have the same token", "here the texts part"), expect_greedy(), strict=False)),
        ("serving_limits", "spread"): expect_spread,
    }[kind, name]()  # fmt: skip


def test_every_picture_of_every_package_is_a_case():
    assert {kind: tuple(package.pictures) for kind, package in e.build_packages().items()} == e.PICTURES


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_screen_shows_the_records_numbers(kind, name):
    found, wanted = list_series(e.get_page(kind, name)), compute_expected(kind, name)
    assert list(found) == list(wanted)
    for key, points in wanted.items():
        if points is not None:
            assert_points(found[key], points, f"{kind}, {name}, {key}")


def test_intervals_lie_around_their_values():
    """The ends that no record states: each below and above the value that it belongs to."""
    for kind, name in CASES:
        found, wanted = list_series(e.get_page(kind, name)), compute_expected(kind, name)
        for key in [key for key, points in wanted.items() if points is None and kind != "speed"]:
            middle = list_values(found[key.rpartition(", ")[0]], 0)
            signs = 1 if key.endswith("high") else -1
            assert all(signs * (end - value) >= -1e-12 for end, value in zip(list_values(found[key], 0), middle, strict=True))
        if kind == "speed" and wanted.get("middle 95%", []) is None:
            line = list_values(
                found["mean over kinds of text" if "mean over kinds of text" in found else "the fastest gamma of each"], 1
            )
            ends = list_values(found["middle 95%"], 1)
            highs, lows = ends[: len(line)], ends[len(line) :][::-1]
            assert all(low <= x <= high for low, x, high in zip(lows, line, highs, strict=True))
        if name == "confidence":
            low, middle, high = (list_values(found[f"the draft{end}"], 1) for end in (", low", "", ", high"))
            assert all(a <= b <= c for a, b, c in zip(low, middle, high, strict=True))


def test_the_lines_of_the_formula_reach_their_factor():
    gamma, *_ = e.WHAT_IF
    figure = e.get_page("speed", "what-if")
    for name, points in list_series(figure).items():
        if name[0].isdigit():
            assert [compute_wall_clock_factor(alpha, gamma, c) for c, alpha in points] == pytest.approx(
                [float(name.split(":")[0])] * len(points)
            )
    shade = figure.data[0]
    wanted = [[compute_wall_clock_factor(alpha, gamma, c) for c in shade.x] for alpha in shade.y]
    assert np.allclose(np.array(shade.z), wanted, rtol=1e-12)


def assert_points(found: Points, wanted: Points, where: str) -> None:
    assert len(found) == len(wanted), where
    for (x, y), (a, b) in zip(found, wanted, strict=True):
        assert are_close(x, a) and are_close(y, b), f"{where}: ({x}, {y}) is shown, ({a}, {b}) follows from the record"


def are_close(one: Any, other: Any) -> bool:
    return one == other if isinstance(other, str) else abs(one - other) <= 1e-9 * max(1e-6, abs(other))
