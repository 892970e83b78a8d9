"""Load models as data: safetensors only, no remote code, hashes checked. Every refusal is a sentence."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from specviz.errors import DamagedModel, ModelError, SettingsError
from specviz.models.fast_llama.draft_8bit import round_weights
from specviz.models.pairs.catalog import HASHES, PAIRS
from specviz.models.pairs.families import library_class, refuse_mixed, refuse_unsupported
from specviz.models.pairs.fit import refuse_too_large
from specviz.models.pairs.names import as_path, places_of
from specviz.models.pairs.pair import EncoderDecoderPair, LoadedPair
from specviz.models.pairs.tokens import difference

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
DEVICES = ("auto", "cuda", "mps", "cpu")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def load_pair(name: str, device: str = "auto", dtype: str = "auto") -> LoadedPair:
    """Load a pair of the catalog, or one named as in names.py: ``target|draft``, each a folder or a hub name.

    device  auto (cuda, then mps, then cpu), or one of these
    dtype   auto (bfloat16 on cuda, else float32), or a float type

    Raises ModelError, UnsupportedModel or DamagedModel with a sentence. Nothing half loaded is kept.
    """
    where, kind = pick_device(device, dtype)
    if entry := PAIRS.get(name):
        places, rounded = (entry.target, entry.draft), entry.rounded
        if entry.shipped:
            check_hashes(Path(entry.target).parent)
    elif own := places_of(name):
        places, rounded = (own.target, own.draft), own.rounded
    else:
        raise ModelError(f"There is no pair {name!r}. Known pairs: {', '.join(PAIRS)}; or name a target and a draft of your own.")
    refuse_mixed(places, [load_config(place) for place in places])
    tokenizers = [load_tokenizer(place) for place in places]
    if why := difference(*tokenizers):
        raise ModelError(
            f"Target '{places[0]}' and draft '{places[1]}' do not share one tokenizer: {why}. "
            "Both models must use the same tokens."
        )
    target = load_model(places[0], where, kind)
    draft = target if places[0] == places[1] and not rounded else load_model(places[1], where, kind)
    if rounded:
        round_weights(draft)
    return pair_of(target, draft, tokenizers[0], name, places)


def pair_of(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    name: str = "own",
    places: tuple[str, str] = ("target", "draft"),
) -> LoadedPair:
    """A pair from two loaded transformers models that read and write the tokens of one tokenizer.

    name    what records call it; places  what sentences call the two models

    Raises UnsupportedModel for a family that was not tested, ModelError for models that do not fit the tokenizer or each other.
    """
    refuse_mixed(places, [model.config for model in (target, draft)])
    for model, place in zip((target, draft), places, strict=True):
        refuse_unsupported(place, model.config)
        model.eval().requires_grad_(False)
        if len(tokenizer) > (width := model.config.get_text_config().vocab_size):
            raise ModelError(f"'{place}' predicts {width} tokens, and its tokenizer has {len(tokenizer)}.")
    fields = (name, target, draft, tokenizer, eos_ids_of(target), start_id(target, tokenizer))
    return (
        EncoderDecoderPair(*fields, first_id(places, target, draft)) if target.config.is_encoder_decoder else LoadedPair(*fields)
    )


def pick_device(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """Resolve ``auto`` on this machine. Raises SettingsError for names that are unknown or not present."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device not in DEVICES or (device != "auto" and not present[device]):
        here = ", ".join(["auto", *(name for name, there in present.items() if there)])
        raise SettingsError("device", device, f"one of those on this machine: {here}")
    if dtype != "auto" and dtype not in DTYPES:
        raise SettingsError("dtype", dtype, f"auto or one of {', '.join(DTYPES)}")
    chosen = next(name for name, there in present.items() if there) if device == "auto" else device
    kind = DTYPES.get(dtype, torch.bfloat16 if chosen == "cuda" else torch.float32)
    return torch.device(chosen), kind


