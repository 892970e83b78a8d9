"""The worksheet *One round by hand* and its key as PDF, two sides of A4 each."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from fractions import Fraction

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from specviz.classroom.worksheet import SEEDS, WORDS, Table, Worksheet, compute_ranges, compute_residual
from specviz.export.matplotlib_adapter import INK, save_pdf, use_print_settings
from specviz.figures.theme import GRAY, MEANINGS

WIDTH, HEIGHT = 8.27, 11.69  # inches of A4
MARGIN, TOP = 0.8, 0.7
TEXT, SMALL, HEAD, TITLE = 9.5, 8.5, 11.5, 17.0  # points
LINE, ROW, GAP = 0.19, 0.26, 0.11  # inches of a line of text, of a table's row, between parts
LETTERS, BOLD = 96, 84  # in a line of text, and of bold text
ORDER = ("first", "second", "third")
BLANK = ""


def build_pdf(sheets: Sequence[Worksheet], key: bool = False) -> bytes:
    """The sheets, or with ``key`` their answers, as one PDF with two pages for each. The same sheets give the same bytes on the same versions."""
    return save_pdf([page(sheet, key) for sheet in sheets for page in (draw_front, draw_back)])


def draw_front(sheet: Worksheet, key: bool = False) -> Figure:
    """The round. With ``key`` every blank is filled, in bold, with what the production decoder did."""
    page = _Page("One round by hand" + (": the key" if key else ""), f"sheet {sheet.seed}")
    page.words(
        "A small model, the draft, guesses the next three words. The large model, the target, checks all three in one pass. A rule then keeps or "
        "replaces words so that the text is distributed exactly as if the target had written it alone. Do one round with the digits below.",
    )
    page.tables(
        ("The draft's table, q", _table(sheet.q), MEANINGS["draft"].light_ink),
        ("The target's table, p", _table(sheet.p), MEANINGS["target"].light_ink),
    )
    page.words(
        "A row is the distribution of the word that follows. Two digits draw a word: deal out the numbers 00 to 99 to the words of the row, in "
        "this order, as many as each has hundredths. From .2, .1, .6, .1 the numbers 00 to 19 draw sun, 20 to 29 rain, 30 to 89 wind and 90 to 99 snow.",
    )
    page.head("1  The draft guesses")
    page.words(f"The weather so far ends with {WORDS[sheet.start]}. Draw three words from q, each from the row of the last word.")
    page.table(
        ("", *(f"{one} guess" for one in ORDER)),
        (
            ("digits", *(f"{one:02d}" for one in sheet.drawing)),
            _fill_in(key, "word", *(WORDS[one.token] for one in sheet.round.proposals)),
        ),
        answers=(1,) if key else (),
    )
    page.head("2  The rule decides")
    page.words(
        "From the left: look up q and p of the guess, each in the row of the word before it. Accept it if u < p/q (always if p is at least q). Stop at the "
        "first guess that is rejected.",
    )
    decided = list(zip(sheet.round.proposals, sheet.testing, strict=True))
    checked = [one for one in decided if one[0].accepted is not None]
    page.table(
        ("", *(f"{one} guess" for one in ORDER)),
        (
            _fill_in(key, "q", *(_format_decimal(one.q) for one, _ in checked)),
            _fill_in(key, "p", *(_format_decimal(one.p) for one, _ in checked)),
            _fill_in(key, "p/q, at most 1", *(_format_quotient(one.p, one.q) for one, _ in checked)),
            ("u", *(f".{digits:02d}" for digits in sheet.testing)),
            _fill_in(key, "accepted?", *("yes" if one.accepted else "no" for one, _ in checked)),
        ),
        answers=(0, 1, 2, 4) if key else (),
    )
    page.head("3  A replacement")
    page.words(
        "At the rejected guess, subtract q from p word by word; what is below zero counts as zero. Rescale so that the sum is 1, and draw the "
        f"replacement with the digits {sheet.last:02d}. (Had all guesses been accepted, these digits would draw one more word from p: the bonus.)",
    )
    left, total = sheet.residual, sum(sheet.residual)
    page.table(
        ("", *WORDS),
        (
            _fill_in(key, "p − q, at least 0", *(_format_decimal(one / 10) for one in left)),
            _fill_in(key, "rescaled", *(_format_quotient(one, total) for one in left)),
            _fill_in(key, "drawn by", *(_format_range(one) for one in compute_ranges(left))),
        ),
        answers=(0, 1, 2) if key else (),
    )
    kept = [WORDS[one.token] for one, _ in decided if one.accepted]
    replacement = WORDS[sheet.round.ending.token]  # type: ignore[index]  # a sheet always has a rejection
    answer = (
        f"{WORDS[sheet.start]} → {' '.join(kept)} {replacement}: {len(kept) + 1} words from one pass of the target" if key else ""
    )
    page.fill("The text after this round, and how many words one pass of the target gave:", answer, strong=key)
    return page.figure


def draw_back(sheet: Worksheet, key: bool = False) -> Figure:
    """Why the first word is distributed as the target's, worked out and tried."""
    page = _Page("Why it is exact" + (": the key" if key else ""), f"sheet {sheet.seed}")
    page.head("4  On paper")
    p, q = sheet.p[sheet.start], sheet.q[sheet.start]
    both = [min(a, b) for a, b in zip(p, q, strict=True)]
    first_left = compute_residual(p, q)
    page.words(f"Now the first guess only, after {WORDS[sheet.start]}, over all digits that could have come. For each word:")
    page.table(
        ("", *WORDS, "sum"),
        (
            _fill_in(key, "guessed and accepted: min(p, q)", *(_format_decimal(one / 10) for one in (*both, sum(both)))),
            _fill_in(
                key,
                "replaced: (1 − sum of min) × residual",
                *(_format_decimal(one / 10) for one in (*first_left, sum(first_left))),
            ),
            _fill_in(key, "together", *(_format_decimal((a + b) / 10) for a, b in zip(both, first_left, strict=True)), "1"),
        ),
        answers=(0, 1, 2) if key else (),
        first=2.75,
    )
    said = (
        f"Together they are p, whatever q is. A first guess is accepted with probability {_format_decimal(sum(both) / 10)}."
        if key
        else ""
    )
    page.fill("Compare the last row with the target's row. What does a bad draft cost, and what not?", said, strong=key)
    if key:
        page.words(
            "A bad draft makes min(p, q) small: fewer guesses are accepted, and the text takes more passes. The sum of both ways stays p.",
            bold=True,
        )
    page.head("5  By chance")
    page.words(
        f"Write the first word after {WORDS[sheet.start]} twenty times, with digits of your own: roll two ten-sided dice, or read two digits of any random "
        "list. Two digits draw the guess, two more are u, and after a rejection two more draw the replacement. Tally the word that comes out.",
    )
    page.table(("", *WORDS, "all"), (("your tally", BLANK, BLANK, BLANK, BLANK, "20"), ("tallies of all with this sheet",), ("their shares",),
               ("the target's p", *(_format_decimal(one / 10) for one in p), "1")), first=2.75)  # fmt: skip
    page.words(
        "Each share of n words lies within 1/√n of p about 95 times in 100 or more: twenty words may lie .2 away, the words of a class lie nearer.",
    )
    page.head("6  A mistake")
    page.words(
        "What if the replacement were drawn from p itself, and not from the residual? Work out the first word as in part 4, with p in place of the residual.",
    )
    rejected = sum(first_left)
    wrong = [Fraction(a, 10) + Fraction(rejected * b, 100) for a, b in zip(both, p, strict=True)]
    page.table(
        ("", *WORDS, "sum"),
        (_fill_in(key, "min(p, q) + (1 − sum of min) × p", *map(_format_hundredths, wrong), "1"),),
        answers=(0,) if key else (),
        first=2.75,
    )
    if key:
        short, least = max((Fraction(a, 10) - b, place) for place, (a, b) in enumerate(zip(p, wrong, strict=True)))
        page.words(
            f"That is not p: {WORDS[least]} comes with {_format_hundredths(wrong[least])} and not with {_format_decimal(p[least] / 10)}. The draft guesses it too rarely, and "
            "only the residual makes up for that."
            if short
            else "Here q equals p after this word, so nothing is rejected, and the mistake changes nothing.",
            bold=True,
        )
    page.foot(
        "The digits are random. They are the first of this sheet's stream with which a guess with p < q is accepted and a later one rejected. Sheets "
        f"with other tables and digits: specviz worksheet --seed {(sheet.seed + 1) % SEEDS}"
    )
    return page.figure


