"""``pairs check`` says what it found and fetches no weights; ``pairs download`` fetches them and, stopped in the middle, goes on from there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specviz.__main__ import main
from specviz.cli.pairs.check import _describe_pair
from specviz.models.hub import download as downloads
from specviz.models.hub.files import WEIGHTS, list_model
from specviz.speed.prediction.preflight import check_pair as preflight


@pytest.fixture
def check(hub, pair_folders, capsys):
    """Run ``pairs check`` on the tiny pair of the hub; returns exit code, stdout, stderr."""
    for folder in pair_folders:
        hub.add(f"owner/{folder.name}", folder)

    def call(*more: str, places=("owner/target@v1.0", "owner/draft"), command="check"):
        return main(["pairs", command, *places, "--device", "cpu", *more]), *capsys.readouterr()

    return call


def test_a_check_names_both_models_and_fetches_no_weights(check, hub):
    code, out, _ = check()
    assert code == 0 and hub.contents() == []
    for words in (
        "owner/target@v1.0",
        "license mit",
        "one tokenizer",
        "llama",
        "to download",
        "draft step",
        "in float32",
        "Ready.",
    ):
        assert words in out
    assert out.splitlines()[-1] == (
        "Ready. To run it: specviz decode --target owner/target@v1.0 --draft owner/draft --device cpu --prompt ..."
    )


def test_json_is_the_record_of_the_check(check):
    code, out, _ = check("--format", "json", "--no-probe", "--dtype", "bfloat16")
    record = json.loads(out)
    assert code == 0 and record["ready"] and record["expected"] is None and record["dtype"] == "bfloat16"
    assert record["target"]["place"] == "owner/target@v1.0" and record["download_bytes"] > 0 and "downloaded_bytes" not in record


@pytest.mark.parametrize("form", ("text", "json"))
def test_with_download_the_pair_is_there_afterwards(check, hub, form):
    code, out, _ = check("--no-probe", "--format", form, command="download")
    assert code == 0 and len(hub.contents()) == 2
    assert "Downloaded: " in out if form == "text" else json.loads(out)["downloaded_bytes"] == json.loads(out)["download_bytes"]
    hub.asked.clear()
    code, out, _ = check("--no-probe", command="download")
    assert code == 0 and hub.contents() == [] and "all here" in out and "Downloaded" not in out
    decode = ["decode", "--target", "owner/target@v1.0", "--draft", "owner/draft", "--device", "cpu", "--max-new-tokens", "3"]
    assert main([*decode, "--prompt", "Once"]) == 0 and hub.contents() == []


def test_memory_is_said_of_the_device_and_where_it_is_another_of_the_system(pair_folders):
    found = preflight(*map(str, pair_folders), device="cpu", probe=False)
    (line,) = [one for one in _describe_pair(found) if one.startswith("memory")]
    assert "free on this cpu, in float32" in line and "system" not in line
    (line,) = [
        one
        for one in _describe_pair(replace(found, device="cuda", free_bytes=3 * 10**9, host_bytes=5 * 10**9))
        if one.startswith("memory")
    ]
    assert "3.00 GB free on this cuda, 5.00 GB in the system, in float32" in line


def test_what_is_in_the_way_is_said_and_nothing_is_downloaded(check, hub):
    code, out, _ = check(places=("owner/target", "owner/nobody"), command="download")
    assert code == 1 and hub.contents() == [] and out.splitlines()[-1] == "Not ready."
    assert "has no model 'owner/nobody', or it is private" in out


def test_ctrl_c_leaves_a_download_that_goes_on_and_says_so(check, hub, monkeypatch):
    found, real = list_model("owner/draft"), downloads.fetch_file

    def interrupted(store, file, on_progress):
        def interrupt_weights(share, doing="", /):
            if file.name == WEIGHTS and store.repo == "owner/draft" and share > 0:
                raise KeyboardInterrupt

        return real(store, file, interrupt_weights)

    monkeypatch.setattr(downloads, "fetch_file", interrupted)
    hub.piece = 4096
    code, _, err = check("--no-probe", command="download")
    assert code == 130 and err.endswith("interrupted: what has arrived is kept, and the same command goes on from there\n")
    size = found.store.locate_partial(found.weights[0]).stat().st_size
    assert 0 < size < found.weights[0].size
    monkeypatch.setattr(downloads, "fetch_file", real)
    code, _, _ = check("--no-probe", command="download")
    assert code == 0 and hub.ranges == [f"bytes={size}-"] and list_model("owner/draft").download_bytes == 0


def test_a_wrong_content_is_one_sentence(check, hub):
    hub.repos["owner/draft"].wrong = {WEIGHTS}
    code, _, err = check("--no-probe", command="download")
    assert code == 2 and f"'{WEIGHTS}' of 'owner/draft' arrived with another content" in err and "Traceback" not in err
    assert list_model("owner/draft").download_bytes > 0


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (("pairs", "--download"), "--download of pairs is a command now: specviz pairs download TARGET DRAFT."),
        (("pairs", "check", "one"), "DRAFT is missing; --help lists the options."),
        (("pairs", "check", "a", "b", "--dtype", "int3"), "int3"),
        (("pairs", "check", "a", "b", "--device", "tpu"), "tpu"),
    ),
    ids=str,
)
def test_options_that_do_not_fit_are_a_sentence(words, said, capsys):
    assert main(list(words)) == 2
    assert said in capsys.readouterr().err
