"""A round that stays on the device is the reference's round: the same tokens, decisions and records, without a look in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from specviz.decoding.device.fixed_shape import build_shape
from specviz.decoding.device.round import DeviceSteps, explain_refusal
from specviz.decoding.engine import advance_prefix, build_first_prefix, step
from specviz.errors import ModelError
from specviz.models.cache.decoder import CachedModel
from specviz.models.cache.fixed import FixedModel
from specviz.models.table import TableModel
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.proposers.trees.fixed import FixedTree
from specviz.randomness import EditedRandomness, PhiloxRandomness, Prefix, Purpose
from specviz.settings import Settings
from specviz.trace import Round
from specviz.verification.block import BlockRule
from specviz.verification.comparison_log import listen_to_comparisons
from specviz.verification.k_sequential import SequentialRule
from specviz.verification.token import TokenRule
from tests.helpers import fake_device
from tests.helpers.tiny_pairs import build_tiny_model

EOS = frozenset({0})
SHAPES = {  # drafting method and rule
    "chain, token": (lambda draft: DraftModel(draft, 4), TokenRule()),
    "chain, block": (lambda draft: DraftModel(draft, 4), BlockRule()),
    "one token": (lambda draft: DraftModel(draft, 1), TokenRule()),
    "tree, top": (lambda draft: FixedTree(draft, (3, 2, 1), "top"), TokenRule()),
    "tree, distinct": (lambda draft: FixedTree(draft, (3, 2, 1), "distinct"), TokenRule()),
    "tree of chains": (lambda draft: FixedTree(draft, (1, 1, 1), "distinct"), BlockRule()),
    "no draft": (lambda draft: NoDraft(), TokenRule()),
}


def build_close_pair(vocabulary: int = 50, kind: torch.dtype = torch.float64, **shape) -> tuple:
    """A random network and the same with some noise, so that tokens are both accepted and rejected."""
    target, draft = build_tiny_model(vocabulary, **shape), build_tiny_model(vocabulary, **shape)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return target.to(kind), draft.to(kind)


def iterate_both(reference: tuple, device: DeviceSteps, rows: list[Prefix]) -> Iterator[tuple[Prefix, Round, Round]]:
    """Every row until its end, round by round, by both; each goes on from what the reference committed."""
    while rows:
        going = []
        for row, one, other in zip(rows, step(rows, *reference), device(rows), strict=True):
            yield row, one, other
            row = advance_prefix(row, one)
            if row.remaining > 0 and one.committed[-1] not in EOS:
                going.append(row)
        rows = going


def assert_same(one: Round, other: Round, within: float) -> None:
    """The same decisions to the last bit; probabilities as equal as the passes round."""
    keep = ("token", "parent", "source", "u_draft", "u", "accepted")
    decided = [[tuple(getattr(node, name) for name in keep) for node in found.proposals] for found in (one, other)]
    assert decided[0] == decided[1]
    assert (one.prefix_length, one.accepted_path, one.ending) == (other.prefix_length, other.accepted_path, other.ending)
    for node, twin in zip(one.proposals, other.proposals, strict=True):
        assert (node.p, node.q) == pytest.approx((twin.p, twin.q), rel=within, abs=within)
        assert (node.threshold is None) == (twin.threshold is None)
        if node.threshold is not None:
            assert node.threshold == pytest.approx(twin.threshold, rel=1e4 * within, abs=within)


def build_steps(models: tuple, settings: Settings, name: str, rows: int = 3, seed: int = 5, **more) -> tuple:
    """Arguments of the reference's ``step``, and the device round of the same request."""
    made, rule = SHAPES[name]
    opened = lambda: (CachedModel(models[0], settings), made(CachedModel(models[1], settings)))  # noqa: E731
    rest = (rule, PhiloxRandomness(seed), EOS)
    return (*opened(), *rest), DeviceSteps(*opened(), *rest, rows, 64, **more)


