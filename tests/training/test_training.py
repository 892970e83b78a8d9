"""Training: batches are pure functions of their number, and an interrupted run continues where it stopped."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from specviz.errors import TrainingError
from specviz.training import loop, pair_training
from specviz.training.corpus import END_OF_TEXT, Batches, read_works, train_tokenizer
from specviz.training.loop import Schedule, round_to_bfloat16, train
from tests.helpers.tiny_pairs import TEXT, build_tiny_model

WORKS = [np.arange(1, 200, dtype=np.uint16) % 290 + 1, np.arange(50, 400, dtype=np.uint16) % 290 + 1]


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """No compiler in tests: it takes longer than these runs."""
    monkeypatch.setattr(loop.shutil, "which", lambda name: None)


def test_a_batch_is_a_pure_function_of_its_number():
    batches, again = Batches(WORKS, 2, 16, seed=1), Batches(WORKS, 2, 16, seed=1)
    order = [5, 40, 0, 17, 5]
    assert all(np.array_equal(batches[n], again[n]) for n in [*order, *range(10)])
    assert batches[0].shape == (2, 17)
    assert not np.array_equal(batches[0], batches[batches.per_epoch])


def test_an_epoch_meets_every_window_once():
    batches = Batches(WORKS, 1, 16, seed=3)
    starts = sorted(tuple(batches[n][0][:-1]) for n in range(batches.per_epoch))
    assert len(starts) == len(set(starts)) == batches.per_epoch


def test_a_run_that_was_cut_off_ends_where_an_unbroken_one_does(tmp_path):
    batches = Batches(WORKS, 2, 16, seed=1)
    whole = Schedule(tokens=2 * 16 * 12, rows=2, context=16)
    unbroken = train(build_tiny_model(300), batches, whole, tmp_path / "a", log=lambda _: None)

    class CutError(Exception):
        pass

    class CutBatches:
        def __getitem__(self, n):
            if n == 7:
                raise CutError
            return batches[n]

    always = Schedule(tokens=whole.tokens, rows=2, context=16, checkpoint_seconds=0.0)
    with pytest.raises(CutError):
        train(build_tiny_model(300), CutBatches(), always, tmp_path / "b", log=lambda _: None)
    said = []
    resumed = train(build_tiny_model(300, seed=9), batches, whole, tmp_path / "b", log=said.append)
    assert said[0] == "resumed at step 7 of 12"
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert json.loads((tmp_path / "b" / "loss.jsonl").read_text().splitlines()[-1])["step"] == 12


def test_a_short_trial_leaves_a_pair_that_loads(tmp_path, monkeypatch):
    from specviz.models.pairs.loading import load_pair

    data = tmp_path / "books.txt"
    data.write_text((TEXT[0] * 20 + END_OF_TEXT + "\n") * 3)
    small = {
        role: pair_training.ModelShape(1, 64, Schedule(tokens=2 * 32 * 3, rows=2, context=32)) for role in ("target", "draft")
    }
    monkeypatch.setattr(pair_training, "SHAPES", small)
    pair_training.train_pair(data, tmp_path / "run", log=lambda _: None)
    weights = load_file(tmp_path / "run" / "draft" / "model.safetensors")
    assert all(value.dtype == torch.bfloat16 for value in weights.values())
    assert load_pair(f"{tmp_path / 'run' / 'target'}|{tmp_path / 'run' / 'draft'}").target.num_parameters() > 0


def test_weights_are_rounded_for_training_and_rotary_frequencies_are_not():
    model = build_tiny_model(60)
    before = model.model.rotary_emb.inv_freq.clone()
    round_to_bfloat16(model)
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
    assert torch.equal(model.model.rotary_emb.inv_freq, before)


def test_a_missing_or_unreadable_corpus_is_a_sentence(tmp_path):
    with pytest.raises(TrainingError, match="There is no corpus at"):
        read_works(tmp_path / "nothing.txt")
    for name, data in (("bad.txt", b"\xff\xfe"), ("bad.xz", b"no archive"), ("empty.txt", b"\n")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(TrainingError):
            read_works(tmp_path / name)
    with pytest.raises(TrainingError, match="The corpus has 3 tokens; one batch needs 33"):
        Batches([np.arange(3, dtype=np.uint16)], 2, 16, 0)


def test_the_tokenizer_covers_every_byte_and_starts_with_the_end_of_text():
    tokenizer = train_tokenizer(TEXT, 300)
    assert tokenizer.token_to_id(END_OF_TEXT) == 0
    assert tokenizer.get_vocab_size() == 300
    text = "\x00 \U0001f409 ß"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
