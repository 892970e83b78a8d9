"""Models are data. A model that would run wrongly is refused with a sentence that names it and the reason."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from transformers import ByT5Tokenizer, MambaConfig, MambaForCausalLM

from specviz.decoding.run import record_run
from specviz.errors import DamagedModelError, ModelError, SettingsError, UnsupportedModelError
from specviz.models.hub.files import list_model
from specviz.models.pairs import loading
from specviz.models.pairs.catalog import HASHES, PAIRS, PairEntry
from specviz.models.pairs.loading import check_hashes, load_config, load_model, load_pair, load_tokenizer, pick_device
from specviz.models.pairs.mapped import MappedPair
from specviz.settings import Settings
from specviz.speed.prediction import preflight
from specviz.training.card import write_hashes
from tests.helpers.tiny_pairs import build_tiny_model, write_pair

CPU = (torch.device("cpu"), torch.float32)


@pytest.fixture
def folder(pair_folders, tmp_path):
    """A copy of the tiny target that a test may damage."""
    return shutil.copytree(pair_folders[0], tmp_path / "copy")


def test_a_pair_of_folders_loads_in_fp32_on_the_cpu_whatever_the_file_holds(tmp_path):
    target, draft = write_pair(tmp_path)
    build_tiny_model(300).to(torch.bfloat16).save_pretrained(target)
    pair = load_pair(f"{target}|{draft}", device="cpu")
    assert pair.target.dtype == pair.draft.dtype == torch.float32
    assert pair.describe()["device"] == "cpu"


def test_tokenizers_of_other_sizes_make_a_pair_that_drafts_what_both_have(pair_folders, tmp_path):
    other, _ = write_pair(tmp_path, vocabulary=280)
    pair = load_pair(f"{pair_folders[0]}|{other}")
    assert isinstance(pair, MappedPair) and len(pair.tokens) == 280


def test_tokenizers_of_one_size_with_other_merges_share_every_token(pair_folders, folder):
    record = json.loads((folder / "tokenizer.json").read_text())
    record["model"]["merges"] = record["model"]["merges"][::-1]
    (folder / "tokenizer.json").write_text(json.dumps(record))
    pair = load_pair(f"{pair_folders[0]}|{folder}")
    assert isinstance(pair, MappedPair) and pair.tokens.share == 1.0


@pytest.mark.parametrize(
    ("file", "change", "shared"),
    [
        ("generation_config.json", lambda record: record | {"min_p": 0.5}, True),
        ("tokenizer_config.json", lambda record: record | {"model_max_length": 77}, False),
        ("tokenizer.json", lambda record: record | {"version": "1.0 "}, False),
        ("config.json", lambda record: record | {"tokenizer_class": "BloomTokenizer"}, False),
    ],
)
def test_equal_tokenizer_files_are_read_once_and_other_ones_for_each_model(pair_folders, folder, file, change, shared):
    """262,144 tokens take seconds to read. Files of the model's own settings change nothing of a tokenizer."""
    path = folder / file
    path.write_text(json.dumps(change(json.loads(path.read_text()) if path.exists() else {})))
    listed = [list_model(str(place)) for place in (pair_folders[0], folder)]
    assert loading.share_tokenizer_files(listed, [load_config(one) for one in listed]) == shared


def test_a_pair_of_equal_tokenizers_and_its_check_read_one(pair_folders, monkeypatch):
    read = []
    for module in (loading, preflight):
        monkeypatch.setattr(module, "load_tokenizer", lambda one: read.append(one.place) or load_tokenizer(one))
    load_pair("|".join(map(str, pair_folders)))
    assert preflight.check_pair(*map(str, pair_folders), probe=False).differ is None
    assert read == [str(pair_folders[0])] * 2


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"does not hold weights: model\.safetensors, or shards"):
        load_model(str(folder), *CPU)


def test_pickled_weights_are_not_read(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is pickled, and reading that can run code"):
        load_model(str(folder), *CPU)


@pytest.mark.parametrize("length", [0, 7, 5000])
def test_cut_off_weights_are_refused(folder, length):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(DamagedModelError, match=r"damaged: model\.safetensors (ends within its header|has 5,000 bytes)"):
        load_model(str(folder), *CPU)


def test_a_configuration_with_more_layers_than_weights_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(DamagedModelError, match="lacks 9 of the weights"):
        load_model(str(folder), *CPU)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "nonsense"}'])
def test_a_damaged_configuration_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelError):
        load_model(str(folder), *CPU)


def test_a_folder_without_a_tokenizer_says_which_file_is_missing_and_a_damaged_one_that_it_is(folder):
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="could not be loaded"):
        load_tokenizer(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="does not hold a tokenizer"):
        load_tokenizer(str(folder))


def test_a_tokenizer_of_bytes_needs_no_file_of_tokens(folder):
    (folder / "tokenizer.json").unlink()
    ByT5Tokenizer().save_pretrained(folder)
    (folder / "tokenizer.json").unlink(missing_ok=True)
    assert load_tokenizer(str(folder)).encode("ab", add_special_tokens=False) == [100, 101]


def test_mamba_is_refused_because_its_state_cannot_be_rolled_back(tmp_path):
    config = MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, state_size=4)
    MambaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="cannot be rolled back after a rejected token"):
        load_model(str(tmp_path), *CPU)


