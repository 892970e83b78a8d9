"""Every proposer by name, with what it declares. A new proposer is one file with ``@register_proposer``.

A proposer declares there all that other parts need to know, so none of them asks for a name:

- ``form``: what its draft tokens guarantee. The rules, the sampler and ``plan`` read it.
- ``reads``: the settings that it uses. Commands refuse the others.
- ``build_reference``: the distributions that its draft tokens are to be drawn from, by passes without a cache. With it, ``verify``
  computes the decoder's own next-token distribution along a text (evidence/analytic).
- ``runs_model``: False where a text or a fixed distribution drafts. A plan for other drafts then makes no sense.
- ``server_commands``: how servers that have this method are started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specviz.registry import Registry
from specviz.settings import Settings
from specviz.verification.registry import DraftForm

if TYPE_CHECKING:
    from specviz.models.base import LanguageModel
    from specviz.models.pairs.loading import LoadedPair
    from specviz.models.uncached import DraftReference
    from specviz.proposers.base import Proposer

BuildProposer = Callable[[Any], "Proposer"]  # of a request.DraftingRequest
OpenModels = Callable[["LoadedPair", Settings], "tuple[LanguageModel, LanguageModel]"]
BuildReference = Callable[["LoadedPair", Settings], "DraftReference"]
ServerCommands = str | tuple[Mapping[str, str], ...]


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
    # builds the distributions of its draft along a text from passes without a cache (models/uncached.py), for chains of a fixed length;
    # None: there is no model whose distributions could be computed
    build_reference: BuildReference | None
    runs_model: bool  # whether drafting runs a model
    # a command or lines of Python for each server that has this method, as a table of assets/texts/server_commands.toml: its name, or
    # mappings with the keys of its rows; empty: servers do not have it. A text in the source, so pages read it without torch
    server_commands: ServerCommands


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
    build_reference: BuildReference | None = None,
    runs_model: bool = True,
    server_commands: ServerCommands = (),
) -> Callable[[BuildProposer], BuildProposer]:
    """Register what builds a proposer. The arguments are described at ``ProposerEntry``; a form may depend on the settings."""
    find = (lambda settings: form) if isinstance(form, DraftForm) else form
    declared = open_models, build_reference, runs_model, server_commands
    return PROPOSERS.register(name, lambda build: ProposerEntry(name, title, find, reads, build, *declared))


def find_form(settings: Settings) -> DraftForm:
    """What the proposer of these settings guarantees of its draft tokens. Raises SettingsError for an unknown name."""
    return PROPOSERS.find(settings.proposer).form(settings)
