"""Encoder-decoder pairs from folders: every command on them, and refusals in a sentence."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, BartConfig, BartForConditionalGeneration

from specviz.__main__ import main
from specviz.decoding.run import record_run
from specviz.errors import ModelError, UnsupportedModelError
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.serving_setups.records import TOLERANCE
from specviz.models.pairs.loading import load_model, load_pair
from specviz.models.pairs.tokens import read_token_bytes
from specviz.settings import Settings
from specviz.speed.benchmarks import bench as bench_module
from specviz.speed.benchmarks.target_only import generate_text
from specviz.trace import Trace
from tests.helpers.encoder_decoders import MARKED_KINDS, build_tiny_encoder_decoder, build_tokenizer, write_encoder_decoders

CPU = (torch.device("cpu"), torch.float32)


@pytest.fixture
def places(encoder_decoder_folders):
    target, draft = map(str, encoder_decoder_folders["t5"])
    return ["--target", target, "--draft", draft, "--device", "cpu"]


@pytest.mark.parametrize("kind", MARKED_KINDS)
def test_weights_come_back_from_a_folder_as_they_were(encoder_decoder_folders, kind):
    """T5 v1.1 and mT5 have an output matrix of their own; the first T5 shares the embedding, and scales its states."""
    model, again = (
        build_tiny_encoder_decoder(kind, len(build_tokenizer())),
        load_model(str(encoder_decoder_folders[kind][0]), *CPU),
    )
    inputs = {"input_ids": torch.tensor([[5, 6, 1]]), "decoder_input_ids": torch.tensor([[0, 7, 8]])}
    assert torch.equal(model(**inputs).logits, again(**inputs).logits)
    assert (again.lm_head.weight is again.shared.weight) == (kind == "t5")


def test_a_configuration_as_t5_v1_1_is_published_gives_the_same_distributions(encoder_decoder_folders, tmp_path):
    """It only says that output matrix and embedding are not shared. This implies that its states are not scaled."""
    saved = encoder_decoder_folders["t5 v1.1"][0]
    folder = shutil.copytree(saved, tmp_path / "published")
    record = json.loads((folder / "config.json").read_text())
    record.pop("scale_decoder_outputs", None)
    (folder / "config.json").write_text(json.dumps(record | {"tie_word_embeddings": False}))
    inputs = {"input_ids": torch.tensor([[5, 6, 1]]), "decoder_input_ids": torch.tensor([[0, 7, 8]])}
    one, other = (load_model(str(place), *CPU)(**inputs).logits for place in (saved, folder))
    assert torch.equal(one, other)


def test_an_encoder_decoder_and_a_causal_decoder_are_no_pair(encoder_decoder_folders, pair_folders, monkeypatch):
    """Either way round, before any weights are read."""
    monkeypatch.setattr(AutoModelForSeq2SeqLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read"))
    seq, causal = encoder_decoder_folders["t5"][0], pair_folders[1]
    with pytest.raises(
        UnsupportedModelError, match=r"Target .* an encoder-decoder model \(t5\), draft .* a causal decoder \(llama\).*one kind"
    ):
        load_pair(f"{seq}|{causal}")
    with pytest.raises(
        UnsupportedModelError, match=r"Target .* a causal decoder \(llama\), draft .* an encoder-decoder model \(t5\)"
    ):
        load_pair(f"{causal}|{seq}")


def test_other_encoder_decoders_are_refused_with_those_that_are_tested(tmp_path):
    config = BartConfig(vocab_size=50, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16)  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(tmp_path)
    with pytest.raises(
        UnsupportedModelError, match=r"of the family 'bart', whose cached passes have not been tested\. Tested are: mt5, t5"
    ):
        load_model(str(tmp_path), *CPU)


def test_tokenizers_that_differ_are_refused(encoder_decoder_folders, tmp_path):
    other = write_encoder_decoders(tmp_path)[1]
    record = json.loads((other / "tokenizer.json").read_text())
    record["model"]["vocab"][5][1] -= 9.0
    (other / "tokenizer.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match="do not share one tokenizer: they split the same text differently"):
        load_pair(f"{encoder_decoder_folders['t5'][0]}|{other}")


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (None, r"draft' does not say which token its decoder begins with \(decoder_start_token_id\)"),
        (2, r"target .* begins with token 0, that of draft .* with 2\. Both must begin with the same token"),
    ],
)
def test_the_first_token_of_the_decoders_must_be_named_and_the_same(tmp_path, number, sentence):
    target, draft = write_encoder_decoders(tmp_path)
    for name in ("config.json", "generation_config.json"):
        record = json.loads((draft / name).read_text())
        (draft / name).write_text(json.dumps(record | {"decoder_start_token_id": number}))
    with pytest.raises(ModelError, match=sentence):
        load_pair(f"{target}|{draft}")


def test_pieces_of_the_tokenizer_are_text_and_not_names_of_bytes(encoder_decoders):
    """A lone u with dots is two bytes of UTF-8; byte-level tokenizers write a byte of that name instead."""
    words = encoder_decoders["t5"].tokenizer
    for text in ("für süße Äpfel", "groß", "ü"):
        ids = words.encode(text, add_special_tokens=False)
        assert b"".join(read_token_bytes(words, token) for token in ids).decode() == f" {text}"
    assert read_token_bytes(words, words.convert_tokens_to_ids("ü")) == "ü".encode()


# Commands --------------------------------------------------------------------------------------------------------------------


def test_decode_prints_the_prompt_and_apart_from_it_what_was_written(places, capsys):
    assert main(["decode", *places, "--prompt", "the old bear", "--max-new-tokens", "5"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("the old bear\n\n") and "target passes" in said
    assert main(["decode", *places, "--prompt", "the old bear", "--max-new-tokens", "5", "--format", "json"]) == 0
    trace = Trace.from_json(capsys.readouterr().out)
    assert trace.encoder_ids and trace.models["target"]["family"] == "t5"
    assert main(["decode", *places, "--prompt", "", "--max-new-tokens", "4"]) == 0
    assert "empty prompt: the encoder read </s>" in capsys.readouterr().out


def test_verify_finds_a_right_decoder_consistent_and_a_wrong_one_not(places, capsys):
    """In both modes, with the cached decoder's distribution at each prefix.

    R5 draws the replacement from p; a total variation of 0.10 of the target's distribution, with a p-value near 1e-12 in 5,000 samples.
    """
    short = [
        "verify",
        *places,
        "--prompt",
        "the old bear",
        "--max-new-tokens",
        "2",
        "--min-tv",
        "0.3",
        "--format",
        "json",
        "--samples",
        "2000",
    ]
    assert main([*short, "--seconds", "0.3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in report["answers"]] == ["consistent"] * 2 and report["analytic_tv"] < TOLERANCE
    assert main([*short, "--mode", "shared-distributions", "--decoder", "R5", "--samples", "5000"]) == 1


def test_shared_distributions_and_the_engine_draw_the_same_tokens(encoder_decoders):
    pair, settings = encoder_decoders["t5 v1.1"], Settings(prompt="the river", max_new_tokens=3, gamma=2)
    drawn = [
        build_decoder("speculative", pair, settings, pair.encode("the river")).sample(mode, 0, 60) for mode in (SHARED, ENGINE)
    ]
    assert drawn[0].tokens.tolist() == drawn[1].tokens.tolist()


def test_the_librarys_assisted_generation_is_a_source_too(encoder_decoders):
    pair, settings = encoder_decoders["t5"], Settings(prompt="the river", temperature=0.0, max_new_tokens=9, gamma=3)
    drawn = build_decoder("assisted", pair, settings, pair.encode("the river")).sample("transformers", 0, 1)
    written = list(record_run(pair, settings, bars=0).output_ids)
    assert drawn.tokens[0, : len(written)].tolist() == written


def test_every_contestant_of_the_bench_writes_the_same_greedy_text(encoder_decoders):
    pair = encoder_decoders["t5"]
    settings = Settings(prompt="the river", gamma=3, max_new_tokens=17, temperature=0.0)
    ids = pair.encode("the river")
    greedy = generate_text(pair, settings, ids)[0, 1:].tolist()
    assert len(greedy) == 17
    assert bench_module.generate_with_assistant(pair, settings, ids)[0, 1:].tolist() == greedy
    for name in ("target only", "speculative"):
        assert [token for r in bench_module._DECODERS[name](pair, settings, ids) for token in r.committed] == greedy


def test_the_bench_measures_an_encoder_decoder_pair(encoder_decoders):
    (result,) = bench_module.run_bench(encoder_decoders["t5"], gamma=2, length=8, runs=1, temperatures=(1.0,), log=lambda _: None)
    assert all(spread.low > 0 for spread in result.rates.values()) and 1.0 <= result.tokens_per_pass <= 3.0


def test_a_plan_of_an_encoder_decoder_pair_is_refused(places, capsys, tmp_path):
    (tmp_path / "text.txt").write_text("the river and the bear " * 60)
    assert main(["plan", *places, "--text", str(tmp_path / "text.txt")]) == 2
    assert "decoder-only for a plan" in capsys.readouterr().err


def test_a_causal_pair_reads_no_prompt_twice(pair):
    assert pair.encode_for_encoder("Once") == () and pair.encode("Once") == tuple(pair.tokenizer.encode("Once"))
