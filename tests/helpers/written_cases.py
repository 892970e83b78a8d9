"""What Python writes and shares out, as a table that the JavaScript is held to (tests/js/).

``python -m tests.helpers.written_cases`` writes tests/helpers/written_cases.json anew; tests/figures/test_components.py holds the table to Python.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from specviz.figures.numbers import format_apart, format_probability
from specviz.web.one_round.payload import read_cursor, write_cursor
from specviz.web.one_token.payload import GRID, PRESETS
from specviz.web.one_token.state import read_state, write_distribution

FILE = Path(__file__).with_name("written_cases.json")
EDGES = (
    0.0,
    1.0,
    1e-300,
    5.44e-5,
    9.949e-5,
    0.0001,
    0.00054,
    0.0096,
    0.0162,
    0.1,
    0.62,
    0.9949,
    0.995,
    0.99949,
    0.99951,
    1 - 1e-12,
)

CURSORS = (
    "1.1",
    "2.7",
    "12.40",
    "0.1",
    "1.0",
    "",
    "2",
    "2.",
    "-1.2",
    "1.2.3",
    " 1.2",
    "1.2\n",
    "12345.1",
    "1.1234",
    "٣.١",
    "1e1.2",
)
PLACES = ("1.1", "1.2", "2.1")  # draft tokens of a run
FIVE, SIX = "40-30-20-7-3", "15-45-25-5-5-5"
LINKS = (
    {}, {"preset": "sure"}, {"preset": "nobody"}, {"preset": "<img src=x>"}, {"preset": "x" * 60}, {"preset": "it's"},
    {"from": "2.1"}, {"from": "9.9"}, {"from": "2.1", "p": FIVE}, {"from": "2.1", "p": FIVE, "q": FIVE},
    {"p": FIVE}, {"q": SIX}, {"p": FIVE, "q": SIX}, {"p": SIX, "preset": "disjoint"}, {"p": "12.5-12.5-25-25.05-24.95"},
    {"p": "40-30-20-7"}, {"p": "40-30-20-7-4"}, {"p": "-".join(["10"] * 10)}, {"p": "100-0-0-0-0", "q": "0-0-0-0-100"},
    {"p": "1e1-30-20-7-3"}, {"p": "40-30-20-7-3.001"}, {"p": "40--30-20-7-3"}, {"p": ""}, {"p": "999-999-999-999-999", "q": FIVE},
    {"p": "33.33-33.33-33.33-0.01-0.01", "preset": "misses"},
)  # fmt: skip


def round_to_grid(parts: tuple[float, ...]) -> tuple[int, ...]:
    """The nearest whole ten-thousandths that sum to GRID: largest remainders first, the first of equals."""
    exact = [GRID * part / sum(parts) for part in parts]
    counts = [int(x + 1e-9) for x in exact]
    order = sorted(range(len(parts)), key=lambda i: (counts[i] - exact[i], i))
    for i in order[: GRID - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def build_table() -> dict[str, Any]:
    """numbers [x, digits, text]; apart [u, threshold, text of u]; shares [parts, ten-thousandths, as in an address]; cursors [at, text];
    read cursors [text, at]; presets [id, p, q]; links [parameters of Why it is exact, its state, what was left out].
    """
    drawn = random.Random(20261122)
    # powers spread over the small probabilities; no tie of rounding, where binary fractions may go either way
    xs = [*EDGES, *(10 ** -(6 * drawn.random()) for _ in range(200))]
    pairs = [(x, x * (1 + 10 ** -drawn.uniform(1, 8))) for x in xs[-60:]] + [(0.5, 0.5), (0.25, 1.0)]
    ties = [(1.0,) * 6, (1.0,) * 7, (2.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0)]  # remainders alike: the first get one more
    parts = ties + [tuple(drawn.expovariate(1.0) ** 2 for _ in range(5 + i % 4)) for i in range(40)]
    return {
        "numbers": [[x, digits, format_probability(x, digits)] for x in xs for digits in (2, 3, 4)],
        "apart": [[u, edge, format_apart(u, edge)[0]] for u, edge in pairs],
        "shares": [[list(one), list(round_to_grid(one)), write_distribution(round_to_grid(one))] for one in parts],
        "cursors": [[{"round": r, "step": m}, write_cursor(r, m)] for r in (0, 3, 12) for m in (0, 7, 40)],
        "read cursors": [[text, read_cursor(text)] for text in CURSORS],
        "presets": [[key, [n / GRID for n in one.p], [n / GRID for n in one.q]] for key, one in PRESETS.items()],
        "links": [[query, *read_state(query, PLACES)] for query in LINKS],
    }


if __name__ == "__main__":
    rows = (f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in build_table().items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
