"""The models that one request opens, and the proposer built on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from specviz.models.attachments.eagle import EAGLES, load_eagle
from specviz.models.base import LanguageModel
from specviz.models.cache.decoder import CachedModel
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.adaptive import find_policy
from specviz.proposers.base import Proposer
from specviz.proposers.registry import PROPOSERS
from specviz.settings import Settings


@dataclass(frozen=True, slots=True)
class DraftingRequest:
    """The models that one request has opened. A proposer takes what it needs; every cache in here belongs to this request only."""

    pair: LoadedPair
    settings: Settings
    target: LanguageModel  # the very object that will score the draft tokens
    draft: LanguageModel  # the draft model; under early exit the target's own first layers

    def reopen(self) -> tuple[LanguageModel, LanguageModel]:
        """Open target and draft a second time, with their own caches."""
        return open_models(self.pair, self.settings)

    def open_uncut_draft(self) -> LanguageModel:
        """Open the draft at temperature 1 without cuts, whatever the settings say."""
        return open_models(self.pair, remove_cuts(self.settings))[1]

    def open_eagle_head(self, without_cuts: bool = False) -> LanguageModel:
        """Open the EAGLE head over this target. without_cuts: at temperature 1 without cuts, whatever the settings say.

        Raises as ``Attachment.find``.
        """
        head = EAGLES.find(self.pair.name, self.pair.target, self.settings.eagle, load_eagle)
        return self.pair.open_head(
            head, cast(CachedModel, self.target), remove_cuts(self.settings) if without_cuts else self.settings
        )

    @property
    def device(self) -> torch.device:
        """The device of distributions: the target's, or the CPU where the target's has no float64."""
        device = self.pair.target.device
        return torch.device("cpu") if device.type == "mps" else device


def remove_cuts(settings: Settings) -> Settings:
    """The settings at temperature 1 without cuts."""
    return settings.without_cuts(temperature=1.0)


def open_models(pair: LoadedPair, settings: Settings) -> tuple[LanguageModel, LanguageModel]:
    """Target and draft of one request, with empty caches, as the proposer of the settings needs them."""
    entry = PROPOSERS.find(settings.proposer)
    return pair.open(settings) if entry.open_models is None else entry.open_models(pair, settings)


def open_proposer(pair: LoadedPair, settings: Settings) -> tuple[LanguageModel, Proposer]:
    """Target and proposer of one request, with empty caches. Raises SettingsError for an unknown name."""
    entry = PROPOSERS.find(settings.proposer)
    find_policy(settings.draft_length_policy)
    target, draft = open_models(pair, settings)
    return target, entry.build(DraftingRequest(pair, settings, target, draft))
