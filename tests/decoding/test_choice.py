"""Which implementation of a round runs: the setting is followed, the default is sensible, and the trace says which it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding.device import choice
from specviz.decoding.device.choice import choose_engine
from specviz.decoding.device.round import DeviceSteps
from specviz.decoding.methods import build_rule
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, decoded
from specviz.errors import SettingsError
from specviz.models.cache.decoder import CachedModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from tests.fake_device import fake_device
from tests.pairs import tiny_model


def asked(engine: str, rule=None, place=None, **more) -> tuple:
    settings = Settings()
    target, draft = (CachedModel(tiny_model(40).to(place or "cpu"), settings) for _ in range(2))
    return choose_engine(engine, target, DraftModel(draft, 2), rule or TokenRule(), PhiloxRandomness(1), **more)


def test_by_default_the_reference_runs_on_a_processor_and_the_device_round_on_a_gpu() -> None:
    assert asked("auto")[0] == "reference"
    with fake_device() as place:
        name, steps = asked("auto", place=place)
        assert name == "device"
        assert isinstance(steps, DeviceSteps)
        assert asked("auto", place=place, bars=3)[0] == "reference"
        assert asked("auto", SequentialRule(), place=place)[0] == "reference"
        assert asked("reference", place=place)[0] == "reference"


def test_what_is_asked_for_is_had_or_refused_in_a_sentence(monkeypatch) -> None:
    assert asked("device")[0] == "device"
    with pytest.raises(SettingsError, match="k-seq is not written for the device"):
        asked("device", SequentialRule())
    with pytest.raises(SettingsError, match="distributions of each round are kept"):
        asked("device", bars=4)
    with pytest.raises(SettingsError, match="one of auto, reference, device, compiled"):
        Settings(engine="fast")
    monkeypatch.setattr(choice.shutil, "which", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs a C\+\+ compiler"):
        asked("compiled")


@pytest.mark.parametrize("changes", [{}, {"rule": "block"}, {"proposer": "tree", "tree": "2-1"}, {"temperature": 0.0}])
def test_both_write_the_same_text_and_the_trace_says_which_ran(pair, changes: dict) -> None:
    settings = Settings(prompt="Once upon a time", max_new_tokens=24, **changes)
    one, other = (record_run(pair, replace(settings, engine=engine), bars=0) for engine in ("reference", "device"))
    assert one.output_ids == other.output_ids
    assert [round_.accepted_path for round_ in one.rounds] == [round_.accepted_path for round_ in other.rounds]
    assert (one.models["engine"], other.models["engine"]) == ("reference", "device")


def test_samples_in_batches_are_the_same_by_both(pair) -> None:
    def samples(engine: str):
        settings = Settings(max_new_tokens=5, gamma=3, engine=engine)
        target, proposer = open_proposer(pair, settings)
        ids = pair.encode("Once upon a time")
        shard = Shard(target, proposer, build_rule(settings), PhiloxRandomness(7), settings, ids, pair.eos_token_ids, count=40)
        return decoded(shard, batch=16).tokens

    assert (samples("reference") == samples("device")).all()
