"""Early exit: the target's own first layers, with an exit trained for them, draft a chain (Elhoushi et al. 2024, LayerSkip)."""

from __future__ import annotations

from specviz.proposers.base import Proposer
from specviz.proposers.chains import build_chain, describe_chain
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest

NAME = "early-exit"


@register_proposer(
    "early-exit",
    title="early exit",
    form=describe_chain,
    reads=("gamma", "draft_length_policy", "early_exit", "exit_layer"),
    open_models=lambda pair, settings: pair.open_layered(settings),
)
def _build_early_exit(request: DraftingRequest) -> Proposer:
    return build_chain(request, request.draft, NAME)
