"""One object says what a generation_config changes: every field is applied, named, decided by settings, or without effect on p."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig
from transformers.generation.logits_process import InfNanRemoveLogitsProcessor, LogitNormalization

from specviz.decoding.run import record_run
from specviz.errors import ModelError
from specviz.evidence.analytic.along_text import check_pair_along_text
from specviz.evidence.assisted import sample_assisted
from specviz.models.pairs.generation_rules import FIELDS, PROCESSORS, TOKENS, read_eos_ids, read_generation_rules, sort_fields
from specviz.models.pairs.loading import build_pair, load_pair
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import generate_text

V = 300
PLAIN = Settings(max_new_tokens=12, temperature=0.0, prompt="Once upon a time")
VALUES = {  # of every field that is applied
    "sequence_bias": [[[65], 9.0], [[65, 65], -90.0]],
    "repetition_penalty": 1.8,
    "no_repeat_ngram_size": 1,
    "bad_words_ids": [[token] for token in range(40, 200)],
    "min_length": 20,
    "forced_bos_token_id": 7,
    "suppress_tokens": [*range(100, 250)],
}
OTHER_VALUES = {  # of fields that are not, where True or 0.5 is none
    "max_length": 9, "max_new_tokens": 9, "top_k": 3, "eos_token_id": 1, "decoder_start_token_id": 1, "num_beams": 2, "min_new_tokens": 2,
    "begin_suppress_tokens": [3], "forced_eos_token_id": 4, "exponential_decay_length_penalty": [3, 1.5], "stop_strings": ["a"],
    "encoder_no_repeat_ngram_size": 2, "num_beam_groups": 2, "cache_implementation": "static", "num_return_sequences": 1,
    "pad_token_id": 1, "bos_token_id": 1, "num_assistant_tokens": 2, "prompt_lookup_num_tokens": 2, "max_matching_ngram_size": 2,
    "assistant_early_exit": 1, "assistant_lookbehind": 2, "target_lookbehind": 2, "prefill_chunk_size": 4, "max_cache_len": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(pair_folders):
    return load_pair("|".join(map(str, pair_folders)), "cpu")


def with_config(pair, **values):
    """The same pair, whose target has these fields in its generation_config."""
    pair.target.generation_config = GenerationConfig(eos_token_id=0, bos_token_id=0, pad_token_id=0)
    for name, value in values.items():
        setattr(pair.target.generation_config, name, value)
    return build_pair(pair.target, pair.draft, pair.tokenizer)


def generate(pair, settings, **config):
    """The text that transformers' generate writes with the target's own generation_config."""
    with_config(pair, **config)
    ids = torch.tensor([pair.encode(settings.prompt)])
    options = {"do_sample": False, "max_new_tokens": settings.max_new_tokens, "attention_mask": torch.ones_like(ids)}
    return tuple(pair.target.generate(ids, **options)[0, ids.shape[1] :].tolist())


def test_every_field_of_the_installed_version_is_declared():
    """A new field of a later version is to be sorted before it is ignored."""
    fields = {name for name in GenerationConfig().to_dict() if not name.startswith("_")} | set(vars(GenerationConfig()))
    assert {name for name in fields if not name.startswith("_")} <= FIELDS.keys()
    assert {one["effect"] for one in FIELDS.values()} == {"applied", "option", "sampling", "named", "none"}
    assert {name for name, one in FIELDS.items() if one["effect"] == "applied"} == {*PROCESSORS, *TOKENS} == {*VALUES, *TOKENS}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("name", VALUES)
def test_an_applied_field_gives_the_text_of_generate_with_every_opponent(pair, name):
    """Speculative decoding, generate() as a user calls it, and both opponents write one text, which is not the plain one."""
    if name == "min_length":  # a target that would end at once
        pair.target.generation_config = GenerationConfig()
    settings = Settings(max_new_tokens=12, temperature=0.0) if name == "forced_bos_token_id" else PLAIN
    own = with_config(pair, **{name: VALUES[name]})
    trace = record_run(own, settings, bars=0)
    assert trace.output_ids == generate(pair, settings, **{name: VALUES[name]})
    own = with_config(pair, **{name: VALUES[name]})
    rows = sample_assisted(own, settings, trace.prompt_ids, 0, 1).tokens
    assert tuple(rows[0, : len(trace.output_ids)].tolist()) == trace.output_ids
    if name != "min_length":
        assert tuple(generate_text(own, settings, trace.prompt_ids)[0, len(trace.prompt_ids) :].tolist())[
            : len(trace.output_ids)
        ] == (trace.output_ids)
        assert trace.output_ids != record_run(with_config(pair), settings, bars=0).output_ids, "the value changes the text"
    assert f"generation_config applies: {name}" in trace.models["notes"][0]
    assert trace.models["generation_config"] == {name: VALUES[name]}


def test_the_reference_has_the_processors_too(pair):
    """The decoder's own distribution lies within rounding of uncached passes, and far from them without the processors."""
    own = with_config(pair, repetition_penalty=1.8, bad_words_ids=[[5]])
    settings = Settings(prompt=PLAIN.prompt, max_new_tokens=30)
    text = [*own.encode(settings.prompt), *record_run(own, settings, bars=0).output_ids]
    assert check_pair_along_text(own, settings, text, 20).worst < 1e-5
    plain = check_pair_along_text(own.without_rules(), settings, text, 20)
    assert plain.worst < 1e-5 and own.open(settings)[0].plain is False