def build_openings(settings: Settings, prompt: tuple[int, ...] = (3, 4, 9), rows: int = 3) -> list[Prefix]:
    return [replace(build_first_prefix(prompt, settings, 128), draw=draw) for draw in range(rows)]


WARPERS = ({}, {"temperature": 0.7, "top_p": 0.95}, {"temperature": 0.0}, {"top_k": 8, "min_p": 0.01})
FAST = {(name, 1 + number % 3) for number, name in enumerate(SHAPES)} | {("tree, distinct", 2), ("tree, top", 3)}


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param(name, changes, marks=() if (name, number) in FAST else pytest.mark.slow, id=f"{name}-{changes}")
        for name in SHAPES
        for number, changes in enumerate(WARPERS)
    ],
)
def test_networks_in_float64_give_the_references_rounds(name: str, changes: dict) -> None:
    """Every shape with one warper and every warper with two shapes or more; the whole product is slow."""
    settings = Settings(max_new_tokens=16, **changes)
    reference, device = build_steps(build_close_pair(), settings, name)
    for prompt in ((7,), (3, 4, 9)):
        for _, one, other in iterate_both(reference, device, build_openings(settings, prompt)):
            assert_same(one, other, 1e-11)


@pytest.mark.parametrize(("length", "least"), [(12, 200), pytest.param(60, 1000, marks=pytest.mark.slow)])
def test_hundreds_of_random_rounds_are_the_references(length: int, least: int) -> None:
    count = 0
    models = build_close_pair(seed=11)
    for seed, name in enumerate(SHAPES):
        settings = Settings(max_new_tokens=length)
        reference, device = build_steps(models, settings, name, rows=8, seed=seed)
        for _, one, other in iterate_both(reference, device, build_openings(settings, rows=8)):
            assert_same(one, other, 1e-11)
            count += 1
    assert count >= least


class Nearest:
    """A listener that remembers how near a random number came to an edge that it was compared with."""

    def __init__(self) -> None:
        self.distance = 1.0

    def on_draw(self, u: torch.Tensor, cumulative: torch.Tensor, token: torch.Tensor) -> None:
        edges = cumulative / cumulative[..., -1:]
        self.distance = min(self.distance, float((edges[..., None, :] - u[..., None]).abs().min()))

    def on_comparison(self, u: torch.Tensor, p: torch.Tensor, q: torch.Tensor, below: bool) -> None:
        self.distance = min(self.distance, float((torch.as_tensor(u) - torch.as_tensor(p) / torch.as_tensor(q)).abs().min()))


SINGLE = ("chain, token", "tree, distinct", "one token")  # float64 has every shape, above


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("length", [16, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name if name in SINGLE else pytest.param(name, marks=pytest.mark.slow) for name in SHAPES])
def test_networks_in_float32_differ_only_where_a_random_number_lies_on_an_edge(name: str, length: int) -> None:
    """The passes round in the seventh digit, which moves the edges of a draw or a test by less than 1e-4."""
    settings = Settings(max_new_tokens=length)
    single, double = build_close_pair(kind=torch.float32), build_close_pair()
    reference, device = build_steps(single, settings, name, rows=10)
    exact, _ = build_steps(double, settings, name, rows=10)
    same = 0
    for row, one, other in iterate_both(reference, device, build_openings(settings, rows=10)):
        if one.committed == other.committed:
            same += 1
            assert_same(one, other, 2e-4)
        else:
            with listen_to_comparisons(nearest := Nearest()):
                step([row], *exact)
            assert nearest.distance < 1e-4
    assert same > length


@dataclass(frozen=True)
class Bigrams:
    """Distributions that depend on the last token and on its position modulo 3: as a table, and as tensors."""

    table: torch.Tensor  # (3, V, V) float64

    context = None

    @property
    def reference(self) -> TableModel:
        return TableModel(lambda ids: self.table[(len(ids) - 1) % 3, ids[-1]].tolist(), self.table.shape[1])


