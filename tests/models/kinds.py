"""One tiny model of every kind in assets/model_kinds.toml, written to folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3TextConfig, MambaConfig, MambaForCausalLM

from tests.helpers.tiny_pairs import build_tiny_model

WEIGHTS = "model.safetensors"


def change_json(folder: Path, name: str, **values: Any) -> None:
    """Change fields of a JSON file in a folder."""
    record = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(record | values))


def save_in_shards(folder: Path) -> list[Path]:
    """Replace the weights by shards; returns their paths."""
    (folder / WEIGHTS).unlink()
    build_tiny_model(300).save_pretrained(folder, max_shard_size="50KB")
    return sorted(folder.glob("model-*.safetensors"))


def cut_shard(folder: Path) -> None:
    last = save_in_shards(folder)[-1]
    last.write_bytes(last.read_bytes()[:-1000])


def write_adapter(folder: Path, base: str, **config: Any) -> dict[str, torch.Tensor]:
    """Turn a folder into a LoRA adapter of rank 2 on two projections; returns its weights."""
    for file in folder.iterdir():
        file.unlink()
    plain = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 2, "lora_alpha": 6, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(plain | config))
    torch.manual_seed(3)
    made = {}
    for layer in (0, 1):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        made |= {f"{name}.lora_A.weight": torch.randn(2, 32), f"{name}.lora_B.weight": torch.randn(32, 2)}
    save_file(made, folder / "adapter_model.safetensors")
    return made


def write_wrapper(folder: Path) -> None:
    """A Gemma 3 with a vision tower around the text model, beside the tokenizer of the pair."""
    text = Gemma3TextConfig(
        vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, max_position_embeddings=128, sliding_window=16, eos_token_id=0, bos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    vision = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    torch.manual_seed(0)
    (folder / WEIGHTS).unlink()
    Gemma3ForConditionalGeneration(Gemma3Config(text_config=text, vision_config=vision)).save_pretrained(folder)


def write_gguf(folder: Path) -> None:
    """A Llama with its tokenizer in one GGUF file, as llama.cpp names them; the folder holds nothing else."""
    import gguf

    model = build_tiny_model(300)
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(vocabulary["vocab"], key=vocabulary["vocab"].get)
    for file in folder.iterdir():
        file.unlink()
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_vocab_size(300)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token.startswith("<|") else gguf.TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in vocabulary["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for name, weight in model.state_dict().items():
        module, data = name.removesuffix(".weight"), weight.numpy().astype(np.float32)
        if module.startswith("model.layers."):
            _, _, layer, part = module.split(".", 3)
            if part.endswith(("q_proj", "k_proj")):  # llama.cpp keeps the halves of a rotation beside each other
                data = data.reshape(2, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
            writer.add_tensor(f"blk.{layer}.{parts[part]}.weight", data)
        else:
            writer.add_tensor(f"{names[module]}.weight", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_nan(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = torch.nan
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def write_pickled(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    torch.save({}, folder / "pytorch_model.bin")


def write_sentencepiece(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "tokenizer.model").write_bytes(b"\x0a\x05abc")


def write_checkpoints(folder: Path) -> None:
    for name in ("checkpoint-20", "checkpoint-500"):
        inside = folder / name
        inside.mkdir()
        shutil.copy(folder / "config.json", inside)
    (folder / "config.json").unlink()


def write_state(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    MambaForCausalLM(MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=1, state_size=4)).save_pretrained(folder)


def quantize(**quantization: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder, "config.json", quantization_config=quantization)


def change_config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder, "config.json", **values)


def change_generation(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change_json(folder, "generation_config.json", **values)


def adapt(base: str = "../target", **config: Any) -> Callable[[Path], object]:
    return lambda folder: write_adapter(folder, base, **config)


def empty_but_gguf(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    (folder / "tiny-q4_k_m.gguf").write_bytes(b"GGUF")


# Kind -> what turns a copy of the tiny target, beside the target itself, into one of that kind.
BUILDERS: dict[str, Callable[[Path], object]] = {
    "shards": save_in_shards,
    "padded": lambda folder: build_tiny_model(320).save_pretrained(folder),
    "several-ends": change_generation(eos_token_id=[3, 5]),
    "float8": change_config(dtype="float8_e4m3fn"),
    "gguf": write_gguf,
    "lora": adapt(),
    "wrapper": write_wrapper,
    "short-draft": lambda folder: build_tiny_model(300, context=32).save_pretrained(folder),
    "processors": change_generation(repetition_penalty=1.3),
    "forced-end": change_generation(forced_eos_token_id=0),
    "fewer-layers": change_config(num_hidden_layers=1),
    "more-layers": change_config(num_hidden_layers=3),
    "narrow": change_config(vocab_size=250),
    "nan": write_nan,
    "cut-shard": cut_shard,
    "text-end": change_generation(eos_token_id="</s>"),
    "pickled": write_pickled,
    "original": lambda folder: (folder / WEIGHTS).rename(folder / "consolidated.safetensors"),
    "sentencepiece": write_sentencepiece,
    "checkpoints": write_checkpoints,
    "gguf-folder": empty_but_gguf,
    "four-bits": quantize(quant_method="bitsandbytes", load_in_4bit=True),
    "gptq": quantize(quant_method="gptq", bits=4),
    "dora": adapt(use_dora=True),
    "adapter-alone": adapt(base="nowhere"),
    "state": write_state,
    "hybrid": change_config(layer_types=["linear_attention", "full_attention"]),
    "remote-code": change_config(model_type="other", auto_map={"AutoConfig": "a.B", "AutoModelForCausalLM": "a.C"}),
}
AS_DRAFT = {"short-draft", "padded"}


def build_kind(target: Path, draft: Path, key: str, folder: Path) -> tuple[str, str]:
    """A model of a kind in a new folder, beside a copy of the target; returns the places of a pair that it is part of."""
    shutil.copytree(target, folder / "target")
    own = shutil.copytree(target, folder / key)
    BUILDERS[key](own)
    place = str(own / "tiny.gguf" if key == "gguf" else own)
    return (str(folder / "target"), place) if key in AS_DRAFT else (place, str(draft))
