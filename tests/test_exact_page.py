"""Is it exact?: links and bad input become sentences, draws add up over clicks, looks follow their plan, pictures say what is so.

Draws are fixed by their seeds; a right decoder is rejected with probability .001 over seeds, and the seeds here are the first tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from specviz.errors import SettingsError
from specviz.evidence import looks, sources
from specviz.figures import evidence
from specviz.figures.evidence import Filling, Flat
from specviz.models.catalogue import PAIRS
from specviz.settings import Settings
from specviz.web import cache, exact_words, exact_work, warmup
from specviz.web.exact import Drawn, Exam, Question, another, whole_number
from specviz.web.queue import Queue, Stopped

ROOT = Path(__file__).resolve().parents[1]
NO_TORCH = """
import json, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "safetensors", "tokenizers"):
            raise ImportError(f"{name} is not wanted here")
sys.meta_path.insert(0, Refuse())
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("pages/exact.py", default_timeout=60)
for key, value in json.loads(sys.argv[1]).items():
    app.query_params[key] = value
app.run()
heavy = [name for name in ("torch", "transformers") if name in sys.modules]
print(json.dumps({"errors": len(app.exception), "heavy": heavy, "text": [one.value for one in app.text],
                  "buttons": [one.label for one in app.button], "prompt": app.text_area[0].value}))
"""
BASE = Settings(prompt="Once upon", gamma=2)


class FreeTicket:
    """A ticket that nobody stops, unless it is told after how many ticks."""

    def __init__(self, ticks: float = float("inf")):
        self.left, self.shares = ticks, []

    def tick(self, share=None, doing=None):
        self.left -= 1
        if share is not None:
            self.shares.append(share)
        if self.left < 0:
            raise Stopped


@pytest.fixture
def ready(pair, monkeypatch):
    """The work without a server: the tiny pair is what the page's weights are."""
    monkeypatch.setattr(warmup, "wait", lambda seconds: True)
    monkeypatch.setattr(cache, "weights", lambda *key: pair)


def exam(length: int = 2, source: str = "speculative", **options) -> Exam:
    return Exam(Question(replace(BASE, length=length, **options), source))


# first paint, links, bad input


def first_paint(query: dict[str, str]) -> dict:
    command = [sys.executable, "-c", NO_TORCH, json.dumps(query)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_first_paint_needs_no_torch_and_a_damaged_link_says_so():
    seen = first_paint({"length": "9", "source": "nobody", "coins": "0=0.5", "prompt": "a $x$ :red[b]"})
    assert (seen["errors"], seen["heavy"], seen["prompt"]) == (0, [], "a $x$ :red[b]")
    assert {"1 draw", "100", "10,000", "A million"} <= set(seen["buttons"])
    said = "\n".join(seen["text"])
    for part in ("length was left out: it must be from 1 to 4 on this page, got 9", "got 'nobody'", "no sample"):
        assert part in said


def test_a_link_leads_to_the_question_it_was_made_from():
    question = Question(replace(BASE, length=3, temperature=0.7, top_k=5), "target")
    assert Question.of_link(question.link(), Settings()) == (question, [])


def test_an_edited_run_cannot_come_in():
    edited = BASE.with_coin(0, "accept", 0.9)
    with pytest.raises(SettingsError, match="no sample"):
        Question(replace(edited, length=2))
    question, said = Question.of_link({}, edited)
    assert (question.settings.edited, "no sample" in said[0]) == (False, True)
    assert Question.of_link({"coins": "0=0.5"}, BASE)[0].settings.coins == {}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    (
        ({"length": 9, "source": "speculative"}, "length must be a whole number from 1 to 4 on this page, got 9."),
        ({"length": 2, "source": "magic"}, "source must be one of speculative, target, assisted, file, got 'magic'."),
        ({"length": 2, "source": "assisted", "gamma": 0}, "gamma must be at least 1 for assisted generation, got 0."),
        ({"length": 2, "source": "target", "temperature": "-1"}, "temperature must be a number from 0 (greedy) to 5, got -1.0."),
    ),
)
def test_fields_that_cannot_be_used_leave_the_question_as_it_is(raw, sentence):
    question = exam().question
    assert another(question, raw) == (question, [sentence])


@pytest.mark.parametrize("count", (0, -5, True, 2.5, "many", None))
def test_a_number_of_draws_that_cannot_be_drawn_gets_a_sentence(count):
    asked = exam()
    asked.ask(count)
    assert asked.said == [f"draws must be a whole number from 1 to 1,000,000, got {count!r}."]
    assert (asked.ticket, asked.drawn) == (None, Drawn())


def test_numbers_are_read_as_people_write_them():
    assert [whole_number(text) for text in ("2,500", " 10 000 ", "0", "x")] == [2500, 10000, 0, "x"]


# draws


