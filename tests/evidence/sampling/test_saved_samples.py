"""'Long runs are canceled within a second and resume from what was drawn': however often a run is stopped, its report is the same.

Nothing here is left to chance: samples are fixed by their seed, and reports are compared whole.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from specviz.__main__ import main
from specviz.cli import verify as command
from specviz.decoding.sampler import ShardState
from specviz.errors import EvidenceError
from specviz.evidence.decoder import Decoder, build_decoder
from specviz.evidence.sampling import saved_samples as file
from specviz.evidence.sampling import session
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.saved_samples import ModeSamples, SavedSamples
from specviz.evidence.sampling.session import Session
from specviz.settings import Settings


@pytest.fixture(scope="module")
def command_options(pair_folders):
    folders = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1])]
    return ["verify", *folders, "--prompt", "Once upon", "--max-new-tokens", "3", "--gamma", "2", "--samples", "300", "--min-tv", "0.95",
            "--format", "json"]  # fmt: skip


class ImpatientProgress:
    """Presses Ctrl-C after a number of progress reports."""

    def __init__(self, label: str = "drawing", patience: int = 3):
        self.left = patience if label.endswith("drawing") else 10**9

    def __call__(self, share: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *(("shared distributions", name) for name in ("speculative", "target", "R2")),
        ("engine", "speculative"),  # the engine's shards are saved alike whatever it decodes
        *(pytest.param("engine", name, marks=pytest.mark.slow) for name in ("target", "R2")),
    ],
)
def test_stopped_every_few_steps_the_samples_are_those_of_a_run_that_was_not(pair, tmp_path, monkeypatch, mode, name):
    """Small passes and shards, so that it is stopped within shards and between them. Each time only the file survives."""
    monkeypatch.setattr(file, "EVERY", 0.0)
    monkeypatch.setattr(file, "REST", 0.0)
    monkeypatch.setattr(session, "SHARD_SIZES", {"engine": 24, "shared distributions": 250})
    monkeypatch.setattr("specviz.models.continuations.iterate_distributions_after.__defaults__", (64,))
    settings = Settings(prompt="Once upon", max_new_tokens=3, gamma=2, top_k=40)
    decoder, times = build_decoder(name, pair, settings), {"shared distributions": 400, "engine": 150}

    def draw_until_stopped(path, on_progress):
        saved = SavedSamples.open(path, {"mode": mode, "decoder": name})
        made = Session(decoder, SamplingPlan(samples=times[mode]), saved)
        return made.draw(mode, on_progress).tokens, made.coverage[mode]

    whole, eos_token_ids = draw_until_stopped(None, lambda share: None), 0
    while eos_token_ids < 100:
        try:
            found = draw_until_stopped(tmp_path / "draws", ImpatientProgress(patience=3 if mode == "shared distributions" else 4))
            break
        except KeyboardInterrupt:
            eos_token_ids += 1
    assert eos_token_ids >= 2 and np.array_equal(found[0], whole[0]) and len(whole[0]) == times[mode]
    assert found[1] == whole[1] and whole[1].target_only + whole[1].proposed > 0, "what was exercised is resumed as well"


def test_a_stopped_command_resumes_to_the_same_report_and_removes_its_file(command_options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(file, "EVERY", 0.0)
    monkeypatch.setattr(file, "REST", 0.0)
    monkeypatch.setattr(Decoder, "sample_target", lambda *_: None)
    assert main(command_options) == 0
    whole, path = json.loads(capsys.readouterr().out), tmp_path / "draws"
    with monkeypatch.context() as patched:
        patched.setattr(command, "Progress", ImpatientProgress)
        assert main([*command_options, "--resume", str(path)]) == 130
    assert path.exists() and "the same command resumes from there" in capsys.readouterr().err
    assert main([*command_options, "--resume", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    assert not list(tmp_path.iterdir())


def test_an_interrupt_prints_the_verdict_on_the_whole_shards_of_the_engine(command_options, monkeypatch, capsys):
    """Shards of 24 after the pilot of 64; Ctrl-C comes in the second of them. The other mode is not begun, or was tested before."""
    monkeypatch.setattr(session, "SHARD_SIZES", {"engine": 24, "shared distributions": 250})
    monkeypatch.setattr(Decoder, "sample_target", lambda *_: None)
    drawn = Decoder.sample

    def stop_later(self, mode, first, *more):
        if mode == "engine" and first > 64:
            raise KeyboardInterrupt
        return drawn(self, mode, first, *more)

    monkeypatch.setattr(Decoder, "sample", stop_later)
    for mode, names in (("engine", ["engine"]), ("both", ["shared distributions", "engine"])):
        assert main([*command_options, "--mode", mode]) == 130
        out, err = capsys.readouterr()
        record = json.loads(out)
        assert [one["mode"] for one in record["answers"]] == names and record["answers"][-1]["n"] == 88
        assert record["verdict"] == "consistent" and record["note"] == "engine: interrupted after 88 of 300 samples."
        assert record["analytic_tv"] is None and "nothing was saved" in err


@pytest.mark.slow  # a process that imports everything; the tests above interrupt and resume in this one
def test_ctrl_c_ends_a_process_with_130_and_leaves_a_whole_file(command_options, tmp_path):
    """It ends before its twenty million samples are drawn: no verdict is printed. The file is written after every shard."""
    early = "from specviz.evidence.sampling import saved_samples; saved_samples.EVERY = 0.0; import specviz.__main__ as m; raise SystemExit(m.main())"
    more = ["--samples", "20000000", "--mode", "shared-distributions", "--out", str(tmp_path / "evidence")]
    process = subprocess.Popen(
        [sys.executable, "-c", early, *command_options, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a run in the background leaves it ignored
    )  # fmt: skip
    try:
        while not (tmp_path / "evidence.draws").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted: all samples but those of the last" in said and "Traceback" not in said and out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["evidence.draws"]


def test_without_a_file_the_interruption_says_how_to_get_one(command_options, monkeypatch, capsys):
    monkeypatch.setattr(command, "Progress", ImpatientProgress)
    assert main([*command_options, "--samples", "2000"]) == 130
    assert "nothing was saved; with --out DIR or --resume FILE" in capsys.readouterr().err


@pytest.fixture
def half_done_file(tmp_path) -> tuple[dict, object]:
    """A file with one mode complete and one half done."""
    asked = {"decoder": "speculative", "settings": {"temperature": 1.0}, "versions": {"torch": "2"}}
    saved = SavedSamples.open(tmp_path / "draws", asked)
    saved.parts["engine"] = ModeSamples(3, "speculative", np.arange(6, dtype=np.int32).reshape(3, 2))
    saved.parts["shared distributions"] = ModeSamples(
        5, "speculative", np.zeros((0, 0), dtype=np.int32), ShardState.build_empty(5, 2)
    )
    saved.write()
    return asked, tmp_path / "draws"


def test_what_is_read_is_what_was_written(half_done_file):
    again = SavedSamples.open(half_done_file[1], half_done_file[0])
    assert again.parts["engine"].tokens.tolist() == [[0, 1], [2, 3], [4, 5]] and again.parts["engine"].half is None
    half = again.parts["shared distributions"].half
    assert (half.place, half.done) == (0, 0) and half.tokens.shape == (5, 2) and half.open.all() and not half.start.any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decoder": "target"}, "decoder was speculative, now target"),
        ({"settings": {"temperature": 0.7}}, "temperature was 1.0, now 0.7"),
        ({"versions": {"torch": "3"}}, "torch was 2, now 3"),
    ],
)
def test_samples_of_another_run_are_refused_and_left_alone(half_done_file, change, said):
    asked, path = half_done_file
    before = path.read_bytes()
    with pytest.raises(EvidenceError, match=said):
        SavedSamples.open(path, asked | change)
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", [0, 30, 400, -30, -1])
@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_file_is_refused_and_left_alone(half_done_file, where, how):
    """Cut off anywhere, or with one byte changed anywhere: a sentence that names the file, never other samples."""
    asked, path = half_done_file
    whole = path.read_bytes()
    damaged = whole[:where] if how == "cut" else whole[:where] + bytes([whole[where] ^ 1]) + whole[where:][1:]
    path.write_bytes(damaged)
    with pytest.raises(EvidenceError, match=r"'.*draws' (is damaged|holds|cannot be read)"):
        SavedSamples.open(path, asked)
    assert path.read_bytes() == damaged


def test_any_other_file_is_refused_and_left_alone(command_options, tmp_path, capsys):
    path = tmp_path / "letter.txt"
    path.write_text("Dear friend,\n" * 3)
    assert main([*command_options, "--resume", str(path)]) == 2
    assert "is not a file of saved samples" in capsys.readouterr().err
    assert path.read_text().startswith("Dear friend")


@pytest.mark.parametrize("place", ["/proc/draws", "/nowhere/draws"])
def test_a_file_that_cannot_be_written_is_said_before_anything_is_drawn(command_options, place, capsys):
    assert main([*command_options, "--resume", place]) == 2
    assert "could not be written" in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_the_earlier_file_whole(half_done_file, monkeypatch):
    from specviz.errors import SettingsError

    asked, path = half_done_file
    saved, before = SavedSamples.open(path, asked), path.read_bytes()

    def raise_disk_full(one, other):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", raise_disk_full)
    with pytest.raises(SettingsError, match="No space left on device"):
        saved.write()
    assert path.read_bytes() == before and [one.name for one in path.parent.iterdir()] == ["draws"]


def test_with_a_sample_file_there_is_nothing_to_resume(command_options, tmp_path, capsys):
    assert main([*command_options, "--sample-file", "x.jsonl", "--resume", str(tmp_path / "draws")]) == 2
    assert "left out with --sample-file" in capsys.readouterr().err