def test_remote_code_never_runs(folder):
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "evil", "auto_map": code}))
    (folder / "evil.py").write_text("raise SystemExit('remote code ran')")
    with pytest.raises(UnsupportedModelError, match="needs code of its own"):
        load_model(str(folder), *CPU)


@pytest.mark.parametrize("place", ["/nowhere/at/all", "./missing", "~/missing", "one", "a/b/c"])
def test_a_path_that_is_no_folder_is_not_asked_of_the_hub(place):
    with pytest.raises(ModelError, match="neither a folder on this machine nor a hub name"):
        load_model(place, *CPU)


@pytest.mark.parametrize("name", ["nope", "a|b|c", "|", "a|", ""])
def test_an_unknown_pair_is_refused_with_the_names_there_are(name):
    with pytest.raises(ModelError, match=r"There is no pair .*storybook"):
        load_pair(name)


@pytest.mark.parametrize(("device", "dtype"), [("tpu", "auto"), ("auto", "int8"), ("", "auto")])
def test_unknown_devices_and_dtypes_are_refused(device, dtype):
    with pytest.raises(SettingsError, match="got"):
        pick_device(device, dtype)


@pytest.mark.parametrize(
    ("version", "visible", "driver", "expected"),
    [
        (None, None, None, "this build of torch has no CUDA"),
        ("13.0", "", None, "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        (
            "13.0",
            None,
            "The NVIDIA driver on your system is too old (found version 11040).\nUpdate",
            "too old (found version 11040)",
        ),
        ("13.0", None, None, "torch finds no GPU"),
    ],
)
def test_a_missing_gpu_is_explained(version, visible, driver, expected, monkeypatch):
    def init() -> None:
        if driver:
            raise RuntimeError(driver)

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(SettingsError) as error:
        pick_device("cuda", "auto")
    assert expected in str(error.value) and "did you mean" not in str(error.value)


def test_a_shipped_pair_is_checked_by_hash_before_it_is_read(tmp_path, monkeypatch):
    target, draft = write_pair(tmp_path)
    write_hashes(tmp_path)
    check_hashes(tmp_path)
    entry = PairEntry("test", "Test", str(target), str(draft), is_shipped=True, note="")
    monkeypatch.setitem(PAIRS, "test", entry)
    assert load_pair("test").name == "test"
    weights = draft / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(DamagedModelError, match=r"damaged: draft/model\.safetensors is not the shipped file"):
        load_pair("test")
    weights.unlink()
    with pytest.raises(DamagedModelError, match=r"incomplete: draft/model\.safetensors is missing"):
        load_pair("test")
    (tmp_path / HASHES).unlink()
    with pytest.raises(DamagedModelError, match="cannot be checked"):
        load_pair("test")


def test_a_smaller_padded_vocabulary_is_handled_by_the_distribution(pair_folders, tmp_path):
    wide = tmp_path / "wide"
    shutil.copytree(pair_folders[1], wide)
    build_tiny_model(320, layers=1).save_pretrained(wide)
    pair = load_pair(f"{pair_folders[0]}|{wide}")
    trace = record_run(pair, Settings(prompt="Once", max_new_tokens=40, seed=3), bars=0)
    assert all(token < 300 for token in trace.output_ids), "ids that the target lacks have p = 0"
    assert any(d.token >= 300 for r in trace.rounds for d in r.proposals), "the draft did propose some"


def test_stop_ids_are_all_of_them():
    model = build_tiny_model(50)
    model.generation_config.eos_token_id = [3, 5]
    assert loading.find_eos_ids("a", model) == {3, 5}
    model.generation_config.eos_token_id = None
    assert loading.find_eos_ids("a", model) == set(), "generate() goes on, whatever the model's own configuration says"


@pytest.mark.parametrize("name", [entry.name for entry in PAIRS.values() if entry.is_shipped])
def test_every_pair_that_ships_opens_and_its_card_holds_what_was_measured(name):
    """The files match the list of hashes. The distilled draft is another model with the same target."""
    pair = load_pair(name, device="cpu")
    assert pair.vocabulary == 4096 and pair.target.num_parameters() > 5 * pair.draft.num_parameters()
    folder = Path(PAIRS[name].target).parent
    said = [float(number) for number in re.findall(r"\b0\.\d{3}\b", (folder / "README.md").read_text())]
    for file in ("measured.json" if name == "storybook" else "measured-distilled.json", "measured-exit.json"):
        measured = json.loads((folder / file).read_text())
        assert all(min(abs(share - number) for number in said) <= 5.1e-4 for share in measured["acceptance"].values())


def test_weights_that_both_models_have_are_in_memory_once(tmp_path):
    """A draft cut from the target's first layers: all its weights are the target's but one that was changed."""
    target = build_tiny_model(64, layers=2)
    draft = build_tiny_model(64, layers=1)
    draft.load_state_dict(target.state_dict(), strict=False)
    with torch.no_grad():
        draft.model.norm.weight.add_(0.5)
    for name, model in (("target", target), ("draft", draft)):
        model.save_pretrained(tmp_path / name)
    cpu = torch.device("cpu")
    one = loading.load_model(str(tmp_path / "target"), cpu, torch.float32)
    other = loading.load_model(str(tmp_path / "draft"), cpu, torch.float32, share_with=one)
    apart = {name for name, weight in other.named_parameters() if weight.data_ptr() != one.get_parameter(name).data_ptr()}
    assert apart == {"model.norm.weight"}
    assert all(torch.equal(weight, draft.get_parameter(name)) for name, weight in other.named_parameters())
