"""Everything that runs a pair runs it on an accelerator too, and writes the same: the tiny pair on the CPU and on a device that
is none but refuses what a GPU refuses (tests/helpers/fake_device.py). Tokens, decisions and counts must agree; seconds are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from specviz.decoding.engine import decode, sample_target_only
from specviz.decoding.method_checks import build_rule
from specviz.decoding.run import record_run
from specviz.decoding.sampler import Shard, sample_with_engine, sample_with_shared_distributions
from specviz.errors import UnsupportedModelError
from specviz.evidence.decoder import SHARED, build_decoder, list_sampling_modes
from specviz.evidence.matrix import evaluate_matrix, list_lines
from specviz.evidence.mistakes.published import PUBLISHED_MISTAKES
from specviz.evidence.mistakes.registry import MISTAKES
from specviz.evidence.sampling.certificate import redraw_certificate
from specviz.evidence.serving_setups.targets import ban_tokens
from specviz.evidence.testing.hypothesis_tests import TestPlan, run_tests
from specviz.evidence.testing.partition import build_partition
from specviz.models.attachments import exits
from specviz.models.attachments import heads as stored
from specviz.models.attachments.eagle import EAGLES
from specviz.models.attachments.heads import save_heads
from specviz.models.cache.decoder import CachedModel
from specviz.models.memoized import MemoizedPair
from specviz.models.pairs.families import FAMILIES
from specviz.models.pairs.fingerprint import hash_pair
from specviz.models.pairs.loading import load_pair, pick_device
from specviz.models.processed import ProcessedModel
from specviz.proposers.request import open_proposer
from specviz.randomness import PhiloxRandomness, Prefix
from specviz.settings import Settings
from specviz.speed.benchmarks import drafting_methods, passage, sampling_rates
from specviz.speed.benchmarks.bench import run_bench
from specviz.speed.measurement import costs
from specviz.speed.measurement.costs import measure_block_gap
from specviz.speed.prediction.batches import measure_batches
from specviz.speed.prediction.plan_effort import PlanEffort
from specviz.speed.prediction.planning import make_plan
from specviz.speed.prediction.study import StudySize, run_study
from specviz.speed.records.methods import choose_distribution
from specviz.verification.draft_tree import DraftTree
from specviz.verification.registry import RULES
from specviz.web.exactness import work as exact_work
from specviz.web.mistakes import work as broken_work
from specviz.web.mistakes.state import MistakeQuestion, MistakeState
from tests.helpers.encoder_decoders import KINDS
from tests.helpers.fake_device import fake_device, fetched
from tests.helpers.pages import FreeTicket, build_exactness_state
from tests.models.test_families import build_config, build_network
from tests.proposers.test_eagle import save_random_head
from tests.proposers.test_early_exit import save_random_exit

PROMPT = "Once upon a time. Once upon"
BASE = Settings(prompt=PROMPT, max_new_tokens=7, gamma=3, exit_layer=1)
TEXT = (
    "The cat sat on the mat and looked at the dog, who ran to the brook. Then the sun went down over the hill, and all slept. "
    * 4
)
QUIET = lambda *said: None  # noqa: E731
SLOW = pytest.mark.slow  # of a kind that has fast cases
SHORT = PlanEffort(continuations=3, opening=8, probes=2)


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Random heads for the tiny target."""
    place, make = tmp_path_factory.mktemp("heads"), torch.Generator().manual_seed(1)
    save_heads([[(torch.randn(32, 32, generator=make) / 6, torch.randn(32, generator=make))] for _ in range(2)], place)
    return stored.HEADS.allow(str(place))


@pytest.fixture(scope="module", autouse=True)
def eagle(tmp_path_factory):
    """A random EAGLE head for the tiny target, in BASE's place for it."""
    global BASE
    BASE = replace(BASE, eagle=EAGLES.allow(save_random_head(tmp_path_factory.mktemp("eagle") / "head")))


@pytest.fixture(scope="module")
def compare_devices(pair_folders) -> Callable[..., tuple[Any, Any]]:
    """What a function of a pair gives on the CPU and on the device. In float64, because in float32 a last digit can become a token."""
    name = "|".join(map(str, pair_folders))
    load = cache(load_pair)

    def answers(work: Callable[[Any], Any], kind: str = "float64") -> tuple[Any, Any]:
        here = work(load(name, "cpu", kind))
        with fake_device():
            return here, work(load(name, "cuda", kind))

    return answers


