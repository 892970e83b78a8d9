"""One round by hand: what a class works out with a pencil is what the production decoder does, and the page holds all of it."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from specviz.__main__ import main
from specviz.errors import SettingsError
from specviz.verification.draw import draw_tokens
from specviz.web.classroom import worksheet_pdf as paper
from specviz.web.classroom.worksheet import SEEDS, WORDS, compute_ranges, compute_residual, find_drawn_token, make_worksheet

SHEET_SEEDS = (*range(30), SEEDS - 1)
DRAWN_SEEDS = [seed if seed < 4 else pytest.param(seed, marks=pytest.mark.slow) for seed in SHEET_SEEDS[:12]]
make_sheet = cache(make_worksheet)


@pytest.fixture
def sheet(request):
    return make_sheet(request.param)


def solve_by_hand(sheet):
    """Steps 1 to 3 of the sheet, in fractions, with two digits read as hundredths; nothing of the decoder is used."""
    last, guesses = sheet.start, []
    for digits in sheet.draft_digits:
        row, before = sheet.q[last], last
        last = next(word for word in range(4) if digits < 10 * sum(row[: word + 1]))
        guesses.append((before, last))
    text = []
    for (before, word), digits in zip(guesses, sheet.uniform_digits, strict=True):
        p, q = sheet.p[before], sheet.q[before]
        if Fraction(digits, 100) * q[word] < p[word]:
            text.append(word)
            continue
        left = [max(0, a - b) for a, b in zip(p, q, strict=True)]
        shares = [Fraction(100 * sum(left[: word + 1]), sum(left)) for word in range(4)]
        return guesses, [*text, next(word for word in range(4) if sheet.last_digits < shares[word])]
    raise AssertionError("a sheet has a rejected guess")


@pytest.mark.fast_cases(10)
@pytest.mark.parametrize("sheet", SHEET_SEEDS, indirect=True)
def test_a_pencil_and_the_decoder_come_to_the_same_round(sheet):
    guesses, text = solve_by_hand(sheet)
    assert [word for _, word in guesses] == [one.token for one in sheet.round.proposals]
    assert tuple(before for before, _ in guesses) == sheet.contexts
    assert tuple(text) == sheet.round.committed
    assert all(sum(row) == 10 and min(row) >= 0 for table in (sheet.p, sheet.q) for row in table)


@pytest.mark.parametrize("sheet", SHEET_SEEDS, indirect=True)
def test_every_sheet_has_a_tested_guess_that_is_accepted_and_a_later_one_that_is_rejected(sheet):
    decided = [one for one in sheet.round.proposals if one.accepted is not None]
    assert decided[-1].accepted is False
    assert any(one.accepted and one.p < one.q for one in decided[:-1])
    assert sum(sheet.residual) > 0
    assert sheet.round.ending.kind == "residual"


def test_the_same_seed_gives_the_same_sheet_and_other_seeds_give_others():
    assert make_worksheet(7) == make_worksheet(7)
    sheets = list(map(make_sheet, SHEET_SEEDS))
    assert len({(one.p, one.q, one.draft_digits) for one in sheets}) == len(sheets)


def test_digits_draw_the_words_that_the_decoder_draws_from_the_middle_of_their_hundredth():
    for weights in ((2, 1, 6, 1), (0, 1, 1, 0), (4, 0, 0, 6), (1, 2, 0, 0)):
        total = sum(weights)
        probs = torch.tensor([one / total for one in weights], dtype=torch.float64)
        edges = [Fraction(100 * sum(weights[: place + 1]), total) for place in range(4)]
        for digits in range(100):
            if not any(digits < edge < digits + 1 for edge in edges):
                u = torch.tensor([(digits + 0.5) / 100], dtype=torch.float64)
                assert find_drawn_token(weights, digits) == int(draw_tokens(probs[None], u)[0])
        assert [number for one in compute_ranges(weights) for number in one] == list(range(100))


def test_what_is_left_over_is_the_target_less_the_draft():
    assert compute_residual((2, 1, 6, 1), (4, 1, 3, 2)) == (0, 0, 3, 0)


@pytest.mark.parametrize("seed", (-1, SEEDS, True, 1.0, "1"))
def test_a_seed_out_of_range_is_refused_with_a_sentence(seed):
    with pytest.raises(SettingsError, match="whole number from 0 to 999,999"):
        make_worksheet(seed)


@cache
def draw_side(side, seed, key):
    """A side of a sheet, drawn once for all tests."""
    return {"front": paper.draw_front, "back": paper.draw_back}[side](make_worksheet(seed), key)


def list_words(figure):
    return [one.get_text() for one in figure.texts]


def list_boxes(figure):
    """(N, 4): x0, y0, x1, y1 of every text."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    return np.array([one.get_window_extent(renderer).extents for one in figure.texts if one.get_text()])


