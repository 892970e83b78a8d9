"""Whether a pair will run on this machine, and how fast, before any weights are read or downloaded.

Configurations and tokenizers are read; of a hub name they are downloaded, some megabytes at most. A problem is a sentence
with what to do, never an exception: a check always returns all that could be found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from specviz.errors import ModelError, UnsupportedModelError, is_out_of_memory
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.encoder_decoder import ConditionedModel
from specviz.models.fast_llama.stepping import SteppingModel
from specviz.models.hub.download import find_free_disk
from specviz.models.hub.files import ModelListing, check_lengths, fetch_config_files, list_model
from specviz.models.pairs import families
from specviz.models.pairs.families import EXPERTS, count_parameters, find_context, refuse_mixed, refuse_unsupported
from specviz.models.pairs.generation_rules import read_eos_ids, sort_fields
from specviz.models.pairs.loading import (
    load_config,
    load_tokenizer,
    map_shared_tokens,
    pick_device,
    refuse_narrow,
    share_tokenizer_files,
)
from specviz.models.pairs.names import describe_draftable, describe_short_draft
from specviz.models.pairs.shallow import build_shallow_model, count_layers, cut_config
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.pairs.tokens import describe_difference
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.proposers.draft import DraftModel
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.records import record_key, to_json_fields
from specviz.settings import Settings
from specviz.speed.measurement.clock import Clock, Lap
from specviz.speed.measurement.text_passes import build_known_chain
from specviz.speed.records.estimate import MIN_RUNS, Estimate
from specviz.speed.records.gpu_costs import describe_bfloat16
from specviz.statistics.finding import format_bytes
from specviz.verification.draft_tree import DraftTree, build_empty_tree

GAMMA = 4  # draft tokens of the verifying pass and of a drafting
CACHED_TOKENS = 64  # tokens before the pass
LAYER_BYTES = 512_000_000  # beyond a processor's cache, where the layers that are left out would be read from memory too
MAX_SECONDS = 3.0  # that the runs may take, if MIN_RUNS runs take no longer
MAX_RUNS = 25  # at most
ESTIMATE_ERROR = 0.3  # largest error besides the interval, mostly too low (docs/reference/benchmarks.md)


@dataclass(frozen=True, slots=True)
class ExpectedPassTimes:
    """Seconds, each an estimate with the interval of its runs. The real pair may deviate by a share of ESTIMATE_ERROR more.

    Attributes:
        one: Target pass over one token.
        block: Target pass over gamma + 1 tokens.
        draft: One draft step: a pass over one token, its distribution and the draw.
    """

    one: Estimate
    block: Estimate
    draft: Estimate
    gamma: int = GAMMA
    max_error: float = field(default=ESTIMATE_ERROR, metadata=record_key("off"))

    def compute_factor(self, tokens_per_pass: float) -> float:
        """How many times as fast as the target alone speculation would be with these costs."""
        return tokens_per_pass * self.one.value / (self.block.value + self.gamma * self.draft.value)


def measure_pass_times(
    target: PretrainedConfig,
    draft: PretrainedConfig,
    device: torch.device,
    dtype: torch.dtype,
    on_progress: ProgressCallback = ignore_progress,
    layer_bytes: int = LAYER_BYTES,
) -> ExpectedPassTimes:
    """Time a pair that is known by its configurations alone.

    Models of the same configurations with meaningless weights are timed side by side through the decoder's own passes. Where all L layers
    would be too much, one model has k of them and one has a single layer. Layers are alike, so T(L) = T(k) + (L - k) (T(k) - T(1)) / (k - 1),
    run by run; what is beside the layers counts once: embedding, output matrix, distribution.

    on_progress: called with the share that is done; what it raises ends the work; layer_bytes: about how many bytes of layers the
    deeper of two models has, at least two layers.

    Raises MemoryError or RuntimeError where the machine has no room for it.
    """
    rows, settings, vocabulary = [_build_row(target, draft)], Settings(), max(_list_vocabulary_sizes(target, draft))
    depths = {name: _choose_depths(config, dtype, layer_bytes) for name, config in (("target", target), ("draft", draft))}
    contestants: dict[tuple[str, int], Callable[[Lap], object]] = {}
    targets = [
        _open_model(build_shallow_model(target, layers, device, dtype), settings, vocabulary, CachedModel)
        for layers in depths["target"]
    ]
    for name, tree in (("one", build_empty_tree(1)), ("block", build_known_chain((0,) * GAMMA))):
        for layers, source in zip(depths["target"], targets, strict=True):  # in turn, so that none finds its weights in a cache
            contestants[name, layers] = partial(_read_tree, source, rows, tree)
    for layers in depths["draft"]:
        source = _open_model(build_shallow_model(draft, layers, device, dtype), settings, vocabulary, SteppingModel)
        proposer, randomness = DraftModel(source, GAMMA), PhiloxRandomness(settings.seed)
        contestants["draft", layers] = partial(_propose, proposer, rows, randomness)
    clock = Clock(contestants, synchronize=torch.cuda.synchronize if device.type == "cuda" else lambda: None)
    clock.run_until(1, lambda share, run, key: on_progress(0.3 * share))
    spent = sum(sum(clock.get_seconds(key)) for key in contestants)
    clock.run_until(
        max(MIN_RUNS, min(MAX_RUNS, int(MAX_SECONDS / spent))), lambda share, run, key: on_progress(0.3 + 0.7 * share)
    )
    parts = (("one", target, 1), ("block", target, 1), ("draft", draft, GAMMA))
    one, block, step = (
        Estimate.from_runs(
            _extrapolate_layers(
                {layers: clock.get_seconds((key, layers)) for key, layers in contestants if key == name},
                count_layers(config),
                pieces,
            ),
            "s",
        )
        for name, config, pieces in parts
    )
    return ExpectedPassTimes(one, block, step)


def _read_tree(source: CachedModel, rows: Sequence[Prefix], tree: DraftTree, lap: Lap) -> None:
    source.compute_distributions(rows, tree)


def _propose(proposer: DraftModel, rows: Sequence[Prefix], randomness: PhiloxRandomness, lap: Lap) -> None:
    proposer.propose(rows, randomness)


def _extrapolate_layers(shown: Mapping[int, Sequence[float]], whole: int, pieces: int) -> list[float]:
    """Seconds of each run with all layers, from those of fewer (layers -> seconds of each run).

    A disturbed run in which the deeper model was the faster gives what the deeper one took.
    """
    few, more = min(shown), max(shown)
    if more == whole:
        return [seconds / pieces for seconds in shown[more]]
    return [
        max(deep, deep + (whole - more) * (deep - flat) / (more - few)) / pieces
        for flat, deep in zip(shown[few], shown[more], strict=True)
    ]


def _choose_depths(config: PretrainedConfig, dtype: torch.dtype, layer_bytes: int) -> tuple[int, ...]:
    """Numbers of layers to time: all where they are few or small, else one and some more."""
    whole = count_layers(config)
    if whole <= 2:
        return (whole,)
    each = (count_parameters(cut_config(config, 2)) - count_parameters(cut_config(config, 1))) * dtype.itemsize
    layers = min(whole, max(2, layer_bytes // max(each, 1)))
    return (whole,) if layers == whole else (1, layers)


def _open_model(model: PreTrainedModel, settings: Settings, vocabulary: int, kind: type[CachedModel]) -> CachedModel:
    if model.config.is_encoder_decoder:
        return ConditionedModel(model, settings, vocabulary, (1,) * CACHED_TOKENS)
    return kind(model, settings, vocabulary)


def _build_row(*configs: PretrainedConfig) -> Prefix:
    """A text that both models can read and that leaves room for the draft tokens."""
    contexts = [getattr(config.get_text_config(), "max_position_embeddings", None) or 2 * CACHED_TOKENS for config in configs]
    held = max(1, min(CACHED_TOKENS, min(contexts) - 2 * GAMMA - 2))
    return Prefix(tuple(place % min(_list_vocabulary_sizes(*configs)) for place in range(held)), 0, 2 * GAMMA + 2)


def _list_vocabulary_sizes(*configs: PretrainedConfig) -> list[int]:
    return [config.get_text_config().vocab_size for config in configs]


SCHEMA = "specviz-preflight-1"
SWAPPED = "The draft is larger than the target, so it will hardly save time. Are the two places swapped?"


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """One model as far as it is known without its weights. None where it could not be found out; ``problems`` then says why.

    Attributes:
        folder: Whether the place is a folder of this machine.
        revision, commit: Of a hub name: what was asked for, and what that is now.
        gated: Whether the hub asks for an account that has accepted a license.
        family: Transformers' name of the architecture.
        tokens: Entries of its tokenizer.
        context: Tokens that a text may have.
        window: Tokens that its sliding layers see.
        stored: Number type in which its weights are stored.
        total_bytes: Of all files that are read.
        here_bytes: Of those, on this machine already.
        memory_bytes: Needed to run it in the number type of the check (``families.estimate_memory``).
        end_tokens: Ids that end a text.
        chat_template: Whether its tokenizer brings one.
        problems: Sentences: what stands in the way, and what to do.
    """

    place: str
    role: str
    folder: bool = False
    revision: str | None = None
    commit: str | None = None
    license: str | None = None
    gated: bool = False
    family: str | None = None
    supported: bool | None = None
    parameters: int | None = None
    vocabulary: int | None = None
    tokens: int | None = None
    context: int | None = None
    window: int | None = None
    stored: str | None = None
    total_bytes: int | None = None
    here_bytes: int | None = None
    memory_bytes: int | None = None
    end_tokens: tuple[int, ...] = ()
    chat_template: bool = False
    problems: tuple[str, ...] = ()

    @property
    def download_bytes(self) -> int | None:
        return None if self.total_bytes is None or self.here_bytes is None else self.total_bytes - self.here_bytes


@dataclass(frozen=True, slots=True)
class Preflight:
    """A pair as far as it is known without its weights.

    Attributes:
        device, dtype: That the pair would run on and in.
        free_bytes: Memory free on the device.
        host_bytes: In the system.
        disk_bytes: Where downloads are kept.
        differ: How the two tokenizers differ, as part of a sentence; None: they are equal, or one could not be read.
        expected: Seconds per pass on this machine; None: not measured.
        problems: Sentences on the pair as a whole; those of the models are theirs.
        notes: Sentences on what is worth knowing and stands in nobody's way, but that of ``is_swapped``.
        listings: Of the models whose files are known, for ``models.hub.download.download``; in no record.
    """

    target: ModelCheck
    draft: ModelCheck
    device: str
    dtype: str
    free_bytes: int
    host_bytes: int
    disk_bytes: int
    differ: str | None = None
    expected: ExpectedPassTimes | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    listings: tuple[ModelListing, ...] = field(default=(), repr=False)

    @property
    def all_problems(self) -> tuple[str, ...]:
        """Of the pair and of its models, each once."""
        return tuple(dict.fromkeys((*self.target.problems, *self.draft.problems, *self.problems)))

    @property
    def is_swapped(self) -> bool:
        """Whether the draft is larger than the target, so that the two may be in each other's place."""
        return (self.draft.parameters or 0) > (self.target.parameters or math.inf)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """All that is worth knowing and stands in nobody's way."""
        return ((SWAPPED,) if self.is_swapped else ()) + self.notes

    @property
    def ready(self) -> bool:
        """Whether the pair would run here, after the download if there is one."""
        return not self.all_problems

    @property
    def memory_bytes(self) -> int | None:
        """Needed by both models, which are one where target and draft are the same; None: not known."""
        return _sum_memory(self.target, self.draft)

    @property
    def download_bytes(self) -> int:
        """Bytes that are still to come for all files that are known."""
        return sum(one.download_bytes for one in dict.fromkeys(self.listings))

    def to_record(self) -> dict[str, Any]:
        """JSON-ready; what follows from the fields is in it too."""
        models = {one.role: to_json_fields(one) | {"download_bytes": one.download_bytes} for one in (self.target, self.draft)}
        rest = {
            name: value for name, value in to_json_fields(replace(self, listings=())).items() if name not in (*models, "listings")
        }
        derived: dict[str, Any] = {"memory_bytes": self.memory_bytes, "download_bytes": self.download_bytes, "ready": self.ready}
        derived |= {"is_swapped": self.is_swapped, "notes": list(self.all_notes)}
        return {"schema": SCHEMA} | models | rest | derived


