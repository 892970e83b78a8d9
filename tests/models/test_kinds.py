"""What becomes of the models and files that people have: every kind of assets/model_kinds.toml is made, and does what its table says."""

from __future__ import annotations

import json

import pytest
import torch

from specviz.decoding.run import record_run
from specviz.errors import DamagedModelError, ModelError
from specviz.models.pairs import loading
from specviz.models.pairs.loading import load_pair
from specviz.models.pairs.mapped import MappedPair
from specviz.records import load_toml
from specviz.settings import Settings
from specviz.speed.prediction.preflight import check_pair
from tests.helpers.tiny_pairs import build_tiny_model
from tests.models.kinds import BUILDERS, build_kind, write_adapter

KINDS = {one["key"]: one for one in load_toml("model_kinds")["kind"]}
PROMPT = "Once upon a time there was a little rabbit who lived in a wood. He was hungry"
SETTINGS = Settings(prompt=PROMPT, max_new_tokens=12, temperature=0.0)


def read_outcome(pair_folders, key, folder) -> tuple[str, str]:
    """What becomes of a kind, and everything that is said about it. A model that loads writes the text of transformers' generate."""
    places = build_kind(*pair_folders, key, folder)
    try:
        pair = load_pair("|".join(places), "cpu")
    except ModelError as error:
        return "refused", str(error)
    trace = record_run(pair, SETTINGS, bars=0)
    if not isinstance(pair, MappedPair):
        ids = torch.tensor([trace.prompt_ids])
        pair.target.generation_config = pair.rules.make_config(pair.target, pair.eos_token_ids)
        written = pair.target.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
        assert tuple(written[0, ids.shape[1] :].tolist()) == trace.output_ids
    notes = trace.models.get("notes", [])
    return ("loads and says so" if notes else "loads"), " ".join(notes)


def test_every_kind_of_the_table_is_made_here():
    assert KINDS.keys() == BUILDERS.keys()


@pytest.mark.parametrize("key", KINDS)
def test_a_kind_does_what_its_table_says(pair_folders, tmp_path, key):
    if key == "gguf":
        pytest.importorskip("gguf")
        pytest.importorskip("accelerate")
    outcome, said = read_outcome(pair_folders, key, tmp_path)
    assert outcome == KINDS[key]["outcome"], said
    assert KINDS[key].get("says", "") in said


@pytest.mark.parametrize("key", [key for key, one in KINDS.items() if one["outcome"] == "refused"])
def test_pairs_check_sees_before_the_weights_are_read_what_files_and_headers_show(pair_folders, tmp_path, key):
    """All but what the weights' own names and numbers show. A narrow vocabulary is seen by its tokenizer."""
    found = check_pair(*build_kind(*pair_folders, key, tmp_path), "cpu", probe=False)
    weights_alone = {"more-layers", "nan"}
    assert found.ready == (key in weights_alone), found.all_problems
    said = "predicts 250 tokens, and its tokenizer has 300" if key == "narrow" else KINDS[key]["says"]
    assert key in weights_alone or said in " ".join(found.all_problems)


def test_a_gguf_file_without_the_packages_that_read_it_names_them(pair_folders, tmp_path, monkeypatch):
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(loading, "GGUF_PACKAGES", ("not_there_1", "not_there_2"))
    with pytest.raises(ModelError, match="needs not_there_1 and not_there_2: pip install not_there_1 not_there_2"):
        load_pair(f"{file}|{pair_folders[1]}", "cpu")
    file.write_bytes(b"JSON")
    with pytest.raises(DamagedModelError, match="does not begin with the letters GGUF"):
        load_pair(f"{file}|{pair_folders[1]}", "cpu")


def test_a_merged_adapter_is_the_base_model_plus_scaled_products(pair_folders, tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    made = write_adapter(folder, str(pair_folders[0]))
    pair = load_pair(f"{folder}|{pair_folders[1]}", "cpu")
    base = build_tiny_model(pair.vocabulary)
    for layer in (0, 1):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora"
        change = 6 / 2 * made[f"{name}_B.weight"] @ made[f"{name}_A.weight"]
        merged = pair.target.model.layers[layer].self_attn.q_proj.weight
        assert torch.allclose(merged, base.model.layers[layer].self_attn.q_proj.weight + change, atol=1e-6)
    assert torch.equal(pair.target.lm_head.weight, base.lm_head.weight)


def test_an_adapter_for_another_shape_is_refused(pair_folders, tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    write_adapter(folder, str(pair_folders[0]))
    config = json.loads((pair_folders[0] / "config.json").read_text())
    assert config["hidden_size"] == 32
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "adapter_model.safetensors")
    name = next(name for name in tensors if name.endswith("lora_B.weight"))
    save_file(tensors | {name: torch.zeros(31, 2)}, folder / "adapter_model.safetensors")
    with pytest.raises(DamagedModelError, match="another shape"):
        load_pair(f"{folder}|{pair_folders[1]}", "cpu")
