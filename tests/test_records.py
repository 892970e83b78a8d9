"""Records are read strictly, by type hints, and answered with one sentence where they are damaged; a file is the earlier one or the new one, whole."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from specviz import records
from specviz.errors import SettingsError, SpecvizError, TraceError
from specviz.records import Schema, build, declare_decimal_places, read_json, to_json_value, write
from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """One of everything that a record may hold."""

    count: int
    right: bool
    sizes: tuple[int, ...]
    pair: tuple[str, float]
    leaves: Mapping[int, tuple[Leaf, ...]]
    settings: Settings
    seconds: tuple[tuple[float, ...], ...] = field(default=(), metadata=declare_decimal_places(3))
    best: Leaf | None = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be 0 or more, got {self.count}")


SCHEMA = Schema("whole", 3, "The whole")
ONE = Whole(2, True, (1, 2), ("a", 0.1), {7: (Leaf("x"), Leaf("y", 0.123456))}, Settings(gamma=3), ((0.12345, 1),), Leaf("z", 1))


def read(text: str) -> Whole:
    return SCHEMA.read(text, lambda record: build(Whole, record))


def test_what_was_written_comes_back_with_the_digits_that_its_fields_keep():
    record = json.loads(SCHEMA.format_record(to_json_value(ONE)))
    assert (
        record["schema"] == "specviz-whole-3"
        and record["seconds"] == [[0.123, 1]]
        and record["leaves"]["7"][1]["share"] == 0.123456
    )
    back = read(json.dumps(record))
    assert back.leaves == ONE.leaves and back.settings == ONE.settings and back.seconds == ((0.123, 1),) and back.best == ONE.best


@pytest.mark.parametrize(
    ("change", "said"),
    (
        (lambda r: r.pop("count"), "it lacks count"),
        (lambda r: r.update(luck=1), "it has luck, which is not known"),
        (lambda r: r.pop("best"), "it lacks best"),
        (lambda r: r.update(count=True), "it.count must be of type int, got 'True'"),
        (lambda r: r.update(right=1), "it.right must be of type bool"),
        (lambda r: r.update(sizes=[1, "2"]), r"it.sizes\[1\] must be of type int, got '2'"),
        (lambda r: r.update(sizes={"0": 1}), "it.sizes must be of type list"),
        (lambda r: r.update(pair=["a"]), "it.pair must have 2 entries, got 1"),
        (lambda r: r.update(leaves={"seven": []}), "has the key 'seven', which is no int"),
        (lambda r: r["leaves"]["7"][0].update(share="much"), r"it.leaves.7\[0\].share must be of type float, got 'much'"),
        (lambda r: r.update(settings={"gamma": 99}), "gamma must be"),
        (lambda r: r.update(count=-1), "count must be 0 or more, got -1"),
        (lambda r: r.update(schema="specviz-whole-2"), "has schema 'specviz-whole-2'; this version reads 'specviz-whole-3'"),
        (lambda r: r.pop("schema"), "has schema 'None'"),
    ),
)
def test_a_record_that_is_damaged_is_one_sentence_that_names_the_place(change, said):
    record = json.loads(SCHEMA.format_record(to_json_value(ONE)))
    change(record)
    with pytest.raises(TraceError, match=said) as caught:
        read(json.dumps(record))
    assert str(caught.value).startswith("The whole ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ("", "{", "null", "5", "[]", '"x"', '{"schema": NaN}', "[" * 100_000, SCHEMA.format_record(to_json_value(ONE))[:-9])
)
def test_what_is_no_record_is_one_sentence(text):
    with pytest.raises(TraceError, match=r"^The whole .*"):
        read(text)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    with pytest.raises(TraceError, match="could not be read"):
        read_json(path, "The whole")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TraceError, match="damaged, or no JSON"):
        read_json(path, "The whole")
    monkeypatch.setattr(records, "LARGEST", 1)
    with pytest.raises(TraceError, match="too large"):
        read_json(path, "The whole")


def test_a_file_is_written_whole_with_the_rights_of_any_other_file(tmp_path):
    path, other = tmp_path / "new.json", tmp_path / "other"
    write(path, "ä\n")
    other.write_text("")
    assert path.read_bytes() == "ä\n".encode() and stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    write(path, (b"one", memoryview(b"two")), over=True)
    assert path.read_bytes() == b"onetwo" and sorted(tmp_path.iterdir()) == [path, other]


def test_nothing_is_written_over_unless_asked_not_even_what_came_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "letter.txt"
    path.write_text("dear reader")
    with pytest.raises(SettingsError, match="something else"):
        write(path, "record")
    monkeypatch.setattr(type(path), "exists", lambda self: False)  # it came between the look and the writing
    with pytest.raises(SettingsError):
        write(path, "record")
    assert path.read_text() == "dear reader" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fails", ("fsync", "replace"))
def test_a_disk_that_fails_leaves_the_earlier_file_and_nothing_beside_it(tmp_path, monkeypatch, fails):
    path = tmp_path / "record.json"
    path.write_text("earlier")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, full)
    with pytest.raises(SettingsError, match="No space left on device"):
        write(path, "later", over=True)
    assert path.read_text() == "earlier" and list(tmp_path.iterdir()) == [path]


def test_the_data_are_on_the_disk_before_the_file_takes_its_place(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("synced"))
    plain_replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *names: done.append("renamed") or plain_replace(*names))
    write(tmp_path / "x", "text", over=True)
    assert done == ["synced", "renamed"]


def test_a_record_replaces_an_earlier_one_of_its_kind_and_nothing_else(tmp_path):
    path = tmp_path / "deep" / "whole.json"
    assert SCHEMA.save(path, SCHEMA.format_record({})) == path and json.loads(path.read_text())["schema"] == "specviz-whole-3"
    path.write_text('{"schema": "specviz-whole-2"}')
    SCHEMA.save(path, SCHEMA.format_record({"more": 1}))
    for other in ("dear reader", "[]", '{"schema": "specviz-wholesale-3"}', ""):
        path.write_text(other)
        with pytest.raises(SettingsError, match="an earlier record of the same kind"):
            SCHEMA.save(path, SCHEMA.format_record({}))
        assert path.read_text() == other
    with pytest.raises(SpecvizError):
        SCHEMA.save(tmp_path, SCHEMA.format_record({}))
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError):
        SCHEMA.save(tmp_path / "file" / "below" / "x.json", SCHEMA.format_record({}))