@dataclass(slots=True)
class _ModelFiles:
    """The files of one model that were read."""

    found: ModelCheck
    listed: ModelListing | None = None
    config: PretrainedConfig | None = None
    generation: GenerationConfig | None = None
    tokenizer: PreTrainedTokenizerBase | None = None


def check_pair(
    target: str,
    draft: str,
    device: str = "auto",
    dtype: str = "auto",
    probe: bool = True,
    on_progress: ProgressCallback = ignore_progress,
) -> Preflight:
    """Find out whether a pair will run here.

    target, draft: places: folders or hub names; device, dtype: as ``load_pair`` takes them; probe: whether to measure what a pass
    will take, some seconds; on_progress: called with the share that is done and what is being done, also while something is
    fetched; what it raises ends the check.

    Raises SettingsError for an unknown device or dtype, and nothing else of its own.
    """
    where, kind = pick_device(device, dtype)
    read: list[_ModelFiles] = []
    for number, (place, role) in enumerate(((target, "target"), (draft, "draft"))):
        reading = scale_progress(on_progress, 0.25 * number, 0.25 * (number + 1), f"the {role}'s files")
        reading(0.0)
        read.append(_read_model(place.strip(), role, kind, where, reading, *read))
    one, other = read
    listings = tuple(each.listed for each in read if each.listed is not None)
    free, host, disk = families.find_free_memory(where), families.find_free_memory(torch.device("cpu")), find_free_disk()
    on_progress(0.5, "the tokenizers")
    differ, problems, notes = _compare_tokenizers(one, other)
    notes += _collect_notes(one, other, kind, where, differ is None)
    made = Preflight(
        *(one.found, other.found, where.type, _name_dtype(kind), free, host, disk),
        differ=differ,
        problems=(*problems, *_check_memory(one.found, other.found, kind, where, free, host), *_check_disk(listings, disk)),
        notes=notes,
        listings=listings,
    )
    if not probe or one.config is None or other.config is None or _is_probe_useless(made):
        return made
    on_progress(0.6, "the time of a pass")
    tell = scale_progress(on_progress, 0.6, 1.0, "the time of a pass")
    expected, said = _measure_times(one.config, other.config, where, kind, tell)
    return replace(made, expected=expected, notes=(*notes, *said))