class BigramModel(TableModel):
    """The same with a cache of fixed size, which a table does not need."""

    bigrams: Bigrams
    plain = True
    device = torch.device("cpu")

    def open_fixed(self, rows: int, columns: int) -> BigramTensors:
        return BigramTensors(self.bigrams.table)


class BigramTensors:
    device = torch.device("cpu")

    def __init__(self, table: torch.Tensor):
        self.table, self.vocabulary = table, table.shape[1]

    def read(self, row, ids) -> None: ...

    def copy(self, source, row) -> None: ...

    def move(self, sources, columns) -> None: ...

    def compute_probs(self, tokens, begin, fed):
        found = self.table[(begin[:, None] + fed.depths) % 3, tokens]
        return found, found[..., 0]


def build_bigram_model(seed: int, vocabulary: int, zeros: float) -> BigramModel:
    dice = torch.Generator().manual_seed(seed)
    table = torch.rand(3, vocabulary, vocabulary, generator=dice, dtype=torch.float64)
    table = table * (torch.rand(table.shape, generator=dice) > zeros)
    table[..., 1] += 0.01
    bigrams = Bigrams(table / table.sum(-1, keepdim=True))
    reference = bigrams.reference
    model = BigramModel(reference.table, reference.vocabulary)
    object.__setattr__(model, "bigrams", bigrams)
    return model


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_tables_give_the_references_rounds_to_the_last_bit(name: str, zeros: float) -> None:
    """Also where half the tokens are impossible, and where a tree cannot be filled: that round is the reference's own."""
    made, rule = SHAPES[name]
    settings, vocabulary = Settings(max_new_tokens=40), 5
    target, draft = build_bigram_model(1, vocabulary, zeros), build_bigram_model(2, vocabulary, zeros)
    rest = (made(draft), rule, PhiloxRandomness(3), EOS)
    device = DeviceSteps(target, *rest, 4, 64)
    for _, one, other in iterate_both((target, *rest), device, build_openings(settings, (2, 1), rows=4)):
        assert replace(one, full=None) == replace(other, full=None)
    assert (device.by_reference > 0) == (zeros > 0 and name in ("tree, top", "tree, distinct"))


def test_equal_models_accept_every_token() -> None:
    settings = Settings(max_new_tokens=30)
    target = build_bigram_model(1, 6, 0.3)
    device = DeviceSteps(target, DraftModel(target, 3), TokenRule(), PhiloxRandomness(1), rows=2, columns=64)
    for found in (round_ for rows in [build_openings(settings, (2, 1), rows=2)] for round_ in device(rows)):
        assert found.accepted_path == (0, 1, 2)
        assert found.ending.kind == "bonus"


def test_random_numbers_that_a_person_has_chosen_decide_here_too() -> None:
    settings = Settings(max_new_tokens=8)
    target, draft = build_bigram_model(1, 6, 0.0), build_bigram_model(2, 6, 0.0)
    numbers = EditedRandomness(
        PhiloxRandomness(1), {(0, Purpose.ACCEPT): 0.999999, (0, Purpose.RESIDUAL): 0.5, (1, Purpose.DRAFT): 0.1}
    )
    rest = (DraftModel(draft, 3), TokenRule(), numbers)
    for _, one, other in iterate_both(
        (target, *rest), DeviceSteps(target, *rest, rows=1, columns=32), build_openings(settings, (2, 1), rows=1)
    ):
        assert replace(one, full=None) == replace(other, full=None)


def test_a_row_may_be_replaced_cut_or_left_out() -> None:
    """The result of a call depends only on its rows, not on the earlier content of the slots."""
    settings = Settings(max_new_tokens=30)
    reference, device = build_steps(build_close_pair(), settings, "tree, distinct")
    first = build_openings(settings, rows=3)
    later = [advance_prefix(row, round_) for row, round_ in zip(first, device(first), strict=True)]
    other = build_first_prefix((8, 8, 2, 4, 6), settings, 128, draw=9)
    shorter = replace(later[0], ids=later[0].ids[:-1], start=later[0].start - 1, remaining=later[0].remaining + 1)
    for rows in (later[1:], [later[2], other], [shorter, later[1], other], first[::-1], [first[1]]):
        for one, found in zip(step(rows, *reference), device(rows), strict=True):
            assert_same(one, found, 1e-11)


