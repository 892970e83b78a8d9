"""A download ends with every byte as announced, or with a sentence and a state from which the next one goes on."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants, hf_hub_download

from specviz.errors import CancelledError, DamagedModelError, ModelError
from specviz.models.hub import client, download
from specviz.models.hub.download import download_models as fetch_all
from specviz.models.hub.files import WEIGHTS, list_model
from specviz.models.pairs.loading import load_model, load_pair, load_tokenizer
from specviz.statistics.finding import format_bytes
from tests.helpers.local_hub import Hub, run_hub

CPU = (torch.device("cpu"), torch.float32)


def list_held(folder):
    """Files of a cache that are whole, and those that are not."""
    blobs = [path for path in folder.rglob("blobs/*") if path.is_file()]
    return [p for p in blobs if p.suffix != ".partial"], [p for p in blobs if p.suffix == ".partial"]


def are_same(folder, repo):
    return all((folder / path.name).read_bytes() == path.read_bytes() for path in repo.folder.iterdir())


def cancel_after(count):
    """A progress callback that raises at its n-th call."""
    calls = iter(range(10**9))

    def on_progress(share, doing="", /):
        if next(calls) >= count:
            raise CancelledError

    return on_progress


def test_a_download_brings_every_file_and_says_how_far_it_is(hub, pair_folders):
    repos = [hub.add(f"owner/{folder.name}", folder) for folder in pair_folders]
    found = [list_model(name) for name in hub.repos]
    reports = []
    fetch_all(found, lambda share, doing: reports.append((share, doing)))
    total = format_bytes(sum(one.total_bytes for one in found))
    shares = [share for share, _ in reports]
    assert shares == sorted(shares) and reports[-1] == (1.0, f"{total} of {total}")
    assert all(one.download_bytes == 0 and are_same(one.folder, repo) for one, repo in zip(found, repos, strict=True))
    asked = len(hub.asked)
    fetch_all(found)
    assert len(hub.asked) == asked, "what is here is not fetched again"


def test_the_hubs_own_client_finds_what_was_downloaded(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    fetch_all([list_model("owner/model")])
    path = hf_hub_download("owner/model", WEIGHTS, local_files_only=True, cache_dir=client.find_cache_folder())
    assert Path(path).read_bytes() == (pair_folders[0] / WEIGHTS).read_bytes()


def test_what_the_hubs_own_client_downloaded_is_not_fetched_again(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    hf_hub_download("owner/model", WEIGHTS, endpoint=hub.address, cache_dir=client.find_cache_folder())
    found = list_model("owner/model")
    assert found.here_bytes >= sum(file.size for file in found.weights)
    hub.asked.clear()
    fetch_all([found])
    assert hub.contents() == []


def test_a_cut_connection_is_taken_up_where_it_was_cut(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    hub.cuts, hub.piece = [0, 1000, 0, 5000, 1], 500
    found = list_model("owner/model")
    fetch_all([found])
    assert are_same(found.folder, repo) and hub.cuts == []
    assert "bytes=1000-" in hub.ranges


def test_a_hub_that_ignores_ranges_is_read_from_the_beginning(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    hub.cuts, hub.no_range = [1000, 2000], True
    found = list_model("owner/model")
    fetch_all([found])
    assert are_same(found.folder, repo)


def test_a_connection_that_is_always_cut_ends_with_a_sentence_and_keeps_what_came(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    hub.cuts = [0] * 50
    with pytest.raises(ModelError, match="could not be reached for 'owner/model'"):
        fetch_all([list_model("owner/model")])
    assert len(hub.cuts) == 50 - 1 - len(client.RETRY_DELAYS)


def test_a_cancelled_download_keeps_what_came_and_the_next_one_goes_on(hub, pair_folders, monkeypatch):
    monkeypatch.setattr(download, "EVERY", 0.0)
    repo = hub.add("owner/model", pair_folders[0])
    hub.piece, hub.slow = 4096, 0.002
    found = list_model("owner/model")
    weights = found.weights[0].digest

    def cancel_in_the_weights(share, doing="", /):
        if found.store.locate_partial(found.weights[0]).exists() and found.here_bytes > 30_000:
            raise CancelledError

    with pytest.raises(
        CancelledError, match=r"stopped\. The part that has arrived is kept, and the next download goes on from there"
    ):
        fetch_all([found], cancel_in_the_weights)
    whole, half = list_held(client.find_cache_folder())
    assert [path.stem for path in half] == [weights] and weights not in {path.name for path in whole}
    size = half[0].stat().st_size
    assert 0 < size < found.weights[0].size
    hub.slow, hub.ranges[:] = 0.0, []
    fetch_all([found])
    assert hub.ranges == [f"bytes={size}-"] and are_same(found.folder, repo) and list_held(client.find_cache_folder())[1] == []


def test_a_wrong_content_is_removed_and_said(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    found = list_model("owner/model")
    repo.wrong = {WEIGHTS}
    with pytest.raises(DamagedModelError, match=rf"'{WEIGHTS}' of 'owner/model' arrived with another content .* and was removed"):
        load_model("owner/model", *CPU)
    assert list_held(client.find_cache_folder())[1] == [] and not (found.folder / WEIGHTS).exists()
    repo.wrong = set()
    assert load_model("owner/model", *CPU).num_parameters() > 0


def test_a_small_file_is_checked_too(hub, pair_folders):
    hub.add("owner/model", pair_folders[0]).wrong = {"config.json"}
    with pytest.raises(DamagedModelError, match=r"'config\.json' of 'owner/model' arrived with another content"):
        load_pair("owner/model|owner/model", "cpu")


@pytest.mark.parametrize("extra", (b"", b"more than was announced"), ids=("shorter", "longer"))
def test_a_partial_file_that_is_not_of_this_download_does_no_harm(hub, pair_folders, extra):
    """Too long, it is thrown away at once; else the hash finds it out."""
    repo = hub.add("owner/model", pair_folders[0])
    found = list_model("owner/model")
    half = found.store.locate_partial(found.weights[0])
    half.parent.mkdir(parents=True)
    half.write_bytes(bytes(found.weights[0].size) + extra if extra else b"nonsense")
    if not extra:
        with pytest.raises(DamagedModelError):
            fetch_all([found])
    fetch_all([found])
    assert are_same(found.folder, repo)


def test_files_elsewhere_are_followed_without_the_token(hub, pair_folders, monkeypatch):
    hub.add("owner/model", pair_folders[0], private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    with run_hub(Hub(repos=hub.repos)) as network:
        hub.elsewhere = network.address
        assert load_model("owner/model", *CPU).num_parameters() > 0
    assert any(line.startswith("GET /elsewhere/") for line in network.asked)
    assert set(hub.tokens) == {"Bearer hf_right"} and set(network.tokens) == {""}


@pytest.mark.parametrize("answers", ([(429, None)], [(429, "0"), (503, None), (429, "0")], [(500, None)] * 4), ids=str)
def test_a_hub_that_asks_to_wait_is_asked_again(hub, pair_folders, answers):
    hub.add("owner/model", pair_folders[0])
    hub.refuse = list(answers)
    found = list_model("owner/model")
    hub.refuse = list(answers)
    fetch_all([found])
    assert hub.refuse == [] and found.download_bytes == 0


def test_a_wait_is_as_long_as_the_hub_asks(hub, pair_folders, monkeypatch):
    waits = []
    monkeypatch.setattr(client, "wait", lambda seconds, on_wait: waits.append(seconds))
    hub.add("owner/model", pair_folders[0])
    hub.refuse = [(429, "17"), (429, "3")]
    list_model("owner/model")
    assert waits == [17.0, 3.0]


def test_a_hub_that_goes_on_refusing_is_a_sentence_with_the_time_to_wait(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    hub.refuse = [(429, "300")]
    with pytest.raises(ModelError, match=r"too many requests from here \(429\). Try again in 300 seconds; .*hf auth login"):
        list_model("owner/model")
    hub.refuse = [(429, None)] * 5
    with pytest.raises(ModelError, match="in some minutes"):
        list_model("owner/model")
    hub.refuse = [(503, None)] * 5
    with pytest.raises(ModelError, match=r"an error of its own \(503\)"):
        list_model("owner/model")


def test_a_wait_ends_when_it_is_cancelled(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    hub.refuse = [(429, "59")]
    with pytest.raises(CancelledError):
        list_model("owner/model", on_progress=cancel_after(2))


def test_a_gated_model_names_its_license_and_the_log_in(hub, pair_folders, monkeypatch):
    hub.add("meta/llama", pair_folders[0], gated="manual")
    assert list_model("meta/llama").gated
    with pytest.raises(ModelError, match=rf"gated: accept its license at {hub.address}/meta/llama.*hf auth login"):
        load_tokenizer("meta/llama")
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert len(load_tokenizer("meta/llama")) == 300


@pytest.mark.parametrize("place", ("owner/missing", "owner/private"))
def test_a_missing_name_and_a_private_one_are_one_sentence_as_the_hub_tells_them_apart_to_nobody(hub, pair_folders, place):
    hub.add("owner/private", pair_folders[0], private=True)
    with pytest.raises(ModelError, match=rf"has no model '{place}', or it is private. Check the spelling; .*hf auth login"):
        load_model(place, *CPU)


def test_a_revision_that_is_not_there_is_named(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    with pytest.raises(ModelError, match=r"'owner/model' has no revision 'v9'.*owner/model/tree/main"):
        list_model("owner/model@v9")


def test_a_file_that_is_listed_and_not_there_is_a_sentence(hub, pair_folders):
    hub.add("owner/model", pair_folders[0]).missing = {WEIGHTS}
    with pytest.raises(ModelError, match=r"'owner/model' lists a file that .* does not have"):
        load_model("owner/model", *CPU)


def test_an_answer_that_is_no_hubs_is_a_sentence(hub):
    hub.html = True
    with pytest.raises(ModelError, match=r"does not answer as a model hub does.*Check HF_ENDPOINT"):
        list_model("owner/model")


def test_a_hub_that_nobody_answers_for_is_a_sentence(hub, monkeypatch):
    with socket.socket() as free:  # bound and not listening: connections to it are refused
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(ModelError, match=r"could not be reached for 'owner/model'.*or name a folder"):
            list_model("owner/model")


@pytest.mark.parametrize("address", ("not an address", "http://[", "ftp://example.org"))
def test_an_address_that_is_none_is_a_sentence(hub, monkeypatch, address):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(ModelError, match="Check"):
        list_model("owner/model")


@pytest.mark.parametrize("way", ("environment", "client"))
def test_offline_a_complete_download_is_used_and_anything_else_is_a_sentence(hub, pair_folders, monkeypatch, way):
    for name in ("owner/model", "owner/other"):
        hub.add(name, pair_folders[0])
    fetch_all([list_model("owner/model"), list_model("owner/model@v1.0")])
    load_tokenizer("owner/other")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1") if way == "environment" else monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.asked.clear()
    for place in ("owner/model", "owner/model@v1.0", f"owner/model@{hub.repos['owner/model'].revisions['main']}"):
        assert load_model(place, *CPU).num_parameters() > 0
    for place in ("owner/other", "owner/model@v2", "owner/never"):
        with pytest.raises(ModelError, match="not complete on this machine, and HF_HUB_OFFLINE forbids"):
            load_model(place, *CPU)
    assert hub.asked == []


def test_without_a_hub_a_complete_download_is_used(hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    load_model("owner/model", *CPU)
    hub.refuse = [(503, None)] * 50
    assert load_model("owner/model", *CPU).num_parameters() > 0


def test_a_full_disk_is_said_before_anything_is_written(hub, pair_folders, monkeypatch):
    hub.add("owner/model", pair_folders[0])
    found = list_model("owner/model")
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, download.SPARE + 1000))
    with pytest.raises(ModelError, match=r"needs 0\.2 MB of disk, and 0\.0 MB are free in .*HF_HUB_CACHE"):
        fetch_all([found])
    assert list_held(client.find_cache_folder()) == ([], []) and hub.contents() == []


def test_two_downloads_of_one_model_at_once_fetch_it_once(hub, pair_folders):
    repo = hub.add("owner/model", pair_folders[0])
    hub.piece, hub.slow = 4096, 0.002
    found, failed = list_model("owner/model"), []

    def work():
        try:
            fetch_all([found])
        except Exception as error:
            failed.append(error)

    both = [threading.Thread(target=work) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert not failed and are_same(found.folder, repo)
    assert hub.sent[WEIGHTS] == found.weights[0].size


def test_a_pair_of_hub_names_with_revisions_is_the_pair_of_its_folders(hub, pair_folders, pair):
    for folder in pair_folders:
        hub.add(f"owner/{folder.name}", folder)
    loaded = load_pair("owner/target@v1.0|owner/draft", "cpu")
    assert loaded.name == "owner/target@v1.0|owner/draft"
    for mine, other in ((loaded.target, pair.target), (loaded.draft, pair.draft)):
        assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), other.parameters(), strict=True))


def test_a_model_that_is_refused_is_not_downloaded(hub, pair_folders, tmp_path):
    folder = shutil.copytree(pair_folders[0], tmp_path / "odd")
    (folder / "config.json").write_text('{"model_type": "gpt_neo"}')
    hub.add("owner/odd", folder)
    with pytest.raises(ModelError, match="gpt_neo"):
        load_model("owner/odd", *CPU)
    assert hub.contents() == []
