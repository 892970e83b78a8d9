"""``import specviz``: a pair of loaded transformers models decodes in a few lines, exactly as by name, and what cannot be a pair is a sentence."""

import subprocess
import sys

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import specviz
from specviz.errors import ModelError


def loaded(folders):
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype="float32") for folder in folders]
    return *models, AutoTokenizer.from_pretrained(folders[0])


def test_a_pair_of_loaded_models_writes_what_the_same_pair_by_name_writes(pair_folders):
    settings = specviz.Settings(prompt="Once upon", gamma=3, length=20, seed=1)
    mine = specviz.run(specviz.pair_of(*loaded(pair_folders)), settings)
    named = specviz.run(specviz.load_pair("|".join(map(str, pair_folders)), device="cpu", dtype="float32"), settings)
    assert mine.text == named.text
    for one, other in zip(mine.rounds, named.rounds, strict=True):
        assert one.committed == other.committed
        for left, right in zip(one.proposals, other.proposals, strict=True):
            assert (left.token, left.accepted) == (right.token, right.accepted)
            # weights lie elsewhere in memory, where products may round differently
            assert (left.p, left.q) == pytest.approx((right.p, right.q), rel=1e-4)
    assert mine.tokens_per_pass == len(mine.output_ids) / len(mine.rounds) >= 1.0


def test_a_model_smaller_than_the_tokenizer_is_refused_with_both_numbers(pair_folders):
    target, _, tokenizer = loaded(pair_folders)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    small = LlamaForCausalLM(LlamaConfig(vocab_size=5, **shape))
    with pytest.raises(ModelError, match=f"'draft' predicts 5 tokens, and its tokenizer has {len(tokenizer)}"):
        specviz.pair_of(target, small, tokenizer)


def test_importing_the_package_imports_no_torch():
    code = "import sys, specviz; specviz.Settings(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        specviz.nothing  # noqa: B018
