"""What a model consists of, before a byte of its weights is read: its files, their sizes, and which of them are here.

A place is a folder or a hub name (models/pairs/names.py). Weights are safetensors alone, in one file or in shards that an index names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.hf_api import ModelInfo

from specviz.errors import MAX_SHOWN, DamagedModelError, ModelError, UnsupportedModelError
from specviz.models.hub.client import call_hub, explain_refusal, find_cache_folder, find_hub
from specviz.models.hub.transfer import ModelCache, ModelFile, fetch_file, is_commit
from specviz.models.pairs.names import HubName, find_folder, find_gguf, parse_hub_name
from specviz.progress import ProgressCallback, ignore_progress, scale_progress

CONFIG = "config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SMALL = frozenset(  # configuration and tokenizer, as transformers names them
    {
        *(CONFIG, INDEX, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
        *("added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model"),
        *("sentencepiece.bpe.model", "chat_template.jinja", "chat_template.json"),
    }
)
VOCABULARIES = frozenset(
    {"tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}
)  # most tokenizers need one
PICKLED = (".pt", ".bin", ".pth")
GGUF, GGUF_MAGIC = ".gguf", b"GGUF"
ADAPTER_CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"  # of a LoRA adapter, as peft saves it
ORIGINAL = ("consolidated.safetensors", "consolidated.00.pth")  # weights under the names of their author's own code
# Fields of adapter_config.json that change what is added to a weight, and the values with which they do not.
PLAIN: dict[str, tuple[Any, ...]] = {
    "use_dora": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "bias": (None, "none"),
    "lora_bias": (None, False),
    "modules_to_save": (None, []),
    "alora_invocation_tokens": (None, []),
    "target_parameters": (None, []),
}
HEADER_MAX = 100_000_000  # bytes of a safetensors header, as the format allows
SMALL_MAX = 100_000_000  # bytes of a small file; tokenizers of 250,000 entries have 35 MB
MAIN = "main"


@dataclass(frozen=True, slots=True)
class ModelListing:
    """A model's files."""

    place: str  # as it was named
    folder: Path  # where its files are, or will be after a download; absolute, with links in the path left as they are
    repo: str | None  # name on the hub; None: the place is a folder
    revision: str | None  # branch, tag or commit of the request
    commit: str | None  # what that is now. None for a folder
    license: str | None  # as on the hub; None: unknown
    gated: bool  # whether the hub asks for an account that has accepted a license
    small: tuple[ModelFile, ...]  # files of configuration and tokenizer
    weights: tuple[ModelFile, ...]  # files of weights that would be read, in order
    adapter: Path | None = None  # folder of a LoRA adapter that is merged into these weights

    @property
    def store(self) -> ModelCache | None:
        return None if self.repo is None or self.commit is None else ModelCache(self.repo, self.commit)

    @property
    def gguf(self) -> str | None:
        """Name of the one file that holds everything; None for weights in safetensors."""
        return next((file.name for file in self.weights if file.name.lower().endswith(GGUF)), None)

    @property
    def files(self) -> tuple[ModelFile, ...]:
        return (*self.small, *self.weights)

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def here_bytes(self) -> int:
        """Bytes on this machine now, of a download that ended early too."""
        return sum(store.count_arrived(file) if (store := self.store) else file.size for file in self.files)

    @property
    def download_bytes(self) -> int:
        """Bytes that are still to come."""
        return self.total_bytes - self.here_bytes


def list_model(
    place: str, weights: tuple[str, ...] | None = None, on_progress: ProgressCallback = ignore_progress
) -> ModelListing:
    """The files of a folder or of a hub name. A hub is asked once; of shards the index is read too.

    ``weights`` names the one file of weights of an attachment, the usual name first; None: a model's weights. ``on_progress`` is
    called while it waits for the hub; what it raises ends the work. Where the hub cannot be reached or refuses, the files of a
    complete earlier download are listed. Raises ModelError for any other place.
    """
    if (folder := find_folder(place)) is not None:
        return _list_folder(place, Path(os.path.abspath(folder)), weights)
    if weights is None and (file := find_gguf(place)) is not None:
        return _list_gguf(place, Path(os.path.abspath(file)))
    name = parse_hub_name(place)
    if name is None:
        raise ModelError(_describe_no_place(place))
    try:
        return _list_hub(place, name, weights, on_progress)
    except DamagedModelError:
        raise
    except ModelError:
        if (kept := _list_cached(place, name, weights)) is not None:
            return kept
        raise