def test_draws_add_up_over_clicks_to_those_of_one_shard(ready, pair):
    """30 and 70 draws through the engine and 900 on shared laws fall into the cells that one shard of 1,000 does."""
    clicks = exam()
    for count in (30, 70, 900):
        exact_work.draw(clicks, FreeTicket(), count)
    question, bench = clicks.question, clicks.bench
    whole = sources.draw("speculative", sources.SHARED, pair, question.settings, bench.ids, 0, 1000)
    assert bench.counts[0].tolist() == bench.cells.counts(whole).tolist()
    assert clicks.drawn.arms[0].counts == tuple(bench.counts[0].tolist())
    assert (clicks.drawn.n, clicks.drawn.engine) == (1000, 100)
    assert [look for look, _ in clicks.drawn.looks] == [0, 1]
    first = sources.draw("speculative", sources.SHARED, pair, question.settings, bench.ids, 0, 100)
    assert clicks.drawn.looks[0][1].counts.tolist() == bench.looks[0].counts(first).tolist()
    other = sources.reference(pair, question.settings, bench.ids, 1000)
    assert bench.counts[1].tolist() == bench.cells.counts(other).tolist()


def test_right_decoders_are_consistent_and_say_what_could_have_been_seen(ready):
    for source in ("speculative", "target"):
        one = exam(source=source)
        exact_work.draw(one, FreeTicket(), 10_000)
        said = exact_words.verdict(one.drawn, one.question)
        assert (said.mark, one.drawn.n) == ("consistent", 10_000)
        assert f"A law {one.drawn.looks[-1][1].detectable_tv:.2g} away" in said.seen
        assert "several texts" in said.seen and "next look comes at 100,000" in said.seen
        number, left, right = one.drawn.texts
        assert left != right and number <= 10_000


def test_assisted_generation_is_drawn_from_one_text_at_a_time(ready):
    one = exam(length=1, source="assisted")
    exact_work.draw(one, FreeTicket(), 100)
    assert (one.drawn.n, one.drawn.engine, len(one.drawn.looks), one.question.most) == (100, 0, 1, 10_000)


def test_several_who_draw_from_the_one_global_generator_do_not_block_each_other(ready):
    """They take turns of 20 ms at one machine; each draws what it draws alone."""
    queue, alone = Queue(places=2, turn=0.02), exam(length=1, source="assisted")
    exact_work.draw(alone, FreeTicket(), 40)
    exams = [exam(length=1, source="assisted") for _ in range(4)]
    for one in exams:
        one.queue = queue
        one.ask(40)
    assert all(one.ticket.ended.wait(60) for one in exams)
    assert [one.drawn.arms[0].counts for one in exams] == [alone.drawn.arms[0].counts] * 4


@pytest.mark.parametrize("ticks", (3, 20, 40, 60))
def test_a_stop_keeps_whole_shards_and_the_next_click_goes_on(ready, ticks):
    one, straight = exam(), exam()
    try:
        exact_work.draw(one, FreeTicket(ticks), 5000)
    except Stopped:
        assert one.drawn.n < 5000
    exact_work.draw(one, FreeTicket(), 5000 - one.drawn.n)
    exact_work.draw(straight, FreeTicket(), 5000)
    assert [arm.counts for arm in one.drawn.arms] == [arm.counts for arm in straight.drawn.arms]
    assert [found.tests for _, found in one.drawn.looks] == [found.tests for _, found in straight.drawn.looks]


def test_progress_rises_to_the_end(ready):
    ticket = FreeTicket()
    exact_work.draw(exam(), ticket, 2000)
    rising = ticket.shares[1:]  # the first belongs to the law
    assert rising == sorted(rising) and rising[-1] == 1.0


def test_a_proposer_that_shared_laws_lack_is_drawn_through_the_engine_however_many_are_asked_for(ready, pair):
    one = exam(length=3, proposer="tree", tree="2-1", seed=5)
    exact_work.draw(one, FreeTicket(), 300)
    exact_work.many_seeds(one, FreeTicket(), seeds=4, draws=300)
    assert (one.drawn.n, one.drawn.engine, len(one.drawn.flat.values)) == (300, 300, 4)
    assert one.drawn.notes[0] == "As the link asks: proposer tree, tree 2-1."
    assert "--proposer tree --tree 2-1" in exact_words.command(one)
    ids = pair.encode("Once upon")
    samples = sources.draw("speculative", sources.ENGINE, pair, one.question.settings, ids, 0, 300)
    assert list(one.drawn.arms[0].counts) == one.bench.cells.counts(samples).tolist()