def _read_model(
    place: str,
    role: str,
    dtype: torch.dtype,
    device: torch.device,
    on_progress: ProgressCallback,
    other: _ModelFiles | None = None,
) -> _ModelFiles:
    """Check a model before its weights are read. other: the model read before it, whose tokenizer may be the same."""
    known: dict[str, Any] = {"place": place, "role": role}
    problems: list[str] = []
    made = _ModelFiles(ModelCheck(**known))
    try:
        made.listed = listed = list_model(place, on_progress=scale_progress(on_progress, 0.0, 0.5))
        known |= {"folder": listed.repo is None, "revision": listed.revision, "commit": listed.commit, "license": listed.license}
        known |= {"gated": listed.gated, "total_bytes": listed.total_bytes}
        fetch_config_files(listed, scale_progress(on_progress, 0.5, 1.0))
        known["here_bytes"] = listed.here_bytes
        made.config = load_config(listed)
        known |= _describe_config(made.config, dtype, device)
        try:
            refuse_unsupported(place, made.config)
            known["supported"] = True
        except UnsupportedModelError as error:
            known["supported"] = False
            problems.append(str(error))
        made.tokenizer = _reuse_tokenizer(other, listed, made.config) or load_tokenizer(listed)
        known |= {"tokens": len(made.tokenizer), "chat_template": bool(made.tokenizer.chat_template)}
        made.generation = _load_generation_config(listed)
        known["end_tokens"] = tuple(sorted(read_eos_ids(place, made.generation, made.config)))
        if known["supported"]:
            refuse_narrow(place, made.config, made.tokenizer)
            check_lengths(listed)
    except (ModelError, OSError) as error:
        problems.append(
            str(error) if isinstance(error, ModelError) else f"'{place}' could not be read or kept ({error.strerror})."
        )
        if made.listed is not None:
            known["here_bytes"] = made.listed.here_bytes
    made.found = ModelCheck(**known, problems=tuple(problems))
    return made


