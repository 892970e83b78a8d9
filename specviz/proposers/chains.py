"""Chains drawn from a language model, of a fixed length or of one that a policy decides. The draft model's is the default method."""

from __future__ import annotations

from specviz.models.base import LanguageModel
from specviz.models.uncached import build_draft_reference
from specviz.proposers.adaptive import AdaptiveDraft, find_policy
from specviz.proposers.base import Proposer
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.registry import register_proposer
from specviz.proposers.request import DraftingRequest
from specviz.settings import Settings
from specviz.verification.registry import DraftForm


def describe_chain(settings: Settings) -> DraftForm:
    """What a chain from a language model guarantees."""
    return DraftForm(fixed_length=settings.draft_length_policy == "fixed")


def build_chain(request: DraftingRequest, source: LanguageModel, name: str = "draft") -> Proposer:
    """A chain drawn from a language model, of the length that ``Settings.draft_length_policy`` decides. name: of the drafting method."""
    settings = request.settings
    build_policy = find_policy(settings.draft_length_policy)
    if not settings.gamma:
        return NoDraft()
    if build_policy is None:
        return DraftModel(source, settings.gamma, name)
    draft, target = request.pair.draft, request.pair.target
    policy = build_policy(settings.gamma, draft.num_parameters() / target.num_parameters(), lambda: request.reopen()[0])
    if settings.draft_length_policy == "entropy" and settings.temperature == 0.0 and source is request.draft:
        return AdaptiveDraft(request.open_uncut_draft(), policy, settings, name)
    return AdaptiveDraft(source, policy, name=name)


@register_proposer(
    "draft",
    title="draft model",
    form=describe_chain,
    reads=("gamma", "draft_length_policy"),
    build_reference=build_draft_reference,
    server_commands="draft",
)
def _build_draft_chain(request: DraftingRequest) -> Proposer:
    return build_chain(request, request.draft)
