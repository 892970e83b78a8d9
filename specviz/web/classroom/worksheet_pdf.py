"""The worksheet *One round by hand* and its key as PDF, two sides of A4 each. Its texts are in assets/texts/worksheet.toml."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from specviz.export.matplotlib_adapter import PRINT_INK, save_pdf, use_print_settings
from specviz.figures.theme import GRAY, MEANINGS
from specviz.records import load_toml
from specviz.web.classroom.worksheet import SEEDS, WORDS, Table, Worksheet, compute_ranges, compute_residual

WIDTH, HEIGHT = 8.27, 11.69  # inches of A4
MARGIN, TOP = 0.8, 0.7
TEXT, SMALL, HEAD, TITLE = 9.5, 8.5, 11.5, 17.0  # points
LINE, ROW, GAP = 0.19, 0.26, 0.11  # inches of a line of text, of a table's row, between parts
LETTERS, BOLD_LETTERS = 96, 84  # in a line of text, and of bold text
WIDE = 2.75  # inches of a first column of sentences
TEXTS = load_toml("texts/worksheet")
Rows = Sequence[Sequence[str]]  # of a table: name and cells


def build_pdf(sheets: Sequence[Worksheet], key: bool = False) -> bytes:
    """The sheets, or with ``key`` their answers, as one PDF with two pages for each. Equal sheets give equal bytes on the same versions."""
    return save_pdf([page(sheet, key) for sheet in sheets for page in (draw_front, draw_back)])


def draw_front(sheet: Worksheet, key: bool = False) -> Figure:
    """The round. With ``key`` every blank is filled, in bold, with what the production decoder did."""
    texts, page, start = TEXTS["front"], _Page(TEXTS["front"]["title"], sheet, key), WORDS[sheet.start]
    draft_words = ("", *(f"{ordinal} draft word" for ordinal in ("first", "second", "third")))
    page.draw_paragraph(texts["intro"])
    page.draw_two_tables(
        (texts["draft"], _list_rows(sheet.q), MEANINGS["draft"].light_ink),
        (texts["target"], _list_rows(sheet.p), MEANINGS["target"].light_ink),
    )
    page.draw_paragraph(texts["digits"])
    page.draw_section(texts["head_1"], texts["text_1"].format(start=start))
    drawn = [WORDS[one.token] for one in sheet.round.proposals]
    page.draw_table(
        draft_words, (("digits", *(f"{digits:02d}" for digits in sheet.draft_digits)), ("word", *drawn)), answers=(1,)
    )
    page.draw_section(texts["head_2"], texts["text_2"])
    checked = [one for one in sheet.round.proposals if one.accepted is not None]
    rows: Rows = (
        ("q", *(_format_decimal(one.q) for one in checked)),
        ("p", *(_format_decimal(one.p) for one in checked)),
        ("p/q, at most 1", *(_format_quotient(one.p, one.q) for one in checked)),
        ("u", *(f".{digits:02d}" for digits in sheet.uniform_digits)),
        ("accepted?", *("yes" if one.accepted else "no" for one in checked)),
    )
    page.draw_table(draft_words, rows, answers=(0, 1, 2, 4))
    page.draw_section(texts["head_3"], texts["text_3"].format(digits=sheet.last_digits))
    residual, total = sheet.residual, sum(sheet.residual)
    rows = (
        ("p − q, at least 0", *(_format_decimal(weight / 10) for weight in residual)),
        ("rescaled", *(_format_quotient(weight, total) for weight in residual)),
        ("drawn by", *(f"{one[0]:02d} to {one[-1]:02d}" if one else "–" for one in compute_ranges(residual))),
    )
    page.draw_table(("", *WORDS), rows, answers=(0, 1, 2))
    committed = [WORDS[token] for token in sheet.round.committed]
    page.draw_question(texts["question"], texts["answer"].format(start=start, words=" ".join(committed), count=len(committed)))
    return page.figure


def draw_back(sheet: Worksheet, key: bool = False) -> Figure:
    """Why the first word is distributed as the target's, worked out and tried."""
    texts, page, start = TEXTS["back"], _Page(TEXTS["back"]["title"], sheet, key), WORDS[sheet.start]
    p, q = sheet.p[sheet.start], sheet.q[sheet.start]
    accepted, replaced = [min(a, b) for a, b in zip(p, q, strict=True)], compute_residual(p, q)
    columns = ("", *WORDS, "sum")
    page.draw_section(texts["head_4"], texts["text_4"].format(start=start))
    rows: Rows = (
        ("proposed and accepted: min(p, q)", *(_format_decimal(one / 10) for one in (*accepted, sum(accepted)))),
        ("replaced: (1 − sum of min) × residual", *(_format_decimal(one / 10) for one in (*replaced, sum(replaced)))),
        ("together", *(_format_decimal((a + b) / 10) for a, b in zip(accepted, replaced, strict=True)), "1"),
    )
    page.draw_table(columns, rows, answers=(0, 1, 2), first=WIDE)
    page.draw_question(texts["question"], texts["answer"].format(accepted=_format_decimal(sum(accepted) / 10)))
    if key:
        page.draw_paragraph(texts["comment"], is_bold=True)
    page.draw_section(texts["head_5"], texts["text_5"].format(start=start))
    target = ("the target's p", *(_format_decimal(one / 10) for one in p), "1")
    rows = (("your tally", "", "", "", "", "20"), ("tallies of all with this sheet",), ("their shares",), target)
    page.draw_table(("", *WORDS, "all"), rows, first=WIDE)
    page.draw_paragraph(texts["noise"])
    page.draw_section(texts["head_6"], texts["text_6"])
    wrong = [Fraction(a, 10) + Fraction(sum(replaced) * b, 100) for a, b in zip(accepted, p, strict=True)]
    rows = (("min(p, q) + (1 − sum of min) × p", *map(_format_hundredths, wrong), "1"),)
    page.draw_table(columns, rows, answers=(0,), first=WIDE)
    if key:
        gap, rarest = max((Fraction(a, 10) - b, word) for word, (a, b) in enumerate(zip(p, wrong, strict=True)))
        numbers = {"wrong": _format_hundredths(wrong[rarest]), "right": _format_decimal(p[rarest] / 10)}
        page.draw_paragraph(texts["wrong"].format(word=WORDS[rarest], **numbers) if gap else texts["equal"], is_bold=True)
    page.draw_foot(texts["foot"].format(seed=(sheet.seed + 1) % SEEDS))
    return page.figure