def fetch_config_files(listed: ModelListing, on_progress: ProgressCallback = ignore_progress) -> Path:
    """The folder of a model, with its configuration and tokenizer in it; they are downloaded if they are not here."""
    if (store := listed.store) is not None:
        for number, file in enumerate(listed.small):
            fetch_file(store, file, scale_progress(on_progress, number / len(listed.small), (number + 1) / len(listed.small)))
    return listed.folder


def _list_folder(place: str, folder: Path, weights: tuple[str, ...] | None) -> ModelListing:
    try:
        there = {entry.name: ModelFile(entry.name, entry.stat().st_size) for entry in folder.iterdir() if entry.is_file()}
    except OSError as error:
        raise ModelError(f"The folder '{place}' could not be read ({error.strerror}).") from error
    if weights is None and ADAPTER_CONFIG in there:
        return _list_adapter(place, folder)
    if CONFIG not in there:
        raise ModelError(f"'{place}' does not hold a model: {CONFIG} is missing.{_describe_contents(place, folder, there)}")
    read = _select_weights(place, there, weights, lambda: folder / INDEX)
    return ModelListing(place, folder, None, None, None, None, False, _select_config_files(there, weights), read)


def _describe_no_place(place: str) -> str:
    """A sentence on a place that is neither a folder, nor a GGUF file, nor a hub name."""
    shown = place[:MAX_SHOWN]
    try:
        if os.path.isfile(place):
            return f"'{shown}' is a file. Name the folder that it is in, or a {GGUF} file."
    except ValueError:  # a null character
        pass
    said = f"'{shown}' is neither a folder on this machine nor a hub name of the form owner/model or owner/model@revision."
    return said if "/" in place or not place.strip() else f"{said} A hub name begins with its owner."


def _describe_contents(place: str, folder: Path, there: Mapping[str, ModelFile]) -> str:
    """What a folder without a configuration holds instead, and what to name; '' where nothing is known."""
    if found := sorted(name for name in there if name.lower().endswith(GGUF)):
        return f" It holds {found[0]}: name that file, '{os.path.join(place, found[0])}'."
    if found := [name for name in ORIGINAL if name in there]:
        return f" {found[0]} has the weights under the names of their author's code: convert it with transformers' script for this family."
    inside = sorted((path for path in folder.glob("*/" + CONFIG)), key=lambda path: _count_steps(path.parent.name))
    if inside:
        newest = inside[-1].parent.name
        return f" It holds {len(inside)} folder{'s' * (len(inside) > 1)} with models: name one, such as '{os.path.join(place, newest)}'."
    return ""


def _count_steps(name: str) -> tuple[int, str]:
    """The order of checkpoints: by the number at the end of their names."""
    digits = name.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() else -1, name)


def _list_gguf(place: str, file: Path) -> ModelListing:
    try:
        with file.open("rb") as opened:
            is_gguf = opened.read(len(GGUF_MAGIC)) == GGUF_MAGIC
        size = file.stat().st_size
    except OSError as error:
        raise ModelError(f"The file '{place}' could not be read ({error.strerror}).") from error
    if not is_gguf:
        raise DamagedModelError(f"'{place}' is no GGUF file: it does not begin with the letters GGUF.")
    return ModelListing(place, file.parent, None, None, None, None, False, (), (ModelFile(file.name, size),))


def _list_adapter(place: str, folder: Path) -> ModelListing:
    """The files of an adapter's base model, with the adapter's folder."""
    config = read_adapter_config(place, folder)
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base.strip():
        raise ModelError(f"'{place}' is a LoRA adapter that does not name its base model (base_model_name_or_path).")
    beside = folder / base
    try:
        listed = list_model(str(beside) if find_folder(base) is None and beside.is_dir() else base)
    except DamagedModelError:
        raise
    except ModelError as error:
        raise ModelError(
            f"'{place}' is a LoRA adapter, and its base model cannot be used: {error} Write another place into "
            f"base_model_name_or_path of {ADAPTER_CONFIG}."
        ) from error
    if listed.adapter is not None:
        raise ModelError(f"'{place}' is a LoRA adapter of another adapter, '{base}'. Merge that one into its base model first.")
    if not (folder / ADAPTER).is_file():
        raise ModelError(
            f"'{place}' is a LoRA adapter without {ADAPTER}{describe_pickled(path.name for path in folder.iterdir())}."
        )
    return replace(listed, place=place, adapter=folder)