def test_at_temperature_zero_the_test_is_equality_and_says_so(ready):
    one = exam(temperature=0.0)
    exact_work.draw(one, FreeTicket(), 100)
    assert "one outcome only" in one.drawn.notes[0]
    said = exact_words.verdict(one.drawn, one.question)
    assert said.mark == "consistent" and "the test is equality. Every draw is that outcome." in said.seen
    counts = one.drawn.looks[0][1].counts.copy()
    heavy = counts.argmax()
    counts[heavy], counts[heavy - 1] = counts[heavy] - 1, counts[heavy - 1] + 1
    assert looks.judge(0, one.bench.looks[0], counts, "").verdict == "rejected", "one other text is enough"


def test_an_empty_prompt_says_where_it_begins(ready):
    one = exam(prompt="")
    exact_work.prepared(one, FreeTicket())
    assert list(one.drawn.notes) == ["The prompt is empty, so the text begins with the start token."]


def test_draws_of_another_law_are_rejected_and_stay_rejected(ready, pair):
    """Temperature .7 in place of 1: far more than the .05 that the look at 10,000 draws sees."""
    one = exam()
    exact_work.prepared(one, FreeTicket())
    cold = sources.draw("target", sources.SHARED, pair, replace(one.question.settings, temperature=0.7), one.bench.ids, 0, 10_000)
    found = looks.judge(2, one.bench.looks[2], one.bench.looks[2].counts(cold), "")
    drawn = replace(one.drawn, arms=tuple(replace(arm, n=10_000) for arm in one.drawn.arms), looks=((2, found),))
    assert exact_words.verdict(drawn, one.question).mark == "rejected"
    exact_work.draw(one, FreeTicket(), 1000)
    later = replace(drawn, looks=(*drawn.looks, *one.drawn.looks))
    assert exact_words.verdict(later, one.question).words.startswith("Not exact: 10,000 draws")


def test_the_plan_ends_at_its_last_look():
    one = exam()
    arm = Filling("a", ("x",), (True,), (1.0,), (1_000_000,), (0.0,), (1.0,), 1_000_000)
    one.drawn = Drawn((arm, arm))
    one.ask(1)
    assert one.said == ["The plan ends at 1,000,000 draws. Choose another seed to begin again."]


# looks


def test_the_looks_spend_one_false_alarm_rate_and_words_name_their_sizes():
    plans = [looks.plan(look, 2) for look in range(looks.LOOKS.looks)]
    assert tuple(one.n for one in plans) == exact_words.SIZES
    assert sum(one.level * looks.LOOKS.tests for one in plans) == pytest.approx(0.001)
    assert [looks.LOOKS.due(n) for n in (99, 100, 999, 10_000, 10_001, 10**7)] == [None, 0, 0, 2, 2, 4]
    assert [row["n"] for row in looks.rule()] == list(exact_words.SIZES)


def test_what_a_look_says_it_could_see_it_sees(ready):
    """Look at 1,000 draws, 40 samples of a law at the stated distance: power .99, so 35 or fewer are rejected once in 20,000 times."""
    one = exam()
    cells = exact_work.prepared(one, FreeTicket()).looks[1]
    law = cells.masses / cells.masses.sum()
    tv = looks.judge(1, cells, np.random.default_rng(1).multinomial(1000, law), "").detectable_tv
    order, up = np.argsort(-law), np.zeros(len(law), dtype=bool)
    up[order[1:]] = True
    half = law[up].sum()
    moved = np.where(up, law * (1 + tv / half), law * (1 - tv / (1 - half)))
    assert np.abs(moved - law).sum() / 2 == pytest.approx(tv)
    found = [looks.judge(1, cells, row, "").verdict for row in np.random.default_rng(2).multinomial(1000, moved, size=40)]
    assert found.count("rejected") >= 36


def test_a_law_too_flat_for_any_cell_cannot_be_told(pair):
    from specviz.evidence.partition import Partition

    cells = Partition(((),), np.array([1.0]), 2, np.array([False]))
    assert looks.judge(0, cells, np.array([100]), "").verdict == "too few draws"


# many seeds


def test_p_values_of_many_seeds_lie_flat(ready):
    """60 runs; each bar leaves its band with probability .001."""
    one, ticket = exam(), FreeTicket()
    exact_work.many_seeds(one, ticket, 60, 300)
    flat = one.drawn.flat
    assert (len(flat.values), sum(flat.counts), flat.draws) == (60, 60, 300)
    assert flat.flat and "lie flat" in flat.conclusion
    assert len(set(flat.values)) > 50


def test_piled_up_p_values_are_not_called_flat():
    one = Flat((0.01,) * 60, 300, 0, 15)
    assert not one.flat and "do not lie flat" in one.conclusion
    figure = evidence.flat(one)
    assert list(figure.data[0].y) == [60] + [0] * 9
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("p-value", "runs")


# pictures