def _list_rows(table: Table) -> tuple[tuple[str, ...], ...]:
    return tuple((f"after {word}", *(_format_decimal(one / 10) for one in row)) for word, row in zip(WORDS, table, strict=True))


def _format_decimal(value: float) -> str:
    """.3 for 0.3, 0 and 1 as they are: as the tables write them."""
    return f"{value:.1f}".removeprefix("0") if 0.0 < round(value, 1) < 1.0 else f"{value:.0f}"


def _format_hundredths(value: Fraction) -> str:
    return f"{float(value):.2f}".removeprefix("0")


def _format_quotient(numerator: float, denominator: float) -> str:
    """A quotient of tenths in two digits, at most 1."""
    found = min(1.0, numerator / denominator)
    return f"{found:.2f}".removeprefix("0") if 0.0 < found < 1.0 else f"{found:.0f}"


class _Page:
    """Parts of a page one below the other, from the top; lengths in inches. Answers are drawn with ``key`` alone, in bold."""

    def __init__(self, title: str, sheet: Worksheet, key: bool):
        with use_print_settings():
            self.figure = Figure(figsize=(WIDTH, HEIGHT))
        self.y, self.key = TOP, key
        self._draw_text(MARGIN, title + (": the key" if key else ""), TITLE, weight="bold")
        self._draw_text(WIDTH - MARGIN, f"sheet {sheet.seed}", HEAD, ha="right")
        self.y += 0.42

    def draw_section(self, head: str, text: str) -> None:
        self.y += GAP
        self._draw_text(MARGIN, head, HEAD, weight="bold")
        self.y += 0.25
        self.draw_paragraph(text)

    def draw_paragraph(self, text: str, is_bold: bool = False) -> None:
        for line in textwrap.wrap(text, BOLD_LETTERS if is_bold else LETTERS):
            self._draw_text(MARGIN, line, TEXT, weight="bold" if is_bold else "normal")
            self.y += LINE
        self.y += GAP / 2

    def draw_question(self, question: str, answer: str) -> None:
        """A question, and below it a line to write on, or the answer."""
        self.y += GAP / 2
        self._draw_text(MARGIN, question, TEXT)
        self.y += LINE + 0.03
        if self.key:
            self._draw_text(MARGIN, answer, TEXT, weight="bold")
        self.y += LINE
        if not self.key:
            self._draw_line((MARGIN, WIDTH - MARGIN), (self.y, self.y), 0.6)
        self.y += GAP / 2

    def draw_two_tables(self, *tables: tuple[str, Sequence[Sequence[str]], str]) -> None:
        """Two tables beside each other, each with a title in its color."""
        top, width = self.y, (WIDTH - 2 * MARGIN - 0.3) / 2
        for left, (title, rows, color) in zip((MARGIN, MARGIN + width + 0.3), tables, strict=True):
            self.y = top
            self._draw_text(left, title, TEXT, weight="bold", color=color)
            self.y += 0.22
            self._draw_grid(left, width, ("", *WORDS), rows, first=0.95)

    def draw_table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], answers: Sequence[int] = (), first: float = 1.7
    ) -> None:
        """A table over the page. answers: numbers of the rows to fill in, whose cells are drawn with ``key`` alone."""
        visible = [row if self.key or number not in answers else row[:1] for number, row in enumerate(rows)]
        self._draw_grid(MARGIN, WIDTH - 2 * MARGIN, head, visible, first, answers)

    def draw_foot(self, text: str) -> None:
        self.y = HEIGHT - 0.75
        for line in textwrap.wrap(text, 105):
            self._draw_text(MARGIN, line, SMALL, color=GRAY["light"])
            self.y += 0.16

    def _draw_grid(
        self,
        left: float,
        width: float,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        first: float,
        bold: Sequence[int] = (),
    ) -> None:
        count, top = len(head) - 1, self.y
        edges = [left, *(left + first + (width - first) / count * place for place in range(count + 1))]
        for number, row in enumerate((head, *rows)):
            for place, cell in enumerate(row):
                x = left + 0.06 if place == 0 else (edges[place] + edges[place + 1]) / 2
                weight = "bold" if number - 1 in bold and place else "normal"
                self._draw_text(x, cell, TEXT, ROW / 2, ha="left" if place == 0 else "center", weight=weight)
            self._draw_line((left, left + width), (self.y, self.y), 0.9 if number == 1 else 0.4)
            self.y += ROW
        self._draw_line((left, left + width), (self.y, self.y), 0.4)
        for edge in edges:
            self._draw_line((edge, edge), (top, self.y), 0.4)
        self.y += GAP

    def _draw_text(self, x: float, text: str, size: float, below: float = 0.08, **style: Any) -> None:
        self.figure.text(
            x / WIDTH, 1 - (self.y + below) / HEIGHT, text, fontsize=size, va="center", **({"color": PRINT_INK} | style)
        )

    def _draw_line(self, xs: Sequence[float], ys: Sequence[float], width: float) -> None:
        line = Line2D([x / WIDTH for x in xs], [1 - y / HEIGHT for y in ys], linewidth=width, color="#9aa6b4")
        line.set_transform(self.figure.transFigure)
        self.figure.add_artist(line)
