"""Slides of 16:9 with large type: any step of a round, as a still or as the frames of an animation. Drawn from what the stage draws."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Rectangle
from PIL import Image

from specviz.export.matplotlib_adapter import PRINT_INK, make_printable, use_print_settings
from specviz.figures.numbers import format_apart, format_probability
from specviz.figures.theme import GRAY, MEANINGS

WIDE, HIGH = 13.3334, 7.5  # inches: 1920 x 1080 at 144 dots each
SCREEN, FRAME = 144, 72  # dots per inch of a still, and of an animation's frame
SENTENCE, TEXT, LABEL, SMALL = 19.0, 24.0, 17.0, 14.0  # points; 12 are 24 pixels on a screen of 1920
SECONDS, LAST = 2.6, 5.0  # of a frame, and of the last one
COLORS = 96
CLOSE = 0.03  # part of a line by which the widths of its words alone may miss its own
RULER_RENDERER = RendererAgg(1, 1, FRAME)  # measures texts
LEFT, RIGHT = 0.6, WIDE - 0.6
ROWS = 8  # bars of a panel, beside the rest
TARGET, DRAFT, RESIDUAL, REJECTED, BONUS = (MEANINGS[name] for name in ("target", "draft", "residual", "rejected", "bonus"))
PALE, LINE = "#f3f5f7", "#c8ced6"


@dataclass(frozen=True, slots=True)
class _Box:
    """A panel on the slide, in inches from the lower left corner."""

    x: float
    y: float
    w: float
    h: float


FOOT, TALL, GAP = 1.75, 3.95, 0.25  # of the panels
BARS = {
    1: _Box(LEFT, FOOT, RIGHT - LEFT, TALL),
    2: _Box(LEFT, FOOT, 9.2, TALL),
    3: _Box(LEFT, FOOT, 5.5, TALL),
}  # by the number of panels
RULER = {2: _Box(LEFT + 9.2 + GAP, FOOT, RIGHT - LEFT - 9.2 - GAP, TALL), 3: _Box(LEFT + 5.5 + GAP, FOOT, 2.35, TALL)}
RESULT = _Box(LEFT + 5.5 + 2.35 + 2 * GAP, FOOT, RIGHT - LEFT - 5.5 - 2.35 - 2 * GAP, TALL)


def draw_slide(payload: Mapping[str, Any], round_: int, step: int) -> Figure:
    """One step of a round; both count from 0. ``payload``: of ``build_round_payload``. Raises IndexError where there is no such step."""
    shown = payload["rounds"][round_]
    with use_print_settings():
        return _Slide(payload, round_, shown, shown["steps"][step], step).figure


def build_animation(payload: Mapping[str, Any], round_: int) -> bytes:
    """A whole round as an animated GIF of 960 x 540 pixels that goes round for ever, a frame for each step."""
    frames = []
    for step in range(len(payload["rounds"][round_]["steps"])):
        drawn = draw_slide(payload, round_, step)
        with use_print_settings():
            canvas = FigureCanvasAgg(drawn)
            canvas.draw()
            frames.append(Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB"))
    columns = Image.new(
        "RGB", (frames[0].width, sum(one.height for one in frames))
    )  # one palette for all, so that nothing flickers
    for place, one in enumerate(frames):
        columns.paste(one, (0, place * one.height))
    palette = columns.quantize(COLORS, dither=Image.Dither.NONE)
    first, *rest = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames)
    target, times = io.BytesIO(), [round(1000 * SECONDS)] * len(rest) + [round(1000 * LAST)]
    first.save(target, "GIF", save_all=True, append_images=rest, duration=times, loop=0, disposal=1)
    return target.getvalue()


class _Slide:
    def __init__(self, payload: Mapping[str, Any], number: int, round_: Mapping[str, Any], step: Mapping[str, Any], at: int):
        self.payload, self.round, self.step, self.at = payload, round_, step, at
        self.figure = Figure(figsize=(WIDE, HIGH), facecolor="white", dpi=FRAME)
        self.draw_header(number)
        self.draw_text()
        if step["kind"] == "tally":
            self.draw_tally()
        else:
            self.draw_panels()
        self.draw_sentence()

    def draw_header(self, number: int) -> None:
        labels = [one["label"] for one in self.round["steps"][: self.at + 1] if one["label"]]
        self.write(
            LEFT, HIGH - 0.55, f"Round {number + 1}: {labels[-1] if labels else ''}", LABEL, color=GRAY["light"], weight="bold"
        )
        self.write(RIGHT, HIGH - 0.55, f"{self.at + 1} of {len(self.round['steps'])}", SMALL, color=GRAY["light"], ha="right")

    def draw_text(self) -> None:
        """The end of the text, and after it the draft tokens with what has become of them."""
        chips = self.list_chips()
        room = RIGHT - LEFT - sum(wide + 0.14 for *_, wide in chips)
        before, y = make_printable(" ".join((self.payload["prompt"] + self.round["text"]).split()), 400), HIGH - 1.3
        if measure_width(before, TEXT) > room:
            start = bisect_left(range(len(before)), True, key=lambda place: measure_width(f"…{before[place:]}", TEXT) <= room)
            before = f"…{before[start:]}"
        self.write(LEFT, y, before, TEXT, color=PRINT_INK)
        x = LEFT + measure_width(before, TEXT) + 0.18
        for words, look, status, wide in chips:
            self.draw_chip(x, y, words, look, status, wide)
            x += wide + 0.14

    def list_chips(self) -> list[tuple[str, Any, str, float]]:
        """Words, color, status and width of what stands behind the text at this step: a replacement in the place of the rejected draft token."""
        found: list[tuple[Any, Any, str]] = []
        ending = self.round["ending"] if self.round["ending"] and self.round["ending"]["appears"] <= self.at else None
        replaces = ending is not None and ending["kind"] == "residual"
        for chip in self.round["chips"]:
            if chip["appears"] > self.at:
                continue
            status = chip["status"] if chip["decided"] <= self.at else ""
            if status == "rejected" and replaces:
                found.append((ending, RESIDUAL, "residual"))
            elif status != "unchecked" or self.step["kind"] != "tally":  # which is no part of the text
                found.append((chip, {"accepted": TARGET, "rejected": REJECTED, "": DRAFT}.get(status), status))
        if ending is not None and ending not in [one for one, *_ in found]:
            found.append((ending, RESIDUAL if replaces else BONUS, ending["kind"]))
        marks = {"accepted": " ✓", "rejected": " ✗", "residual": " +", "bonus": " +"}
        named = [(make_printable(_join_glyphs(one), 24) + marks.get(status, ""), look, status) for one, look, status in found]
        return [(words, look, status, measure_width(words, TEXT - 3) + 0.32) for words, look, status in named]

    def draw_chip(self, x: float, y: float, words: str, look: Any, status: str, wide: float) -> None:
        edge, ink = (look.light, look.light_ink) if look else (LINE, GRAY["light"])
        box = FancyBboxPatch((x / WIDE, (y - 0.27) / HIGH), wide / WIDE, 0.54 / HIGH, boxstyle="round,pad=0,rounding_size=0.008",
                             mutation_aspect=WIDE / HIGH, facecolor="white", edgecolor=edge, linewidth=2.2,
                             linestyle=(0, (3, 2)) if look is None else "-", transform=self.figure.transFigure)  # fmt: skip
        self.figure.add_artist(box)
        self.write(x + wide / 2, y, words, TEXT - 3, color=ink, ha="center")
        if status == "rejected":
            self.draw_line((x + 0.1, x + wide - 0.1), (y - 0.02, y - 0.02), REJECTED.light, 2.2)

    def draw_panels(self) -> None:
        kind, index = self.step["kind"], self.step["probs"]
        probs = None if index is None else self.round["distributions"][index]
        bars = _select_largest(probs["views"]["wide"]) if probs else []
        chip = self.round["chips"][self.step["node"]] if self.step["node"] is not None else {}
        tested = chip.get("threshold") is not None and kind in ("look", "uniform", "lift", "residual", "draw")
        many = 3 if kind in ("lift", "residual", "draw") else 2 if tested else 1
        if kind == "bonus":
            self.draw_last_distribution(BARS[1], [bar for bar in bars if bar["end"]])
        elif probs and bars:
            self.draw_distributions(BARS[many], probs["place"], bars)
        if tested:
            self.draw_ruler(RULER[many], chip, kind != "look")
        if kind in ("residual", "draw"):
            self.draw_last_distribution(RESULT, [bar for bar in bars if bar["end"]])

    def draw_distributions(self, box: _Box, place: str, bars: Sequence[Mapping[str, Any]]) -> None:
        kind = self.step["kind"]
        title = (
            "The draft's probabilities of the next token" if kind == "draft" else "Both models' probabilities of the next token"
        )
        self.draw_panel(box, title, place)
        most = max([0.05, *(bar[key] for bar in bars for key in ("p", "q") if bar[key] is not None)])  # as in the browser
        names, gone = 1.75, kind in ("lift", "residual", "draw")
        room, step = box.w - names - 1.35, (box.h - 1.5) / (ROWS + 1)
        for row, bar in enumerate(bars):
            y = box.y + box.h - 0.95 - step * (row + 0.5)
            self.write_token(box.x + names - 0.12, y, bar, 14, bar["drafted"])
            x0, thick = box.x + names, step * 0.37
            both = ("p", TARGET, 0.5), ("q", DRAFT, -0.5)
            kinds = [one for one in both if bar[one[0]] is not None and (kind != "draft" or one[0] == "q")]
            for key, shade, up in kinds:
                length, middle = room * bar[key] / most, y + (up if len(kinds) > 1 else 0.0) * thick
                if not gone or bar["overlap"] is None:
                    self.draw_bar(x0, middle, length, thick, shade.light)
                    continue
                shared = room * bar["overlap"] / most  # striped: what both share; beyond it what is missing, or is rejected
                self.draw_box(x0, middle - thick / 2, max(shared, 0.012), thick, TARGET.light, 0.5, hatch="//")
                if length - shared > 0.012:
                    beyond = {"color": RESIDUAL.light} if key == "p" else {"color": REJECTED.light, "alpha": 0.6, "hatch": "\\\\"}
                    self.draw_box(x0 + shared, middle - thick / 2, length - shared, thick, **beyond)
            if bar["drafted"]:
                x = x0 + room * max(bar[key] for key, *_ in kinds) / most + 0.1
                for key, shade, _ in kinds:
                    self.write(x, y, format_probability(bar[key]), SMALL - 1, color=shade.light_ink, weight="bold")
                    x += measure_width(format_probability(bar[key]), SMALL - 1, "bold") + 0.14
        legend = [("draft q", DRAFT.light)] if kind == "draft" else [("target p", TARGET.light), ("draft q", DRAFT.light)]
        if gone:
            shared, added = ("overlap", "missing") if kind == "lift" else ("accepted", "replaced")  # the words of the sentence
            legend = [(shared, TARGET.light), (added, RESIDUAL.light), ("rejected", REJECTED.light)]
        x, hatches = box.x + 0.2, {"overlap": "//", "accepted": "//", "rejected": "\\\\"}
        for words, color in legend:
            hatch = hatches.get(words, "")
            self.draw_box(x, box.y + 0.17, 0.2, 0.16, color, 0.6 if hatch else 1.0, hatch)
            self.write(x + 0.28, box.y + 0.25, words, SMALL - 1)
            x += 0.28 + measure_width(words, SMALL - 1) + 0.35

    def draw_ruler(self, box: _Box, chip: Mapping[str, Any], fallen: bool) -> None:
        """The random number between 0 and 1, and the part of it that accepts."""
        u, edge = format_apart(chip["u"], chip["threshold"])
        self.draw_panel(box, "u, from 0 to 1", "always accepted" if chip["threshold"] >= 1 else f"accepted below {edge}")
        x, y0, high, wide = box.x + 0.55, box.y + 0.3, box.h - 1.4, 0.55
        t = min(1.0, chip["threshold"])
        self.draw_box(x, y0, wide, high * t, TARGET.light, 0.35)
        self.draw_box(x, y0 + high * t, wide, high * (1 - t), REJECTED.light, 0.35, hatch="//")
        for words, at in (("0", 0.0), ("1", high)):
            self.write(x - 0.12, y0 + at, words, SMALL - 1, ha="right", color=GRAY["light"])
        self.draw_line((x - 0.08, x + wide + 0.08), (y0 + high * t,) * 2, PRINT_INK, 1.8)
        if fallen:
            y, shade = y0 + high * chip["u"], TARGET if chip["status"] == "accepted" else REJECTED
            self.draw_line((x - 0.02, x + wide + 0.02), (y, y), shade.light_ink, 5.0)
            self.write(x + wide + 0.14, y, f"u = {u}", SMALL, color=shade.light_ink, weight="bold")

    def draw_last_distribution(self, box: _Box, bars: Sequence[Mapping[str, Any]]) -> None:
        """The distribution of the last token of the round: the residual, or p itself."""
        bonus, chosen = self.step["kind"] == "bonus", self.step["kind"] != "residual"
        shade = BONUS if bonus else RESIDUAL
        title, sub = (
            ("The bonus token", "one draw from p itself")
            if bonus
            else ("The residual distribution", "max(0, p − q), rescaled to 1")
        )
        self.draw_panel(box, title, sub)
        most, names = max([0.05, *(bar["end"] for bar in bars)]), 1.75 if bonus else 1.3
        room, step = box.w - names - 0.85, (box.h - 1.25) / (ROWS + 1)
        for row, bar in enumerate(bars):
            y, here = box.y + box.h - 0.95 - step * (row + 0.5), bar["drawn"] and chosen
            self.write_token(box.x + names - 0.12, y, bar, 11, here)
            length = room * bar["end"] / most
            self.draw_bar(box.x + names, y, length, step * 0.6, shade.light, 1.0 if here or not chosen else 0.45)
            if here or (not chosen and row < 3):
                look = {"color": shade.light_ink, "weight": "bold" if here else "normal"}
                self.write(box.x + names + length + 0.08, y, format_probability(bar["end"]), SMALL - 1, **look)

    def draw_tally(self) -> None:
        self.write(WIDE / 2, 4.2, self.round["tally"]["line"], 54.0, ha="center", weight="bold", color=TARGET.light_ink)
        if total := self.round["tally"]["total"]:
            self.write(WIDE / 2, 3.3, total, SENTENCE, ha="center", color=GRAY["light"])

    def draw_sentence(self) -> None:
        lines = [""]
        for word in make_printable(self.step["sentence"], 600).split(" "):  # what belongs together has spaces that do not break
            longer = f"{lines[-1]} {word}".strip()
            lines = [*lines[:-1], longer] if self.fits(longer, RIGHT - LEFT) else [*lines, word]
        for line, words in enumerate(lines):
            self.write(LEFT, 1.25 - 0.42 * line, words, SENTENCE)

    def fits(self, words: str, width: float) -> bool:
        """Whether words of a sentence take at most so many inches. They are measured together only where the sum of each alone is close."""
        space = measure_width("a a", SENTENCE) - 2 * measure_width("a", SENTENCE)
        total = sum(measure_width(word, SENTENCE) + space for word in words.split(" ")) - space
        return total < width if abs(total - width) > CLOSE * width else measure_width(words, SENTENCE) <= width

    def draw_panel(self, box: _Box, title: str, sub: str) -> None:
        self.draw_box(box.x, box.y, box.w, box.h, PALE)
        self.write(box.x + 0.2, box.y + box.h - 0.32, title, SMALL + 1, weight="bold")
        self.write(box.x + 0.2, box.y + box.h - 0.68, make_printable(sub, 60), SMALL - 1, color=GRAY["light"])

    def write(self, x: float, y: float, words: str, size: float, **look: Any) -> None:
        self.figure.text(x / WIDE, y / HIGH, words, fontsize=size, va="center", parse_math=False, **({"color": PRINT_INK} | look))

    def write_token(self, x: float, y: float, bar: Mapping[str, Any], most: int, bold: bool) -> None:
        """The token of a bar, at most so many letters, left of x."""
        self.write(x, y, make_printable(_join_glyphs(bar), most), SMALL, ha="right", weight="bold" if bold else "normal")

    def draw_bar(self, x: float, y: float, length: float, thick: float, color: str, alpha: float = 1.0) -> None:
        self.draw_box(x, y - thick / 2, max(length, 0.012), thick, color, alpha)

    def draw_box(self, x: float, y: float, w: float, h: float, color: str, alpha: float = 1.0, hatch: str = "") -> None:
        look: dict[str, Any] = {
            "facecolor": color,
            "alpha": alpha,
            "hatch": hatch,
            "edgecolor": "white" if hatch else "none",
            "linewidth": 0,
        }
        place = (x / WIDE, y / HIGH)
        self.figure.add_artist(Rectangle(place, w / WIDE, h / HIGH, transform=self.figure.transFigure, **look))

    def draw_line(self, xs: Sequence[float], ys: Sequence[float], color: str, width: float) -> None:
        xs, ys = [x / WIDE for x in xs], [y / HIGH for y in ys]
        look: dict[str, Any] = {"color": color, "linewidth": width, "solid_capstyle": "round"}
        self.figure.add_artist(Line2D(xs, ys, transform=self.figure.transFigure, **look))


@lru_cache(maxsize=4096)
def measure_width(words: str, size: float, weight: str = "normal") -> float:
    """Inches that words take on a slide. To be called under the settings for print."""
    return RULER_RENDERER.get_text_width_height_descent(words, FontProperties(size=size, weight=weight), False)[0] / FRAME


def _join_glyphs(bar: Mapping[str, Any]) -> str:
    return "all others" if bar["glyphs"] is None else "".join(glyph["t"] for glyph in bar["glyphs"])


def _select_largest(bars: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """At most ROWS bars, and the rest."""
    return [*bars[:-1][:ROWS], bars[-1]]
