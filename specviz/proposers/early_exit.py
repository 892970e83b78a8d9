"""Early exit: the target's own first layers, with an exit trained for them, draft a chain (Elhoushi et al. 2024, LayerSkip)."""

from __future__ import annotations

from dataclasses import replace

from specviz.models.attachments.exits import find_exit
from specviz.models.pairs.loading import LoadedPair
from specviz.models.uncached import UncachedModel, build_target_reference
from specviz.proposers.base import Proposer
from specviz.proposers.chains import build_chain, describe_chain
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.settings import Settings

NAME = "early-exit"


def _build_exit_reference(pair: LoadedPair, settings: Settings) -> UncachedModel:
    whole = build_target_reference(pair, settings)
    return replace(whole, exit_=find_exit(pair.name, pair.target, settings), processors=())


@register_proposer(
    "early-exit",
    title="early exit",
    form=describe_chain,
    reads=("gamma", "draft_length_policy", "early_exit", "exit_layer"),
    open_models=lambda pair, settings: pair.open_layered(settings),
    build_reference=_build_exit_reference,
)
def _build_early_exit(request: DraftingRequest) -> Proposer:
    return build_chain(request, request.draft, NAME)