def test_a_window_of_attention_is_kept() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(2)
    config = MistralConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        sliding_window=6, max_position_embeddings=128,
    )  # fmt: skip
    models = tuple(MistralForCausalLM(config).eval().double() for _ in range(2))
    settings = Settings(max_new_tokens=30)
    for name in ("chain, token", "tree, distinct"):
        reference, device = build_steps(models, settings, name)
        for _, one, other in iterate_both(reference, device, build_openings(settings)):
            assert_same(one, other, 1e-11)


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_inside_the_round_looks_at_a_number(name: str) -> None:
    settings = Settings(max_new_tokens=36, top_k=20, top_p=0.9, min_p=0.01)
    _, device = build_steps(build_close_pair(), settings, name)
    device(build_openings(settings))
    packet = torch.zeros(3, 3 + 3 * len(device.shape.parents), dtype=torch.float64)
    packet[:, 0], packet[:, 1] = 4.0, float(len(device.shape.levels))
    with torch.inference_mode(), fake_device.RecordingMode() as watched:
        device.kernel.round(packet)
    assert watched.calls > 100


def test_the_watch_refuses_a_look() -> None:
    with pytest.raises(AssertionError, match="_local_scalar_dense"), fake_device.RecordingMode():
        float(torch.ones(3).sum())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ["chain, block", "tree, distinct"])
def test_a_round_fetches_once_and_forgets_no_device(name: str) -> None:
    settings = Settings(max_new_tokens=24)
    models = build_close_pair(kind=torch.float32)
    reference, _ = build_steps(models, settings, name)
    expected = [
        round_.committed
        for _, _, round_ in iterate_both(reference, lambda rows: step(rows, *reference), build_openings(settings))
    ]
    with fake_device.fake_device() as place:
        _, device = build_steps(tuple(model.to(place) for model in models), settings, name)
        rows = build_openings(settings)
        device(rows)
        committed = []
        while rows:
            fake_device.fetched.clear()
            rounds = device(rows)
            assert fake_device.fetched == ["cpu"]
            committed += [round_.committed for round_ in rounds]
            rows = [advance_prefix(row, round_) for row, round_ in zip(rows, rounds, strict=True)]
            rows = [row for row in rows if row.remaining > 0 and row.ids[-1] not in EOS]
    assert committed == expected


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("name", SHAPES)
def test_the_round_runs_on_tensors_without_numbers(name: str) -> None:
    """On torch's meta device every tensor made elsewhere, and every look at a number, is an error."""
    settings = Settings(max_new_tokens=24)
    with torch.device("meta"):
        models = (build_tiny_model(50), build_tiny_model(50))
    _, device = build_steps(models, settings, name)
    nodes, levels = len(device.shape.parents), len(device.shape.levels)
    with torch.inference_mode():
        record = device.kernel.round(torch.zeros(3, 3 + 3 * nodes, dtype=torch.float64, device="meta"))
    assert record.device.type == "meta"
    assert record.shape == (3, 6 * nodes + 5 + levels)


@pytest.mark.parametrize(
    "name",
    ["one token", *(pytest.param(name, marks=pytest.mark.slow) for name in ("chain, block", "tree, distinct", "no draft"))],
)
def test_a_layer_is_compiled_once_for_all_layers(name: str) -> None:
    """fullgraph refuses a break. The number of compiled functions depends on neither the layers nor the rounds."""
    counts = []
    for layers in (2, 4):
        compiled = []

        def backend(graph, inputs, compiled=compiled):
            compiled.append(len(inputs))
            return graph

        torch._dynamo.reset()
        settings = Settings(max_new_tokens=8)
        reference, device = build_steps(build_close_pair(layers=layers), settings, name, compiler={"backend": backend})
        for _, one, other in iterate_both(reference, device, build_openings(settings)):
            assert_same(one, other, 1e-11)
        counts.append(len(compiled))
    assert counts[0] == counts[1]