def load_model(place: str, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Load a model in eval mode. Refuses, with a sentence, models that this decoder would run wrongly."""
    config = load_config(place)
    refuse_unsupported(place, config)
    refuse_too_large(place, config, device, dtype)
    where, folder = found_place(place)
    options = {"trust_remote_code": False, "local_files_only": folder}
    model, report = _reading(
        place,
        lambda: library_class(config).from_pretrained(
            where, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
        ),
    )
    for key, what in (("missing_keys", "lacks"), ("mismatched_keys", "has other shapes for")):
        if report[key]:
            raise DamagedModel(f"'{place}' {what} {len(report[key])} of the weights that its configuration names.")
    # Weights of the file's own type can be its pages in memory: a file that is cut later would end the process.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model.to(device).eval().requires_grad_(False)


def load_config(place: str) -> PretrainedConfig:
    """The configuration of a folder or hub name."""
    where, folder = found_place(place)
    return _reading(place, lambda: AutoConfig.from_pretrained(where, trust_remote_code=False, local_files_only=folder))


def load_tokenizer(place: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub name."""
    where, folder = found_place(place)
    return _reading(place, lambda: AutoTokenizer.from_pretrained(where, trust_remote_code=False, local_files_only=folder))


def found_place(place: str) -> tuple[str, bool]:
    """What transformers should read, and whether it is a local folder (with config.json and safetensors weights) or a hub name.

    Raises ModelError for a path that is not such a folder.
    """
    path = as_path(place)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"'{place}' does not hold a model: config.json is missing.")
        if not any(path.glob("*.safetensors")):
            raise ModelError(f"'{place}' does not hold weights: a .safetensors file is needed (pickled weights are not read).")
        return str(path), True
    if path.is_absolute() or place.startswith((".", "~")) or place.count("/") != 1 or (os.sep != "/" and os.sep in place):
        raise ModelError(f"'{place}' is neither a folder on this machine nor a hub name of the form owner/model.")
    return place, False


def check_hashes(folder: Path) -> None:
    """Compare every file named in SHA256SUMS with its hash. Raises DamagedModel naming the first file that differs."""
    sums = folder / HASHES
    if not sums.is_file():
        raise DamagedModel(
            f"'{folder.name}' cannot be checked: its list of hashes ({HASHES}) is missing. Fetch the project again."
        )
    for line in sums.read_text().splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            raise DamagedModel(f"The pair '{folder.name}' is incomplete: {name} is missing. Fetch the project again.")
        if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise DamagedModel(f"The pair '{folder.name}' is damaged: {name} is not the shipped file. Fetch the project again.")


def eos_ids_of(model: PreTrainedModel) -> frozenset[int]:
    """All end-of-sequence ids, from the generation configuration, else from the model's."""
    found = getattr(model.generation_config, "eos_token_id", None)
    found = model.config.eos_token_id if found is None else found
    return frozenset(() if found is None else [found] if isinstance(found, int) else found)


def start_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that stands for an empty text: the tokenizer's start token, else its end-of-text token."""
    candidates = (tokenizer.bos_token_id, getattr(model.config, "bos_token_id", None), tokenizer.eos_token_id)
    return next((token for token in candidates if isinstance(token, int)), None)


def first_id(places: tuple[str, ...], target: PreTrainedModel, draft: PreTrainedModel) -> int:
    """The decoder start token of both models of an encoder-decoder pair.

    Raises ModelError if a model names none, or if the two name different ones.
    """
    named = []
    for place, model in zip(places, (target, draft), strict=True):
        found = getattr(model.generation_config, "decoder_start_token_id", None)
        named.append(getattr(model.config, "decoder_start_token_id", None) if found is None else found)
        if not isinstance(named[-1], int):
            raise ModelError(f"'{place}' does not say which token its decoder begins with (decoder_start_token_id).")
    if named[0] != named[1]:
        raise ModelError(
            f"The decoder of target '{places[0]}' begins with token {named[0]}, that of draft '{places[1]}' with {named[1]}. "
            "Both must begin with the same token."
        )
    return named[0]


def _reading(place: str, read: Any) -> Any:
    """Call ``read`` and turn whatever transformers raises into a sentence."""
    try:
        return read()
    except json.JSONDecodeError as error:
        raise DamagedModel(f"'{place}' holds a file that is not valid JSON: {error}.") from error
    except Exception as error:  # transformers, safetensors and the hub raise unrelated types, some of them bare Exceptions
        first = str(error).strip().splitlines()[0][:240] if str(error).strip() else type(error).__name__
        kind = DamagedModel if "afetensor" in type(error).__name__ else ModelError
        raise kind(f"'{place}' could not be loaded: {first}") from error
