"""The files of a model are known before its weights are fetched: names with revisions, folders of every kind, shards, refusals."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from specviz.errors import DamagedModelError, ModelError
from specviz.models.hub import client
from specviz.models.hub.files import INDEX, WEIGHTS, fetch_config_files, list_model
from specviz.models.pairs.loading import load_config, load_model, load_tokenizer
from specviz.models.pairs.names import HubName, parse_hub_name
from specviz.records import load_toml
from tests.helpers.tiny_pairs import build_tiny_model

CPU = (torch.device("cpu"), torch.float32)


@pytest.fixture
def sharded_target(pair_folders, tmp_path):
    """The tiny target in shards."""
    folder = shutil.copytree(pair_folders[0], tmp_path / "sharded")
    (folder / WEIGHTS).unlink()
    build_tiny_model(300).save_pretrained(folder, max_shard_size="20KB")
    return folder


@pytest.mark.parametrize(
    ("place", "name"),
    (
        ("owner/model", HubName("owner/model")),
        (" owner/model ", HubName("owner/model")),
        ("Owner-1/model_2.5-b@v1.0", HubName("Owner-1/model_2.5-b", "v1.0")),
        ("owner/model@refs/pr/7", HubName("owner/model", "refs/pr/7")),
        *(
            (place, None)
            for place in ("one", "a/b/c", "/a/b", "./a", "~/a", "../a/b", "a/b@", "a/b@../c", "a/b c", "a/b.git", "a/..", "")
        ),
        ("a/" + "b" * 95, None),
    ),
)
def test_a_hub_name_has_an_owner_a_model_and_perhaps_a_revision(place, name):
    assert parse_hub_name(place) == name


def test_a_folder_that_exists_is_a_folder_even_if_it_is_called_like_a_hub_name(hub, pair_folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pair_folders[0], tmp_path / "owner" / "model@v1")
    found = list_model("owner/model@v1")
    assert (found.repo, found.download_bytes, hub.asked) == (None, 0, [])


def test_a_listing_says_sizes_hashes_commit_and_license_and_fetches_no_weights(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    found = list_model("owner/model@v1.0")
    assert (found.repo, found.revision, found.commit) == ("owner/model", "v1.0", repo.revisions["v1.0"])
    assert (found.license, found.gated, found.here_bytes) == ("mit", False, 0)
    assert [file.name for file in found.weights] == [WEIGHTS]
    assert {file.name: file.size for file in found.files}.items() <= {p.name: p.stat().st_size for p in repo.files()}.items()
    assert all(file.is_plausible and not file.here for file in found.files)
    assert load_config(found).vocab_size == len(load_tokenizer(found)) == 300
    assert hub.contents() == [] and found.download_bytes == sum(file.size for file in found.weights)


def test_what_is_not_read_is_not_listed(hub, pair_folders, tmp_path):
    folder = shutil.copytree(pair_folders[0], tmp_path / "more")
    for name in ("pytorch_model.bin", "README.md", "evil.py", "onnx/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x" * 9)
    hub.add("owner/model", folder)
    assert {file.name for file in list_model("owner/model").files} == {p.name for p in pair_folders[0].iterdir()}


def test_shards_are_those_that_the_index_names(hub, sharded_target):
    hub.add("owner/model", sharded_target)
    shards = {path.name for path in sharded_target.glob("*.safetensors")}
    assert len(shards) > 2
    for place in ("owner/model", str(sharded_target)):
        assert {file.name for file in list_model(place).weights} == shards
    assert hub.contents() == []


def test_a_model_in_shards_is_the_model(sharded_target, hub):
    hub.add("owner/model", sharded_target)
    there, fetched = (load_model(place, *CPU) for place in (str(sharded_target), "owner/model"))
    assert all(
        torch.equal(a, b) and torch.equal(a, c)
        for a, b, c in zip(build_tiny_model(300).parameters(), there.parameters(), fetched.parameters(), strict=True)
    )


def test_a_missing_shard_is_named(sharded_target):
    gone = sorted(sharded_target.glob("*.safetensors"))[1]
    gone.unlink()
    with pytest.raises(DamagedModelError, match=rf"lacks 1 of the \d files of weights that its index names: {gone.name}"):
        list_model(str(sharded_target))


@pytest.mark.parametrize(
    "index", ("{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../../x"}}')
)
def test_an_index_that_names_no_files_of_the_model_is_refused(sharded_target, index):
    (sharded_target / INDEX).write_text(index)
    with pytest.raises(DamagedModelError):
        list_model(str(sharded_target))


def test_folders_are_found_by_relative_path_with_spaces_through_links_and_below_home(hub, pair_folders, tmp_path, monkeypatch):
    odd = shutil.copytree(pair_folders[0], tmp_path / "my models" / "größe 1")
    (tmp_path / "link").symlink_to(odd, target_is_directory=True)
    store = tmp_path / "contents"
    store.mkdir()
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in pair_folders[0].iterdir():  # as the cache of the hub's clients does it
        shutil.copy(path, store / path.name)
        (linked / path.name).symlink_to(store / path.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("my models/größe 1", "./my models/größe 1", "link", "linked", "~/link", f"{odd}/"):
        assert load_model(place, *CPU).num_parameters() == build_tiny_model(300).num_parameters()
        assert len(load_tokenizer(place)) == 300
    assert hub.asked == []


def test_a_link_to_nothing_is_a_sentence(pair_folders, tmp_path):
    folder = shutil.copytree(pair_folders[0], tmp_path / "model")
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to(tmp_path / "gone")
    with pytest.raises(ModelError, match="does not hold weights"):
        list_model(str(folder))


def test_a_model_with_pickled_weights_alone_is_refused_before_anything_is_fetched(hub, pair_folders, tmp_path):
    folder = shutil.copytree(pair_folders[0], tmp_path / "model")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    hub.add("owner/model", folder)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is pickled"):
        list_model("owner/model")
    assert len(hub.asked) == 1


@pytest.mark.parametrize("name", ("../../outside.json", "/etc/passwd", "a/../../b"))
def test_a_file_that_would_be_written_elsewhere_is_not_listed(hub, pair_folders, monkeypatch, name):
    from specviz.models.hub import files

    hub.add("owner/model", pair_folders[0])
    monkeypatch.setattr(files, "SMALL", files.SMALL | {name})
    info = files.HfApi.model_info

    def more(*arguments, **named):
        answer = info(*arguments, **named)
        answer.siblings[0].rfilename = name
        return answer

    monkeypatch.setattr(files.HfApi, "model_info", more)
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        list_model("owner/model")


def test_a_revision_that_is_a_commit_needs_no_hub_once_it_is_here(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    place = f"owner/model@{repo.revisions['main']}"
    load_model(place, *CPU)
    hub.asked.clear()
    load_model(place, *CPU)
    assert hub.asked == []


def test_a_branch_that_moved_is_the_new_commit(hub, pair_folders):
    first = hub.add("owner/model", pair_folders[0]).revisions["main"]
    load_model("owner/model", *CPU)
    second = hub.add("owner/model", pair_folders[1]).revisions["main"]
    found = list_model("owner/model")
    assert first != second and found.commit == second and found.download_bytes > 0
    fetch_config_files(found)
    assert json.loads((found.folder / "config.json").read_text()) == json.loads((pair_folders[1] / "config.json").read_text())


def test_every_refusal_has_a_sentence():
    kinds = {kind.__name__ for kind in client.REFUSALS} | {"too_many", "account", "server", "other_status", "network", "no_hub"}
    assert set(load_toml("texts/hub_refusals")) == kinds
