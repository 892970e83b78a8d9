"""Measure a trained pair on held-out text, and write the numbers beside the models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from specviz.models.attachments.eagle import load_eagle
from specviz.models.attachments.exits import Exit, load_exit
from specviz.models.pairs.catalog import HASHES
from specviz.settings import Settings
from specviz.training.corpus import encode_works, read_works
from specviz.verification.warp import warp

WINDOW = 256
WINDOWS = 64
DRAFTS = ("draft", "distilled", "exit", "eagle")
TEMPERATURES = (0.3, 0.7, 1.0)


@dataclass(frozen=True, slots=True)
class DraftMeasurement:
    """Held-out measurements of a pair."""

    loss: dict[str, float]  # role -> cross-entropy in nats per token
    acceptance: dict[float, float]  # temperature -> acceptance rate: mean over positions of sum min(p, q), in [0, 1]
    error: dict[float, float]  # temperature -> standard error of the acceptance rate
    top1: float  # fraction of positions where target and draft have the same most probable token
    tokens: int  # number of positions


def measure_and_write(out: Path, heldout: Path, log: Callable[[str], None] = print) -> dict[str, DraftMeasurement]:
    """Measure every draft in ``out`` against the target on a held-out corpus.

    Writes ``out/measured.json`` for the plain draft, one file each for the distilled draft, the early exit and the EAGLE head if they
    exist, and the list of hashes. Returns the measurements by draft.
    """
    tokenizer = Tokenizer.from_file(str(out / "target" / "tokenizer.json"))
    target, text = _load_model(out / "target"), cut_windows(read_works(heldout), tokenizer)
    found = {role: measure_draft(target, _load_draft(out / role, target), text) for role in DRAFTS if (out / role).is_dir()}
    for role, measured in found.items():
        _write_measurement(out / ("measured.json" if role == "draft" else f"measured-{role}.json"), measured, log)
    write_hashes(out)
    return found


def _load_draft(folder: Path, target: PreTrainedModel) -> Callable[..., Any]:
    """A callable from ids to an output with logits: a draft model, the target up to its early exit, or a head on its states.

    The head has no logits after the first token of a text, because it reads the target's state before each token.
    """
    if folder.name not in ("eagle", "exit"):
        return _load_model(folder)
    head = load_eagle(folder, target) if folder.name == "eagle" else load_exit(folder, target)

    def read(input_ids: Tensor) -> SimpleNamespace:
        states = target(input_ids=input_ids, output_hidden_states=True).hidden_states
        if isinstance(head, Exit):
            return SimpleNamespace(logits=head.compute_logits(states[head.layer]))
        entering = head.embed_inputs(input_ids[:, 1:], states[-1][:, :-1])
        return SimpleNamespace(logits=head.network(inputs_embeds=entering, use_cache=False).logits)

    return read


def _load_model(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _write_measurement(path: Path, measurement: DraftMeasurement, log: Callable[[str], None]) -> None:
    record = {
        "loss_nats_per_token": measurement.loss,
        "acceptance": {str(t): round(a, 4) for t, a in measurement.acceptance.items()},
        "acceptance_standard_error": {str(t): round(e, 4) for t, e in measurement.error.items()},
        "top1_agreement": round(measurement.top1, 4),
        "positions": measurement.tokens,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    log(f"{path.name}: {json.dumps(record, indent=1)}")


def cut_windows(works: list[str], tokenizer: Tokenizer) -> Tensor:
    """(WINDOWS, WINDOW) ids, evenly spaced over the whole text, so that every work is included."""
    stream = np.concatenate(encode_works(works, tokenizer)).astype(np.int64)
    count = min(WINDOWS, len(stream) // WINDOW)
    starts = np.linspace(0, len(stream) - WINDOW, count).astype(int)
    return torch.from_numpy(np.stack([stream[s : s + WINDOW] for s in starts]))


@torch.inference_mode()
def measure_draft(target: PreTrainedModel, draft: Callable[..., Any], ids: Tensor) -> DraftMeasurement:
    """Teacher-forced over rows of ids (R, T): losses of both models, and the acceptance rate at each temperature.

    ``draft``: may leave out the first positions of a row; these are not measured.
    """
    losses: dict[str, list[float]] = {"target": [], "draft": []}
    accepted: dict[float, list[float]] = {t: [] for t in TEMPERATURES}
    agree: list[float] = []
    for row in ids:
        logits = {role: model(input_ids=row[None]).logits[0, :-1] for role, model in (("target", target), ("draft", draft))}
        known = min(map(len, logits.values()))
        logits = {role: found[-known:] for role, found in logits.items()}
        for role in losses:
            losses[role].append(F.cross_entropy(logits[role], row[-known:]).item())
        for temperature in TEMPERATURES:
            p, q = (warp(logits[role], Settings(temperature=temperature)) for role in ("target", "draft"))
            accepted[temperature].append(torch.minimum(p, q).sum(-1).mean().item())
        agree.append((logits["target"].argmax(-1) == logits["draft"].argmax(-1)).double().mean().item())
    return DraftMeasurement(
        loss={role: round(float(np.mean(values)), 4) for role, values in losses.items()},
        acceptance={t: float(np.mean(values)) for t, values in accepted.items()},
        error={
            t: float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0 for t, values in accepted.items()
        },
        top1=float(np.mean(agree)),
        tokens=ids.shape[0] * known,
    )


def write_hashes(folder: Path) -> None:
    """Write SHA256SUMS over all files of the models and what is attached to them, in the format of sha256sum. Loading checks it."""
    files = sorted(
        file
        for role in ("distilled", "draft", "eagle", "exit", "heads", "target")
        for file in (folder / role).rglob("*")
        if file.is_file()
    )
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / HASHES).write_text("".join(lines))
