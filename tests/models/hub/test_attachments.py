"""Attachments of a model come in the same way: a folder, or a hub name with a revision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.__main__ import main
from specviz.errors import ModelError
from specviz.models.attachments import exits
from specviz.models.attachments.eagle import EAGLES, WEIGHTS
from specviz.models.attachments.exits import EXITS
from specviz.models.attachments.folder import CONFIG
from specviz.models.attachments.heads import HEADS, save_heads
from tests.proposers.test_eagle import save_random_head
from tests.proposers.test_early_exit import save_random_exit


@pytest.fixture
def published_attachments(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(exits.EXITS, "allowed", set())
    save_random_exit(tmp_path / "exit")
    (tmp_path / "exit" / "README.md").write_text("not read")
    return hub.add("owner/exit", tmp_path / "exit")


def test_an_exit_on_the_hub_is_read_with_its_revision(published_attachments, pair, hub):
    place = exits.EXITS.choose_folder("none", exits.EXITS.allow("owner/exit@v1.0"))
    assert exits.EXITS.load_once(pair.target, place, exits.load_exit).layer == 1
    assert {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line} == {CONFIG, exits.WEIGHTS}


@pytest.mark.parametrize("place", ("owner/missing", "owner/exit@v7"))
def test_one_that_the_hub_does_not_have_is_not_admitted(published_attachments, place):
    with pytest.raises(ModelError, match=r"has no model|has no revision"):
        exits.EXITS.allow(place)
    assert exits.EXITS.allowed == set()


def test_a_model_is_no_exit(published_attachments, hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    with pytest.raises(ModelError, match=rf"'owner/model' does not hold {exits.WEIGHTS}"):
        exits.EXITS.allow("owner/model")
    assert hub.contents() == []


# Published layouts -------------------------------------------------------------------------------------------------------------


def publish_medusa(folder: Path, target) -> None:
    """As Medusa's authors publish heads."""
    width, make = target.config.hidden_size, torch.Generator().manual_seed(0)
    save_heads([[(torch.randn(width, width, generator=make), torch.randn(width, generator=make))] for _ in range(2)], folder)


def publish_medusa_of_vllm(folder: Path, target) -> None:
    width, make = target.config.hidden_size, torch.Generator().manual_seed(0)
    folder.mkdir()
    save_file({f"blocks.{k}.layers.0.weight": torch.randn(width, width, generator=make) for k in range(2)}, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps({"num_heads": 2, "num_hidden_layers": 1}))


def publish_eagle(folder: Path, target) -> None:
    """As EAGLE's authors publish a head: no norm before the attention, and embeddings of its own."""
    save_random_head(folder, target)
    weights = load_file(folder / WEIGHTS)
    del weights["layers.0.input_layernorm.weight"]
    save_file(weights | {"embed_tokens.weight": target.get_input_embeddings().weight.detach().clone()}, folder / WEIGHTS)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("write", "option", "more"),
    (
        (publish_medusa, "heads", ("--proposer", "medusa", "--tree", "2-1")),
        (publish_medusa_of_vllm, "heads", ("--proposer", "medusa", "--tree", "2-1")),
        (publish_eagle, "eagle", ("--proposer", "eagle")),
        (publish_eagle, "eagle", ("--proposer", "eagle", "--tree", "2-1")),
    ),
)
@pytest.mark.parametrize("from_hub", (False, True), ids=("folder", "hub"))
def test_what_others_publish_drafts_from_a_folder_and_from_a_hub_name(
    write, option, more, from_hub, hub, pair, pair_folders, tmp_path, capsys, monkeypatch
):
    """Greedy, so that each text is the target's."""
    for kind in (HEADS, EXITS, EAGLES):
        monkeypatch.setattr(kind, "allowed", set())
    write(tmp_path / "published", pair.target)
    hub.add("owner/published", tmp_path / "published")
    places = ["--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--device", "cpu", "--prompt", "Once upon"]
    decode = ["decode", *places, "--temperature", "0", "--max-new-tokens", "12", "--color", "plain"]
    texts = []
    for options in ([], [*more, f"--{option}", "owner/published@v1.0" if from_hub else str(tmp_path / "published")]):
        assert main([*decode, *options]) == 0
        texts.append(capsys.readouterr().out.split("\n\n")[0])
    assert texts[0] == texts[1] and bool(hub.contents()) is from_hub


@pytest.mark.parametrize("from_hub", (False, True), ids=("folder", "hub"))
def test_pickled_heads_are_refused_with_what_to_do_before_anything_is_fetched(from_hub, hub, tmp_path):
    (tmp_path / CONFIG).write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickled")
    hub.add("owner/pickled", tmp_path)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is pickled, .* so save its weights as safetensors"):
        EAGLES.allow("owner/pickled" if from_hub else str(tmp_path))
    assert hub.contents(".bin") == []