def read_adapter_config(place: str, folder: Path) -> dict[str, Any]:
    """The configuration of a plain LoRA adapter.

    Raises DamagedModelError for a file that is none, UnsupportedModelError for an adapter that is more.
    """
    try:
        found = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedModelError(f"{ADAPTER_CONFIG} of '{place}' cannot be read.") from error
    if not isinstance(found, dict):
        raise DamagedModelError(f"{ADAPTER_CONFIG} of '{place}' is not an object.")
    if (kind := str(found.get("peft_type", "LORA")).upper()) != "LORA":
        raise UnsupportedModelError(
            f"'{place}' is an adapter of the kind {kind}. LoRA is merged; merge others with peft and save the model."
        )
    if odd := [name for name, plain in PLAIN.items() if found.get(name) not in plain]:
        raise UnsupportedModelError(
            f"'{place}' is a LoRA adapter with {odd[0]}, which is not merged here. Merge it with peft (merge_and_unload) and save the model."
        )
    return found


def check_lengths(listed: ModelListing) -> None:
    """Raise DamagedModelError for a file of a folder's weights that is cut short; a hub tells hashes, which are checked on arrival."""
    if listed.repo is None and listed.gguf is None:
        for file in listed.weights:
            _check_length(listed.place, listed.folder / file.name)
    if listed.adapter is not None:
        _check_length(listed.place, listed.adapter / ADAPTER)


