"""Will this pair run here, and how fast? Known before a byte of weights is read or fetched.

Configurations and tokenizers are read; of a hub name they are downloaded, some megabytes at most. What stands in the way is a sentence
with what to do, never an exception: a check always ends with all that could be found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import GenerationConfig, PretrainedConfig, PreTrainedTokenizerBase

from specviz.errors import ModelError, UnsupportedModelError, is_out_of_memory
from specviz.models.hub.client import never
from specviz.models.hub.download import find_free_disk
from specviz.models.hub.files import ModelListing, fetch_config_files, list_model
from specviz.models.pairs import families
from specviz.models.pairs.catalog import OVERHEAD
from specviz.models.pairs.families import EXPERTS, refuse_mixed, refuse_unsupported
from specviz.models.pairs.loading import load_config, load_tokenizer, map_shared_tokens, pick_device, read_eos_ids, refuse_narrow
from specviz.models.pairs.names import describe_draftable
from specviz.models.pairs.shared_weights import silence_transformers
from specviz.models.pairs.tokens import describe_difference
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import to_json_fields
from specviz.speed.preflight_timing import ExpectedPassTimes, measure_pass_times
from specviz.statistics.finding import format_bytes

SCHEMA = "specviz-preflight-1"


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """One model as far as it is known without its weights. None where it could not be found out; ``problems`` then says why.

    place             as it was named; role  target or draft
    folder            whether the place is a folder of this machine
    revision, commit  of a hub name: what was asked for, and what that is now
    license           as the hub says; gated  whether the hub asks for an account that has accepted a license
    family            transformers' name of the architecture; supported  whether this decoder runs it
    parameters        number of parameters; vocabulary  tokens it predicts; tokens  entries of its tokenizer
    context           tokens that a text may have; window  tokens that its sliding layers see
    stored            number type in which its weights are stored
    total_bytes       of all files that are read; here_bytes  of those, on this machine already
    memory_bytes      needed to run it in the number type of the check: weights and a fifth more
    end_tokens        ids that end a text; chat_template  whether its tokenizer brings one
    problems          sentences: what stands in the way, and what to do
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

    target, draft   the two models
    device, dtype   that the pair would run on and in
    free_bytes      memory free on the device; host_bytes  in the system; disk_bytes  where downloads are kept
    differ          how the two tokenizers differ, as part of a sentence; None: they are equal, or one could not be read
    expected        seconds per pass on this machine; None: not measured
    problems        sentences on the pair as a whole; those of the models are theirs
    notes           sentences on what is worth knowing and stands in nobody's way
    listings        of the models whose files are known, for ``models.hub.download.download``; in no record
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
    def ready(self) -> bool:
        """Whether the pair would run here, after the download if there is one."""
        return not self.all_problems

    @property
    def memory_bytes(self) -> int | None:
        """Needed by both models; None: not known."""
        needed = [model.memory_bytes for model in (self.target, self.draft)]
        return None if None in needed else sum(filter(None, needed))

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
        derived = {"memory_bytes": self.memory_bytes, "download_bytes": self.download_bytes, "ready": self.ready}
        return {"schema": SCHEMA} | models | rest | derived


@dataclass(slots=True)
class _ModelFiles:
    """What was read of one model."""

    found: ModelCheck
    listed: ModelListing | None = None
    config: PretrainedConfig | None = None
    tokenizer: PreTrainedTokenizerBase | None = None


def check_pair(
    target: str,
    draft: str,
    device: str = "auto",
    dtype: str = "auto",
    probe: bool = True,
    on_progress: ProgressCallback = ignore_progress,
    cancelled: Callable[[], bool] = never,
) -> Preflight:
    """Find out whether a pair will run here.

    target, draft  places: folders or hub names
    device, dtype  as ``load_pair`` takes them
    probe          whether to measure what a pass will take, some seconds
    on_progress  called with the share that is done and what is being done; what it raises ends the check
    cancelled      asked while something is fetched

    Raises SettingsError for an unknown device or dtype, CancelledError if it was cancelled, and nothing else of its own.
    """
    where, kind = pick_device(device, dtype)
    read = []
    for number, (place, role) in enumerate(((target, "target"), (draft, "draft"))):
        on_progress(0.25 * number, f"the {role}'s files")
        read.append(_read_model(place.strip(), role, kind, cancelled))
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