def list_decisions(rounds) -> list:
    """What was decided: tokens, which of them were accepted, how each round ended."""
    return [
        (one.committed, [(d.token, d.parent, d.accepted) for d in one.proposals], one.accepted_path, one.ending.kind)
        for one in rounds
    ]


def decode_decisions(pair, settings: Settings, ids) -> list:
    target, proposer = open_proposer(pair, settings)
    return list_decisions(
        decode(target, proposer, build_rule(settings), PhiloxRandomness(settings.seed), settings, ids, pair.eos_token_ids, bars=3)
    )


ONE_OF_A_KIND = (
    "draft",
    "tree-distinct",
    "early-exit",
    "medusa-tree",
    "eagle-chain",
    "ngram",
)  # a proposer of each kind of source


@pytest.mark.fast_cases(12)
@pytest.mark.parametrize("rule", ("token", *(pytest.param(rule, marks=SLOW) for rule in RULES if rule != "token")))
@pytest.mark.parametrize(
    ("name", "kind", "temperatures"),
    [
        *((name, "float64", (1.0,)) for name in list_lines()),
        *(
            pytest.param(name, kind, (0.0,), marks=() if name in ONE_OF_A_KIND else SLOW)
            for kind in ("float64", "float32")
            for name in list_lines()
        ),
    ],
)
def test_every_proposer_under_every_rule_decodes_alike(compare_devices, heads, name, rule, kind, temperatures):
    def work(pair):
        found = []
        for temperature in temperatures:
            settings = replace(BASE, rule=rule, heads=heads, temperature=temperature, **list_lines()[name])
            try:
                found.append(decode_decisions(pair, settings, pair.encode(PROMPT)))
            except Exception as error:
                if type(error).__module__ != "specviz.errors":
                    raise
                found.append(str(error))
        return found

    here, there = compare_devices(work, kind)
    assert here == there


@pytest.mark.slow
@pytest.mark.parametrize("name", list_lines())
def test_rows_of_a_batch_decode_alike(compare_devices, heads, name):
    def work(pair):
        settings, ids = replace(BASE, heads=heads, **list_lines()[name]), pair.encode(PROMPT)
        target, proposer = open_proposer(pair, settings)
        made = sample_with_engine(
            Shard(target, proposer, build_rule(settings), PhiloxRandomness(3), settings, ids, pair.eos_token_ids, count=6),
            batch=3,
        )
        return made.tokens.tolist()

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize(
    "warper", ({}, {"temperature": 0.0}, {"top_k": 5, "temperature": 0.7}, {"top_p": 0.8}, {"min_p": 0.1}), ids=str
)
def test_warpers_and_target_only_sampling(compare_devices, warper):
    def work(pair):
        settings, ids = replace(BASE, **warper), pair.encode(PROMPT)
        alone = sample_target_only(pair.open(settings)[0], PhiloxRandomness(5), settings, ids, pair.eos_token_ids)
        return decode_decisions(pair, settings, ids), list_decisions(alone)

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("proposer", ("draft", "none", "unigram", "uniform", "adversarial", "oracle", "early-exit"))
def test_samples_on_shared_distributions(compare_devices, proposer):
    def work(pair):
        settings, ids = replace(BASE, proposer=proposer, max_new_tokens=3), pair.encode(PROMPT)
        ours = (*open_proposer(pair, settings), build_rule(settings), PhiloxRandomness(3))
        return sample_with_shared_distributions(Shard(*ours, settings, ids, pair.eos_token_ids, count=200)).tokens.tolist()

    here, there = compare_devices(work)
    assert here == there


def test_a_pass_of_shared_distributions_is_fetched_in_one_transfer(pair_folders):
    """Two more are of single numbers: whether logits are finite, for target and draft, and how many draft tokens were rejected."""
    with fake_device():
        pair = load_pair("|".join(map(str, pair_folders)), "cuda", "float32")
        settings, ids = replace(BASE, max_new_tokens=3), pair.encode(PROMPT)
        ours = (*open_proposer(pair, settings), build_rule(settings), PhiloxRandomness(3))
        passes, counts = [], []
        keep = lambda state: (passes.append(state.done), counts.append(len(fetched)))  # noqa: E731
        fetched.clear()
        sample_with_shared_distributions(Shard(*ours, settings, ids, pair.eos_token_ids, count=3000), keep=keep)
    assert len(passes) >= 3
    assert all(after - before <= 4 for before, after in pairwise([0, *counts])), fetched


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MISTAKES)
def test_every_mistake_is_drawn_alike(compare_devices, mutant):
    check_mistake(compare_devices, mutant)


