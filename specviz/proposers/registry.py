"""Every proposer by name, with what it guarantees of its draft tokens. A new proposer is one file with ``@register_proposer``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.registry import Registry
from specviz.settings import Settings
from specviz.verification.registry import DraftForm

if TYPE_CHECKING:
    from specviz.models.base import LanguageModel
    from specviz.models.pairs.loading import LoadedPair
    from specviz.proposers.base import Proposer

BuildProposer = Callable[[Any], "Proposer"]  # of a request.DraftingRequest
OpenModels = Callable[["LoadedPair", Settings], "tuple[LanguageModel, LanguageModel]"]


@dataclass(frozen=True, slots=True)
class ProposerEntry:
    """A registered proposer."""

    name: str
    title: str  # the name for a person
    form: Callable[[Settings], DraftForm]  # what it guarantees of its trees under given settings, before any model is read
    reads: tuple[str, ...]  # names of the settings that it reads, beside those of sampling
    build: BuildProposer  # builds it from the models that one request has opened
    # opens target and draft of one request, with empty caches, if it needs others than ``LoadedPair.open``
    open_models: OpenModels | None


PROPOSERS: Registry[ProposerEntry] = Registry(
    "proposer", "specviz.proposers", "register_proposer", "specviz.proposers", default="draft"
)


def register_proposer(
    name: str,
    *,
    title: str,
    form: DraftForm | Callable[[Settings], DraftForm],
    reads: tuple[str, ...] = (),
    open_models: OpenModels | None = None,
) -> Callable[[BuildProposer], BuildProposer]:
    """Register what builds a proposer. The arguments are described at ``ProposerEntry``; a form may depend on the settings."""
    find = (lambda settings: form) if isinstance(form, DraftForm) else form
    return PROPOSERS.register(name, lambda build: ProposerEntry(name, title, find, reads, build, open_models))


def find_form(settings: Settings) -> DraftForm:
    """What the proposer of these settings guarantees of its draft tokens. Raises SettingsError for an unknown name."""
    return PROPOSERS.find(settings.proposer).form(settings)