def _read_model(place: str, role: str, dtype: torch.dtype, cancelled: Callable[[], bool]) -> _ModelFiles:
    known: dict[str, Any] = {"place": place, "role": role}
    problems: list[str] = []
    made = _ModelFiles(ModelCheck(**known))
    try:
        made.listed = listed = list_model(place, is_cancelled=cancelled)
        known |= {"folder": listed.repo is None, "revision": listed.revision, "commit": listed.commit, "license": listed.license}
        known |= {"gated": listed.gated, "total_bytes": listed.total_bytes}
        fetch_config_files(listed, cancelled)
        known["here_bytes"] = listed.here_bytes
        made.config = load_config(listed)
        known |= _describe_config(made.config, dtype)
        try:
            refuse_unsupported(place, made.config)
            known["supported"] = True
        except UnsupportedModelError as error:
            known["supported"] = False
            problems.append(str(error))
        made.tokenizer = load_tokenizer(listed)
        known |= {"tokens": len(made.tokenizer), "chat_template": bool(made.tokenizer.chat_template)}
        known["end_tokens"] = tuple(sorted(read_eos_ids(_load_generation_config(listed), made.config)))
        if known["supported"]:
            refuse_narrow(place, made.config, made.tokenizer)
    except (ModelError, OSError) as error:
        problems.append(
            str(error) if isinstance(error, ModelError) else f"'{place}' could not be read or kept ({error.strerror})."
        )
        if made.listed is not None:
            known["here_bytes"] = made.listed.here_bytes
    made.found = ModelCheck(**known, problems=tuple(problems))
    return made


def _describe_config(config: PretrainedConfig, dtype: torch.dtype) -> dict[str, Any]:
    text = config.get_text_config()
    known = {
        "family": config.model_type,
        "vocabulary": getattr(text, "vocab_size", None),
        "context": getattr(text, "max_position_embeddings", None),
        "window": getattr(text, "sliding_window", None),
        "stored": _name_dtype(stored) if isinstance(stored := getattr(config, "dtype", None), torch.dtype) else stored,
    }
    try:
        count = families.count_parameters(config)
    except Exception:  # a family without a text decoder: the sentence on what is supported says so
        return known
    return known | {"parameters": count, "memory_bytes": round(count * dtype.itemsize * OVERHEAD)}


def _load_generation_config(listed: ModelListing) -> GenerationConfig | None:
    try:
        with silence_transformers():
            return GenerationConfig.from_pretrained(listed.folder, local_files_only=True)
    except (OSError, ValueError):
        return None


def _compare_tokenizers(one: _ModelFiles, other: _ModelFiles) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """How the tokenizers differ, what stands between the two models, and what is worth knowing of their tokens."""
    problems, notes, places = [], [], (one.found.place, other.found.place)
    if one.config is not None and other.config is not None:
        try:
            refuse_mixed(places, (one.config, other.config))
        except UnsupportedModelError as error:
            problems.append(str(error))
    differ = None
    if one.tokenizer is not None and other.tokenizer is not None:
        differ = describe_difference(one.tokenizer, other.tokenizer)
    if differ and not problems and one.config is not None and other.config is not None:
        try:
            shared = map_shared_tokens(places, (one.config, other.config), (one.tokenizer, other.tokenizer), differ)
            notes.append(describe_draftable({"draft": {"tokens": shared.to_record()}}))
        except ModelError as error:
            problems.append(str(error))
    return differ, tuple(problems), tuple(notes)


def _check_memory(
    one: ModelCheck, other: ModelCheck, dtype: torch.dtype, device: torch.device, free: int, host: int
) -> tuple[str, ...]:
    if one.memory_bytes is None or other.memory_bytes is None or one.parameters is None or other.parameters is None:
        return ()
    needed = one.memory_bytes + other.memory_bytes
    advice = "Take smaller models" + (", or fewer bytes per number (--dtype bfloat16)." if dtype.itemsize > 2 else ".")
    if needed > free:
        return (
            f"The pair needs about {format_bytes(needed)} of memory in {_name_dtype(dtype)} ({format_bytes(one.memory_bytes)} for the target, "
            f"{format_bytes(other.memory_bytes)} for the draft), and {format_bytes(free)} are free on this {device.type}. {advice}",
        )
    passing = max(one.parameters, other.parameters) * dtype.itemsize
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
    one: _ModelFiles, other: _ModelFiles, dtype: torch.dtype, device: torch.device, same_tokens: bool
) -> tuple[str, ...]:
    target, draft, notes = one.found, other.found, []
    if one.tokenizer is not None and not target.end_tokens:
        notes.append("The target names no token that ends a text: texts go on to the length that is asked for.")
    if len(target.end_tokens) > 1:
        notes.append(f"{len(target.end_tokens)} tokens end a text: {', '.join(map(str, target.end_tokens))}.")
    if target.parameters and draft.parameters and draft.parameters > target.parameters:
        notes.append("The draft is larger than the target, so it will hardly save time. Are the two places swapped?")
    if same_tokens and target.context and draft.context and draft.context < target.context:
        notes.append(
            f"The draft reads {draft.context} tokens and the target {target.context}: beyond {draft.context} nothing is drafted."
        )
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
    if one.config is not None and one.config.model_type in EXPERTS:
        notes.append(
            "Of a mixture of experts, a pass over several tokens reads more experts than a pass over one: it costs more than here."
        )
    if target.chat_template:
        notes.append("The target's tokenizer has a chat template: it was trained on messages, and a plain prompt is none.")
    return tuple(dict.fromkeys(notes))


def _is_probe_useless(found: Preflight) -> bool:
    """Whether a probe would be of no use, or would not fit."""
    models = (found.target, found.draft)
    return (
        found.memory_bytes is None
        or found.memory_bytes > found.free_bytes
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
