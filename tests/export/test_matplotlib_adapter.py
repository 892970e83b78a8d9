"""Print is drawn from what the screen shows: every figure of every page, at both widths, with nothing left out and nothing cut off.

Every point of the screen is in print, whatever a figure holds is drawn or called by its name, the same figure gives the same bytes
with other figures drawn at the same time, and no word leaves the paper. Nothing here is random.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from io import BytesIO
from typing import Any

import matplotlib
import numpy as np
import plotly.graph_objects as go
import pytest
from fontTools.ttLib import TTFont
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from matplotlib.text import Text

import specviz.figures
import specviz.web
from specviz.evidence.mistakes import comparison
from specviz.export.matplotlib_adapter import COLUMN, MARGIN, PAGE, SLIDE, draw_figure, make_printable, save_figure
from specviz.export.package import PRINTS, Picture
from specviz.figures import cell_shares, server_speed
from specviz.figures.theme import INK, MEANINGS
from specviz.web.classroom.room import figures as class_figures
from specviz.web.classroom.room.tally import Calibration, RaceChoice, Votes
from specviz.web.mistakes import figures
from specviz.web.serving_limits import near_tie_figures
from specviz.web.speed import plan_figures as speed
from specviz.web.speed import surface_figures
from specviz.web.whole_text import figures as text_figures
from tests.helpers import export_packages as e
from tests.helpers.fresh_process import run_fresh


@cache
def read_margins():
    return e.build_packages()["serving_limits"].pictures["margins"].page.args[0]


HIDDEN = replace(e.CURVE, wrong=None, rejected=())  # two decoders, and which is wrong is not to be seen
RARE = {  # what recorded pages do not show, and visitors can make
    "nothing drawn yet": lambda: cell_shares.plot_cells(replace(e.FILLING, n=0, counts=(0, 0, 0, 0)), 0.4),
    "a long foreign name": lambda: cell_shares.plot_cells(replace(e.FILLING, labels=("猫" * 40, "$x$ <b>", "=1+1", "·")), 0.4),
    "which is wrong is hidden": lambda: figures.plot_distances(HIDDEN),
    "caught late": lambda: figures.plot_distances(replace(e.CURVE, n=(10, 1000, 10**6), rejected=(False, None, True))),
    "nothing accepted": lambda: figures.plot_acceptance(
        (comparison.DraftingCounts("a", 0, 0, 0, 0, 0), comparison.DraftingCounts("b", 0, 0, 0, 0, 0)), 1
    ),
    "few greedy texts": lambda: near_tie_figures.plot_margins(replace(read_margins(), pairings=read_margins().pairings[:2])),
    "kinds of words of two sets of texts": lambda: text_figures.plot_kinds(
        *(e.build_packages()["whole_text"].pictures["kinds"].page.args[0],) * 2
    ),
    "no running pair": lambda: surface_figures.plot_surface(1, surface_figures.Spot(1.0, 0.0), None),
    "a pair off the picture": lambda: surface_figures.plot_surface(
        16, surface_figures.Spot(0.0, 1.0), surface_figures.Spot(0.5, 1.7)
    ),
    "nothing measured": lambda: speed.plot_tokens(
        replace(e.build_packages()["speed"].pictures["tokens"].page.args[0], checked=())
    ),
}
OF_A_CLASS = {
    "what a class predicted": partial(
        class_figures.plot_calibration,
        Calibration(3, 0.7, 0.6, 0.67, 0.2, 0.22, 0.21, ((0.75, 3, 0.67),), ((0.7, 0.6), (0.8, 0.6), (0.6, 0.6))),
    ),
    "votes of a class": partial(
        class_figures.plot_votes, [{"name": "no mistake"}, {"name": "gate off by one"}], Votes((3, 1), (0, 4), 3), 1
    ),
    "a race of a class": partial(
        class_figures.plot_race, [RaceChoice("draft", 4, 2, 48, 16, 60, 30), RaceChoice("ngram", 1, 1, 24, 24, 24, 0)]
    ),
}


def build_server_report() -> dict[str, Any]:
    """What figures read of a report of ``pays``: three levels, of which speculation pays at one and hurts at one."""
    estimate = {"low": 0.9, "high": 1.2, "n": 6, "unit": "x"}
    levels = [
        {"users": users, "verdict": verdict, **{key: estimate | {"value": value} for key, value in values.items()}}
        for users, verdict, values in (
            (1, "pays", {"speedup": 1.1, "on": 1.15, "off": 1.0}),
            (4, "unclear", {"speedup": 1.0, "on": 1.0, "off": 1.0}),
            (16, "hurts", {"speedup": 0.95, "on": 0.95, "off": 1.1}),
        )
    ]
    gammas = [{"gamma": gamma, "speedup": 1.0 + gamma / 10, "is_extrapolated": gamma > 3} for gamma in (1, 3, 5)]
    return {"levels": levels, "gammas": gammas, "gamma": 3, "unit": "tokens/s"}


OF_A_SERVER = {
    "speed-up of a server": partial(server_speed.plot_speedups, build_server_report()),
    "rates of a server": partial(server_speed.plot_rates, build_server_report()),
    "draft lengths of a server": partial(server_speed.plot_gammas, build_server_report()),
}
RARE |= OF_A_CLASS | OF_A_SERVER
RECORDED = tuple(f"{kind}, {name}" for kind, names in e.PICTURES.items() for name in names)
CASES = (*RECORDED, *RARE)


@cache
def get_recorded(name: str) -> Picture:
    kind, _, name = name.partition(", ")
    return e.build_packages()[kind].pictures[name]


@cache
def get_case(name: str) -> Picture:
    """A picture whose page is made and drawn once for all tests; not to be changed."""
    if name in RARE:
        return Picture(cache(RARE[name]), "A title that is quite long for a figure as narrow as one of two columns")
    return replace(get_recorded(name), page=partial(e.get_page, *name.split(", ")))


@cache
def draw_paper(name: str, form: str = "") -> Figure:
    return get_case(name).draw_for_print(form)


def list_words(drawn) -> list[Text]:
    """Every text on the paper; ticks beyond the ends of their axis are on no paper."""
    found = [*drawn.texts, *(text for legend in drawn.legends for text in legend.get_texts())]
    for axes in drawn.axes:
        found += [axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low - 1e-9 <= tick.get_loc() <= high + 1e-9]
    return [one for one in found if one.get_text()]


FIRST = {name.split(", ")[0]: name for name in reversed(RECORDED)}.values()  # of each kind of export
FORMS = [  # the fast tests draw every page, and a slide of each kind of export
    pytest.param(
        name,
        form,
        id=f"{name}-{form or 'page'}",
        marks=() if not form or (form == "slide" and name in FIRST) else pytest.mark.slow,
    )
    for name in CASES
    for form in ("", "column", "slide")
]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_every_figure_is_drawn_whole_and_no_word_is_cut_off_or_lies_on_another(name, form):
    if form == "slide" and not get_case(name).slides:
        assert name.startswith("one_round"), "its steps are slides of their own"
        return
    drawn = draw_paper(name, form)
    drawn.draw_without_rendering()
    if form == "slide":
        assert drawn.get_figwidth() / drawn.get_figheight() == pytest.approx(16 / 9)
        assert (
            SLIDE <= drawn.get_figwidth() <= 2.7 * SLIDE
        )  # letters of 8 points are then 14 pixels high on a screen of 1920, or more
    else:
        assert drawn.get_figwidth() == (COLUMN if form else PAGE)
    sheet, found = drawn.bbox, list_words(drawn)
    if form == "slide":
        sheet = sheet.padded(-MARGIN * sheet.width, -MARGIN * sheet.height)
    extents = [text.get_window_extent() for text in found]
    for text, box in zip(found, extents, strict=True):
        assert sheet.x0 - 1 <= box.x0 and box.x1 <= sheet.x1 + 1, f"{text.get_text()!r} leaves the paper at a side"
        assert sheet.y0 - 1 <= box.y0 and box.y1 <= sheet.y1 + 1, f"{text.get_text()!r} leaves the paper above or below"
    boxes = np.array([box.shrunk(0.95, 0.8).extents for box in extents])  # a line is higher than its letters
    starts, ends = boxes[:, :2], boxes[:, 2:]
    on_another = np.triu((starts[:, None] <= ends).all(-1) & (starts <= ends[:, None]).all(-1), 1)
    assert [(found[one].get_text(), found[other].get_text()) for one, other in np.argwhere(on_another)] == []
    assert min(text.get_fontsize() for text in found) >= 7.0


class Printed:
    """What a figure for print shows: points of lines, ends of segments and corners of bands, and lengths of bars, series by series."""

    def __init__(self, figure: Figure):
        found: list[tuple[float, float]] = []
        self.bars: list[list[float]] = []
        for axes in figure.axes:
            for line in axes.lines:
                if line.get_transform().contains_branch(axes.transData):
                    found += zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True)
            for one in axes.collections:
                corners = one.get_segments() if hasattr(one, "get_segments") else [path.vertices for path in one.get_paths()]
                found += [(float(x), float(y)) for part in corners for x, y in part]
            for one in axes.containers:
                if hasattr(one, "orientation") and hasattr(one, "patches"):
                    across = one.orientation == "horizontal"
                    self.bars.append([bar.get_width() if across else bar.get_height() for bar in one.patches])
                    found += [(bar.get_x(), bar.get_y() + bar.get_height() / 2) for bar in one.patches if across]
        self.points = np.array(found).reshape(-1, 2)

    def has(self, point: tuple[float, float]) -> bool:
        scale = np.maximum(1e-6, np.abs(np.array(point)))
        return bool((np.abs(self.points - point) <= 1e-9 * scale).all(1).any())

    def has_bars(self, lengths: list[float]) -> bool:
        return any(len(one) == len(lengths) and np.allclose(one, lengths, rtol=1e-9, atol=1e-15) for one in self.bars)


@pytest.mark.parametrize("name", RECORDED)
def test_print_shows_the_screens_numbers(name):
    page, printed = get_case(name).page(), Printed(draw_paper(name))
    bars = [one for one in page.data if one.type == "bar"]
    for one in bars:
        lengths = list(one.x if one.orientation == "h" else one.y)
        assert printed.has_bars(lengths), f"{name}: no bars in print as those of {one.name}"
    lengthwise = {one.name for one in bars}
    for key, points in e.list_series(page).items():
        if key.rstrip("'") in lengthwise:
            continue
        drawn = key.startswith("trace") and name.endswith(", speed")
        missing = [] if drawn else [point for point in points if not printed.has(point)]
        assert not missing, f"{name}, {key}: {missing[:3]} not in print"


def test_the_shades_of_the_formula_are_the_screens():
    (image,) = draw_paper("speed, what-if").axes[0].images
    assert np.array_equal(image.get_array(), np.array(get_case("speed, what-if").page().data[0].z))


def test_every_function_that_makes_a_figure_is_in_an_export():
    """So that a figure with a new kind of trace is among those that are drawn above."""
    made = set()
    pages = [one for one in pkgutil.walk_packages(specviz.web.__path__, "specviz.web.") if one.name.endswith("figures")]
    for module in [*pkgutil.walk_packages(specviz.figures.__path__, "specviz.figures."), *pages]:
        for name, one in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            if one.__module__ == module.name and not name.startswith("_") and one.__annotations__.get("return") == "go.Figure":
                made.add(f"{module.name}.{name}")
    exported = {f"{one.page.func.__module__}.{one.page.func.__name__}" for one in map(get_recorded, RECORDED)}
    exported |= {f"{one.func.__module__}.{one.func.__name__}" for one in (OF_A_CLASS | OF_A_SERVER).values()}
    assert made == exported


def build_bars(**more) -> dict:
    return {"type": "bar", "x": [1.0, 2.0], "y": [3.0, 4.0], "width": 0.5, "marker": {"color": "red"}, "name": "a"} | more


def build_points(**more) -> dict:
    return {
        "type": "scatter",
        "x": [1.0, 2.0],
        "y": [3.0, 4.0],
        "mode": "markers",
        "marker": {"color": "red"},
        "name": "a",
    } | more


@pytest.mark.parametrize(
    ("form", "values", "written"),
    [
        (".4~%", (0.0, 0.0005, 0.001, 0.1, 1.0), ["0%", "0.05%", "0.1%", "10%", "100%"]),
        (".1%", (0.0, 0.5), ["0.0%", "50.0%"]),
        (".2~f", (0.25, 10.0), ["0.25", "10"]),
    ],
)
def test_ticks_in_print_are_written_as_plotly_writes_them(form, values, written):
    found = (
        draw_figure(go.Figure([build_points()], {"height": 300, "xaxis": {"tickformat": form}}))
        .axes[0]
        .xaxis.get_major_formatter()
    )
    assert [found(value) for value in values] == written


@pytest.mark.parametrize(
    ("trace", "layout", "named"),
    [
        ({"type": "violin", "y": [1.0]}, {}, "violin"),
        ({"type": "pie", "values": [1.0]}, {}, "pie"),
        (build_points(stackgroup="one"), {}, "scatter.stackgroup"),
        (build_points(mode="text"), {}, "'text'"),
        (build_points(fill="tonexty", fillcolor="red"), {}, "tonexty"),
        (build_points(marker={"color": "red", "symbol": "star"}), {}, "star"),
        (build_points(marker={"color": "red", "colorbar": {"len": 0.5}}), {}, "marker.colorbar"),
        (build_points(mode="lines", line={"color": "red", "dash": "4px"}), {}, "4px"),
        (build_points(mode="lines", line={"color": "red", "shape": "spline"}), {}, "line.shape"),
        (build_points(error_y={"type": "percent", "value": 10}), {}, "error_y.value"),
        (build_bars(marker={"color": "red", "pattern": {"shape": "/"}}), {}, "fillmode"),
        (build_bars(marker={"color": "red", "pattern": {"shape": "+", "fillmode": "overlay"}}), {}, "'+'"),
        (build_bars(text=["a", "b"], textposition="inside"), {}, "bar.text"),
        (build_points(), {"polar": {"hole": 0.1}}, "layout.polar"),
        (build_points(), {"xaxis": {"type": "date"}}, "date"),
        (build_points(), {"xaxis": {"rangeslider": {"visible": True}}}, "xaxis.rangeslider"),
        (build_points(), {"yaxis": {"tickformat": "%H"}}, "%H"),
        (build_points(), {"yaxis": {"title": {"text": "<i>x</i>"}}}, "<i>"),
        (build_points(), {"shapes": [{"type": "circle", "xref": "x", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 1}]}, "circle"),
        (build_points(), {"annotations": [{"x": 0.3, "y": 0.3, "xref": "paper", "yref": "paper", "text": "a"}]}, "paper"),
        (build_points(), {"annotations": [{"x": 1, "y": 3, "text": "a", "ax": 0, "ay": -40}]}, "arrow"),
    ],
)  # fmt: skip
def test_what_print_does_not_know_is_called_by_its_name(trace, layout, named):
    with pytest.raises(NotImplementedError, match=re.escape(named)):
        draw_figure(go.Figure([trace], {"height": 300} | layout))


def test_two_sets_of_bars_side_by_side_need_offsets():
    with pytest.raises(NotImplementedError, match="side by side"):
        draw_figure(go.Figure([build_bars(), build_bars()], {"height": 300}))


def test_colors_and_patterns_are_the_screens():
    drawn = draw_paper("mistakes, speed")
    for axes in drawn.axes:
        right, wrong = axes.patches
        assert to_hex(right.get_facecolor()).upper() == MEANINGS["target"].light
        assert wrong.get_facecolor()[3] == 0.0 and to_hex(wrong.get_edgecolor()) == INK["light"], "the wrong rule is an outline"
        assert not right.get_hatch() and not wrong.get_hatch()
    handles = dict(
        zip(("target p", "draft q", "residual"), draw_paper("one_round, round-1").legends[0].legend_handles, strict=True)
    )
    for name, meaning in (("target p", "target"), ("draft q", "draft"), ("residual", "residual")):
        assert to_hex(handles[name].get_facecolor()).upper() == MEANINGS[meaning].light and bool(handles[name].get_hatch()) == (
            name != "target p"
        )


def test_stacked_bars_stand_on_each_other_and_bars_side_by_side_have_the_first_on_top():
    (axes,) = draw_paper("one_token, out").axes
    below, above = (list(one.patches) for one in axes.containers)
    assert [bar.get_x() for bar in above] == [bar.get_width() for bar in below] == list(e.COLUMNS["accepted"])
    (axes,) = draw_paper("one_token, distributions").axes
    first, second = (list(one.patches) for one in axes.containers)
    assert [bar.get_y() for bar in first] == pytest.approx([bar.get_y() + bar.get_height() for bar in second])


def test_every_name_of_the_screens_legend_is_in_prints():
    for name in CASES:
        page = get_case(name).page()
        data, shown = page.data, page.layout.showlegend
        listed = [trace.name for trace in data if trace.type != "heatmap" and trace.showlegend is not False and trace.name]
        shown = len(data) > 1 if shown is None else shown
        legends = draw_paper(name).legends
        found = {text.get_text() for text in legends[0].get_texts()} if legends else set()
        assert found == (set(listed) if shown else set()), name


def test_axes_end_and_count_as_on_the_screen():
    for name in CASES:
        layout, drawn = get_case(name).page().layout, draw_paper(name)
        if len(drawn.axes) > 1:
            continue
        for which in "xy":
            axis = getattr(layout, f"{which}axis")
            log = axis.type == "log"
            assert getattr(drawn.axes[0], f"get_{which}scale")() == ("log" if log else "linear"), name
            if axis.range is not None:
                ends = [10.0**end if log else end for end in axis.range]
                assert list(getattr(drawn.axes[0], f"get_{which}lim")()) == pytest.approx(ends), name


def test_the_same_figure_gives_the_same_bytes_also_from_several_threads_at_once():
    """Four threads draw a figure in every form, and another, while the process has other settings of matplotlib; they stay as they are."""
    cases = [("one_token, out", form) for form in ("", "column", "slide")] + [("one_token, distributions", "")]

    def files(case: tuple[str, str]) -> list[bytes]:
        name, form = case
        drawn = get_case(name).draw_for_print(form)
        return [
            save_figure(drawn, ending.rpartition(".")[2]) for ending in PRINTS if ending.rpartition(".")[0].strip("-") == form
        ]

    first = list(map(files, cases))
    with matplotlib.rc_context({"font.size": 20.0, "axes.grid": True, "svg.fonttype": "none"}):
        with ThreadPoolExecutor(4) as threads:
            again = list(threads.map(files, cases))
        assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["svg.fonttype"]) == (20.0, "none")
    assert again == first and sum(map(len, first[:3])) == len(PRINTS)


def test_a_font_in_a_pdf_has_its_glyphs_and_no_tables_that_only_layout_reads():
    """These tables are half of the time that a PDF takes. The fonts of the process keep them: text is laid out with them."""
    paper = save_figure(get_case("one_token, out").draw_for_print(""), "pdf")
    streams = [
        zlib.decompress(part.partition(b"endstream")[0].strip()) for part in re.split(rb"FlateDecode[^>]*>>\s+stream", paper)[1:]
    ]
    fonts = [TTFont(BytesIO(stream)) for stream in streams if stream.startswith(b"\0\1\0\0")]
    assert fonts and all("glyf" in font and not {"GDEF", "GPOS", "GSUB"} & {*font.keys()} for font in fonts)
    assert {"GPOS", "GSUB"} <= {*TTFont(findfont("Inter")).keys()}


def test_print_needs_no_pyplot_and_no_browser():
    code = (
        "import sys; from specviz.export.package import Package, Picture; from specviz.figures.token_bars import BarPanel, plot_panels; "
        "one = Picture(lambda: plot_panels((BarPanel('a', ('b',), {'p': (1.0,)}),))); print('matplotlib' in sys.modules); "
        "Package('a', 'a', {}, {}, {'b': one}, (), {}).build_file('b.svg'); print('matplotlib.pyplot' in sys.modules, 'kaleido' in sys.modules)"
    )
    done = run_fresh(code)
    assert done.stdout.split() == ["False", "False", "False"], done.stderr


def test_no_dollar_is_a_formula_and_no_foreign_letter_a_box():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], mode="markers", marker={"color": "red"}, name="$\\frac$"))
    figure.update_layout(height=300, showlegend=True, title="$x$ 猫").update_xaxes(title="$y$")
    drawn = draw_figure(figure)
    assert {"$\\frac$", "$x$ ‹U+732B›", "$y$"} <= {text.get_text() for text in list_words(drawn)}
    assert not any(text.get_parse_math() for text in list_words(drawn) if "$" in text.get_text())
    assert make_printable("x" * 70) == "x" * 63 + "…"
