"""A check before the weights says what loading and running then do; each obstacle is a sentence, never an exception."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import CONFIG_MAPPING, GPT2Config, GPT2LMHeadModel, LlamaConfig, MistralConfig

from specviz.errors import CancelledError, ModelError, SettingsError
from specviz.models.hub.download import download_models
from specviz.models.hub.files import WEIGHTS
from specviz.models.pairs import families
from specviz.models.pairs.catalog import OVERHEAD, PAIRS
from specviz.models.pairs.loading import load_config, load_pair
from specviz.models.pairs.shallow import build_shallow_model, count_layers, cut_config
from specviz.settings import Settings
from specviz.speed.measurement import clock
from specviz.speed.measurement.costs import measure_costs
from specviz.speed.prediction import preflight
from specviz.speed.prediction.preflight import (
    CACHED_TOKENS,
    GAMMA,
    _choose_depths,
    _extrapolate_layers,
    check_pair,
    measure_pass_times,
)
from specviz.speed.records.estimate import MIN_RUNS
from specviz.speed.records.gpu_costs import describe_bfloat16, list_gpu_costs
from tests.helpers.tiny_pairs import build_tiny_model, write_pair
from tests.models.test_families import build_config

CPU = torch.device("cpu")
PRODUCTS = ("mm", "addmm", "_linear_pointwise")
PACKED = ("fbgemm_linear_fp16_weight_fp32_activation",)  # their weights are packed for few tokens, as those of the shipped pair


@pytest.fixture
def folders(pair_folders, tmp_path):
    """A copy of the tiny pair that a test may change."""
    return [shutil.copytree(folder, tmp_path / folder.name) for folder in pair_folders]


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    """Passes of tiny models are timed as often as those of large ones."""
    monkeypatch.setattr(preflight, "MAX_RUNS", MIN_RUNS)


def check(target, draft, **more):
    return check_pair(str(target), str(draft), device="cpu", probe=False, **more)


def change_config(folder, name, **more):
    path = folder / name
    record = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(record | more))


def test_a_pair_of_the_hub_is_known_before_a_byte_of_its_weights_is_fetched(hub, pair_folders, pair):
    for folder in pair_folders:
        hub.add(f"owner/{folder.name}", folder, gated="auto", account="")
    for repo in hub.repos.values():
        repo.gated = False
    found = check_pair("owner/target@v1.0", "owner/draft", device="cpu")
    assert found.ready and found.all_problems == () and hub.contents() == []
    assert (found.target.revision, found.target.commit) == ("v1.0", hub.repos["owner/target"].revisions["main"])
    assert (found.target.license, found.target.family, found.target.supported) == ("mit", "llama", True)
    assert found.target.parameters == pair.target.num_parameters()
    assert found.target.memory_bytes == round(4 * OVERHEAD * pair.target.num_parameters())
    assert found.target.end_tokens == tuple(pair.eos_token_ids) and found.target.tokens == 300
    assert found.differ is None and found.expected is not None
    sizes = sum((folder / WEIGHTS).stat().st_size for folder in pair_folders)
    assert found.download_bytes == sizes > 0
    download_models(found.listings)
    assert load_pair("owner/target@v1.0|owner/draft", "cpu").vocabulary == found.target.vocabulary
    assert check_pair("owner/target@v1.0", "owner/draft", "cpu", probe=False).download_bytes == 0


def test_the_record_is_json_and_has_what_follows_from_its_fields(pair_folders):
    record = json.loads(json.dumps(check_pair(*map(str, pair_folders), device="cpu").to_record(), allow_nan=False))
    assert record["schema"] == preflight.SCHEMA and record["ready"] is True and record["download_bytes"] == 0
    assert record["memory_bytes"] == record["target"]["memory_bytes"] + record["draft"]["memory_bytes"]
    assert record["expected"]["one"]["value"] > 0 and "listings" not in record


def test_a_target_that_is_its_own_draft_is_in_memory_once(pair_folders):
    found = check_pair(str(pair_folders[0]), str(pair_folders[0]), device="cpu", probe=False)
    assert found.memory_bytes == found.target.memory_bytes > 0 and found.ready


@pytest.mark.parametrize(
    "way", ("missing", "private", "gated", "no revision", "no weights", "damaged", "refusing", "html", "offline")
)
def test_whatever_is_wrong_with_one_model_the_check_ends_and_says_it(hub, folders, monkeypatch, way):
    repo = hub.add("owner/model", folders[1], private=way == "private", gated="manual" if way == "gated" else False)
    place = {"missing": "owner/none", "no revision": "owner/model@v3"}.get(way, "owner/model")
    if way == "no weights":
        (folders[1] / WEIGHTS).unlink()
    if way == "damaged":
        repo.wrong = {"tokenizer.json"}
    if way == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.refuse, hub.html = [(429, None)] * 9 if way == "refusing" else [], way == "html"
    found = check(folders[0], place)
    assert len(found.draft.problems) == 1 and not found.ready and found.target.problems == ()
    assert found.draft.problems[0].endswith((".", "kept.")) and "Traceback" not in found.draft.problems[0]
    assert found.draft.gated == (way == "gated") and hub.contents() == []
    json.dumps(found.to_record())


@pytest.mark.parametrize("place", ("", "nope", "/nowhere", "~nobody-of-this-name/x", "a|b", "x" * 5000, "a\0b", "\n"))
def test_a_place_that_is_none_is_a_problem(pair_folders, place):
    found = check(pair_folders[0], place)
    assert not found.ready and "neither a folder on this machine nor a hub name" in found.draft.problems[0]


def test_what_check_calls_ready_loads_and_what_it_does_not_is_refused_with_its_sentence(folders, tmp_path):
    other, _ = write_pair(tmp_path / "other", vocabulary=280)
    unsupported = shutil.copytree(folders[0], tmp_path / "unsupported")
    (unsupported / "config.json").write_text('{"model_type": "gpt_neo", "num_layers": 2, "attention_types": [[["global"], 2]]}')
    narrow = shutil.copytree(folders[0], tmp_path / "narrow")
    change_config(narrow, "config.json", vocab_size=200)
    for draft in (folders[1], other, unsupported, narrow):
        found = check(folders[0], draft)
        try:
            load_pair(f"{folders[0]}|{draft}", "cpu")
        except ModelError as error:
            assert not found.ready
            if draft is not narrow and draft is not other:
                assert str(error) in found.all_problems
        else:
            assert found.ready
    assert "300 and 280 entries" in check(folders[0], other).differ
    assert "280 of the draft's 280 tokens are the target's too" in " ".join(check(folders[0], other).notes)
    assert check(folders[0], unsupported).draft.supported is False


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    "family",
    ("bert", "whisper", "mamba", "bloom", *(pytest.param(name, marks=pytest.mark.slow) for name in ("clip", "vit", "rwkv"))),
)
def test_any_other_kind_of_model_is_a_sentence(folders, family):
    CONFIG_MAPPING[family]().save_pretrained(folders[0])
    found = check(*folders)
    assert found.target.supported is False and found.target.family == family and found.expected is None
    assert not found.ready and any(family in problem for problem in found.target.problems)


def test_a_folder_that_may_not_be_read_is_a_problem(folders, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.iterdir", closed)
    assert "could not be read (Permission denied)" in check(*folders).all_problems[0]


def test_a_pair_of_both_kinds_is_a_problem(pair_folders, encoder_decoder_folders):
    found = check(pair_folders[0], next(iter(encoder_decoder_folders.values()))[1])
    assert any("both must be of one kind" in problem for problem in found.problems)


def test_seventy_billion_parameters_on_this_machine_are_a_sentence_with_the_numbers(folders, monkeypatch):
    """Counted without memory: 70.6 billion parameters as Llama 3 70B has them, in float32 and a fifth more 338.7 GB."""
    config = LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    config.save_pretrained(folders[0])
    monkeypatch.setattr(families, "find_free_memory", lambda device: 16_000_000_000)
    found = check_pair(*map(str, folders), device="cpu")
    assert round(found.target.parameters / 1e9, 1) == 70.6 and found.expected is None and not found.ready
    assert any(
        "needs about 338.66 GB of memory in float32" in problem and "16.00 GB are free" in problem for problem in found.problems
    )
    assert any("--dtype bfloat16" in problem for problem in found.problems)
    assert check(*folders, dtype="bfloat16").memory_bytes < 0.51 * found.memory_bytes


def test_a_pair_whose_models_fit_only_one_at_a_time_is_not_ready(pair_folders, monkeypatch):
    one = check(*pair_folders)
    monkeypatch.setattr(families, "find_free_memory", lambda device: one.target.memory_bytes + 1)
    assert any("The pair needs about" in problem for problem in check(*pair_folders).problems)
    monkeypatch.setattr(families, "find_free_memory", lambda device: one.memory_bytes)
    assert check(*pair_folders).ready


def test_a_disk_without_room_is_a_problem_only_for_what_is_not_here(hub, pair_folders, monkeypatch):
    hub.add("owner/draft", pair_folders[1])
    monkeypatch.setattr(preflight, "find_free_disk", lambda: 1000)
    assert "HF_HUB_CACHE" in check(pair_folders[0], "owner/draft").problems[0]
    assert check(*pair_folders).ready


def test_a_target_without_end_token_is_a_note(folders):
    for folder in folders:
        (folder / "generation_config.json").unlink(missing_ok=True)
        change_config(folder, "config.json", eos_token_id=None)
    found = check(*folders)
    assert (
        found.ready and found.target.end_tokens == () and any("names no token that ends a text" in note for note in found.notes)
    )
    assert load_pair("|".join(map(str, folders)), "cpu").eos_token_ids == frozenset()


def test_every_end_token_of_the_generation_configuration_ends_a_text(folders):
    change_config(folders[0], "generation_config.json", eos_token_id=[3, 0, 7])
    found = check(*folders)
    assert found.target.end_tokens == (0, 3, 7) and any("3 tokens end a text: 0, 3, 7." in note for note in found.notes)
    assert load_pair("|".join(map(str, folders)), "cpu").eos_token_ids == {0, 3, 7}


def test_a_chat_template_is_seen(folders):
    assert not check(*folders).target.chat_template
    (folders[0] / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    found = check(*folders)
    assert found.target.chat_template and any("chat template" in note for note in found.notes)


def test_added_tokens_are_counted_and_must_fit_the_model(folders):
    for folder in folders:
        tokenizer = preflight.load_tokenizer(str(folder))
        tokenizer.add_tokens(["<one>", "<two>"])
        tokenizer.save_pretrained(folder)
    found = check(*folders)
    assert found.target.tokens == 302 and "predicts 300 tokens, and its tokenizer has 302" in found.target.problems[0]
    for folder, layers in zip(folders, (2, 1), strict=True):
        build_tiny_model(302, layers=layers).save_pretrained(folder)
    assert check(*folders).ready
    assert load_pair("|".join(map(str, folders)), "cpu").encode("a<one>b")[1] == 300


def test_models_of_other_contexts_and_windows_are_said(folders):
    build_tiny_model(300, context=64).save_pretrained(folders[1])
    MistralConfig(
        **{"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "sliding_window": 9},
        **{"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128},
    ).save_pretrained(folders[0])
    found = check(*folders)
    assert (found.target.context, found.draft.context, found.target.window) == (128, 64, 9) and found.ready
    assert any("beyond 64 it drafts nothing" in note for note in found.notes)


def test_tied_heads_count_once(folders):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=64, eos_token_id=0))
    for folder in folders:
        model.save_pretrained(folder)
    assert check(*folders).target.parameters == model.num_parameters()
    loaded = load_pair("|".join(map(str, folders)), "cpu")
    assert torch.equal(loaded.target.lm_head.weight, model.transformer.wte.weight)


def test_weights_in_half_precision_run_on_a_processor_in_either_type_and_it_is_said(folders):
    for folder, layers in zip(folders, (2, 1), strict=True):
        build_tiny_model(300, layers=layers).to(torch.bfloat16).save_pretrained(folder)
    found, half = check(*folders), check(*folders, dtype="bfloat16")
    assert found.target.stored == "bfloat16" and any("stored in bfloat16 run in float32" in note for note in found.notes)
    assert half.memory_bytes == pytest.approx(found.memory_bytes / 2, rel=1e-4)
    assert not any("stored in" in note for note in half.notes) and any("slower" in note for note in half.notes)
    for dtype in ("float32", "bfloat16"):
        loaded = load_pair("|".join(map(str, folders)), "cpu", dtype)
        assert str(loaded.target.dtype) == f"torch.{dtype}" and len(loaded.encode("Once")) > 0


def test_an_unknown_device_or_number_type_is_refused(pair_folders):
    for more in ({"device": "tpu"}, {"dtype": "int3"}):
        with pytest.raises(SettingsError):
            check_pair(*map(str, pair_folders), **more)


def test_a_check_says_where_it_is_and_stops_when_told(hub, pair_folders):
    shares = []
    check_pair(*map(str, pair_folders), device="cpu", on_progress=lambda share, what: shares.append((share, what)))
    assert [share for share, _ in shares] == sorted(share for share, _ in shares)
    assert {"the target's files", "the draft's files", "the tokenizers", "the time of a pass"} == {what for _, what in shares}
    hub.add("owner/model", pair_folders[0])
    hub.refuse = [(429, "59")]
    waits = []

    def cancel_at_wait(share, doing):
        waits.append(doing)
        if len(waits) > 2:
            raise CancelledError

    with pytest.raises(CancelledError):
        check_pair("owner/model", str(pair_folders[1]), on_progress=cancel_at_wait)
    assert waits == ["the target's files"] * 3, "stopped while it waits for the hub"


# What a pass will take --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family", ("llama", "gpt2", "opt", "gpt_neox", "gemma3_text", "qwen2", "falcon", "mixtral", "cohere2", "smollm3")
)
def test_a_shallow_model_is_the_first_layers_of_the_real_one(family):
    config = build_config(family)
    one, whole = (build_shallow_model(config, layers, CPU, torch.float32) for layers in (1, count_layers(config)))
    there = {name: weight.shape for name, weight in whole.named_parameters()}
    assert (
        one.num_parameters()
        == families.count_parameters(cut_config(config, 1))
        < families.count_parameters(config)
        == whole.num_parameters()
    )
    assert all(there[name] == weight.shape for name, weight in one.named_parameters())
    assert bool(torch.isfinite(one(torch.arange(5)[None]).logits).all()) and count_layers(config) == 2


def test_layers_that_are_left_out_are_added_in_proportion_run_by_run():
    """One layer 2 s and four 5 s: each further layer 1 s, so ten take 11 s. A run in which four were faster than one adds nothing."""
    assert _extrapolate_layers({1: [2.0, 9.0], 4: [5.0, 6.0]}, 10, 1) == [11.0, 6.0]
    assert _extrapolate_layers({10: [4.0, 8.0]}, 10, 4) == [1.0, 2.0]


def test_all_layers_are_timed_where_they_are_small_and_at_least_two_where_they_are_large():
    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=12, num_attention_heads=2, vocab_size=300)
    each = 4 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64)  # four bytes: attention, feed-forward, two norms
    assert _choose_depths(config, torch.float32, 12 * each) == (12,)
    assert _choose_depths(config, torch.float32, 5 * each) == (1, 5) and _choose_depths(config, torch.bfloat16, 5 * each) == (
        1,
        10,
    )
    assert _choose_depths(config, torch.float32, 0) == (1, 2)


@pytest.mark.parametrize("family", ("gpt2", "gemma3_text", "opt"))
def test_every_family_is_probed_by_its_own_layers(family):
    config = build_config(family, **{"max_position_embeddings": 128} if family != "gpt2" else {"n_positions": 128})
    found = measure_pass_times(config, config, CPU, torch.float32)
    assert 0 < found.one.low <= found.one.value <= found.one.high and found.draft.value > 0
    assert found.compute_factor(1.0) < found.compute_factor(5.0)


def test_models_of_a_short_context_and_few_tokens_are_probed_too():
    config = LlamaConfig(
        **{"vocab_size": 11, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
        max_position_embeddings=24,
    )
    wide = GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    for pair in ((config, wide), (wide, config)):
        assert measure_pass_times(*pair, CPU, torch.float32).block.value > 0


def test_an_encoder_decoder_pair_is_probed_too(encoder_decoder_folders):
    for folders in (encoder_decoder_folders["t5"], encoder_decoder_folders["mt5"]):
        assert check_pair(*map(str, folders), device="cpu").expected.one.value > 0


def test_a_machine_without_memory_for_the_probe_leaves_it_out(pair_folders, monkeypatch):
    def full(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(preflight, "measure_pass_times", full)
    found = check_pair(*map(str, pair_folders), device="cpu")
    assert found.ready and found.expected is None and any("too little memory left" in note for note in found.notes)


class WorkClock(TorchDispatchMode):
    """A clock that matrix products move: by a second for each weight that one reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.now = 0.0
        monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in PACKED:
            self.now += args[0].shape[-1] * found.shape[-1]
        elif name in PRODUCTS:
            self.now += max(one.numel() for one in args if isinstance(one, torch.Tensor))
        return found


