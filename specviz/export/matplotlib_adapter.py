"""Draws any of our Plotly figures for print with matplotlib, without a browser: the same series, axes, words, colors and patterns.

Nothing is computed a second time: every printed point is read from the figure that a page shows. The adapter knows the kinds of traces,
shapes and annotations that our figures use. Anything else raises NotImplementedError with its name, so that no figure is printed with
a part missing; only what appears under a pointer is left out.

Sizes: a Plotly pixel becomes 2/3 of a point, so that letters of 12 px on the screen are letters of 8 points in a figure 7.2 inches wide.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import unescape
from itertools import pairwise
from math import ceil, floor, log10, nan
from threading import Lock
from typing import Any

import matplotlib
import numpy as np
from fontTools.subset import Options as SubsetOptions
from matplotlib import ticker
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from specviz.records import ASSETS

PAGE, COLUMN = 7.2, 3.5  # inches: the text of a page, and one of two columns
SLIDE, SHAPE = 5.6, 16 / 9  # inches: the narrowest slide, so with the largest type once it fills a screen; width over height
MARGIN = 0.035  # of a slide, on each side: share of its width and of its height
LABEL, LINES = 64, 200  # most characters of a name, and of words that are set in several lines
ROW = 8.5  # most characters of a row's name for each inch of the figure's width: about half of it
POINTS = 2 / 3  # of a Plotly pixel
INCH = 72 / POINTS  # Plotly pixels
PRINT_INK, PRINT_GRID = "#333333", "#dfe3e8"  # softer than the ink of charts on screen (figures/theme.py)
FONTS = ["Inter", "DejaVu Sans"]  # as on the pages; the second one has the signs and alphabets that the first one lacks
for font in sorted((ASSETS / "fonts").glob("*.ttf")):
    fontManager.addfont(font)
STYLE = {
    "svg.hashsalt": "specviz",  # ids in the SVG follow from the figure alone
    "svg.fonttype": "path",  # looks the same without our fonts
    "pdf.fonttype": 42,
    "font.family": FONTS,
    "font.size": 8.0,
    "text.color": PRINT_INK,
    "axes.labelcolor": PRINT_INK,
    "axes.edgecolor": PRINT_INK,
    "axes.linewidth": 0.6,
    "xtick.color": PRINT_INK,
    "ytick.color": PRINT_INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": PRINT_GRID,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 1.0,
}
SETTINGS: Any = {
    key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith(("backend", "toolbar", "webagg"))
} | STYLE
UNDATED = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}, "png": {}}
DPI = 300  # of a PNG

DASHES = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 1.6)), "dashdot": (0, (5, 2, 1, 2)), "longdash": (0, (8, 3)),
          "longdashdot": (0, (8, 3, 2, 3))}  # fmt: skip
SYMBOLS = {"circle": "o", "square": "s", "diamond": "D", "x": "X", "line-ns": "|"}
HATCHES = {"": "", "/": "/////", "\\": "\\\\\\\\\\", ".": "..."}
POINTED = {"hoverinfo", "hovertemplate", "hovertext", "customdata"}  # seen only under a pointer
SHARED = {"type", "name", "x", "y", "xaxis", "yaxis", "showlegend", "legendgroup", "marker", "opacity", *POINTED}
LAYOUT_TABLES = ("GDEF", "GPOS", "GSUB")  # of a font: read where text is laid out, and by no viewer of a PDF
_ONE_AT_A_TIME = Lock()  # matplotlib's settings and font caches belong to the whole process


def draw_figure(figure: Any, title: str = "", width: float = PAGE, extra_height: float = 0.0) -> Figure:
    """A Plotly figure for paper.

    ``figure``: plotly.graph_objects.Figure with a height in pixels. ``title``: above it; the figure's own where it has one.
    ``width``: in inches; the height follows from the figure's, with ``extra_height`` inches for its axes.

    Raises NotImplementedError for anything that our figures do not use.
    """
    with use_print_settings():
        drawn = _PrintFigure(figure, title, width, extra_height)
        drawn.place_axes()
        return drawn.figure


def draw_slide(figure: Any, title: str = "") -> Figure:
    """The same on a slide of 16:9, on which the figure and its type are as large as its rows allow.

    It is drawn small, and grows with the screen: letters of 8 points on a slide 5.6 inches wide are 38 pixels high on 1920.
    """
    with use_print_settings():  # the size is known before the axes have their places, which take most of the time
        drawn = _PrintFigure(figure, title, SLIDE).figure
        if drawn.get_figheight() > SLIDE / SHAPE:
            drawn = _PrintFigure(figure, title, SHAPE * drawn.get_figheight()).figure
    width, high = drawn.get_size_inches()
    slide = draw_figure(figure, title, width, width / SHAPE - high)
    _add_margins(slide, MARGIN)
    return slide


def _add_margins(drawn: Figure, share: float) -> None:
    """Enlarge a drawn figure on all sides by a share of the new one, with everything where it was."""

    def move(places: Any) -> Any:
        return share + (1.0 - 2.0 * share) * np.asarray(places)

    for where in drawn.axes:
        where.set_position(Bbox(move(where.get_position().get_points())))
    for text in drawn.texts:
        text.set_position(tuple(move(text.get_position())))
    for legend in drawn.legends:
        corner = legend.get_bbox_to_anchor().transformed(drawn.transFigure.inverted()).p0
        legend.set_bbox_to_anchor(tuple(move(corner)), drawn.transFigure)
    drawn.set_size_inches(drawn.get_size_inches() / (1.0 - 2.0 * share))


def save_figure(figure: Figure, kind: str, dpi: float = DPI) -> bytes:
    """The bytes of a drawn figure as "svg", "png" or "pdf"; the same figure gives the same bytes on the same versions. dpi: of a PNG."""
    target = io.BytesIO()
    with use_print_settings():
        figure.savefig(target, format=kind, dpi=dpi, metadata=UNDATED[kind])
    return target.getvalue()


def save_pdf(pages: Sequence[Figure]) -> bytes:
    """A PDF with a page for each drawn figure, each as large as it is; the same figures give the same bytes on the same versions."""
    target = io.BytesIO()
    with use_print_settings(), PdfPages(target, metadata=UNDATED["pdf"]) as file:
        for page in pages:
            file.savefig(page)
    return target.getvalue()


def make_printable(label: str, most: int = LABEL) -> str:
    """The label in characters that the print font has, others as their code; at most ``most`` characters long."""
    text = "".join(c if c == "\n" or ord(c) in _read_print_characters() else f"‹U+{ord(c):04X}›" for c in label)
    return text if len(text) <= most else text[: most - 1] + "…"


@contextmanager
def use_print_settings() -> Iterator[None]:
    """Our settings of matplotlib and no others, in one thread at a time. Fonts in a PDF have no tables that only layout reads."""
    with _ONE_AT_A_TIME, matplotlib.rc_context(SETTINGS):
        dropped = SubsetOptions._drop_tables_default
        SubsetOptions._drop_tables_default = [*dropped, *LAYOUT_TABLES]  # subsetting these takes half of a PDF's time
        try:
            yield
        finally:
            SubsetOptions._drop_tables_default = dropped


class _PrintFigure:
    """One figure while it is drawn: axes by the names of both axes in the layout, and what the legend lists.

    It has its final size at once; ``place_axes`` completes it.
    """

    def __init__(self, figure: Any, title: str, width: float, extra_height: float = 0.0):
        traces, layout = [trace.to_plotly_json() for trace in figure.data], figure.layout.to_plotly_json()
        _check_attributes([key for key in layout if not re.fullmatch(r"[xy]axis\d*", key)],
              {"barmode", "bargap", "height", "margin", "legend", "showlegend", "title", "template", "dragmode", "hovermode", "hoverlabel",
               "shapes", "annotations", "uniformtext"}, "layout")  # fmt: skip
        self.layout, self.width = layout, width
        self.figure = Figure(figsize=(width, (layout["height"] - layout.get("margin", {}).get("t", 60)) / INCH + extra_height))
        FigureCanvasAgg(self.figure)  # measures texts
        self.axes = self._add_subplots(sorted({_name_axes(trace) for trace in traces}))
        self.handles: dict[str, Any] = {}
        self.stacked: dict[tuple[str, str], np.ndarray] = {}
        self.barred: list[Any] = []
        self.named: list[Any] = []
        self.titles: list[tuple[Any, Any]] = []
        self.in_bars: list[tuple[Any, Any]] = []  # (text, bar)
        self.markers: list[tuple[Any, Line2D]] = []
        listed = layout.get("showlegend", len(traces) > 1 or any(trace.get("showlegend") for trace in traces))
        for number, trace in enumerate(traces):
            make = _look_up(TRACES, trace.get("type", "scatter"), "a trace of type")
            handle = make(self, self.axes[_name_axes(trace)], trace, 2.0 + 0.01 * number)
            if listed and handle is not None and trace.get("showlegend", True) and trace.get("name"):
                self.handles.setdefault(make_printable(_strip_html(trace["name"])), handle)
        for shape in layout.get("shapes", ()):
            self._add_shape(shape)
        for pair, where in self.axes.items():
            for which, name in zip("xy", pair, strict=True):
                self._scale_axis(where, which, self._get_axis(name))
        for note in layout.get("annotations", ()):
            self._add_annotation(note)
        for where, line in self.markers:  # a marker on the edge is drawn whole, one beyond it not at all
            (x0, x1), (y0, y1) = where.get_xlim(), where.get_ylim()
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            if ((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)).all():
                line.set_clip_on(False)
        self._add_head(make_printable(_strip_html((layout.get("title") or {}).get("text") or "") or title, LINES))

    def _get_axis(self, name: str) -> Mapping[str, Any]:
        """An axis of the layout by its short name, as x2."""
        return self.layout.get(f"{name[0]}axis{name[1:]}", {})

    def _get_domains(self, pair: tuple[str, str]) -> tuple[tuple[float, float], ...]:
        return tuple(tuple(self._get_axis(name).get("domain", (0.0, 1.0))) for name in pair)

    def _add_subplots(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any]:
        """Axes for each pair of axis names, placed as the domains say: columns from the left, rows from the top."""
        spans = {pair: self._get_domains(pair) for pair in pairs}
        across = sorted({x for x, _ in spans.values()})
        down = sorted({y for _, y in spans.values()}, reverse=True)
        ratios = {"width_ratios": [b - a for a, b in across], "height_ratios": [b - a for a, b in down]}
        grid = self.figure.add_gridspec(len(down), len(across), **ratios)
        return {pair: self.figure.add_subplot(grid[down.index(y), across.index(x)]) for pair, (x, y) in spans.items()}

    def _draw_scatter(self, where: Any, trace: Mapping[str, Any], order: float) -> Any:
        _check_attributes(trace, SHARED | {"mode", "line", "fill", "fillcolor", "error_x", "error_y"}, "scatter")
        x, y, mode = _to_array(trace["x"]), _to_array(trace["y"]), trace.get("mode")
        if mode not in ("lines", "markers", "lines+markers"):
            raise _build_unknown_error(f"scatter of mode {mode!r}")
        line, marker, alpha = trace.get("line", {}), trace.get("marker", {}), trace.get("opacity")
        _check_attributes(line, {"color", "dash", "width"}, "scatter.line")
        if fill := trace.get("fill"):
            if fill == "toself":
                where.add_collection(
                    PolyCollection(
                        [np.column_stack([x, y])], facecolor=_convert_color(trace["fillcolor"]), linewidth=0.0, zorder=order
                    )
                )
                where.autoscale_view()
            elif fill == "tozeroy":
                axis = self._get_axis(_name_axes(trace)[1])
                foot = 10.0 ** axis["range"][0] if axis.get("type") == "log" else 0.0  # a logarithmic axis has no zero
                where.fill_between(x, foot, y, facecolor=_convert_color(trace["fillcolor"]), linewidth=0.0, zorder=order)
            else:
                raise _build_unknown_error(f"scatter.fill {fill!r}")
            if not line.get("width", 2):
                return Patch(facecolor=_convert_color(trace["fillcolor"]))
        look: dict[str, Any] = {"linestyle": "none", "zorder": order, "alpha": alpha}
        if "lines" in mode:
            look |= {
                "linestyle": _look_up(DASHES, line.get("dash", "solid"), "line.dash"),
                "linewidth": POINTS * line.get("width", 2),
                "color": _convert_color(line["color"]),
            }
        if "markers" in mode:
            look |= _build_marker(marker, line.get("color"), alpha)
        (drawn,) = where.plot(x, y, **look)
        if "markers" in mode:
            self.markers.append((where, drawn))
        color = marker.get("color") or line.get("color") or PRINT_INK
        for name in [key for key in ("error_x", "error_y") if key in trace]:
            error = trace[name]
            _check_attributes(error, {"type", "symmetric", "array", "arrayminus", "thickness", "width", "color"}, name)
            if error.get("type") != "data":
                raise _build_unknown_error(f"{name}.type {error.get('type')!r}")
            less, more = (_to_array(error["array"] if error.get(end) is None else error[end]) for end in ("arrayminus", "array"))
            thick = POINTS * error.get("thickness", 2)
            where.errorbar(x, y, **{name[-1] + "err": np.maximum(0.0, [less, more])}, fmt="none", ecolor=_convert_color(error.get("color", color)),
                           elinewidth=thick, capsize=POINTS * error.get("width", 4), capthick=thick, zorder=order - 0.005)  # fmt: skip
        return drawn

    def _draw_bars(self, where: Any, trace: Mapping[str, Any], order: float) -> Any:
        _check_attributes(trace, SHARED | {"orientation", "base", "width", "offset", "text", "textposition", "textfont", "cliponaxis", "insidetextanchor",
                               "textangle"}, "bar")  # fmt: skip
        across, mode, marker = trace.get("orientation") == "h", self.layout.get("barmode", "group"), trace["marker"]
        lengths, places = _to_array(trace["x" if across else "y"]), self._place_bars(where, trace["y" if across else "x"])
        if mode not in ("overlay", "stack") and where in self.barred:
            raise _build_unknown_error(f"bars side by side under layout.barmode {mode!r}: give them offsets, and overlay them")
        self.barred.append(where)
        thick, start = trace["width"], trace.get("base")
        start = np.zeros(len(lengths)) if start is None else _to_array(start)
        if mode == "stack":
            start = self.stacked.get(_name_axes(trace), start)
            self.stacked[_name_axes(trace)] = start + lengths
        middle = places + (0.0 if trace.get("offset") is None else trace["offset"] + thick / 2)
        looks = _style_bars(marker, len(lengths), trace.get("opacity"))
        make = where.barh if across else where.bar
        sizes = {"height": thick, "left": start} if across else {"width": thick, "bottom": start}
        drawn = make(middle, lengths, **sizes, zorder=order)
        for patch, look in zip(drawn, looks, strict=True):
            patch.set(**look)
        if "text" in trace:
            inside = (
                trace.get("textposition") == "inside"
                and trace.get("insidetextanchor") == "middle"
                and trace.get("textangle") == 0
            )
            if not inside and (trace.get("textposition") != "outside" or across):
                raise _build_unknown_error("bar.text anywhere but outside at the top, or level in the middle of the bar")
            texts, ink = list(map(_strip_html, trace["text"])), _convert_color(trace.get("textfont", {}).get("color", PRINT_INK))
            put = {"label_type": "center", "clip_on": True} if inside else {"padding": 2}
            for text, bar in zip(where.bar_label(drawn, texts, color=ink, **put), drawn, strict=True):
                text.set_parse_math(False)
                if inside:
                    self.in_bars.append((text, bar))
        return Patch(**looks[0]) if looks else None

    def _place_bars(self, where: Any, values: Sequence[Any]) -> np.ndarray:
        """Numbers as they are; names in the order in which they come, each a place on the axis with its name under it."""
        if not any(isinstance(one, str) for one in values):
            return _to_array(values)
        names = list(dict.fromkeys(values))
        where.set_xticks(range(len(names)), [make_printable(_strip_html(name)) for name in names], parse_math=False)
        self.named.append(where)
        where.set_xlim(-0.5, len(names) - 0.5)
        return np.array([names.index(one) for one in values], float)

    def _draw_heatmap(self, where: Any, trace: Mapping[str, Any], order: float) -> None:
        _check_attributes(trace, SHARED | {"z", "zmin", "zmax", "zsmooth", "colorscale", "showscale"}, "heatmap")
        if trace.get("showscale", True):
            raise _build_unknown_error("heatmap.showscale: a bar of colors beside the picture")
        shades = LinearSegmentedColormap.from_list(
            "shades", [(place, _convert_color(color)) for place, color in trace["colorscale"]]
        )
        x, y = _to_array(trace["x"]), _to_array(trace["y"])
        half = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
        where.imshow(np.asarray(trace["z"], float), origin="lower", extent=(x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1]),
                     aspect="auto", cmap=shades, vmin=trace["zmin"], vmax=trace["zmax"], zorder=order,
                     interpolation="bilinear" if trace.get("zsmooth") else "nearest")  # fmt: skip

    def _add_shape(self, shape: Mapping[str, Any]) -> None:
        """A line or a band across the whole picture, to its left and right or to its top and bottom, or an upright line between two values."""
        _check_attributes(shape, {"type", "x0", "x1", "y0", "y1", "xref", "yref", "line", "fillcolor", "layer"}, "shape")
        xref, yref = shape.get("xref", "x"), shape.get("yref", "y")
        is_whole, upright, kind = xref.endswith(" domain") != yref.endswith(" domain"), yref.endswith(" domain"), shape["type"]
        is_upright_part = not is_whole and not upright and kind == "line" and shape["x0"] == shape["x1"]
        if not (is_whole or is_upright_part) or kind not in ("line", "rect"):
            raise _build_unknown_error(f"a shape of type {shape['type']!r} from {xref} to {yref}")
        where = self._find_axes(xref, yref)
        order = 0.6 if shape.get("layer") == "below" else 2.9
        ends = [shape[f"{'x' if upright else 'y'}{end}"] for end in (0, 1)]
        if kind == "rect":
            span = where.axvspan if upright else where.axhspan
            span(*ends, facecolor=_convert_color(shape["fillcolor"]), linewidth=0.0, zorder=order)
        else:
            line = shape["line"]
            _check_attributes(line, {"color", "dash", "width"}, "shape.line")
            look = {"color": _convert_color(line["color"]), "linewidth": POINTS * line["width"], "zorder": order,
                    "linestyle": _look_up(DASHES, line.get("dash", "solid"), "line.dash")}  # fmt: skip
            if is_upright_part:
                where.vlines(shape["x0"], shape["y0"], shape["y1"], **look)
            else:
                (where.axvline if upright else where.axhline)(ends[0], **look)

    def _find_axes(self, x: str, y: str) -> Any:
        x, y = x.removesuffix(" domain"), y.removesuffix(" domain")
        return next(where for pair, where in self.axes.items() if x in (pair[0], "paper") and y in (pair[1], "paper"))

    def _scale_axis(self, where: Any, which: str, axis: Mapping[str, Any]) -> None:
        """Range, ticks, grid and title of one axis."""
        _check_attributes(axis, {"range", "type", "title", "tickvals", "ticktext", "tickformat", "nticks", "dtick", "tickangle", "ticks", "tickfont", "gridcolor",
                     "showgrid", "zeroline", "fixedrange", "automargin", "ticklabeloverflow", "rangemode", "exponentformat", "anchor", "domain", "visible"}, f"{which}axis")  # fmt: skip
        found, log = getattr(where, f"{which}axis"), axis.get("type") == "log"
        if axis.get("type", "linear") not in ("log", "linear"):
            raise _build_unknown_error(f"an axis of type {axis['type']!r}")
        named = which == "x" and where in self.named  # its ticks are names of bars
        if log:
            getattr(where, f"set_{which}scale")("log")
        limits = getattr(where, f"set_{which}lim")
        if axis.get("range") is not None:
            limits(*(10.0**end if log else end for end in axis["range"]))
        elif axis.get("rangemode") == "tozero":
            limits(0.0, None)
        if axis.get("visible") is False:
            found.set_visible(False)
            return
        if not named:
            low, high = getattr(where, f"get_{which}lim")()
            text = _build_tick_format(axis, log)
            found.set_major_formatter(ticker.FuncFormatter(lambda value, _: text(value)))
            if axis.get("tickvals") is not None:
                values = list(axis["tickvals"])
                most = min(LABEL, int(ROW * self.width)) if which == "y" else LABEL
                texts = [make_printable(_strip_html(one), most) for one in axis.get("ticktext") or map(text, values)]
                found.set_ticks(values, texts, parse_math=False)
                if axis.get("ticks") == "" or (which == "y" and axis.get("ticktext")):  # rows are named, not measured
                    found.set_tick_params(length=0)
            elif log:
                step = axis.get("dtick") or 1
                powers = range(step * ceil(log10(low) / step - 1e-9), floor(log10(high) + 1e-9) + 1, step)
                found.set_major_locator(ticker.FixedLocator([10.0**power for power in powers]))
                found.set_minor_locator(ticker.LogLocator(subs=range(2, 10)) if step == 1 else ticker.NullLocator())
                found.set_minor_formatter(ticker.NullFormatter())
            elif axis.get("dtick"):
                found.set_major_locator(ticker.MultipleLocator(axis["dtick"]))
            else:
                found.set_major_locator(
                    ticker.MaxNLocator(axis.get("nticks", 7) - 2 * (which == "x" and self.width < 5.0), steps=[1, 2, 5, 10])
                )
        if axis.get("showgrid", True) and not named:
            where.grid(visible=True, axis=which)
        where.set_axisbelow(True)
        title = axis.get("title") or {}
        found.set_label_text(make_printable(_strip_html(title.get("text") or ""), LINES), parse_math=False)

    def _add_annotation(self, note: Mapping[str, Any]) -> None:
        """Words at a place: beside a subplot as its title, in the picture, or at the end of a line that points at a place."""
        _check_attributes(note, {"x", "y", "xref", "yref", "text", "showarrow", "xanchor", "yanchor", "xshift", "yshift", "font", "bgcolor", "opacity", "borderpad",
                     "ax", "ay", "axref", "ayref", "arrowcolor", "arrowwidth", "arrowhead", "standoff", "align"}, "annotation")  # fmt: skip
        x, y, xref, yref = note["x"], note["y"], note.get("xref", "x"), note.get("yref", "y")
        text, font = make_printable(_strip_html(note["text"]), LINES), note.get("font", {})
        color = _convert_color(font.get("color", PRINT_INK))
        if xref == yref == "paper":
            for pair, one in self.axes.items():
                (left, right), (_, top) = self._get_domains(pair)
                if abs(x - (left + right) / 2) < 1e-6 and abs(y - top) < 1e-6:
                    self.titles.append((one, one.set_title(text, loc="left", fontsize=8.5, color=PRINT_INK, parse_math=False)))
                    return
            raise _build_unknown_error(f"an annotation at ({x}, {y}) of the paper, which is over no subplot")
        where, places, systems = self._find_axes(xref, yref), [], []
        for value, ref in ((x, xref), (y, yref)):
            inside = ref != "paper" and not ref.endswith(" domain")
            systems.append("data" if inside else "axes fraction")
            places.append(10.0**value if inside and self._get_axis(ref).get("type") == "log" else value)
        look: dict[str, Any] = {"color": color, "fontsize": POINTS * font.get("size", 12), "annotation_clip": False, "zorder": 4.0,
                                "ha": {"left": "left", "right": "right"}.get(note.get("xanchor", ""), "center"),
                                "va": {"top": "top", "bottom": "bottom"}.get(note.get("yanchor", ""), "center")}  # fmt: skip
        if note.get("bgcolor"):
            back = {"facecolor": _convert_color(note["bgcolor"]), "alpha": note.get("opacity", 1.0)}
            look["bbox"] = back | {"linewidth": 0.0, "pad": 1.0}
        if note.get("showarrow", True):
            if (note.get("axref"), note.get("ayref"), note.get("arrowhead")) != ("x", "y", 0):
                raise _build_unknown_error("an annotation's arrow that has a head, or that does not begin at a place of the axes")
            arrow = {"arrowstyle": "-", "color": _convert_color(note["arrowcolor"]), "linewidth": POINTS * note["arrowwidth"],
                     "shrinkA": 0.0, "shrinkB": POINTS * note.get("standoff", 0)}  # fmt: skip
            drawn = where.annotate(text, places, (note["ax"], note["ay"]), tuple(systems), "data", arrow, **look)
        else:
            shift = (POINTS * note.get("xshift", 0), POINTS * note.get("yshift", 0))
            drawn = where.annotate(text, places, shift, tuple(systems), "offset points", **look)
        drawn.set_parse_math(False)

    def _add_head(self, title: str) -> None:
        """Title and legend above the axes, in a strip that is as high as they need; the figure grows by it."""
        width, height = self.figure.get_size_inches()
        pad, title_height, legend_height, names = 0.06, 0.0, 0.0, list(self.handles)
        if title:
            head = self.figure.text(pad / width, 1.0, title, fontsize=9, va="top", ha="left", color="black", parse_math=False)
            _wrap_text(head, (width - 2 * pad) * self.figure.dpi)
            title_height = head.get_window_extent().height / self.figure.dpi + 0.06
        columns = len(names)
        while columns:  # as many names in a row as fit
            # matplotlib fills column after column; this order reads from left to right
            by_rows = [name for column in range(columns) for name in names[column::columns]]
            legend = self.figure.legend([self.handles[name] for name in by_rows], by_rows, ncols=columns, loc="upper left", frameon=False, borderaxespad=0.0,
                                        borderpad=0.1, handlelength=2.2, columnspacing=1.4, handletextpad=0.6)  # fmt: skip
            for text in legend.get_texts():
                text.set_parse_math(False)
            box = legend.get_window_extent()
            if columns == 1 or box.width <= (width - 2 * pad) * self.figure.dpi:
                legend_height = box.height / self.figure.dpi + 0.04
                break
            legend.remove()
            columns = min(columns - 1, ceil(len(names) / (ceil(len(names) / columns) + 1))) or 1
        strip = pad + title_height + legend_height
        whole = height + strip
        self.figure.set_size_inches(width, whole)
        if title:
            head.set_y(1 - pad / whole)
        if names:
            legend.set_in_layout(False)
            legend.set_bbox_to_anchor((pad / width, 1 - (pad + title_height) / whole), self.figure.transFigure)
        self.figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, 1 - strip / whole), w_pad=0.06, h_pad=0.04)

    def place_axes(self) -> None:
        """Lay the figure out, break titles that are longer than their axes into lines, and keep the positions of the axes.

        Every file is then drawn with the same positions. They are rounded, since the last digits of the solver vary between processes.
        """
        engine = self.figure.get_layout_engine()
        assert engine is not None, "the head of a figure sets it"
        engine.execute(self.figure)
        right, wrapped = self.figure.bbox.x1, False
        for where in self.axes.values():
            box = where.get_window_extent()
            wrapped |= _wrap_text(where.xaxis.label, min(right - box.x0, 2 * (right - (box.x0 + box.x1) / 2)) - 4)
            high = self.figure.bbox.height / len(self.axes) if len(self.axes) > 1 else box.height + 20
            wrapped |= _wrap_text(where.yaxis.label, high)
        for where, title in self.titles:
            wrapped |= _wrap_text(title, right - where.get_window_extent().x0 - 4)
        if wrapped:
            engine.execute(self.figure)
        self.figure.set_layout_engine("none")
        for where in self.axes.values():
            where.set_position(np.round(where.get_position().bounds, 9))
            _thin_numbers(where)
        for text, bar in self.in_bars:  # as on screen, by layout.uniformtext: what does not fit is left out
            if text.get_window_extent().width > bar.get_window_extent().width:
                text.set_text("")


TRACES: Mapping[str, Callable[[_PrintFigure, Any, Mapping[str, Any], float], Any]] = {
    "scatter": _PrintFigure._draw_scatter,
    "bar": _PrintFigure._draw_bars,
    "heatmap": _PrintFigure._draw_heatmap,
}


def _thin_numbers(where: Any) -> None:
    """Fewer numbers below axes that are too narrow for them, as beside long names of rows."""
    locator = where.xaxis.get_major_locator()
    if not isinstance(locator, ticker.MaxNLocator):
        return
    for bins in (4, 3, 2, 1):
        low, high = sorted(where.get_xlim())
        labels = [one for one in where.get_xticklabels() if low - 1e-9 <= one.get_position()[0] <= high + 1e-9]
        boxes = [one.get_window_extent().shrunk(0.95, 1.0) for one in labels]
        if not any(one.overlaps(other) for one, other in pairwise(boxes)):
            break
        locator.set_params(nbins=bins, steps=[1, 2, 4, 5, 10], min_n_ticks=1)


def _wrap_text(text: Any, most: float) -> bool:
    """Set a text in as many lines, four at most, as bring it down to ``most`` dots. Whether it needs more than one."""
    words, lines = text.get_text(), 1
    while words and lines < 4:
        box = text.get_window_extent()
        if (box.height if text.get_rotation() else box.width) <= most:
            break
        lines += 1
        text.set_text("\n".join(textwrap.wrap(words, ceil(len(words) / lines) + 4)))
    return lines > 1


def _build_marker(marker: Mapping[str, Any], line_color: str | None, alpha: float | None) -> dict[str, Any]:
    _check_attributes(marker, {"color", "size", "symbol", "line", "opacity"}, "scatter.marker")
    symbol, edge = marker.get("symbol", "circle"), marker.get("line", {})
    _check_attributes(edge, {"color", "width"}, "scatter.marker.line")
    shape, open_ = _look_up(SYMBOLS, symbol.removesuffix("-open"), "marker.symbol"), symbol.endswith("-open")
    fill = _convert_color(marker.get("color", line_color or PRINT_INK))
    wide = POINTS * edge.get("width", 1.6 if open_ else 0)
    rim = _convert_color(edge["color"]) if edge.get("color") and not open_ else fill
    return {"marker": shape, "markersize": POINTS * marker.get("size", 6), "alpha": marker.get("opacity", alpha),
            "markerfacecolor": "none" if open_ else fill, "markeredgecolor": rim, "markeredgewidth": wide}  # fmt: skip


def _style_bars(marker: Mapping[str, Any], many: int, alpha: float | None) -> list[dict[str, Any]]:
    """Face, edge, hatch and its color of each bar."""
    _check_attributes(marker, {"color", "opacity", "pattern", "line"}, "bar.marker")
    edge = marker.get("line", {})
    _check_attributes(edge, {"color", "width"}, "bar.marker.line")
    pattern = marker.get("pattern", {})
    _check_attributes(pattern, {"shape", "fillmode", "fgcolor", "size"}, "bar.marker.pattern")
    given = (marker["color"], pattern.get("shape", ""), edge.get("color", ""))
    colors, shapes, rims = (one if isinstance(one, (list, tuple)) else [one] * many for one in given)
    if any(shapes) and pattern.get("fillmode") != "overlay":
        raise _build_unknown_error(
            f"a pattern of fillmode {pattern.get('fillmode', 'replace')!r}, which leaves open what color the bar has"
        )
    looks = []
    for color, shape, rim in zip(colors, shapes, rims, strict=True):
        look = {"facecolor": _convert_color(color), "linewidth": 0.0, "alpha": marker.get("opacity", alpha)}
        if hatch := _look_up(HATCHES, shape, "marker.pattern.shape"):
            if edge:
                raise _build_unknown_error("a bar with both a pattern and an edge")
            look |= {"hatch": hatch, "edgecolor": _convert_color(pattern.get("fgcolor", "white"))}
        elif edge:
            look |= {"edgecolor": _convert_color(rim), "linewidth": POINTS * edge.get("width", 1)}
        looks.append(look)
    return looks


def _build_tick_format(axis: Mapping[str, Any], log: bool) -> Callable[[float], str]:
    """Tick values as Plotly writes them."""
    form = axis.get("tickformat")
    if form == ",~s":
        return ticker.EngFormatter(sep="")
    if form is not None:
        if not re.fullmatch(r"\.(\d|[1-9]~)[%f]", form):
            raise _build_unknown_error(f"tickformat {form!r}")
        if "~" in form:
            return lambda value: re.sub(r"\.?0+(?=%|$)", "", format(value, form.replace("~", "")))
        return lambda value: format(value, form)
    if log:
        least = -1 if axis.get("exponentformat") == "power" else -4
        return lambda value: _format_power(value, least)
    return lambda value: f"{value:g}"


def _format_power(value: float, least_power: int) -> str:
    """A power of ten: 10⁻⁸; those from 10 to the ``least`` to 10,000 in digits."""
    power = round(log10(value))
    return f"{value:g}" if least_power <= power <= 4 else "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _to_array(values: Any) -> np.ndarray:
    return np.array([nan if one is None else one for one in values], float)


def _name_axes(trace: Mapping[str, Any]) -> tuple[str, str]:
    """Short names of the axes of a trace."""
    return trace.get("xaxis", "x"), trace.get("yaxis", "y")


def _convert_color(text: str) -> Any:
    """A color of Plotly as matplotlib takes it."""
    if found := re.fullmatch(r"rgba\(([^)]*)\)", text.replace(" ", "")):
        red, green, blue, alpha = map(float, found[1].split(","))
        return (red / 255, green / 255, blue / 255, alpha)
    return text


def _strip_html(text: str) -> str:
    """Plotly's HTML as text: line breaks stay, emphasis and sizes are left out."""
    text = re.sub(r"</?(b|span)( style=(\"[^\"]*\"|'[^']*'))?>", "", str(text).replace("<br>", "\n"))
    if found := re.search(r"<[^>]*>", text):
        raise _build_unknown_error(f"{found[0]} in a text")
    return unescape(text)


def _check_attributes(attributes: Any, allowed: set[str], where: str) -> None:
    """Raises NotImplementedError for the first attribute that is not known."""
    if others := sorted(set(attributes) - allowed):
        raise _build_unknown_error(f"{where}.{others[0]}")


def _look_up(values: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in values:
        raise _build_unknown_error(f"{kind} {name!r}")
    return values[name]


def _build_unknown_error(feature: str) -> NotImplementedError:
    return NotImplementedError(
        f"Print does not know {feature}: add it to specviz/export/matplotlib_adapter.py, or draw the figure without."
    )


@cache
def _read_print_characters() -> frozenset[int]:
    return frozenset(code for name in FONTS for code in get_font(findfont(name)).get_charmap())
