"""The parts of the analytic check: near ties with their margin, distributions measured by calls, and an uncached pass that is the
network's own."""

import numpy as np
import pytest
import torch

from specviz.evidence.analytic import along_text as tier
from specviz.evidence.analytic.probes import RuleInput, bisect_edges, measure_next_distribution, recover_distribution
from specviz.evidence.serving_setups.records import TOLERANCE
from specviz.models.uncached import UncachedModel, compute_margins
from specviz.randomness import Prefix
from specviz.settings import Settings
from specviz.verification.draft_tree import DraftTree
from specviz.verification.draw import draw_tokens
from specviz.verification.token import TokenRule
from specviz.verification.warp import warp
from tests.evidence.analytic.test_analytic import IDS, build_decoder
from tests.models.test_cache import V, build_network


@pytest.mark.parametrize(
    ("probabilities", "warper", "expected"),
    (
        ((0.5, 0.3, 0.2), {}, np.inf),
        ((0.5, 0.3, 0.2), {"temperature": 0.0}, np.log(5 / 3)),
        ((0.5, 0.3, 0.2), {"top_k": 2}, np.log(3 / 2)),
        ((0.5, 0.3, 0.2), {"top_k": 3}, np.inf),
        ((0.5, 0.3, 0.2), {"top_p": 0.78}, 0.02 / (0.78 * 0.22)),
        ((0.5, 0.3, 0.2), {"top_p": 0.65}, np.log(3 / 2)),
        ((0.5, 0.3, 0.2), {"min_p": 0.5}, np.log(0.3 / 0.25)),
        ((0.5, 0.3, 0.2), {"top_k": 2, "min_p": 0.5}, np.log(0.3 / 0.25)),
    ),
)
def test_the_margin_is_how_far_logits_must_move_until_another_token_is_cut(probabilities, warper, expected):
    logits = torch.tensor([probabilities], dtype=torch.float64).log()
    assert float(compute_margins(logits, Settings(**warper))[0]) == pytest.approx(expected)


def test_near_ties_are_listed_with_their_margin_and_not_dropped(monkeypatch):
    """A wide margin turns many places into near ties. Together with the others they are the places found with the narrow margin."""
    narrow = build_decoder({"top_k": 8}).checked(8)
    monkeypatch.setattr(tier, "TIE", 0.02)
    wide = build_decoder({"top_k": 8}).checked(8)
    assert wide.near_ties and all(place.margin < 0.02 for place in wide.near_ties)
    assert len(wide.places) + len(wide.near_ties) == len(narrow.places) + len(narrow.near_ties)


def build_probs(*parts: float) -> torch.Tensor:
    return torch.tensor(parts, dtype=torch.float64)


@pytest.mark.parametrize(
    "truth",
    (build_probs(0.2, 0.0, 0.5, 0.3), build_probs(0, 0, 1, 0), build_probs(0.25, 0.25, 0.25, 0.25), build_probs(1, 0, 0, 0)),
)
def test_a_distribution_is_measured_whatever_was_expected(truth):
    def ask(v):
        return draw_tokens(truth.expand(len(v), -1), torch.from_numpy(v)).numpy()

    assert recover_distribution(ask, truth, 1e-9)[1]
    for belief in (build_probs(0.1, 0.2, 0.3, 0.4), build_probs(0, 1, 0, 0), build_probs(0.4, 0.3, 0.2, 0.1)):
        found, as_believed = recover_distribution(ask, belief, 1e-9)
        assert not as_believed and torch.allclose(found, truth, atol=1e-5)


def test_edges_are_found_and_never_and_always_are_exact():
    edges = np.array([0.0, 0.3, 1.0])
    assert bisect_edges(lambda u: u < edges, 3) == pytest.approx(edges, abs=2e-6)
    assert bisect_edges(lambda u: u < edges, 3)[[0, 2]].tolist() == [0.0, 1.0]


def test_the_distribution_of_the_next_token_is_not_the_identity_that_holds_for_any_p_and_q():
    """A draft token drawn from another distribution than the draft tree reports: the rule is right about its own p and q, and the text is wrong."""
    p, q, really = build_probs(0.5, 0.3, 0.2), build_probs(0.2, 0.6, 0.2), build_probs(0.0, 1.0, 0.0)
    handed = RuleInput(Prefix((0,), 0, 9), DraftTree(((1,),), ((-1,),), (q[None],), ((0.5,),), "x"), torch.stack((p, p)))
    rng = np.random.default_rng(0)
    assert torch.allclose(measure_next_distribution(TokenRule(), handed, 0, q, rng), p, atol=1e-11)
    assert torch.allclose(measure_next_distribution(TokenRule(), handed, 0, really, rng), build_probs(0.5, 0.5, 0.0), atol=1e-11)
    assert torch.allclose(measure_next_distribution(TokenRule(), handed, 1, None, rng), p)


def test_a_draft_token_outside_its_reported_distribution_is_no_error():
    """Two passes of the draft may truncate a near tie differently: the place is listed separately, and must not stop the others."""
    p, q, really = build_probs(0.5, 0.3, 0.2), build_probs(0.4, 0.6, 0.0), build_probs(0.4, 0.0, 0.6)
    handed = RuleInput(Prefix((0,), 0, 9), DraftTree(((1,),), ((-1,),), (q[None],), ((0.5,),), "x"), torch.stack((p, p)))
    assert float(measure_next_distribution(TokenRule(), handed, 0, really, np.random.default_rng(0)).sum()) == pytest.approx(1)


def test_a_fresh_pass_is_the_networks_own_forward_and_the_one_warper():
    settings, net = Settings(top_k=5), build_network("Llama")
    distributions, _ = UncachedModel(net, settings, V + 3).compute_distributions(IDS[:9], 2)
    with torch.inference_mode():
        assert torch.allclose(distributions[1, :V], warp(net(torch.tensor([IDS[:9]])).logits[0, -1], settings), atol=TOLERANCE)
        assert torch.allclose(distributions[0, :V], warp(net(torch.tensor([IDS[:8]])).logits[0, -1], settings), atol=TOLERANCE)
    assert distributions.shape == (2, V + 3) and float(distributions[:, V:].sum()) == 0.0