@pytest.mark.slow
@pytest.mark.parametrize("layer_bytes", (512_000_000, 10_000_000), ids=("all layers", "three of twelve"))
def test_the_probe_of_the_shipped_pair_counts_each_layer_and_each_draft_step_as_often_as_its_passes_do(
    storybook, layer_bytes, monkeypatch
):
    """Weights that are read take the place of time: as many where they are packed. docs/reference/benchmarks.md says how far off the probe was in seconds."""
    entry, ids = PAIRS["storybook"], storybook.encode("Once upon a time there was a little rabbit")
    configs = [load_config(place) for place in (entry.target, entry.draft)]
    settings = Settings(gamma=GAMMA, max_new_tokens=2 * (CACHED_TOKENS - len(ids)))
    with WorkClock(monkeypatch):
        expected = measure_pass_times(*configs, CPU, torch.float32, layer_bytes=layer_bytes)
        real = measure_costs(storybook, settings, ids, MIN_RUNS)
    for name in ("one", "block", "draft"):
        assert getattr(expected, name).value == pytest.approx(getattr(real, name).value, rel=1e-9), name


def test_a_draft_that_is_larger_than_its_target_is_pointed_out_and_another_is_not(folders):
    change_config(folders[1], "config.json", num_hidden_layers=3)
    large, small = folders[1], folders[0]
    swapped, right, same = check(small, large), check(large, small), check(small, small)
    assert swapped.draft.parameters > swapped.target.parameters
    assert swapped.ready and swapped.is_swapped and "Are the two places swapped?" in swapped.to_record()["notes"][0]
    assert not any(one.is_swapped or "swapped" in " ".join(one.all_notes) for one in (right, same)), (
        "a model may draft for itself"
    )


def test_the_note_on_bfloat16_has_the_recorded_figures_of_the_pair() -> None:
    speeds = list_gpu_costs()["h200"].pair
    for dtype in ("bfloat16", "float32"):
        assert f"{max(rate for rate, *_ in speeds[f'{dtype}, T=1'].rates.values()):,.0f}" in describe_bfloat16()