@pytest.mark.parametrize("name", [name for name, one in FIELDS.items() if one["effect"] in ("named", "sampling")])
def test_a_field_that_is_not_applied_is_named(name):
    config = GenerationConfig()
    setattr(config, name, OTHER_VALUES.get(name, 0.5))
    rules = sort_fields(config, True)
    assert not rules.applied and name in " ".join(rules.describe(Settings()))
    assert (name in " ".join(rules.describe(Settings(temperature=0.0)))) == (FIELDS[name]["effect"] == "named")
    for off in (None, *FIELDS[name].get("off", ())):
        setattr(config, name, off)
        assert sort_fields(config, True).describe(Settings()) == []


@pytest.mark.parametrize("name", [name for name, one in FIELDS.items() if one["effect"] == "none"])
def test_a_field_without_effect_makes_no_processor_in_transformers(pair, name):
    """The list of processors of the installed version is asked."""
    config = GenerationConfig(do_sample=False)
    setattr(config, name, OTHER_VALUES.get(name, True))
    config._eos_token_tensor = torch.tensor([0])
    made = pair.target._get_logits_processor(config, input_ids_seq_length=4, device="cpu")
    assert all(isinstance(one, (InfNanRemoveLogitsProcessor, LogitNormalization)) for one in made)
    assert sort_fields(config, True).describe(Settings()) == []


def test_sampling_defaults_are_named_where_the_settings_differ():
    config = GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9, top_k=0)
    rules = sort_fields(config, True)
    assert rules.describe(Settings()) == [
        "The target's generation_config names other sampling defaults: --temperature 0.6 --top-p 0.9 would set them."
    ]
    assert rules.describe(Settings(temperature=0.6, top_p=0.9)) == rules.describe(Settings(temperature=0.0)) == []


def test_assisted_generation_gets_no_sampling_default_of_the_model(pair):
    """With min-p 1 each sample would be the most probable text."""
    own = with_config(pair, min_p=1.0, do_sample=True)
    rows = sample_assisted(own, Settings(prompt="Once", max_new_tokens=3), own.encode("Once"), 0, 6).tokens
    assert len({tuple(row) for row in rows.tolist()}) > 1


def test_end_tokens_are_those_that_generate_stops_at(pair):
    """A null in generation_config.json means that nothing ends a text, whatever config.json says."""
    config = pair.target.config
    assert read_eos_ids("a", GenerationConfig(eos_token_id=[3, 5]), config) == {3, 5}
    assert read_eos_ids("a", GenerationConfig(), config) == frozenset()
    assert read_eos_ids("a", None, config) == {config.eos_token_id}
    for odd in ("</s>", 2.0, [1, "a"], True):
        generation = GenerationConfig()
        generation.eos_token_id = odd
        with pytest.raises(ModelError, match=r"'a' names .* as a token that ends a text"):
            read_eos_ids("a", generation, config)


@pytest.mark.parametrize(
    ("name", "value"),
    [("repetition_penalty", -1.0), ("bad_words_ids", [[10**6]]), ("sequence_bias", [1]), ("suppress_tokens", ["a"])],
)
def test_a_value_that_cannot_be_applied_is_a_sentence(pair, name, value):
    pair.target.generation_config = GenerationConfig()
    setattr(pair.target.generation_config, name, value)
    with pytest.raises(ModelError, match=f"The generation_config of 'a' has {name}"):
        read_generation_rules("a", pair.target, frozenset())