def some(n: int = 100, counts=(60, 30, 10)) -> Filling:
    return Filling("Speculative decoding", ("·a", "·<b>$x$ …", evidence.REST), (True, False, False), (0.5, 0.3, 0.2), counts,
                   (0.35, 0.2, 0.05), (0.65, 0.42, 0.35), n)  # fmt: skip


def test_the_picture_holds_the_numbers_and_shows_labels_as_text():
    one = some()
    figure = evidence.filling(one, evidence.top(one))
    band, bars, law = figure.data
    assert (list(bars.x), list(law.x), list(band.base)) == ([0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.35, 0.2, 0.05])
    assert list(np.add(band.base, band.x)) == pytest.approx([0.65, 0.42, 0.35])
    assert figure.layout.yaxis.ticktext == ("·a", "·&lt;b&gt;&#36;x&#36; …", "any other text")
    assert figure.layout.xaxis.title.text == "share of all draws"
    assert [row["draws"] for row in one.table] == [60, 30, 10]


def test_a_pooled_bar_that_would_dwarf_the_others_is_left_to_the_table():
    law = (0.5, 0.2, 0.1, 0.08, 0.07, 0.05)
    labels, fixed = ("·a …", evidence.REST, "·b", "·c", "·d", "·e"), ((0,) * 6, (0.0,) * 6, (1.0,) * 6, 0)
    one = Filling("a", labels, (False, False, True, True, True, True), law, *fixed)
    assert (one.drawn, one.hidden) == ((2, 3, 4, 5), (0, 1))
    assert "2 pooled bars with 70% of the law" in exact_words.fill_sentence(Drawn((one, one)))
    assert replace(one, whole=(True,) * 6).drawn == (0, 2, 3, 4, 5), "one single text is always shown"


def test_the_words_for_who_cannot_see_it_say_what_is_so():
    assert "all 3 bars lie where chance alone" in some().conclusion
    off = some(counts=(70, 20, 10))
    assert off.outside == ("·a",) and "1 of 3 bars lies outside" in off.conclusion
    arms = Drawn((off, some()))
    assert "Here some are outside (1 on the left): that is no verdict" in exact_words.fill_sentence(arms)
    assert "nothing drawn yet" in some(0, (0, 0, 0)).conclusion
    assert len(evidence.filling(some(0, (0, 0, 0)), 1.0).data) == 1


def test_the_command_repeats_the_question():
    one = exam(length=3, prompt="a 'b'", temperature=0.5)
    assert exact_words.command(one) == (
        "python -m specviz verify --pair storybook --prompt 'a '\"'\"'b'\"'\"'' --length 3 --draws 10000 --decoder speculative --seed 7 "
        "--gamma 2 --temperature 0.5"
    )


# the page itself


@pytest.fixture
def app(pair_folders, monkeypatch):
    places = dict(zip(("target", "draft"), map(str, pair_folders), strict=True))
    monkeypatch.setitem(PAIRS, "storybook", replace(PAIRS["storybook"], shipped=False, **places))
    page = AppTest.from_file(str(ROOT / "pages" / "exact.py"), default_timeout=120)
    page.query_params["prompt"] = "Once upon"
    yield settle(page.run())
    cache.weights.clear()


def settle(app: AppTest) -> AppTest:
    """Until no work is left."""
    for _ in range(600):
        if not app.session_state["exact"].busy:
            return app.run()
        time.sleep(0.1)
    raise AssertionError("the work did not end")


def test_a_click_draws_and_the_page_says_what_it_could_have_seen(app):
    assert not app.exception
    assert len(app.get("plotly_chart")) == 2
    settle(app.button(key="exact-draw-100").click().run())
    assert not app.exception
    assert any("100 draws, no difference seen" in one.value for one in app.markdown)
    alts = [chart.proto.alt for chart in app.get("plotly_chart")]
    assert all("100 draws" in alt for alt in alts)


def test_another_question_begins_anew_and_stands_in_the_address(app):
    settle(app.button(key="exact-draw-100").click().run())
    app.selectbox(key="exact-length-0").set_value(1).run()
    settle(app)
    assert (app.session_state["exact"].drawn.n, app.query_params["length"]) == (0, "1")
    app.text_input(key="exact-temperature-0").set_value("-1").run()
    assert any("temperature must be a number" in one.value for one in app.text)
    assert app.session_state["exact"].question.settings.temperature == 1.0


def test_work_that_waits_shows_its_place_and_a_button_to_leave():
    queue = Queue(places=1)
    first, second = exam(), exam()
    first.queue = second.queue = queue
    blocker = queue.submit(lambda ticket: [(time.sleep(0.01), ticket.tick()) for _ in range(500)])
    while blocker.state != "working":
        time.sleep(0.01)
    first.ask_flat(), second.ask_flat()
    assert second.progress() == "In line for one of 1 places: 1 before this one …"
    first.stop(), second.stop(), blocker.cancel()
