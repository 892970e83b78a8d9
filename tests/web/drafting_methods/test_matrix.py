"""The matrix on the page: every cell of a record of ``matrix`` stands in its table, wrong ones are called wrong."""

from __future__ import annotations

import json

import pytest

from specviz.errors import TraceError
from specviz.evidence.matrix import evaluate_matrix
from specviz.settings import Settings
from specviz.web.drafting_methods import rule_matrix as figures


@pytest.fixture(scope="module")
def record(pair) -> dict:
    found = evaluate_matrix(pair, Settings(prompt="Once upon"), 0.3, ["draft", "uniform", "token", "typical"])
    return figures.read_matrix(json.dumps(found.to_record()))


def test_every_cell_stands_once_under_its_law_with_its_sign(record):
    page = figures.build_matrix_html(record)
    assert page.count("<table>") == 3 and page.count("<td ") == len(record["cells"])
    for kind, sign, word in figures.MARKS.values():
        count = sum(figures.mark_cell(cell) == (kind, sign, word) for cell in record["cells"])
        assert page.count(f"<td class='{kind}'") == count
    assert page.count("✓") >= 3


def test_the_conclusion_counts_exact_and_lossy_cells(record):
    exact = [cell for cell in record["cells"] if cell["rule"] == "token" and cell["verdict"] == "consistent"]
    said = figures.describe_matrix(record)
    assert said.startswith(f"{len(exact)} of {len(exact)} cells with an exact rule follow")
    lossy = [cell for cell in record["cells"] if cell["verdict"] == "rejected"]
    assert lossy and f"detected in {len(lossy)} cells" in said


def test_a_cell_that_is_not_as_it_should_be_is_called_wrong(record):
    cells = [dict(cell) for cell in record["cells"]]
    cells[0] |= {"right": False, "said": "<b>draws</b> 'differ'"}
    other = record | {"cells": cells}
    assert "Unexpected results: 1." in figures.describe_matrix(other)
    page = figures.build_matrix_html(other)
    assert "<td class='wrong' title='&lt;b&gt;draws&lt;/b&gt; &#x27;differ&#x27;'>" in page and "<b>" not in page


def test_blank_cells_have_their_reason(pair):
    found = evaluate_matrix(pair, Settings(prompt="Once upon"), 0.3, ["tree-top", "block"])
    rows = figures.list_blanks(found.to_record())
    assert rows == [{"blank because": "The block rule judges chains only.", "cells": "Tree of top tokens (block rule)"}]


def test_lines_and_reasons_are_in_the_pages_words_not_the_programs():
    from specviz.speed.records.methods import DRAFTING_METHODS
    from specviz.web.drafting_methods.state import load_matrix

    record = load_matrix()
    lines = {cell["line"] for cell in record["cells"]}
    named = [figures.LINES[line] for line in lines]
    assert len(set(named)) == len(named) and {one.name for one in DRAFTING_METHODS.values()} & set(named)
    page = figures.build_matrix_html(record)
    for line in lines:
        assert f"<th scope='row'>{figures.LINES[line]}</th>" in page and f"<th scope='row'>{line}</th>" not in page
    for row in figures.list_blanks(record):
        why = row["blank because"]
        assert why[:1].isupper() or why.startswith("k-seq")
        assert "got '" not in why and "must be" not in why and "number by number" not in why and why.endswith(".")


def test_damage_is_one_sentence(record):
    for text in ("{", "[]", '{"schema": "x"}', json.dumps(record | {"cells": [{"line": "x"}]})):
        with pytest.raises(TraceError, match="matrix"):
            figures.read_matrix(text)


def test_a_page_without_a_record_shows_no_tab_of_it(monkeypatch, tmp_path):
    from specviz.web.drafting_methods import state, view

    monkeypatch.setattr(state, "MATRIX", tmp_path / "none.json")
    state.load_matrix.cache_clear()
    try:
        assert state.load_matrix() is None
        shown = []
        monkeypatch.setattr(view.st, "segmented_control", lambda _, titles, **__: shown.extend(titles))
        view.show_tabs(state.load_recorded_comparisons()["1"])
        assert "All numbers" in shown and not any("rule" in title for title in shown)
    finally:
        state.load_matrix.cache_clear()


def test_the_recorded_matrix_is_as_it_should_be_and_holds_every_rule_of_its_lines():
    from specviz.evidence.matrix import COLUMNS, list_lines
    from specviz.verification.registry import RULES
    from specviz.web.drafting_methods.state import load_matrix

    found = load_matrix()
    assert found["right"] and all(cell["right"] for cell in found["cells"])
    lines = {cell["line"] for cell in found["cells"]}
    assert len(lines) > 20 and lines <= set(list_lines())
    wanted = {(line, rule, column) for line in lines for rule in RULES for column in COLUMNS}
    assert {(cell["line"], cell["rule"], cell["column"]) for cell in found["cells"]} == wanted
    assert "follow the target’s distribution" in figures.describe_matrix(found) and "Unexpected" not in figures.describe_matrix(
        found
    )


@pytest.mark.slow  # not slow, but a new method has no line until the matrix is recorded anew, before a release
def test_the_recorded_matrix_has_a_line_of_every_method():
    from specviz.web.drafting_methods.state import load_matrix

    assert figures.list_unmeasured(load_matrix()) == []


def test_a_method_without_a_line_is_named(record):
    found = figures.list_unmeasured(record)
    assert "ngram" in found and "draft" not in found
    assert "ngram" in figures.describe_matrix(record)
