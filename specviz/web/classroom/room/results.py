"""Results of each kind of task: its sentence, what phones and wall show of it, and its tables and pictures for export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from specviz.decoding.samples import Coverage
from specviz.evidence.testing.results import NO_DRAFT, NOTHING_TESTED, CellShares, describe_unreached
from specviz.export.package import Picture, Rows, quote_text
from specviz.figures import cell_shares
from specviz.figures.numbers import format_probability
from specviz.speed.records.methods import DRAFTING_METHODS
from specviz.web.classroom.room import figures, wall
from specviz.web.classroom.room.records import MAX_GAMMA, MAX_SAMPLES_EACH, RACE_METHODS, SAMPLE_SIZES, Assignment
from specviz.web.classroom.room.tally import Calibration, ClassSamples, Race, Votes
from specviz.web.classroom.room.words import TEXTS
from specviz.web.common.side_by_side.export import SAMPLE_CELL_COLUMNS, iterate_cell_rows
from specviz.web.common.side_by_side.words import count_samples, describe_power

TEST_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)  # samples of the class at which a test comes
WALL_CHARACTERS = 240  # of a text on the wall, the last ones

Tables = dict[str, Callable[[], Rows]]


class WallContent(NamedTuple):
    """What the wall shows of a task: charts as HTML, a sentence after its mark, and a note under it."""

    charts: tuple[str, ...]
    sentence: str
    note: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult(ABC):
    """The result of a class for a task."""

    task: Assignment

    @property
    @abstractmethod
    def answered(self) -> int:
        """How many students have sent something in this phase."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The result in words."""

    @property
    def details(self) -> str:
        """What a closer look tells, in smaller type; mostly nothing."""
        return ""

    @property
    @abstractmethod
    def is_exportable(self) -> bool:
        """Whether there is something to export, and nothing that students have yet to find out."""

    def build_task_payload(self) -> dict[str, Any]:
        """The task without its answer, as phones draw it."""
        task = self.task
        shared = {"number": task.number, "kind": task.kind, "phase": task.phase, "takes": task.accepts_answers}
        return shared | {"title": TEXTS["tasks"][task.kind]["title"]} | self._build_task_fields()

    @abstractmethod
    def _build_task_fields(self) -> dict[str, Any]: ...

    def build_class_payload(self) -> dict[str, Any]:
        """The class's result as phones draw it. Votes and truths stay hidden until they are shown."""
        return {"answered": self.answered, "sentence": " ".join(filter(None, (self.sentence, self.details)))}

    @abstractmethod
    def build_wall(self) -> WallContent: ...

    @abstractmethod
    def build_pictures(self) -> dict[str, Picture]: ...

    @abstractmethod
    def build_tables(self) -> Tables: ...


@dataclass(frozen=True, slots=True)
class PredictionResult(TaskResult):
    """Predictions of one draft token. room: the calibration of all predictions of the room whose truth is shown."""

    calibration: Calibration | None
    room: Calibration | None = None

    @property
    def answered(self) -> int:
        return 0 if self.calibration is None else self.calibration.n

    @property
    def sentence(self) -> str:
        found, content = self.calibration, self.task.content
        if found is None or self.task.phase != "shown":
            return f"{self.answered:,} prediction{'' if self.answered == 1 else 's'} so far."
        p, q = format_probability(content["p"]), format_probability(content["q"])
        return f"min(1, p/q) = min(1, {p}/{q}) = {content['chance']:.0%}. The class said {found.predicted:.0%} on average."

    @property
    def details(self) -> str:
        found = self.calibration
        if found is None or self.task.phase != "shown":
            return ""
        return f"Expected Brier score of what was said: {found.expected:.3f}; of min(1, p/q): {found.best:.3f}."

    @property
    def is_exportable(self) -> bool:
        return self.calibration is not None and self.task.phase == "shown"

    def _build_task_fields(self) -> dict[str, Any]:
        return {name: self.task.content[name] for name in ("text", "token", "bars")}

    def build_wall(self) -> WallContent:
        if self.room is not None:
            return WallContent((wall.draw_calibration(self.room),), self.sentence, f"{self.details} {TEXTS['brier']}")
        content = self.task.content
        charts = wall.draw_text(content["text"][-WALL_CHARACTERS:], content["token"]), wall.draw_situation(content)
        return WallContent(charts, self.sentence, TEXTS["predict_question"])

    def build_pictures(self) -> dict[str, Picture]:
        assert self.calibration is not None
        return {"predictions": Picture(partial(figures.plot_calibration, self.calibration), "What the class predicted")}

    def build_tables(self) -> Tables:
        assert self.calibration is not None
        points = self.calibration.points
        return {"predictions": lambda: (("said", "min_1_p_q"), points)}