def test_memory_is_known_beforehand_and_does_not_grow() -> None:
    settings = Settings(max_new_tokens=60)
    models = build_close_pair()
    _, device = build_steps(models, settings, "tree, distinct")
    columns = 64 + len(device.shape.parents) + 2
    caches = (device.kernel.target, device.kernel.draft)
    for model, cache in zip(models, caches, strict=True):
        config = model.config
        head = config.hidden_size // config.num_attention_heads
        expected = 2 * config.num_hidden_layers * config.num_key_value_heads * head * columns * 8
        assert sum(whole[0].nbytes for layer in cache._cache.layers for whole in layer.stored) == expected
    where = [whole.data_ptr() for cache in caches for layer in cache._cache.layers for whole in (layer.keys, layer.values)]
    rows = build_openings(settings)
    for _ in range(8):
        rows = [advance_prefix(row, round_) for row, round_ in zip(rows, device(rows), strict=True)]
    after = [whole.data_ptr() for cache in caches for layer in cache._cache.layers for whole in (layer.keys, layer.values)]
    assert where == after


def test_logits_that_are_no_distribution_are_refused() -> None:
    settings = Settings(max_new_tokens=24)
    models = build_close_pair(kind=torch.float32)
    with torch.no_grad():
        models[0].lm_head.weight[3] = float("nan")
    _, device = build_steps(models, settings, "chain, token")
    with pytest.raises(ModelError, match="not finite"):
        device(build_openings(settings))


def test_what_cannot_stay_on_the_device_is_said() -> None:
    settings = Settings()
    target, draft = (CachedModel(model, settings) for model in build_close_pair())
    table = TableModel(lambda ids: (1.0,), 1)
    assert explain_refusal(target, DraftModel(draft, 4), TokenRule()) is None
    assert explain_refusal(target, NoDraft(), TokenRule()) is None
    for proposer, rule, said in (
        (DraftModel(draft, 4), SequentialRule(), "rule"),
        (FixedTree(draft, (2, 1), "independent"), TokenRule(), "independent"),
        (FixedTree(draft, (2, 1), "distinct"), BlockRule(), "chains"),
        (DraftModel(table, 2), TokenRule(), "no cache of fixed size"),
    ):
        assert said in explain_refusal(target, proposer, rule)


def test_nodes_are_numbered_as_the_proposers_number_them() -> None:
    settings = Settings(max_new_tokens=20)
    draft = CachedModel(build_close_pair()[1], settings)
    for siblings, widths in (("top", (3, 2, 1)), ("distinct", (3, 2, 2)), ("distinct", (1, 3))):
        tree = FixedTree(draft, widths, siblings).propose(build_openings(settings, rows=1), PhiloxRandomness(1))
        assert tree.parents[0] == build_shape(widths, siblings != "top").parents


def test_a_fixed_cache_gives_the_distributions_of_a_growing_one() -> None:
    settings = Settings()
    model = build_close_pair()[0]
    fixed = CachedModel(model, settings).open_fixed(2, 32)
    assert isinstance(fixed, FixedModel)
    fixed.read(0, (1, 2, 3, 4))
    fixed.copy(0, 1)
    from specviz.models.cache.fixed import PassTokens
    from specviz.verification.draft_tree import build_empty_tree

    with torch.inference_mode():
        found, _ = fixed.compute_probs(
            torch.tensor([[5, 6], [3, 9]]), torch.tensor([4, 2]), PassTokens.build_chain(2, torch.device("cpu"))
        )
    for line, ids in ((0, (1, 2, 3, 4, 5, 6)), (1, (1, 2, 3, 9))):
        expected = CachedModel(model, settings).compute_distributions([Prefix(ids, 0, 4)], build_empty_tree(1))[0, 0]
        torch.testing.assert_close(found[line, 1], expected, rtol=1e-10, atol=1e-12)
