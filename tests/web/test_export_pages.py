"""What pages take along: the same numbers in print and on screen, the same bytes for the same input, nothing built unasked,
and a run with random numbers chosen by hand says so and is no sample."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import EvidenceError
from specviz.evidence.analytic.four_rules import account_for_tokens
from specviz.evidence.sampling.sample_files import parse_samples
from specviz.evidence.testing.results import CellShares, SeedPValues
from specviz.export.manifest import build_facts
from specviz.figures.pages_and_glossary import PAGES
from specviz.figures.token_bars import BarPanel, plot_panels
from specviz.settings import Settings
from specviz.trace import Trace
from specviz.web.exactness.export import build_exactness_package
from specviz.web.one_round.export import build_round_package
from specviz.web.one_token.export import RECORDED_FILES, TOKEN_FILES, build_shown_package, build_token_package, describe_origin
from specviz.web.one_token.payload import PRESETS, build_token_payload
from specviz.web.one_token.state import read_reported_state
from tests.helpers.fresh_process import run_fresh

ROOT = Path(__file__).resolve().parents[2]
TRACE = Trace.from_json((ROOT / "assets" / "traces" / "opening.json").read_text(encoding="utf-8"))
SETTINGS = Settings(prompt='=1+1 "猫" $x$', max_new_tokens=1)
FILLING = CellShares(
    "Speculative decoding",
    ("·the", "=1+1", "$x$ <b>", "猫 …", "any other text"),
    (True, True, True, False, False),
    (0.3, 0.25, 0.2, 0.15, 0.1),
    (310, 245, 205, 140, 100),
    (0.26, 0.21, 0.16, 0.12, 0.07),
    (0.34, 0.29, 0.24, 0.18, 0.13),
    1000,
)
FLAT = SeedPValues(tuple((k + 0.5) / 40 for k in range(40)), 300, 0, 12)


def build_package(**more):
    said = build_facts(
        SETTINGS, {"pair": "storybook", "target_sha256": "a" * 64}, "exactness", {"prompt": "x"}, ["python -m specviz"], n=1000
    )
    return build_exactness_package(SETTINGS, (FILLING,), (), FLAT, "Consistent.", said | more)


@pytest.fixture(scope="module")
def package_files() -> dict[str, bytes]:
    return build_package(tests=[], detectable_tv=0.1).build_files()


def read_rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))


def test_a_title_with_markup_is_text_on_the_screen():
    bars = dict(zip(("p", "q"), ((0.6, 0.1), (0.2, 0.3)), strict=True))
    figure = plot_panels((BarPanel("first $draft token$ <b>", ("“a”", "猫"), bars),))
    assert "&lt;b&gt;" in figure.layout.annotations[0].text


def test_the_same_draws_give_the_same_bytes_and_every_file_can_be_read(package_files):
    """Pictures: the next test but one, and tests/export/test_matplotlib_adapter.py."""
    found, again = package_files, build_package(tests=[], detectable_tv=0.1)
    same = [name for name in again.names if not name.endswith((".svg", ".png", ".pdf", ".html"))]
    assert len(same) >= 4 and [name for name in same if found[name] != again.build_file(name)] == []
    names = {name for name in found if name.endswith(".svg")}
    assert names == {f"{name}{ending}.svg" for name in ("draws-1", "p-values") for ending in ("", "-slide")}
    assert all(ElementTree.fromstring(found[name]).tag.endswith("svg") for name in names)
    assert [float(row["share"]) for row in read_rows(found["cells.csv"])][:5] == list(FILLING.shares)
    assert all(row["begins_with"].startswith('"') for row in read_rows(found["cells.csv"])), (
        "no spreadsheet takes it for a formula"
    )
    assert json.loads(found["draws.json"])["arms"][0]["cells"][0]["draws"] == 310
    with zipfile.ZipFile(io.BytesIO(found["is-it-exact.zip"])) as archive:
        assert archive.testzip() is None and len(archive.namelist()) == len(found) - 1


def test_the_manifest_says_what_it_takes_to_make_it_again_and_hashes_every_file(package_files):
    manifest = json.loads(package_files["manifest.json"])
    for key in ("settings", "seed", "versions", "models", "n", "tests", "detectable_tv", "permalink", "commands"):
        assert key in manifest, key
    assert manifest["permalink"] == "exactness?prompt=x" and manifest["models"]["target_sha256"] == "a" * 64
    assert manifest["files"]["cells.csv"] == hashlib.sha256(package_files["cells.csv"]).hexdigest()


def test_one_file_is_what_it_is_in_the_zip(package_files):
    made = build_package()
    assert all(made.build_file(name) == package_files[name] for name in ("cells.csv", "draws-1.svg", "caption.txt"))


@pytest.mark.usefixtures("no_pictures")
def test_a_round_leaves_with_its_decisions_and_the_trace_reads_back():
    made = build_round_package(TRACE, 0, {"at": "1.1"}, TRACE.models)
    found = made.build_files()
    assert Trace.from_json(found["trace.json"].decode()) == TRACE and b"timing" not in found["trace.json"]
    first = [row for row in read_rows(found["decisions.csv"]) if row["round"] == "1"]
    accepted = [one.accepted for one in TRACE.rounds[0].proposals]
    assert [row["accepted"] for row in first[:-1]] == ["not checked" if one is None else str(one) for one in accepted]
    probs = TRACE.rounds[0].distributions[0]
    stored = [row for row in read_rows(found["distributions.csv"]) if (row["round"], row["after"]) == ("1", "0")]
    assert [float(row["p"]) for row in stored] == [*probs.p, probs.rest["p"]]
    assert json.loads(found["manifest.json"])["sample"] is True
    assert len(json.loads(found["manifest.json"])["models"]["tokenizer_sha256"]) == 64


@pytest.mark.usefixtures("no_pictures")
def test_a_run_with_a_chosen_uniform_says_so_everywhere_and_is_taken_for_no_sample():
    edited = replace(TRACE, settings=TRACE.settings | {"uniforms": ["2=0.1"]})
    made = build_round_package(edited, 0, {}, {})
    manifest = json.loads(made.build_files()["manifest.json"])
    assert (
        made.stem == "one-round-chosen-random-numbers"
        and manifest["sample"] is False
        and "not a random sample" in manifest["note"]
    )
    assert "not a random sample" in made.captions[0] and "--uniform 2=0.1" in manifest["commands"][0]
    line = {"prompt": "a", "tokens": list(edited.output_ids), "settings": edited.settings}
    with pytest.raises(EvidenceError, match="random numbers chosen by hand"):
        parse_samples(json.dumps(line).encode(), "run.jsonl")


@pytest.mark.parametrize("preset", ["usual", "disjoint", "equal"])
def test_accepted_and_replaced_add_up_to_p_in_what_is_exported(preset):
    state = {"preset": preset, "from": None, "p": None, "q": None}
    made = build_shown_package(TRACE, None, state)
    assert made.names == TOKEN_FILES
    found = read_rows(made.build_file("token.csv"))
    assert [float(row["accepted"]) + float(row["replaced"]) for row in found] == pytest.approx(
        [x / 10_000 for x in PRESETS[preset].p]
    )
    assert found[0]["token"] == '"mat"' and len(read_rows(made.build_file("rules.csv"))) == 4


@pytest.mark.usefixtures("no_pictures")
def test_a_recorded_position_leaves_with_its_recorded_numbers():
    place = build_token_payload(TRACE)["positions"][2]
    state = {"preset": "usual", "from": place["id"], "p": None, "q": None}
    made = build_shown_package(TRACE, place, state)
    assert made.names == RECORDED_FILES and place["id"] in describe_origin(place, state)
    assert [float(row["p"]) for row in read_rows(made.build_file("token.csv"))] == [slot["p"] for slot in place["slots"]]
    assert json.loads(made.build_files()["manifest.json"])["settings"]["prompt"] == TRACE.settings["prompt"]


def test_the_account_of_a_distribution_is_the_rules():
    found = account_for_tokens([0.5, 0.5, 0.0], [0.25, 0.25, 0.5])
    assert found["accepted"] == [0.25, 0.25, 0.0] and found["residual"] == [0.25, 0.25, 0.0]
    assert np.allclose(found["replaced"], [0.25, 0.25, 0.0], atol=1e-15)
    assert build_token_package("x", list("abc"), found, (), {"versions": {"specviz": "0"}}).names == RECORDED_FILES


@pytest.mark.parametrize(
    "said",
    [None, "x", {"preset": "nope"}, {"p": [1, 2]}, {"p": ["a"], "q": [1.0]}, {"p": [float("nan")] * 5}, {"from": "99.9"},
     {"p": [1e400] * 5}],
)  # fmt: skip
def test_what_a_browser_says_of_its_bars_is_not_trusted(said):
    state = {"preset": "sure", "from": None, "p": None, "q": None}
    assert read_reported_state(said, state, ["1.1"]) == state


def test_what_a_browser_says_of_its_bars_is_what_is_exported():
    state = {"preset": "usual", "from": None, "p": None, "q": None}
    said = {"preset": "usual", "from": "1.1", "p": None, "q": None, "asked": 1}
    assert read_reported_state(said, state, ["1.1"])["from"] == "1.1"
    bars = {"preset": "usual", "from": None, "p": [0.2] * 5, "q": [0.1, 0.3, 0.2, 0.2, 0.2]}
    assert read_reported_state(bars, state, [])["q"] == [0.1, 0.3, 0.2, 0.2, 0.2]


def test_every_page_that_finds_something_offers_an_export_and_draws_no_figure_for_it_unasked():
    pages = [(f"pages/{name}.py", f"export-fold-{name}") for name in PAGES if name not in ("questions", "summary", "classroom")]
    code = (
        "import json, sys\n"
        "from streamlit.testing.v1 import AppTest\n"
        "sys.modules['torch'] = None\n"
        "for file, fold in json.loads(sys.argv[1]):\n"
        "    app = AppTest.from_file(file, default_timeout=60).run()\n"
        "    app.session_state[fold] = True\n"
        "    app.run()\n"
        "    labels = [one.label for one in app.get('download_button')]\n"
        "    print(json.dumps([file, len(app.exception), 'matplotlib' in sys.modules, labels]))\n"
    )
    done = run_fresh(code, json.dumps(pages))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [[file, 0, False, ["Everything, one zip"]] for file, _ in pages], done.stderr


def test_a_file_is_offered_by_its_name():
    app = AppTest.from_file(str(ROOT / "pages" / "one_round.py"), default_timeout=60)
    app.session_state["export-fold-one_round"] = True
    app.run()
    app.selectbox(key="export-name-one_round").select("decisions.csv").run()
    assert [one.proto.label for one in app.get("download_button")] == ["Everything, one zip", "Download decisions.csv"]


def test_a_name_with_markup_is_text_in_the_page_of_figures():
    from specviz.export.html import build_html_page

    words = build_html_page({"a": go.Figure()}, "<script>x", ["<img src=x onerror=alert(1)>"]).split('<div class="figure">')[0]
    assert "&lt;img" in words and "<img" not in words and "<script>x" not in words


def test_ticks_of_the_page_of_figures_have_the_room_that_they_need_on_a_machine_with_other_fonts():
    from specviz.export.html import build_html_page

    figure = go.Figure(go.Scatter(x=[0, 1], y=["a long name", "b"]))
    build_html_page({"a": figure}, "A", [])
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.automargin and axis.ticklabelstandoff > 0


def test_the_page_of_figures_lets_only_its_own_scripts_run_and_loads_nothing():
    from specviz.export.html import build_policy

    found = build_policy("<script>a()</script><p></p><script type='text/javascript'>b()</script><script>a()</script>")
    sources = dict(part.split(" ", 1) for part in found.split("; "))
    digests = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in (b"a()", b"b()")]
    assert sources["script-src"] == " ".join(f"'sha256-{digest}'" for digest in digests) and sources["default-src"] == "'none'"
    assert "http" not in found and "unsafe-eval" not in found
    assert "script-src 'none'" in build_policy("<p>no script</p>")