@dataclass(frozen=True, slots=True)
class ClassSamplesResult(TaskResult):
    """The class's samples over the exact distribution, and the tests that fell due."""

    samples: ClassSamples

    @property
    def answered(self) -> int:
        return self.samples.students

    @property
    def verdict(self) -> tuple[str, str, str]:
        """A mark, the answer, and what could have been detected. One rejection at any test stays."""
        n, tests = self.samples.shares.n, self.samples.tests
        if not tests:
            words = f"{count_samples(n)} so far: too few to tell." if n else "There are no samples yet."
            return "waiting", words, TEXTS["first_test"]
        last: Mapping[str, Any] = next((test for test in tests if test["verdict"] == "rejected"), tests[-1])
        tested = count_samples(last["n"])
        if last["verdict"] == "rejected":
            sentence = f"Not exact: the first {tested} of the class do not follow the exact distribution."
            return "rejected", sentence, f"p = {min(last['p_values'].values()):.2g}, at a level of {last['level']:.2g}."
        if last["verdict"] == NOTHING_TESTED:
            return "untold", "Nothing was tested.", f"{tested} of the class, and {NO_DRAFT}"
        coming = next((size for size in TEST_SIZES if size > n), None)
        later = f"the next test comes at {coming:,}." if coming else "this was the last test of the plan."
        later = f"The class has {count_samples(n)}; {later}"
        if last["verdict"] != "consistent":
            return "untold", f"The first {tested} cannot decide: all texts share one cell.", later
        exercised = last.get("exercised") and Coverage.from_record(last["exercised"])
        seen = " ".join((describe_power(last["detectable_tv"]), *describe_unreached(exercised), later))
        return "consistent", f"No difference from the exact distribution seen in {tested}.", seen

    @property
    def sentence(self) -> str:
        return " ".join(self.verdict[1:])

    @property
    def is_exportable(self) -> bool:
        return self.samples.shares.n > 0

    def _build_task_fields(self) -> dict[str, Any]:
        return {"sizes": list(SAMPLE_SIZES), "most": MAX_SAMPLES_EACH}

    def build_class_payload(self) -> dict[str, Any]:
        mark, sentence, seen = self.verdict
        shares = self.samples.shares
        verdict = {"verdict": mark, "sentence": sentence, "seen": seen}
        return {"answered": self.answered, "n": shares.n, "bars": build_bars(shares)} | verdict

    def build_wall(self) -> WallContent:
        mark, sentence, seen = self.verdict
        return WallContent((wall.draw_histogram(self.samples.shares),), sentence, seen, mark)

    def build_pictures(self) -> dict[str, Picture]:
        return {"samples": _build_shares_picture(self.samples.shares, "The class’s samples")}

    def build_tables(self) -> Tables:
        return {"samples": partial(_build_shares_table, self.samples.shares)}


@dataclass(frozen=True, slots=True)
class VoteResult(TaskResult):
    """Votes on a decoder that may have a mistake. decoder: the samples that the class votes on."""

    votes: Votes
    decoder: CellShares

    @property
    def answered(self) -> int:
        return sum(self.votes.before if self.task.phase == "before" else self.votes.after)

    @property
    def sentence(self) -> str:
        if self.task.phase != "shown":
            when = "First vote" if self.task.phase == "before" else "Talk about it, then vote again"
            return f"{when}: {self.answered:,} vote{'' if self.answered == 1 else 's'} so far."
        votes, right = self.votes, self.task.content["answer"]
        option = self.task.content["options"][right]
        said = f"It is: {option['name']}. {option['wrong']}"
        rounds = (("before the discussion", votes.before), ("after it", votes.after))
        counts = [f"{when}: {found[right]:,} of {sum(found):,}" for when, found in rounds if sum(found)]
        if not counts:
            return f"{said} Nobody voted."
        if len(counts) < len(rounds):
            return f"{said} Right {counts[0]}. There was one vote only."
        moved = "1 student changed their mind." if votes.moved == 1 else f"{votes.moved:,} students changed their minds."
        return f"{said} Right {'; '.join(counts)}. {moved}"

    @property
    def is_exportable(self) -> bool:
        return self.task.phase == "shown"

    def _build_task_fields(self) -> dict[str, Any]:
        content = self.task.content
        return {"options": content["options"], "bars": build_bars(self.decoder), "n": content["n"]}

    def build_class_payload(self) -> dict[str, Any]:
        shown = {"before": list(self.votes.before), "after": list(self.votes.after)} if self.task.phase == "shown" else {}
        return {"answered": self.answered, "sentence": self.sentence} | shown

    def build_wall(self) -> WallContent:
        content = self.task.content
        if self.task.phase == "shown":
            return WallContent((wall.draw_votes(content["options"], self.votes, content["answer"]),), self.sentence)
        names = [option["name"] for option in content["options"]]
        question = f"{content['n']:,} samples of one decoder. Which is it: {'; '.join(names[:-1])}; or {names[-1]}?"
        return WallContent((wall.draw_histogram(self.decoder),), self.sentence, question)

    def build_pictures(self) -> dict[str, Picture]:
        content = self.task.content
        plot = partial(figures.plot_votes, content["options"], self.votes, content["answer"])
        return {
            "votes": Picture(plot, "Which mistake is in this decoder?"),
            "samples": _build_shares_picture(self.decoder, "What the class voted on"),
        }

    def build_tables(self) -> Tables:
        content, votes = self.task.content, self.votes
        rows = [
            [option["name"], place == content["answer"], votes.before[place], votes.after[place]]
            for place, option in enumerate(content["options"])
        ]
        columns = ("option", "right", "before", "after")
        return {"votes": lambda: (columns, rows), "samples": partial(_build_shares_table, self.decoder)}


