"""Load models as data: safetensors only, no remote code, hashes checked. Every refusal is a sentence."""

from __future__ import annotations

import filecmp
import hashlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from specviz.errors import DamagedModelError, ModelError, SettingsError, UnsupportedModelError, suggest
from specviz.models.fast_llama.draft_8bit import round_weights
from specviz.models.hub.download import download_models
from specviz.models.hub.files import CONFIG, INDEX, VOCABULARIES, ModelListing, check_lengths, fetch_config_files, list_model
from specviz.models.pairs.catalog import HASHES, PAIRS
from specviz.models.pairs.families import FAMILIES, find_library_class, refuse_mixed, refuse_too_large, refuse_unsupported
from specviz.models.pairs.generation_rules import read_eos_ids, read_generation_rules
from specviz.models.pairs.lora import merge_adapter
from specviz.models.pairs.mapped import MappedPair
from specviz.models.pairs.names import parse_pair_name
from specviz.models.pairs.pair import EncoderDecoderPair, LoadedPair
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.pairs.token_map import Side, TokenMap, build_token_map
from specviz.models.pairs.tokens import describe_difference

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
DEVICES = ("auto", "cuda", "mps", "cpu")
GGUF_PACKAGES = ("gguf", "accelerate")  # with which transformers reads GGUF files
SENTENCE_PIECES = frozenset({"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
NO_TOKENIZER = frozenset({CONFIG, INDEX, "generation_config.json"})  # small files that no tokenizer is read from
WRAPPED = {  # names of the text model's weights in a wrapper -> their own names
    r"^(model\.)?language_model\.model\.": "model.",
    r"^model\.language_model\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
}
CHECKED_AT_ONCE = 2**22  # numbers
SHARE_LEAST = 0.05  # part of a draft's tokens that a target with another tokenizer must have: no other token is ever drafted


def load_pair(name: str, device: str = "auto", dtype: str = "auto") -> LoadedPair:
    """Load a pair of the catalog, or one named ``target|draft`` as in names.py. Missing files of hub names are downloaded.

    ``device`` and ``dtype`` are as in ``Pair.from_pretrained``. Raises ModelError, UnsupportedModelError or DamagedModelError.
    """
    where, kind = pick_device(device, dtype)
    if entry := PAIRS.get(name):
        places, rounded = (entry.target, entry.draft), False
        if entry.is_shipped:
            check_hashes(Path(entry.target).parent)
    elif own := parse_pair_name(name):
        places, rounded = (own.target, own.draft), own.rounded
    else:
        raise ModelError(f"There is no pair {name!r}. Known pairs: {', '.join(PAIRS)}; or name a target and a draft of your own.")
    listed = [list_model(place) for place in places]
    configs = [load_config(one) for one in listed]
    refuse_mixed(places, configs)
    tokenizers = load_tokenizers(listed, configs)
    if why := describe_difference(*tokenizers):  # asked before weights are read
        map_shared_tokens(places, configs, tokenizers, why)
    notes: list[str] = []
    target = load_model(listed[0], where, kind, notes.append)
    draft = target if places[0] == places[1] and not rounded else load_model(listed[1], where, kind, notes.append, target)
    if rounded:
        round_weights(draft)
    return build_pair(target, draft, tokenizers[0], name, places, tokenizers[1], tuple(dict.fromkeys(notes)))


def build_pair(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    name: str = "own",
    places: tuple[str, str] = ("target", "draft"),
    draft_tokenizer: PreTrainedTokenizerBase | None = None,
    notes: Sequence[str] = (),
) -> LoadedPair:
    """Make a pair of two loaded transformers models in eval mode, which are read as they are (``share_weights`` makes copies).

    ``name`` is used in records, ``places`` in sentences; ``notes`` are sentences on how the models were read. If the draft's tokenizer is another one, the draft proposes only tokens
    that both have (MappedPair). Raises UnsupportedModelError for a family that was not tested, ModelError for models that do not
    fit.
    """
    refuse_mixed(places, [model.config for model in (target, draft)])
    why = describe_difference(tokenizer, draft_tokenizer) if draft_tokenizer is not None else None
    readers = (tokenizer, draft_tokenizer if why else tokenizer)
    for model, place, reader in zip((target, draft), places, readers, strict=True):
        refuse_unsupported(place, model.config)
        refuse_narrow(place, model.config, reader)
    ends, own_ends = (find_eos_ids(place, model) for place, model in zip(places, (target, draft), strict=True))
    fields = (name, target, draft, tokenizer, ends, find_start_id(target, tokenizer))
    more: dict[str, Any] = {"rules": read_generation_rules(places[0], target, ends), "notes": tuple(notes)}
    if why:
        sides = [
            (ids, find_start_id(model, reader))
            for ids, model, reader in zip((ends, own_ends), (target, draft), readers, strict=True)
        ]
        configs = [model.config for model in (target, draft)]
        return MappedPair(*fields, readers[1], map_shared_tokens(places, configs, readers, why, sides), **more)
    if target.config.is_encoder_decoder:
        return EncoderDecoderPair(*fields, find_first_id(places, target, draft), **more)
    return LoadedPair(*fields, **more)


def map_shared_tokens(
    places: Sequence[str],
    configs: Sequence[PretrainedConfig],
    tokenizers: Sequence[PreTrainedTokenizerBase],
    refusal: str,
    ends_and_starts: Sequence[tuple[frozenset[int], int | None]] = ((frozenset(), None), (frozenset(), None)),
) -> TokenMap:
    """The tokens that target and draft share, although their tokenizers differ. refusal: how they differ, as part of a sentence.

    ``ends_and_starts`` has for each model the ids that end a text and the id of an empty one. Raises ModelError for models with
    encoders, and if the draft shares fewer than SHARE_LEAST of its tokens.
    """
    named = f"Target '{places[0]}' and draft '{places[1]}' do not share one tokenizer: {refusal}."
    if configs[0].is_encoder_decoder:
        raise ModelError(f"{named} Both models must use the same tokens if they have encoders.")
    sizes = [config.get_text_config().vocab_size for config in configs]
    target, draft = (Side(one, size, *more) for one, size, more in zip(tokenizers, sizes, ends_and_starts, strict=True))
    found = build_token_map(target, draft)
    if found.share < SHARE_LEAST:
        raise ModelError(
            f"{named} The target has {len(found):,} of the draft's {found.of_draft:,} tokens, and at least {SHARE_LEAST:.0%} are"
            " needed to draft with them. These methods need no draft model; name the target as the draft too: --proposer ngram,"
            " retrieval, lookahead, or early-exit with an --exit-layer."
        )
    return found


def pick_device(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """Resolve ``auto`` on this machine. Raises SettingsError for names that are unknown or not present."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device not in DEVICES or (device != "auto" and not present[device]):
        here = ", ".join(["auto", *(name for name, there in present.items() if there)])
        why = f" ({explain_missing_cuda()})" if device == "cuda" else "" if device in DEVICES else suggest(device, DEVICES)
        raise SettingsError("device", device, f"one of those on this machine: {here}{why}")
    if dtype != "auto" and dtype not in DTYPES:
        raise SettingsError("dtype", dtype, f"auto or one of {', '.join(DTYPES)}{suggest(dtype, DTYPES)}")
    chosen = next(name for name, there in present.items() if there) if device == "auto" else device
    kind = DTYPES.get(dtype, torch.bfloat16 if chosen == "cuda" else torch.float32)
    return torch.device(chosen), kind


def explain_missing_cuda() -> str:
    """Why there is no CUDA device, as a clause."""
    if torch.version.cuda is None:
        return "this build of torch has no CUDA"
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES='{visible}' hides every GPU"
    try:
        torch.cuda.init()
    except Exception as error:  # a driver's own words, such as that it is too old
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
    return "torch finds no GPU"


def load_model(
    place: str | ModelListing,
    device: torch.device,
    dtype: torch.dtype,
    note: Callable[[str], object] = lambda sentence: None,
    share_with: PreTrainedModel | None = None,
) -> PreTrainedModel:
    """Load a model in eval mode. Refuses, with a sentence, models that this decoder would run wrongly, before its weights are there.

    ``note`` is called with sentences on how it was read: dequantized, merged, or with weights left over. ``share_with``: a model that is
    loaded already; on a CPU, weights of the same name and the same bytes are in memory once.
    """
    listed = find_listing(place)
    config = load_config(listed)
    refuse_unsupported(listed.place, config)
    check_lengths(listed)
    refuse_too_large(listed.place, config, device, dtype)
    download_models([listed])
    model, report = _read_or_explain(
        listed.place,
        lambda: find_library_class(config).from_pretrained(
            listed.folder,
            **_choose_reader(listed, config),
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            trust_remote_code=False,
            local_files_only=True,
        ),
    )
    if listed.gguf and hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # of the file; the weights that were read are dequantized
    _check_report(listed.place, report)
    for sentence in _describe_reading(listed, config, report, dtype):
        note(sentence)
    if listed.adapter is not None:
        note(merge_adapter(listed.place, listed.adapter, model))
    # Weights of the file's own type can be its pages in memory: a file that is cut later would end the process.
    known = (
        dict(share_with.named_parameters()) if share_with is not None and share_with.device.type == device.type == "cpu" else {}
    )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        other = known.get(name)
        is_known = other is not None and other.dtype == tensor.dtype and torch.equal(other, tensor)
        tensor.data = other.data if is_known and other is not None else tensor.data.clone()
    _refuse_not_finite(listed.place, model)
    return model.to(device).eval().requires_grad_(False)


def load_config(place: str | ModelListing) -> PretrainedConfig:
    """The configuration of a folder, GGUF file or hub name; of a wrapper around a text model that is supported, the text model's."""
    config = _read_small(place, AutoConfig)
    text = config.get_text_config()
    if config.model_type in FAMILIES or text is config or text.model_type not in FAMILIES:
        return config
    if quantization := getattr(config, "quantization_config", None):
        text.quantization_config = quantization
    text.name_or_path, text.wrapper = config.name_or_path, config.model_type
    return text


def load_tokenizer(place: str | ModelListing) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub name. Raises ModelError where there is none, or it cannot be read."""
    listed = find_listing(place)
    try:
        return _read_small(listed, AutoTokenizer)
    except ModelError as error:  # only now: a tokenizer of bytes needs none of these files
        found = VOCABULARIES & {file.name for file in listed.small}
        if found and found <= SENTENCE_PIECES:
            raise ModelError(
                f"'{listed.place}' has its tokenizer as {min(found)} alone (SentencePiece), which is not read here. Save it as "
                f'tokenizer.json where the package sentencepiece is installed: python -c "from transformers import AutoTokenizer as T; '
                f"T.from_pretrained('{listed.place}').save_pretrained('{listed.place}')\"."
            ) from error
        if found or listed.gguf:
            raise
        raise ModelError(
            f"'{listed.place}' does not hold a tokenizer: tokenizer.json is missing. Save the model's tokenizer beside its weights."
        ) from error


def load_tokenizers(listed: Sequence[ModelListing], configs: Sequence[PretrainedConfig]) -> list[PreTrainedTokenizerBase]:
    """The tokenizers of target and draft: one object where ``share_tokenizer_files`` says so."""
    first = load_tokenizer(listed[0])
    return [first, first if share_tokenizer_files(listed, configs) else load_tokenizer(listed[1])]


def share_tokenizer_files(listed: Sequence[ModelListing], configs: Sequence[PretrainedConfig]) -> bool:
    """Whether two models have the same tokenizer because all files that it is read from are the same, byte for byte.

    A tokenizer of 262,144 tokens takes seconds to read, and so does the comparison of two.
    """
    one, other = listed
    if one.folder == other.folder and one.gguf == other.gguf:
        return True
    kinds = {(config.model_type, getattr(config, "tokenizer_class", None)) for config in configs}
    if one.gguf or other.gguf or len(kinds) > 1:
        return False
    folders = [fetch_config_files(each) for each in listed]
    names = [{file.name for file in each.small} - NO_TOKENIZER for each in listed]
    return names[0] == names[1] and all(filecmp.cmp(folders[0] / name, folders[1] / name, shallow=False) for name in names[0])


def find_listing(place: str | ModelListing) -> ModelListing:
    """A model's files. Raises ModelError as ``listing``."""
    return place if isinstance(place, ModelListing) else list_model(place)


def _read_small(place: str | ModelListing, kind: Any) -> Any:
    listed = find_listing(place)
    folder = fetch_config_files(listed)
    more = {}
    if listed.gguf:
        if missing := [name for name in GGUF_PACKAGES if importlib.util.find_spec(name) is None]:
            raise ModelError(
                f"'{listed.place}' is a GGUF file, and reading one needs {' and '.join(missing)}: pip install {' '.join(missing)}."
            )
        more["gguf_file"] = listed.gguf
    return _read_or_explain(
        listed.place, lambda: kind.from_pretrained(folder, **more, trust_remote_code=False, local_files_only=True)
    )


def _choose_reader(listed: ModelListing, config: PretrainedConfig) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for the kind of files."""
    if listed.gguf:
        return {"gguf_file": listed.gguf}
    if hasattr(config, "wrapper"):
        return {"use_safetensors": True, "config": config, "key_mapping": WRAPPED}
    return {"use_safetensors": True}


def _check_report(place: str, report: Mapping[str, Any]) -> None:
    """Raise DamagedModelError where weights are missing or have other shapes than the configuration says."""
    if missing := sorted(report["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DamagedModelError(
            f"'{place}' lacks {len(missing)} of the weights that its configuration names: {missing[0]}{more}."
        )
    if other := sorted(report["mismatched_keys"], key=str):
        name, stored, wanted = other[0]
        sizes = [" x ".join(map(str, shape)) for shape in (stored, wanted)]
        raise DamagedModelError(
            f"'{place}' has other shapes for {len(other)} of the weights that its configuration names: {name} is {sizes[0]} in the file and "
            f"{sizes[1]} by {CONFIG}."
        )


def _describe_reading(listed: ModelListing, config: PretrainedConfig, report: Mapping[str, Any], dtype: torch.dtype) -> list[str]:
    """Sentences on how a model was read."""
    said = []
    if listed.gguf:
        said.append(
            f"The weights of the GGUF file '{listed.gguf}' are dequantized to {str(dtype).removeprefix('torch.')} as they are read."
        )
    left = sorted(report["unexpected_keys"])
    if hasattr(config, "wrapper"):
        said.append(f"Of '{listed.place}' ({config.wrapper}) the text model is read ({config.model_type}), and nothing else.")
    elif left:
        said.append(
            f"'{listed.place}' has {len(left)} weights that its configuration does not name, and they are not used: {left[0]}"
            f"{' and others' if len(left) > 1 else ''}."
        )
    return said


def _refuse_not_finite(place: str, model: PreTrainedModel) -> None:
    """Raise DamagedModelError for weights with NaN or infinite numbers, naming the first."""
    for name, weight in model.named_parameters():
        parts = weight.detach().flatten().split(CHECKED_AT_ONCE)  # a sum in float64 makes a copy
        if not all(math.isfinite(float(part.sum(dtype=torch.float64))) for part in parts):
            count = int((~weight.isfinite()).sum())
            raise DamagedModelError(f"'{place}' has numbers that are not finite in {name} ({count:,}). Its file is damaged.")


def check_hashes(folder: Path) -> None:
    """Compare every file named in SHA256SUMS with its hash. Raises DamagedModelError naming the first file that differs."""
    sums = folder / HASHES
    if not sums.is_file():
        raise DamagedModelError(
            f"'{folder.name}' cannot be checked: its list of hashes ({HASHES}) is missing. Fetch the project again."
        )
    for line in sums.read_text().splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            raise DamagedModelError(f"The pair '{folder.name}' is incomplete: {name} is missing. Fetch the project again.")
        if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise DamagedModelError(
                f"The pair '{folder.name}' is damaged: {name} is not the shipped file. Fetch the project again."
            )


def refuse_narrow(place: str, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise ModelError if a tokenizer has ids that a model cannot read or predict."""
    if len(tokenizer) > (width := config.get_text_config().vocab_size):
        raise ModelError(f"'{place}' predicts {width} tokens, and its tokenizer has {len(tokenizer)}.")


def find_eos_ids(place: str, model: PreTrainedModel) -> frozenset[int]:
    """The ids that end a text of a model. Raises as ``read_eos_ids``."""
    return read_eos_ids(place, model.generation_config, model.config)


def find_start_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that stands for an empty text: the tokenizer's start token, else its end-of-text token."""
    candidates = (tokenizer.bos_token_id, getattr(model.config, "bos_token_id", None), tokenizer.eos_token_id)
    return next((token for token in candidates if isinstance(token, int)), None)


def find_first_id(places: tuple[str, ...], target: PreTrainedModel, draft: PreTrainedModel) -> int:
    """The decoder start token of both models of an encoder-decoder pair.

    Raises ModelError if a model names none, or if the two name different ones.
    """
    named: list[int] = []
    for place, model in zip(places, (target, draft), strict=True):
        found = getattr(model.generation_config, "decoder_start_token_id", None)
        found = getattr(model.config, "decoder_start_token_id", None) if found is None else found
        if not isinstance(found, int):
            raise ModelError(f"'{place}' does not say which token its decoder begins with (decoder_start_token_id).")
        named.append(found)
    if named[0] != named[1]:
        raise ModelError(
            f"The decoder of target '{places[0]}' begins with token {named[0]}, that of draft '{places[1]}' with {named[1]}. "
            "Both must begin with the same token."
        )
    return named[0]


def _read_or_explain(place: str, read: Callable[[], Any]) -> Any:
    """Call ``read`` and turn whatever transformers raises into a sentence."""
    try:
        with silence_transformers():
            return read()
    except json.JSONDecodeError as error:
        raise DamagedModelError(f"'{place}' holds a file that is not valid JSON: {error}.") from error
    except Exception as error:  # transformers, safetensors and the hub raise unrelated types, some of them bare Exceptions
        first = str(error).strip().splitlines()[0][:240] if str(error).strip() else type(error).__name__
        if "contains custom code" in first:
            raise UnsupportedModelError(
                f"'{place}' needs code of its own (auto_map in {CONFIG}), which is never run here: models are data. Take a model of a "
                "family that transformers itself has."
            ) from error
        kind = DamagedModelError if "afetensor" in type(error).__name__ else ModelError
        raise kind(f"'{place}' could not be loaded: {first}") from error