def _reuse_tokenizer(read: _ModelFiles | None, listed: ModelListing, config: PretrainedConfig) -> PreTrainedTokenizerBase | None:
    if read is None or read.listed is None or read.config is None:
        return None
    return read.tokenizer if share_tokenizer_files((read.listed, listed), (read.config, config)) else None


def _describe_config(config: PretrainedConfig, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    text = config.get_text_config()
    known = {
        "family": config.model_type,
        "vocabulary": getattr(text, "vocab_size", None),
        "context": find_context(config),
        "window": getattr(text, "sliding_window", None),
        "stored": _name_dtype(stored) if isinstance(stored := getattr(config, "dtype", None), torch.dtype) else stored,
    }
    try:
        count = families.count_parameters(config)
    except Exception:  # a family without a text decoder: the sentence on what is supported says so
        return known
    return known | {"parameters": count, "memory_bytes": families.estimate_memory(config, dtype, device)}


def _load_generation_config(listed: ModelListing) -> GenerationConfig | None:
    try:
        with silence_transformers():
            return GenerationConfig.from_pretrained(listed.folder, local_files_only=True)
    except (OSError, ValueError):
        return None


def _compare_tokenizers(target: _ModelFiles, draft: _ModelFiles) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """How the tokenizers differ, what stands between the two models, and what is worth knowing of their tokens."""
    problems, notes, places = [], [], (target.found.place, draft.found.place)
    if target.config is not None and draft.config is not None:
        try:
            refuse_mixed(places, (target.config, draft.config))
        except UnsupportedModelError as error:
            problems.append(str(error))
    differ = None
    if target.tokenizer is not None and draft.tokenizer is not None:
        differ = describe_difference(target.tokenizer, draft.tokenizer)
    if differ and not problems and target.config is not None and draft.config is not None:
        try:
            shared = map_shared_tokens(places, (target.config, draft.config), (target.tokenizer, draft.tokenizer), differ)
            notes.append(describe_draftable({"draft": {"tokens": shared.to_record()}}))
        except ModelError as error:
            problems.append(str(error))
    return differ, tuple(problems), tuple(notes)


def _sum_memory(target: ModelCheck, draft: ModelCheck) -> int | None:
    if target.memory_bytes is None or draft.memory_bytes is None:
        return None
    return target.memory_bytes if target.place == draft.place else target.memory_bytes + draft.memory_bytes


def _check_memory(
    target: ModelCheck, draft: ModelCheck, dtype: torch.dtype, device: torch.device, free: int, host: int
) -> tuple[str, ...]:
    if target.memory_bytes is None or draft.memory_bytes is None or target.parameters is None or draft.parameters is None:
        return ()
    needed = _sum_memory(target, draft)
    assert needed is not None, "both are known"
    advice = "Take smaller models" + (", or fewer bytes per number (--dtype bfloat16)." if dtype.itemsize > 2 else ".")
    if needed > free:
        return (
            f"The pair needs about {format_bytes(needed)} of memory in {_name_dtype(dtype)} ({format_bytes(target.memory_bytes)} for the target, "
            f"{format_bytes(draft.memory_bytes)} for the draft), and {format_bytes(free)} are free on this {device.type}. {advice}",
        )
    passing = max(target.parameters, draft.parameters) * dtype.itemsize
    if device.type != "cpu" and passing > host:
        return (
            f"Weights pass through the system's memory on their way to the {device.type}: {format_bytes(passing)} are needed there for a moment, "
            f"and {format_bytes(host)} are free. Close other programs, or take smaller models.",
        )
    return ()


def _check_disk(listings: tuple[ModelListing, ...], disk: int) -> tuple[str, ...]:
    needed = sum(one.download_bytes for one in dict.fromkeys(listings))
    if needed <= disk:
        return ()
    return (
        f"The download needs {format_bytes(needed)} of disk, and {format_bytes(disk)} are free. Make room, or name another folder in HF_HUB_CACHE.",
    )


def _collect_notes(
    target_files: _ModelFiles, draft_files: _ModelFiles, dtype: torch.dtype, device: torch.device, same_tokens: bool
) -> tuple[str, ...]:
    target, draft, notes = target_files.found, draft_files.found, []
    if target_files.tokenizer is not None and not target.end_tokens:
        notes.append("The target names no token that ends a text: texts go on to the length that is asked for.")
    notes += sort_fields(target_files.generation, bool(target.end_tokens)).describe(Settings())
    if len(target.end_tokens) > 1:
        notes.append(f"{len(target.end_tokens)} tokens end a text: {', '.join(map(str, target.end_tokens))}.")
    if same_tokens and target.context and draft.context and draft.context < target.context:
        notes.append(describe_short_draft(draft.context, target.context))
    if same_tokens and target.vocabulary and draft.vocabulary and target.vocabulary != draft.vocabulary:
        notes.append(
            f"The models predict {target.vocabulary} and {draft.vocabulary} tokens: ids that one lacks have probability 0 there."
        )
    for model in (target, draft):
        if model.gated:
            notes.append(f"'{model.place}' is gated: its license must have been accepted by the account of this machine.")
    for stored in sorted({model.stored for model in (target, draft) if model.stored and model.stored != _name_dtype(dtype)}):
        notes.append(
            f"Weights stored in {stored} run in {_name_dtype(dtype)}: their distribution differs from that in {stored} by rounding."
        )
    if dtype in (torch.bfloat16, torch.float16) and device.type == "cpu":
        notes.append(f"Processors without {_name_dtype(dtype)} arithmetic are slower in it than in float32; it saves memory.")
    if dtype is torch.bfloat16 and device.type == "cuda":
        notes.append(describe_bfloat16())
    if target_files.config is not None and target_files.config.model_type in EXPERTS:
        notes.append(
            "Of a mixture of experts, a pass over several tokens reads more experts than a pass over one: it costs more than here."
        )
    if target.chat_template:
        notes.append("The target's tokenizer has a chat template: it was trained on messages, and a plain prompt is none.")
    return tuple(dict.fromkeys(notes))


def _is_probe_useless(preflight: Preflight) -> bool:
    """Whether a probe would be of no use, or would not fit."""
    models = (preflight.target, preflight.draft)
    return (
        preflight.memory_bytes is None
        or preflight.memory_bytes > preflight.free_bytes
        or any(model.supported is not True for model in models)
    )


def _measure_times(
    target: PretrainedConfig, draft: PretrainedConfig, device: torch.device, dtype: torch.dtype, on_progress: ProgressCallback
) -> tuple[ExpectedPassTimes | None, tuple[str, ...]]:
    if target.is_encoder_decoder != draft.is_encoder_decoder:
        return None, ()
    try:
        return measure_pass_times(target, draft, device, dtype, on_progress), ()
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None, ("There is too little memory left to measure what a pass will take.",)
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()  # the room is the pair's


def _name_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
