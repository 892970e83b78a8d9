"""Every proposer by name. A new proposer is one file beside this one, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from specviz.errors import SettingsError
from specviz.models.attachments.eagle import eagle_of
from specviz.models.attachments.heads import heads_of
from specviz.models.base import LanguageModel
from specviz.models.pairs.loading import LoadedPair
from specviz.proposers.adaptive.policies import LENGTHS
from specviz.proposers.adaptive.proposer import AdaptiveDraft
from specviz.proposers.base import Nothing, Proposer
from specviz.proposers.copied import Copied, from_own_text
from specviz.proposers.draft import DraftModel
from specviz.proposers.eagle import eagle
from specviz.proposers.lookahead import Lookahead, Windowed
from specviz.proposers.medusa import medusa
from specviz.proposers.several_chains import SeveralDrafts
from specviz.proposers.source_texts import index_of
from specviz.proposers.teaching import Reversed, uniform, unigram
from specviz.proposers.trees.budget import WIDEST, BudgetTree, RankedTree
from specviz.proposers.trees.fixed import Tree
from specviz.settings import SHAPE, TREE_LEVELS, Settings, widths

EAGLE, EARLY_EXIT, LOOKAHEAD = "eagle", "early-exit", "lookahead"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """The models that one request has opened. A proposer takes what it needs; every cache in here belongs to this request only.

    target  the very object that will score the draft tokens
    draft   the draft model; under early exit the target's own first layers
    """

    pair: LoadedPair
    settings: Settings
    target: LanguageModel
    draft: LanguageModel

    def again(self) -> tuple[LanguageModel, LanguageModel]:
        """Target and draft, opened a second time with their own caches."""
        return sources(self.pair, self.settings)

    def plain(self) -> LanguageModel:
        """The draft at temperature 1 without cuts, whatever the settings say."""
        return sources(self.pair, uncut(self.settings))[1]

    def head(self, plain: bool = False) -> LanguageModel:
        """The EAGLE head over this target. plain: at temperature 1 without cuts, whatever the settings say.

        Raises as ``eagle_of``.
        """
        read = eagle_of(self.pair.name, self.pair.target, self.settings.eagle)
        return self.pair.open_head(read, self.target, uncut(self.settings) if plain else self.settings)

    @property
    def device(self) -> torch.device:
        """The device of distributions: the target's, or the CPU where the target's has no float64."""
        device = self.pair.target.device
        return torch.device("cpu") if device.type == "mps" else device


PROPOSERS: dict[str, Callable[[Request], Proposer]] = {
    "none": lambda request: Nothing(),
    "draft": lambda request: chain(request, request.draft),
    "tree": lambda request: tree(request),
    "several": lambda request: SeveralDrafts(request.draft, request.settings.num_chains, request.settings.gamma),
    "medusa": lambda request: medusa(request.target, heads_of(request.pair, request.settings.heads), request.settings),
    EAGLE: lambda request: eagle(request.head, request.settings),
    EARLY_EXIT: lambda request: chain(request, request.draft, EARLY_EXIT),
    LOOKAHEAD: lambda request: lookahead(request),
    "ngram": lambda request: copied(request, "ngram", from_own_text),
    "retrieval": lambda request: copied(request, "retrieval", index_of(request.pair, request.settings.text).follow),
    "unigram": lambda request: chain(request, word_frequencies(request)),
    "uniform": lambda request: chain(request, any_token(request)),
    "adversarial": lambda request: chain(request, Reversed(request.plain(), request.settings)),
    "oracle": lambda request: chain(request, request.again()[0]),
}
CHAINS = ("none", "draft", EARLY_EXIT, "unigram", "uniform", "adversarial", "oracle")


def uncut(settings: Settings) -> Settings:
    """The settings at temperature 1 without cuts."""
    return replace(settings, temperature=1.0, top_k=None, top_p=None, min_p=None)


def chain(request: Request, source: LanguageModel, name: str = "draft") -> Proposer:
    """A chain drawn from a language model, of the length that ``Settings.draft_length_policy`` decides. name: of the drafting method."""
    settings, make = request.settings, named("draft-length-policy", request.settings.draft_length_policy, LENGTHS)
    if not settings.gamma:
        return Nothing()
    if make is None:
        return DraftModel(source, settings.gamma, name)
    models = request.pair.draft, request.pair.target
    policy = make(settings.gamma, models[0].num_parameters() / models[1].num_parameters(), lambda: request.again()[0])
    if settings.draft_length_policy == "entropy" and settings.temperature == 0.0 and source is request.draft:
        return AdaptiveDraft(request.plain(), policy, settings, name)
    return AdaptiveDraft(source, policy, name=name)


def tree(request: Request) -> Proposer:
    """A tree from the draft, of a fixed shape or with a budget of nodes. At temperature 0 siblings are the most likely tokens."""
    settings, shape = request.settings, widths(request.settings.tree)
    top = settings.siblings == "top" or settings.temperature == 0.0
    source = request.plain() if top else request.draft
    if settings.tree_budget is None:
        return Tree(source, shape or widths(SHAPE), "top" if top else settings.siblings)
    shape = shape or (WIDEST,) * min(settings.gamma, TREE_LEVELS)
    return (
        RankedTree(source, shape, settings.tree_budget)
        if top
        else BudgetTree(source, shape, settings.siblings, settings.tree_budget)
    )


def lookahead(request: Request) -> Proposer:
    """N-grams from the target's own predictions: at most ``drafts`` of them, of gamma tokens."""
    if not request.settings.gamma:
        return Nothing()
    return Lookahead(request.target, request.settings.gamma, request.settings.num_chains, request.device)


def copied(request: Request, name: str, follow: Callable) -> Proposer:
    return Copied(name, follow, request.settings.gamma, request.target.vocabulary, request.device)


def word_frequencies(request: Request) -> LanguageModel:
    """Token frequencies of the text that retrieval would read."""
    tokens = index_of(request.pair, request.settings.text).tokens
    return unigram(tokens, request.target.vocabulary, request.settings, request.device)


def any_token(request: Request) -> LanguageModel:
    """The uniform distribution over the tokens that the pair's tokenizer knows."""
    return uniform(len(request.pair.tokenizer), request.target.vocabulary, request.settings, request.device)


def opened(pair: LoadedPair, settings: Settings) -> tuple[LanguageModel, Proposer]:
    """Target and proposer of one request, with empty caches. Raises SettingsError for an unknown name."""
    make = named("proposer", settings.proposer, PROPOSERS)
    named("draft-length-policy", settings.draft_length_policy, LENGTHS)
    target, draft = sources(pair, settings)
    return target, make(Request(pair, settings, target, draft))


def sources(pair: LoadedPair, settings: Settings) -> tuple[LanguageModel, LanguageModel]:
    """Target and draft of one request, with empty caches.

    Under early exit the target's own first layers are the draft. Under lookahead decoding the target's passes read windows as well.
    """
    if settings.proposer == EARLY_EXIT:
        return pair.open_layered(settings)
    target, draft = pair.open(settings)
    return (Windowed(target) if settings.proposer == LOOKAHEAD else target), draft


def on_shared_distributions(settings: Settings) -> bool:
    """Whether ``sampler.shared_distributions`` supports the proposer: it drafts chains of a length fixed beforehand."""
    return settings.proposer in CHAINS and settings.draft_length_policy == "fixed"


def named(kind: str, name: str, table: dict[str, T]) -> T:
    """Look up a name. Raises SettingsError listing the known names."""
    if name not in table:
        raise SettingsError(kind, name, f"one of {', '.join(table)}")
    return table[name]