def list_overlaps(boxes, width=0.98, height=0.7):
    """Pairs of texts that overlap after each box is shrunk around its center to these shares of its size."""
    centers, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) * (width, height)
    apart = np.abs(centers[:, None] - centers[None])
    touching = (apart <= (sizes[:, None] + sizes[None]) / 2).all(axis=2)
    return np.argwhere(np.triu(touching, 1)).tolist()


@pytest.mark.parametrize("sheet", DRAWN_SEEDS, indirect=True)
def test_the_sheet_keeps_the_answers_to_itself_and_the_key_tells_them(sheet):
    blank, key = (list_words(draw_side("front", sheet.seed, key)) for key in (False, True))
    assert {f"{one:02d}" for one in sheet.draft_digits} <= set(blank)
    assert {f".{one:02d}" for one in sheet.uniform_digits} <= set(blank)
    answer = next(one for one in key if "words from one pass" in one)
    kept = [WORDS[token] for token in sheet.round.committed]
    assert answer == f"{WORDS[sheet.start]} → {' '.join(kept)}: {len(kept)} words from one pass of the target"
    assert key.count("no") == 1
    assert not {"yes", "no"} & set(blank)
    assert not any("words from one pass" in one for one in blank)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("sheet", DRAWN_SEEDS, indirect=True)
def test_nothing_leaves_the_page_or_lies_over_something_else(sheet):
    for figure in (draw_side(side, sheet.seed, key) for side in ("front", "back") for key in (False, True)):
        boxes, (width, height) = list_boxes(figure), figure.bbox.size
        assert boxes[:, 0].min() >= 0.05 * width and boxes[:, 2].max() <= 0.95 * width and boxes[:, 1].min() >= 0.03 * height
        assert list_overlaps(boxes) == []


def test_texts_that_lie_over_each_other_are_found():
    figure = draw_side("front", 0, False)
    boxes = list_boxes(figure)
    assert list_overlaps(np.vstack([boxes, boxes[3] + (2.0, 1.0, 2.0, 1.0)])) == [[3, len(boxes)]]


def test_the_command_writes_sheets_and_key_and_the_same_bytes_again(tmp_path, capsys):
    out = tmp_path / "class.pdf"
    assert main(["worksheet", "--seed", "4", "--count", "2", "--out", str(out)]) == 0
    first = out.read_bytes(), (tmp_path / "class-key.pdf").read_bytes()
    assert first[0].startswith(b"%PDF") and first[0].count(b"/Type /Page ") == 4
    assert first[0] != first[1]
    assert "2 sheets" in capsys.readouterr().out
    assert first[1] == paper.build_pdf([make_worksheet(4), make_worksheet(5)], key=True)


@pytest.mark.parametrize("there", ("class.pdf", "class-key.pdf"))
def test_a_file_that_is_there_is_kept_and_the_other_is_not_written(there, tmp_path, capsys):
    (tmp_path / there).write_text("mine")
    assert main(["worksheet", "--out", str(tmp_path / "class.pdf")]) == 2
    assert there in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (["--seed", "-3"], "seed must be a whole number from 0 to 999999, got -3"),
        (["--seed", "999999", "--count", "2"], "got 1000000"),
        (["--count", "0"], "count must be a whole number from 1 to 100, got 0"),
        (["--out", "sheet.txt"], "ends in .pdf"),
    ),
)
def test_bad_input_is_one_sentence_and_nothing_is_written(given, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["worksheet", *given]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