@dataclass(frozen=True, slots=True)
class RaceResult(TaskResult):
    """Tokens per target pass of every choice."""

    race: Race

    @property
    def answered(self) -> int:
        return self.race.students

    @property
    def sentence(self) -> str:
        if not self.race.choices:
            return "No text has been written yet."
        best, *others = self.race.choices
        tied = [best, *(one for one in others if f"{one.per_pass:.2f}" == f"{best.per_pass:.2f}")]
        if len(tied) > 1:
            names = [f"{RACE_METHODS[one.method]} with gamma {one.gamma}" for one in tied]
            return f"Tied{' so far' if self.task.accepts_answers else ''}: {', '.join(names[:-1])} and {names[-1]}, {best.per_pass:.2f} tokens per target pass each."
        return (
            f"{'Ahead' if self.task.accepts_answers else 'Winner'}: {RACE_METHODS[best.method]} with gamma {best.gamma}, "
            f"{best.per_pass:.2f} tokens per target pass, {best.wasted:.1f} draft tokens of each pass wasted."
        )

    @property
    def is_exportable(self) -> bool:
        return bool(self.race.choices)

    def _build_task_fields(self) -> dict[str, Any]:
        labels = RACE_METHODS.items()
        methods = [{"value": name, "label": label, "more": DRAFTING_METHODS[name].description} for name, label in labels]
        return {"methods": methods, "gamma": MAX_GAMMA}

    def build_class_payload(self) -> dict[str, Any]:
        rows = [
            [RACE_METHODS[one.method], one.gamma, one.students, f"{one.per_pass:.2f}", f"{one.wasted:.1f}"]
            for one in self.race.choices
        ]
        return {"answered": self.answered, "sentence": self.sentence, "rows": rows}

    def build_wall(self) -> WallContent:
        return WallContent(
            (wall.draw_race(self.race.choices),),
            self.sentence,
            TEXTS["tasks"]["race"]["about"] if self.task.accepts_answers else "",
        )

    def build_pictures(self) -> dict[str, Picture]:
        return {"race": Picture(partial(figures.plot_race, self.race.choices), "Tokens per target pass of each choice")}

    def build_tables(self) -> Tables:
        columns = ("drafting_method", "gamma", "students", "tokens", "target_passes", "draft_tokens", "accepted",
                   "tokens_per_target_pass")  # fmt: skip
        rows = [
            [RACE_METHODS[one.method], one.gamma, one.students, one.tokens, one.passes, one.drafted, one.accepted, one.per_pass]
            for one in self.race.choices
        ]
        return {"race": lambda: (columns, rows)}


def build_bars(shares: CellShares) -> dict[str, Any]:
    """The bars of a histogram as phones draw them, heaviest first. cell: its place among the counts."""
    return {
        "end": cell_shares.compute_axis_end(shares),
        "rows": [
            {"cell": place, "label": shares.labels[place], "p": shares.probs[place], "share": shares.shares[place],
             "low": shares.low[place], "high": shares.high[place]}
            for place in shares.bars
        ],
    }  # fmt: skip


def _build_shares_picture(shares: CellShares, title: str) -> Picture:
    return Picture(partial(cell_shares.plot_cells, shares, cell_shares.compute_rows_end(shares)), title)


def _build_shares_table(shares: CellShares) -> Rows:
    return SAMPLE_CELL_COLUMNS, ([shares.name, quote_text(row[0]), *row[1:]] for row in iterate_cell_rows(shares))