def test_a_mistake_that_reads_another_request_is_drawn_alike(compare_devices):
    """The model that it claims is no model of the pair's own."""
    check_mistake(compare_devices, "draft-row")


def check_mistake(compare_devices, mutant):
    def work(pair):
        settings, ids = MISTAKES[mutant].apply_settings(replace(BASE, seed=4)), pair.encode(PROMPT)
        drawn = []
        for mode in list_sampling_modes(mutant, settings, "both"):
            drawn.append(build_decoder(mutant, pair, settings, ids).sample(mode, 0, 40).tokens.tolist())
        return drawn

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", ("speculative", "target"))
def test_evidence_gives_the_same_verdict(compare_devices, name):
    def work(pair):
        settings, ids, plan = replace(BASE, max_new_tokens=2), pair.encode(PROMPT), TestPlan.for_samples(300, 2, 0.4)
        target, draft = pair.open(settings)
        cells = build_partition(target, ids, 2, plan.cells, 5.0 / plan.n, pair.eos_token_ids)
        drawn = build_decoder(name, pair, settings, ids).sample(SHARED, 0, plan.n)
        other = build_decoder("target", pair, settings, ids).sample_target(200)
        found = run_tests(plan, target, draft, ids, drawn, "engine", pair.eos_token_ids, other, partition=cells)
        tests = [(test.name, test.statistic, test.p_value) for test in found.tests]
        return found.verdict, found.counts.tolist(), tests, build_decoder(name, pair, settings, ids).count_borderline(cells, 300)

    here, there = compare_devices(work)
    assert here[:2] == there[:2] and here[3] == there[3]
    for one, other in zip(here[2], there[2], strict=True):
        assert one[0] == other[0] and one[1:] == pytest.approx(other[1:], rel=1e-4, abs=1e-4)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("changes", ({}, {"proposer": "early-exit"}, pytest.param({"top_p": 0.9}, marks=SLOW)), ids=str)
def test_the_analytic_check(compare_devices, changes):
    def work(pair):
        return build_decoder("speculative", pair, replace(BASE, **changes), pair.encode(PROMPT)).compute_analytic_tv(6)

    here, there = compare_devices(work)
    assert here == pytest.approx(there, abs=1e-6) and there < 5e-6


def test_assisted_generation(compare_devices):
    def work(pair):
        return (
            build_decoder("assisted", pair, replace(BASE, max_new_tokens=4, temperature=0.0), pair.encode(PROMPT))
            .sample("", 0, 2)
            .tokens.tolist()
        )

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.slow
@pytest.mark.parametrize("only", ("draft", "tree-distinct", "ngram"))
def test_cells_of_the_matrix(compare_devices, heads, only):
    def work(pair):
        found = evaluate_matrix(pair, replace(BASE, heads=heads), 0.5, (only,) if only in list_lines() else ("tree",))
        return [(cell.line, cell.rule, cell.column, cell.verdict, cell.n) for cell in found.cells]

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.slow
def test_a_certificate_is_drawn_again(compare_devices, record):
    def work(pair):
        return [(line.field, line.state) for line in redraw_certificate(record, pair, lambda label: QUIET)]

    here, there = compare_devices(work)
    assert here == there


def test_a_run_of_the_stage_and_its_fingerprints(compare_devices):
    def work(pair):
        trace = record_run(pair, BASE)
        return (
            list_decisions(trace.rounds),
            hash_pair(pair),
            [probs.tokens for one in trace.rounds for probs in one.distributions],
        )

    here, there = compare_devices(work)
    assert here == there


def test_whole_text(compare_devices):
    def work(pair):
        one = passage.write_passage(pair, BASE, runs=1)
        two = passage.survey_texts(pair, BASE, 2, 6)
        return (
            one.target.trace.output_ids,
            list_decisions(one.speculative.trace.rounds),
            one.read.tokens,
            [x.tokens for x in two],
            one.read.beta,
        )

    here, there = compare_devices(work)
    assert here[:-1] == there[:-1] and here[-1] == pytest.approx(there[-1], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ("0", "1"))
