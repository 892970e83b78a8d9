"""What a model consists of, before a byte of its weights is read: its files, their sizes, and which of them are here.

A place is a folder or a hub name (models/pairs/names.py). Weights are safetensors alone, in one file or in shards that an index names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.hf_api import ModelInfo

from specviz.errors import MAX_SHOWN, DamagedModelError, ModelError
from specviz.models.hub.client import call_hub, explain_refusal, find_cache_folder, find_hub, never_cancel
from specviz.models.hub.transfer import ModelCache, ModelFile, fetch_file, is_commit
from specviz.models.pairs.names import HubName, find_folder, parse_hub_name

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

    @property
    def store(self) -> ModelCache | None:
        return None if self.repo is None or self.commit is None else ModelCache(self.repo, self.commit)

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
    place: str, weights: tuple[str, ...] | None = None, is_cancelled: Callable[[], bool] = never_cancel
) -> ModelListing:
    """The files of a folder or of a hub name. A hub is asked once; of shards the index is read too.

    ``weights`` names the one file of weights of an attachment, the usual name first; None: a model's weights. Where the hub
    cannot be reached or refuses, the files of a complete earlier download are listed. Raises ModelError for any other place.
    """
    if (folder := find_folder(place)) is not None:
        return _list_folder(place, Path(os.path.abspath(folder)), weights)
    name = parse_hub_name(place)
    if name is None:
        raise ModelError(
            f"'{place[:MAX_SHOWN]}' is neither a folder on this machine nor a hub name of the form owner/model or owner/model@revision."
        )
    try:
        return _list_hub(place, name, weights, is_cancelled)
    except DamagedModelError:
        raise
    except ModelError:
        if (kept := _list_cached(place, name, weights)) is not None:
            return kept
        raise


def fetch_config_files(listed: ModelListing, is_cancelled: Callable[[], bool] = never_cancel) -> Path:
    """The folder of a model, with its configuration and tokenizer in it; they are downloaded if they are not here."""
    if (store := listed.store) is not None:
        for file in listed.small:
            fetch_file(store, file, is_cancelled=is_cancelled)
    return listed.folder


def _list_folder(place: str, folder: Path, weights: tuple[str, ...] | None) -> ModelListing:
    try:
        there = {entry.name: ModelFile(entry.name, entry.stat().st_size) for entry in folder.iterdir() if entry.is_file()}
    except OSError as error:
        raise ModelError(f"The folder '{place}' could not be read ({error.strerror}).") from error
    if CONFIG not in there:
        raise ModelError(f"'{place}' does not hold a model: {CONFIG} is missing.")
    read = _select_weights(place, there, weights, lambda: folder / INDEX)
    return ModelListing(place, folder, None, None, None, None, False, _select_config_files(there, weights), read)


def _list_hub(place: str, name: HubName, weights: tuple[str, ...] | None, is_cancelled: Callable[[], bool]) -> ModelListing:
    revision, api = name.revision or MAIN, HfApi(endpoint=find_hub())
    if is_commit(revision) and (kept := _list_cached(place, name, weights)) is not None:  # a commit never changes
        return kept
    info = call_hub(name, lambda: api.model_info(name.repo, revision=revision, files_metadata=True, timeout=10.0), is_cancelled)
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
        raise ModelError(f"'{place}' does not hold a model that transformers reads: {CONFIG} is missing.")
    small = _select_config_files(there, weights)
    read = _select_weights(place, there, weights, lambda: fetch_file(store, there[INDEX], is_cancelled=is_cancelled))
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
            f"'{place}' does not hold weights: a .safetensors file is needed, {WEIGHTS} or shards with {INDEX} (pickled weights are not "
            "read)."
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


def describe_pickled(names: Iterable[str]) -> str:
    """The end of a sentence on missing weights, where files of another kind are there; else empty."""
    found = min((name for name in names if name.endswith(PICKLED)), default="")
    return f"; {found} is pickled, and reading that can run code, so save its weights as safetensors" if found else ""


def _read_license(info: ModelInfo) -> str | None:
    tags = (tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:"))
    license = getattr(info.card_data, "license", None) or next(tags, None)
    return license if isinstance(license, str) else None
