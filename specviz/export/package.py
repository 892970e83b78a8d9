"""One export of the app: data, tables, figures, captions and a manifest, as single files or one zip.

Nothing is built before it is asked for, and the same content gives the same bytes on the same versions: no dates, fixed order,
ids that follow from the content.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from specviz.export.folder import MANIFEST, SCHEMA
from specviz.export.html import build_html_page
from specviz.progress import ProgressCallback, ignore_progress
from specviz.speed.records.estimate import Estimate

PRINTS = (".svg", ".png", ".pdf", "-column.pdf", "-slide.svg", "-slide.png", "-slide.pdf")  # of every figure
SCREEN = 1920.01  # pixels of a slide's width; what is beyond whole ones is cut
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # how a formula begins, in full width too
NO_FIGURES = 'The figures were left out because Plotly or matplotlib is missing: pip install "specviz[app]" adds them.'
CAPTIONS, PAGE = "caption.txt", "figures.html"
Rows = tuple[Iterable[str], Iterable[Iterable[Any]]]  # names of the columns, and the rows; None is an empty field


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure: ``page`` makes Plotly's; print is drawn from that, under ``title``, since no page is around it."""

    page: Callable[[], Any]
    title: str = ""
    slides: bool = True  # whether it is offered as a slide too: a figure of many rows has no room for large type

    @property
    def endings(self) -> tuple[str, ...]:
        """Of its files' names, after the figure's own."""
        return PRINTS if self.slides else tuple(one for one in PRINTS if "-slide" not in one)

    def draw_for_print(self, form: str = "") -> Any:
        """Draw matplotlib's figure of the same: as wide as a page, "column" of two, or a "slide" of 16:9 with large type."""
        from specviz.export import matplotlib_adapter  # imported only when a figure is asked for

        if form == "slide":
            return matplotlib_adapter.draw_slide(self.page(), self.title)
        return matplotlib_adapter.draw_figure(
            self.page(), self.title, matplotlib_adapter.COLUMN if form else matplotlib_adapter.PAGE
        )


@dataclass(frozen=True, slots=True)
class Package:
    """Everything of one export."""

    stem: str  # name of the zip and of the folder in it
    title: str  # of the page with the interactive figures
    data: Mapping[str, Any]  # name.json -> JSON-ready
    tables: Mapping[str, Callable[[], Rows]]  # name.csv -> what makes its columns and rows
    pictures: Mapping[str, Picture]  # name -> Picture: name with each of PRINTS, and a part of figures.html
    captions: tuple[str, ...]  # ready to print
    facts: Mapping[str, Any]  # of the manifest: settings, seed, versions, models, n, tests, permalink, commands
    others: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)  # name of any other file -> what makes its bytes

    @property
    def names(self) -> tuple[str, ...]:
        """Every file but the manifest and the zip, in the order in which the zip is made."""
        figures = [f"{name}{ending}" for name, one in self.pictures.items() for ending in one.endings]
        page = [PAGE] if self.pictures else []
        return (*self.data, *self.tables, CAPTIONS, *figures, *page, *self.others)

    def build_file(
        self,
        name: str,
        paper: Callable[[Picture, str], Any] | None = None,
        on_progress: ProgressCallback = ignore_progress,
    ) -> bytes:
        """The bytes of one file by its name; the zip is ``stem``.zip. Raises KeyError for any other name.

        ``paper``: what draws a picture for print, as ``Picture.paper`` does. ``on_progress``: called with the share of
        the zip that is made and the file that is next; what it raises ends the work.
        """
        if name == f"{self.stem}.zip":
            return self.build_files(on_progress)[name]
        if name in self.data:
            return dump_json(self.data[name])
        if name in self.tables:
            return dump_csv(*self.tables[name]())
        if name == CAPTIONS:
            return ("\n\n".join(self.captions) + "\n").encode()
        if name == PAGE:
            return build_html_page({key: one.page() for key, one in self.pictures.items()}, self.title, self.captions).encode()
        if name in self.others:
            return self.others[name]()
        from specviz.export import matplotlib_adapter

        whole, _, kind = name.rpartition(".")
        stem, _, form = (whole, "", "") if whole in self.pictures else whole.rpartition("-")
        drawn = (paper or Picture.draw_for_print)(self.pictures[stem], form)
        dpi = SCREEN / drawn.get_figwidth() if form == "slide" else matplotlib_adapter.DPI
        return matplotlib_adapter.save_figure(drawn, kind, dpi)

    def build_files(self, on_progress: ProgressCallback = ignore_progress) -> dict[str, bytes]:
        """Every file by name, the manifest and the zip of all others last. Without figures where ``can_draw`` is False."""
        pictures = self.pictures if can_draw() else {}
        once = replace(self, pictures={name: replace(one, page=cache(one.page)) for name, one in pictures.items()})
        paper = cache(Picture.draw_for_print)  # each form is drawn once, whatever the number of its files
        found: dict[str, bytes] = {}
        for name in once.names:
            on_progress(len(found) / len(once.names), name)
            found[name] = once.build_file(name, paper)
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
        found[MANIFEST] = dump_json({"schema": SCHEMA, **self.facts, "files": hashes})
        return found | {f"{self.stem}.zip": zip_files(found, self.stem)}


@cache
def can_draw() -> bool:
    """Whether Plotly and matplotlib are installed, which draw figures."""
    try:
        import_module("plotly.graph_objects")
        import_module("matplotlib")
    except ImportError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ExportOffer:
    """What a page offers for export."""

    stem: str  # of the zip's name
    names: Sequence[str] = ()  # of the files that ``build`` will hold, none: there is nothing to export yet
    build: Callable[[], Package] | None = None
    note: str = ""  # a sentence about what is exported, plain text

    @classmethod
    def from_package(cls, package: Package, note: str = "") -> ExportOffer:
        """Offer a package that is made of records at hand."""
        return cls(package.stem, package.names, lambda: package, note)


def dump_json(value: Any) -> bytes:
    """Indented JSON in ASCII, with a line break at its end. Raises ValueError for a number that is not finite."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def dump_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """CSV (RFC 4180) in UTF-8 with a byte order mark, by which spreadsheets know it. No field of text is a formula to them."""
    target = io.StringIO(newline="")
    writer = csv.writer(target)
    writer.writerow(columns)
    writer.writerows(
        [quote_text(field) if isinstance(field, str) and field.startswith(FORMULA) else field for field in row] for row in rows
    )
    return b"\xef\xbb\xbf" + target.getvalue().encode()


def quote_text(text: str) -> str:
    """Text for a table's field, in quotes of its own: no spreadsheet takes it for a formula."""
    return json.dumps(text, ensure_ascii=False)


def name_interval_columns(*names: str) -> tuple[str, ...]:
    """The three columns of each measured number: its value, and the low and high end of its interval."""
    return tuple(f"{name}{end}" for name in names for end in ("", "_low", "_high"))


def list_interval(estimate: Estimate | None) -> tuple[float | None, ...]:
    """The three fields of ``interval_columns``, empty where nothing was measured."""
    return (estimate.value, estimate.low, estimate.high) if estimate else (None, None, None)


def zip_files(files: Mapping[str, bytes], stem: str) -> bytes:
    """One zip of all files in a folder ``stem``; its bytes follow from theirs."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{stem}/{name}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, files[name])
    return target.getvalue()