def _check_length(place: str, file: Path) -> None:
    """Raise DamagedModelError for a safetensors file that is shorter or longer than its header says. Only the header is read."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if size < 8 or length > min(size - 8, HEADER_MAX):
                raise DamagedModelError(f"'{place}' is damaged: {file.name} ends within its header. Copy or download it again.")
            header = json.loads(opened.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        wanted = 8 + length + max(ends, default=0)
    except OSError as error:
        raise ModelError(f"'{file}' could not be read ({error.strerror}).") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise DamagedModelError(f"'{place}' is damaged: the header of {file.name} cannot be read.") from error
    if size != wanted:
        raise DamagedModelError(
            f"'{place}' is damaged: {file.name} has {size:,} bytes, and its header describes {wanted:,}. Copy or download it again."
        )


def _list_hub(place: str, name: HubName, weights: tuple[str, ...] | None, on_progress: ProgressCallback) -> ModelListing:
    revision, api = name.revision or MAIN, HfApi(endpoint=find_hub())
    if is_commit(revision) and (kept := _list_cached(place, name, weights)) is not None:  # a commit never changes
        return kept
    info = call_hub(
        name,
        lambda: api.model_info(name.repo, revision=revision, files_metadata=True, timeout=10.0),
        lambda: on_progress(0.0),
    )
    if not is_commit(info.sha):
        raise explain_refusal(name, ValueError("no commit in its answer"))
    store = ModelCache(name.repo, str(info.sha))
    there = {}
    for one in info.siblings or ():
        size = -1 if one.size is None else one.size
        file = ModelFile(one.rfilename, size, one.lfs.sha256 if one.lfs else one.blob_id or "")
        if file.is_plausible:
            there[file.name] = ModelFile(file.name, file.size, file.digest, store.has_file(file))
    if CONFIG not in there:
        raise ModelError(
            f"'{place}' does not hold a model that transformers reads: {CONFIG} is missing.{_describe_repository(info, there)}"
        )
    small = _select_config_files(there, weights)
    read = _select_weights(place, there, weights, lambda: fetch_file(store, there[INDEX], on_progress))
    hub = (name.repo, revision, store.commit, _read_license(info), bool(info.gated))
    return ModelListing(place, store.snapshot, *hub, small, read)


def _list_cached(place: str, name: HubName, weights: tuple[str, ...] | None) -> ModelListing | None:
    """What an earlier download of a revision left on this machine; None if anything is missing."""
    revision = name.revision or MAIN
    try:
        commit = revision if is_commit(revision) else find_revision_file(name.repo, revision).read_text().strip()
        store = ModelCache(name.repo, commit)
        there = {path.name: ModelFile(path.name, path.stat().st_size) for path in store.snapshot.iterdir() if path.is_file()}
        if not is_commit(commit) or CONFIG not in there:
            return None
        read = _select_weights(place, there, weights, lambda: store.snapshot / INDEX)
    except (OSError, UnicodeError, ModelError):
        return None
    return ModelListing(
        place, store.snapshot, name.repo, revision, commit, None, False, _select_config_files(there, weights), read
    )


def _describe_repository(info: ModelInfo, there: Mapping[str, ModelFile]) -> str:
    """What a repository without a configuration holds instead, and what to do; '' where nothing is known."""
    names = {one.rfilename for one in info.siblings or ()}
    if ADAPTER_CONFIG in names:
        return " It is a LoRA adapter: download it into a folder and name that folder; its base model is found by the name in it."
    if found := sorted(name for name in names if name.lower().endswith(GGUF)):
        return f" It holds GGUF files: download one, such as {found[0][:80]}, and name the file."
    return ""


def find_revision_file(repo: str, revision: str) -> Path:
    """The file in which the cache keeps what commit a branch or tag was when it was last downloaded."""
    return find_cache_folder() / f"models--{repo.replace('/', '--')}" / "refs" / revision


def _select_config_files(files: Mapping[str, ModelFile], weights: tuple[str, ...] | None) -> tuple[ModelFile, ...]:
    wanted: Iterable[str] = SMALL if weights is None else (CONFIG,)
    return tuple(files[name] for name in sorted(wanted) if name in files and files[name].size <= SMALL_MAX)


def _select_weights(
    place: str, files: Mapping[str, ModelFile], weights: tuple[str, ...] | None, index: Callable[[], Path]
) -> tuple[ModelFile, ...]:
    """The files of weights, as transformers chooses them: one file, else the shards of the index."""
    if weights is not None:
        if not (found := [name for name in weights if name in files]):
            raise ModelError(f"'{place}' does not hold {' or '.join(weights)}{describe_pickled(files)}.")
        return (files[found[0]],)
    if WEIGHTS in files:
        return (files[WEIGHTS],)
    if INDEX not in files:
        raise ModelError(
            f"'{place}' does not hold weights: {WEIGHTS}, or shards with {INDEX}.{_describe_other_weights(place, files)}"
        )
    try:
        shards = sorted(set(json.loads(index().read_text(encoding="utf-8"))["weight_map"].values()))
        if not all(isinstance(shard, str) for shard in shards):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedModelError(f"{INDEX} of '{place}' does not name the files of the weights.") from error
    if missing := [shard for shard in shards if shard not in files]:
        raise DamagedModelError(
            f"'{place}' lacks {len(missing)} of the {len(shards)} files of weights that its index names: {missing[0][:80]}."
        )
    return tuple(files[shard] for shard in shards)


def _describe_other_weights(place: str, there: Mapping[str, ModelFile]) -> str:
    """What a folder or repository holds instead of the weights, and what to do; '' where there is nothing."""
    if found := sorted(name for name in there if name.lower().endswith(GGUF)):
        return f" {found[0]} can be read: name that file."
    if found := [name for name in ORIGINAL if name in there]:
        return f" {found[0]} has the weights under the names of their author's code: convert it with transformers' script for this family."
    if found := sorted(name for name in there if name.endswith(PICKLED)):
        return (
            f' {found[0]} is pickled, and reading that can run code. If you trust its source, convert it once: python -c "from transformers '
            f"import AutoModelForCausalLM as M; M.from_pretrained('{place}').save_pretrained('{Path(place).name}-safetensors')\", and "
            "copy the tokenizer's files."
        )
    if found := sorted(name for name in there if name.endswith(".safetensors") and name != ADAPTER):
        return f" There is {found[0]}: rename it to {WEIGHTS} if it is all of them."
    return ""


def describe_pickled(names: Iterable[str]) -> str:
    """The end of a sentence on missing weights, where files of another kind are there; else empty."""
    found = min((name for name in names if name.endswith(PICKLED)), default="")
    return f"; {found} is pickled, and reading that can run code, so save its weights as safetensors" if found else ""


def _read_license(info: ModelInfo) -> str | None:
    tags = (tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:"))
    license = getattr(info.card_data, "license", None) or next(tags, None)
    return license if isinstance(license, str) else None