def test_other_proposers(compare_devices, heads, choice):
    def work(pair):
        found = drafting_methods.compare_methods(pair, replace(choose_distribution(BASE, choice), heads=heads), runs=1, draws=60)
        return [(row.key, row.reason, row.checked, row.accepted, row.passes, row.tokens) for row in found.rows]

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", ({}, {"proposer": "tree"}, {"proposer": "ngram"}, {"proposer": "early-exit"}, {"rule": "block"}), ids=str
)
def test_bench(compare_devices, base):
    def work(pair):
        found = run_bench(pair, gamma=2, length=6, runs=1, log=QUIET, base=replace(BASE, **base))
        return [(one.tokens_per_pass, one.draft_tokens, one.accepted_per_tested) for one in found]

    here, there = compare_devices(work)
    assert here == there


@pytest.mark.slow
def test_rates_of_draws_curves_and_the_gap_of_a_block(compare_devices):
    def work(pair):
        found = costs.measure_pass_curves(pair, 2, 4, runs=1, log=QUIET)
        gaps = measure_block_gap(pair, BASE, pair.encode(PROMPT))
        entropies = [one.entropy for one in sampling_rates.measure_sampling_rates(pair, 30, runs=1, log=QUIET)]
        return found.tokens_per_pass, gaps, entropies

    here, there = compare_devices(work)
    assert here[0] == there[0] and here[2] == pytest.approx(there[2], rel=1e-5) and max(there[1]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("check", (False, True))
@pytest.mark.parametrize(
    "changes", ({}, {"proposer": "ngram"}, {"proposer": "early-exit"}, {"rule": "block"}, {"temperature": 0.0}), ids=str
)
def test_plan(compare_devices, changes, check):
    def work(pair):
        settings, effort = replace(BASE, max_new_tokens=8, **changes), replace(SHORT, check=check, runs=2, timed=2)
        found = make_plan(pair, settings, TEXT, (1, 2), effort)
        return [(row.gamma, row.tokens.value) for row in found.rows], [row.tokens for row in found.checked or ()]

    here, there = compare_devices(work)
    assert len(here[0]) == len(there[0]) == 2
    assert str(here[1]) == str(there[1])
    for one, other in zip(here[0], there[0], strict=True):
        assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.slow
def test_study_and_batches(compare_devices, tmp_path):
    (tmp_path / "kind.txt").write_text(TEXT)
    size = StudySize(openings=2, opening=8, length=8, gamma=2)

    def work(pair):
        study = run_study(size, 7, ("kind",), (0.0, 1.0), (0.5,), ("storybook", "ngram"), lambda name: pair, tmp_path)
        batches = measure_batches({"tiny": (pair, replace(BASE, max_new_tokens=8))}, TEXT, 2, 8, 1, rows=(1, 2), gammas=(1, 2))
        return [(cell.kind, cell.share) for cell in study.cells], batches.rounds

    here, there = compare_devices(work)
    assert here == there


def test_remembered_models(compare_devices):
    def work(pair):
        remembering = MemoizedPair(pair)
        return [decode_decisions(remembering, replace(BASE, seed=seed), pair.encode(PROMPT)) for seed in range(3)]

    here, there = compare_devices(work)
    assert here == there


def test_a_processor_behind_the_target(compare_devices):
    def work(pair):
        source = ProcessedModel(pair.open(BASE)[0], RepetitionPenaltyLogitsProcessor(1.4))
        block = DraftTree(((5, 6, 7),), ((-1, 0, 0),), (None,), ((None,) * 3,), "none")
        return source.compute_distributions([Prefix(tuple(pair.encode(PROMPT)), 0, 9)], block).cpu().numpy()

    here, there = compare_devices(work)
    assert there == pytest.approx(here, abs=1e-6)


def test_a_record_names_device_and_number_type_as_they_are_asked_for(compare_devices):
    """Else a certificate made on a GPU is never drawn again, and the command in an export is refused."""
    asked = lambda pair: (pick_device(*map(pair.describe().get, ("device", "dtype"))), pair.target.device.type)  # noqa: E731
    here, there = compare_devices(asked, "float32")
    assert here == ((torch.device("cpu"), torch.float32), "cpu")
    assert there == ((torch.device("cuda"), torch.float32), "cuda")


def test_banned_tokens_are_impossible_wherever_the_distribution_lies():
    with fake_device() as device:
        left = ban_tokens([1, 2])(torch.full((4,), 0.25, device=device))
    assert left.tolist() == [0.5, 0.0, 0.0, 0.5]


def test_a_trained_exit(compare_devices, tmp_path):
    layer = exits.EXITS.allow(str(save_random_exit(tmp_path / "exit")))

    def work(pair):
        settings = replace(BASE, proposer="early-exit", early_exit=layer, exit_layer=None)
        return decode_decisions(pair, settings, pair.encode(PROMPT))

    here, there = compare_devices(work)
    assert here == there


def test_a_draft_in_8_bits(pair_folders):
    """Off the CPU it is the same values in float32, so that its draft tokens may differ: it runs, and the cost of draft tokens alone differs."""
    with fake_device():
        pair = load_pair("|".join((*map(str, pair_folders), "8bit")), "cuda", "float32")
        rounds = decode_decisions(pair, BASE, pair.encode(PROMPT))
    assert sum(len(one[0]) for one in rounds) == BASE.max_new_tokens


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family(family):
    """Rows of ragged trees, behind windows and rotary tables of all kinds."""
    try:
        model = build_network(build_config(family))
    except UnsupportedModelError as error:
        pytest.skip(str(error))

    def compute_distributions(model):
        source, found = CachedModel(model, Settings()), []
        rows = [Prefix((1, 2, 3, *range(3, 15)), 0, 9), Prefix((4, 5, 6), 0, 9, 1)]
        block = DraftTree(((5, 6, 7), (8,)), ((-1, 0, 0), (-1,)), (None, None), ((None,) * 3, (None,)), "none")
        for _ in range(3):
            p = source.compute_distributions(rows, block).cpu()
            found += [p[0], p[1, :2]]
            rows = [replace(rows[0], ids=(*rows[0].ids, 5, 7, 9)), replace(rows[1], ids=(*rows[1].ids, 3))]
        return found

    here = compute_distributions(deepcopy(model))
    with fake_device() as device:
        there = compute_distributions(deepcopy(model).to(device))
    for one, other in zip(here, there, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.fixture
def page_on_device(pair_folders, monkeypatch):
    """The work of pages without a server, its weights on the device."""
    from specviz.web.hosting import cache, warmup

    with fake_device():
        pair = load_pair("|".join(map(str, pair_folders)), "cuda", "float32")
        monkeypatch.setattr(warmup, "wait", lambda seconds: True)
        monkeypatch.setattr(cache, "load_weights", lambda *key: pair)
        yield pair


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("source", ("speculative", "target", "assisted"))
def test_is_it_exact(page_on_device, source):
    exam = build_exactness_state(length=2, source=source)
    for count in (20, 100) if source != "assisted" else (10,):
        exact_work.draw_samples(exam, FreeTicket(), count)
    assert exam.result.n == (120 if source != "assisted" else 10)


def test_many_seeds(page_on_device):
    exam = build_exactness_state(length=1)
    exact_work.run_many_seeds(exam, FreeTicket(), 2, 100)
    assert exam.result is not None


@pytest.mark.parametrize("mistake", (name if name == "R5" else pytest.param(name, marks=SLOW) for name in PUBLISHED_MISTAKES))
def test_break_it(page_on_device, mistake, monkeypatch):
    monkeypatch.setattr(broken_work, "TEXTS", 3)
    trial = MistakeState(MistakeQuestion(Settings(prompt="Once upon"), mistake))
    broken_work.draw_samples(trial, FreeTicket(), 20)
    assert trial.result.n == 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_encoder_decoders(encoder_decoder_folders, encoder_decoders, kind):
    settings = replace(BASE, proposer="draft", max_new_tokens=6)
    here = decode_decisions(encoder_decoders[kind], settings, encoder_decoders[kind].encode(PROMPT))
    with fake_device():
        pair = load_pair("|".join(map(str, encoder_decoder_folders[kind])), "cuda", "float64")
        assert decode_decisions(pair, settings, pair.encode(PROMPT)) == here