def _table(table: Table) -> tuple[tuple[str, ...], ...]:
    return tuple((f"after {word}", *(_format_decimal(one / 10) for one in row)) for word, row in zip(WORDS, table, strict=True))


def _fill_in(key: bool, name: str, *answers: str) -> tuple[str, ...]:
    return (name, *answers) if key else (name,)


def _format_decimal(value: float) -> str:
    """.3 for 0.3, 0 and 1 as they are: as the tables write them."""
    return f"{value:.1f}".removeprefix("0") if 0.0 < round(value, 1) < 1.0 else f"{value:.0f}"


def _format_hundredths(value: Fraction) -> str:
    return f"{float(value):.2f}".removeprefix("0")


def _format_quotient(over: float, under: float) -> str:
    """A quotient of tenths in two digits, at most 1."""
    found = min(1.0, over / under)
    return f"{found:.2f}".removeprefix("0") if 0.0 < found < 1.0 else f"{found:.0f}"


def _format_range(one: range) -> str:
    return f"{one[0]:02d} to {one[-1]:02d}" if one else "–"


class _Page:
    """Parts of a page one below the other, from the top; lengths in inches."""

    def __init__(self, title: str, number: str):
        with use_print_settings():
            self.figure = Figure(figsize=(WIDTH, HEIGHT))
        self.y = TOP
        self._text(MARGIN, title, TITLE, weight="bold")
        self._text(WIDTH - MARGIN, number, HEAD, ha="right")
        self.y += 0.42

    def head(self, words: str) -> None:
        self.y += GAP
        self._text(MARGIN, words, HEAD, weight="bold")
        self.y += 0.25

    def words(self, words: str, bold: bool = False) -> None:
        for line in textwrap.wrap(words, BOLD if bold else LETTERS):
            self._text(MARGIN, line, TEXT, weight="bold" if bold else "normal")
            self.y += LINE
        self.y += GAP / 2

    def fill(self, question: str, answer: str, strong: bool) -> None:
        """A question, and below it a line to write on, or the answer."""
        self.y += GAP / 2
        self._text(MARGIN, question, TEXT)
        self.y += LINE + 0.03
        if answer:
            self._text(MARGIN, answer, TEXT, weight="bold" if strong else "normal")
            self.y += LINE
        else:
            self.y += LINE
            self._line(MARGIN, WIDTH - MARGIN, self.y, 0.6)
        self.y += GAP / 2

    def tables(self, *each: tuple[str, Sequence[Sequence[str]], str]) -> None:
        """Tables beside each other, each with a title in its color."""
        top, width = self.y, (WIDTH - 2 * MARGIN - 0.3) / len(each)
        for place, (title, rows, color) in enumerate(each):
            self.y = top
            left = MARGIN + place * (width + 0.3)
            self._text(left, title, TEXT, weight="bold", color=color)
            self.y += 0.22
            self._grid(left, width, (BLANK, *WORDS), rows, first=0.95)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], answers: Sequence[int] = (), first: float = 1.7) -> None:
        """One table over the page; rows that have only a name are to be filled in. answers  numbers of the rows that are set in bold."""
        self._grid(MARGIN, WIDTH - 2 * MARGIN, head, rows, first, answers)

    def foot(self, words: str) -> None:
        self.y = HEIGHT - 0.75
        for line in textwrap.wrap(words, 105):
            self._text(MARGIN, line, SMALL, color=GRAY["light"])
            self.y += 0.16

    def _grid(
        self,
        left: float,
        width: float,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        first: float,
        answers: Sequence[int] = (),
    ) -> None:
        count = len(head) - 1
        each = (width - first) / count
        edges = [left, *(left + first + each * place for place in range(count + 1))]
        top = self.y
        for number, row in enumerate((head, *rows)):
            for place, cell in enumerate(row):
                strong = "bold" if number - 1 in answers and place else "normal"
                x = left + 0.06 if place == 0 else (edges[place] + edges[place + 1]) / 2
                self._text(x, cell, TEXT, ha="left" if place == 0 else "center", down=ROW / 2, weight=strong)
            self._line(left, left + width, self.y, 0.9 if number == 1 else 0.4)
            self.y += ROW
        self._line(left, left + width, self.y, 0.4)
        for edge in edges:
            self._line_down(edge, top, self.y)
        self.y += GAP

    def _text(self, x: float, words: str, size: float, down: float = 0.08, **look: str) -> None:
        self.figure.text(x / WIDTH, 1 - (self.y + down) / HEIGHT, words, fontsize=size, va="center", **({"color": INK} | look))

    def _line(self, x0: float, x1: float, y: float, width: float) -> None:
        self._draw((x0, x1), (y, y), width)

    def _line_down(self, x: float, y0: float, y1: float) -> None:
        self._draw((x, x), (y0, y1), 0.4)

    def _draw(self, xs: Sequence[float], ys: Sequence[float], width: float) -> None:
        line = Line2D([x / WIDTH for x in xs], [1 - y / HEIGHT for y in ys], linewidth=width, color="#9aa6b4")
        line.set_transform(self.figure.transFigure)
        self.figure.add_artist(line)
