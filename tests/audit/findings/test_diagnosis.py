"""Samples of a known mistake are named as that mistake, by likelihood alone, and those of a correct decoder as none.

Samples are fixed by their seed. A mistake is named if its samples are 1,000 times likelier under it, and for each decoder compared once
more, than under a correct one; so a correct decoder is named wrongly at most once in 1,000 seeds. Each of the samples here is likelier
by 1e20 or more, so a mistake is missed in less than one seed of a million.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from specviz.audit.findings import temperature_chain
from specviz.audit.findings.diagnosis import (
    build_diagnosis,
    compute_explained_share,
    compute_goodness_of_fit,
    diagnose,
    format_power_of_ten,
    format_share,
    score_mistakes,
)
from specviz.audit.findings.known_mistakes import FurtherDistributions
from specviz.audit.findings.prefix_table import MIN_SAMPLES_PER_PREFIX, build_prefix_table
from specviz.audit.findings.temperature_chain import EM_ROUNDS, MIXED
from specviz.decoding.engine import TargetOnlyRandomness
from specviz.decoding.sampler import Shard, sample_with_shared_distributions
from specviz.decoding.samples import Samples
from specviz.evidence.mistakes.components import change_temperature
from specviz.evidence.mistakes.registry import open_tables
from specviz.evidence.mistakes.rules import OtherTemperatureRule
from specviz.proposers.draft import DraftModel
from specviz.proposers.no_draft import NoDraft
from specviz.randomness import PhiloxRandomness
from specviz.settings import Settings
from specviz.statistics.finding import ALPHA
from specviz.verification.token import TokenRule
from tests.audit.served import PROMPT, build_settings, draw_after_one_token, draw_from_tables, draw_mistaken_samples
from tests.helpers import toy_tables
from tests.helpers.chance_bands import SEED

SETTINGS, IDS = Settings(gamma=2, max_new_tokens=3), (0, 1)
OPEN = open_tables(*toy_tables.pair("random", 5, 6, 40))
SIMILAR = {"R5": ("one-hot-residual",)}  # every token of the tiny pair is unlikely, so p without one of them is nearly p
SLOW = pytest.mark.slow  # named on tables, below and in test_known_mistakes.py
MADE = (
    "R1",
    "gate",
    *(pytest.param(name, marks=SLOW) for name in ("R5", "R11", "R18", "pass-temperature")),
)  # R18: test_verdict.py


@pytest.fixture
def whole_fits(monkeypatch):
    """All rounds of the fit of temperatures, where a mixture of them is the answer or must not be; conftest.py has fewer."""
    monkeypatch.setattr(temperature_chain, "EM_ROUNDS", EM_ROUNDS)


@cache
def compute_probs(of_draft, *ids):
    """(V,) float64 after IDS and these tokens, of target or draft."""
    return OPEN(SETTINGS)[of_draft].compute_probs((*IDS, *ids))


@cache
def heat_target(factor, *ids):
    return change_temperature(compute_probs(0, *ids), factor)


def draw_exact_samples(settings, n):
    return sample_with_shared_distributions(
        Shard(OPEN(settings)[0], NoDraft(), TokenRule(), TargetOnlyRandomness(PhiloxRandomness(SEED)), settings, IDS, count=n)
    )


def read_on_table(samples, settings=SETTINGS):
    target, draft = OPEN(settings)
    return build_prefix_table(target, draft, IDS, samples)


def diagnose_on_table(samples, settings=SETTINGS, total=None):
    reading = read_on_table(samples, settings)
    found = score_mistakes(
        reading,
        settings,
        FurtherDistributions((reading.p, reading.q), reading.q),
        total or settings.max_new_tokens,
    )
    return reading, found, build_diagnosis(reading, found, lambda ids: " ".join(map(str, ids)))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", MADE)
def test_a_mistake_on_two_networks_is_named(name, pair):
    """1,500 samples of three tokens."""
    settings = build_settings(pair)
    found = diagnose(pair, settings, pair.encode(PROMPT), draw_mistaken_samples(name, pair, 1500), settings.max_new_tokens)
    assert name in found.named and set(found.named) <= {name, *SIMILAR.get(name, ())}
    assert next(one for one in found.matches if one.mistake == name).log10_ratio > 40
    assert "Looks like " in found.sentence and f"{name}," in found.sentence and "against a correct decoder" in found.sentence
    assert found.first_difference.position == 1 and found.first_difference.prefix == () and found.first_difference.p_value < 1e-3
    assert all(one.observed > one.expected for one in found.first_difference.gains) and all(
        one.observed < one.expected for one in found.first_difference.loses
    )


@pytest.mark.usefixtures("whole_fits")
@pytest.mark.parametrize("name", (pytest.param("target", marks=SLOW), "speculative"))
def test_a_correct_decoder_is_named_as_nothing(name, pair):
    settings = build_settings(pair)
    found = diagnose(pair, settings, pair.encode(PROMPT), draw_mistaken_samples(name, pair, 1000), settings.max_new_tokens)
    assert found.named == () and found.sentence.startswith("None of the known mistakes explains these samples.")
    assert found.first_difference is None


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("greedy", (False, True))
def test_what_the_draft_did_is_told_where_the_samples_tell(greedy):
    samples = draw_from_tables(OPEN, "R5", greedy, IDS, SETTINGS, 2000)
    _, _, found = diagnose_on_table(samples)
    assert found.named[0] == "R5"
    assert ("the draft takes its likeliest token" if greedy else "the draft draws its tokens") in found.matches[0].words


def test_a_server_that_drafts_from_the_second_token_on_parts_at_the_second_token():
    """As servers do whose first token comes from reading the prompt."""
    _, _, found = diagnose_on_table(draw_after_one_token(OPEN, "pass-temperature", IDS, SETTINGS, 2000))
    assert found.named == ("pass-temperature",) and "drafting begins at the second token" in found.matches[0].words
    assert found.first_difference.position == 2 and len(found.first_difference.prefix) == 1


def test_a_temperature_between_those_of_the_grid_is_found():
    """Drawn at the mutant's half temperature of 1.2, which is 0.6: between 0.5 and 0.75 of the temperature that the rule is asked for."""
    settings = Settings(gamma=2, max_new_tokens=3, temperature=1.2)
    samples = draw_from_tables(OPEN, "pass-temperature", False, IDS, settings, 3000)
    _, _, found = diagnose_on_table(samples, settings=settings)
    assert found.named[0] == "pass-temperature" and "temperature 0.6" in found.matches[0].words


@pytest.mark.usefixtures("whole_fits")
def test_a_temperature_of_its_own_for_each_token_is_recognized_as_a_mixture():
    """Half of the samples at a tenth of the temperature, half at four times: no single temperature explains them."""
    target, draft = OPEN(SETTINGS)
    arms = [
        sample_with_shared_distributions(
            Shard(
                target,
                DraftModel(draft, 1),
                OtherTemperatureRule(factor),
                PhiloxRandomness(SEED + k),
                Settings(gamma=1, max_new_tokens=2),
                IDS,
                count=4000,
            )
        ).tokens
        for k, factor in enumerate((0.1, 4.0))
    ]
    settings = Settings(gamma=1, max_new_tokens=2)
    _, _, found = diagnose_on_table(Samples(np.concatenate(arms), settings.to_record(), "mixed"), settings=settings)
    assert found.named == ("pass-temperature",) and MIXED in found.matches[0].words


@pytest.mark.usefixtures("whole_fits")
def test_a_greedy_bonus_token_is_named_and_not_called_a_mixture_of_temperatures():
    """A mixture of temperatures explains most of it, and not all.

    Nothing is said of the draft where the draft is not known.
    """
    dice, rows, settings = np.random.default_rng(SEED), [], Settings(gamma=1, max_new_tokens=3)
    for _ in range(3000):
        ids: list[int] = []
        while len(ids) < 3:
            p, q = compute_probs(0, *ids).numpy(), compute_probs(1, *ids).numpy()
            token = int(dice.choice(6, p=q))
            if dice.random() * q[token] < p[token]:
                ids += [token, int(compute_probs(0, *ids, token).argmax())]
            else:
                rest = np.maximum(p - q, 0.0)
                ids.append(int(dice.choice(6, p=rest / rest.sum())))
        rows.append(ids[:3])
    samples = Samples(np.array(rows, dtype=np.int32), settings.to_record(), "by hand")
    reading, found, diagnosis = diagnose_on_table(samples, settings=settings)
    assert diagnosis.named == ("greedy-bonus",) and not any(MIXED in match.words for match in diagnosis.matches)
    assert diagnosis.first_difference is not None and diagnosis.first_difference.p_value < 1e-6
    unknown = build_diagnosis(reading, found, str, drafting=False)
    assert not any("draft" in match.words for match in unknown.matches)


@pytest.mark.usefixtures("whole_fits")
def test_temperatures_may_differ_from_place_to_place():
    """The second token of a text is verified at an infinite temperature, the third at a negative one: the least likely comes most often."""
    rows, dice = [], np.random.default_rng(SEED)
    for _ in range(3000):
        ids = [int(dice.choice(6, p=compute_probs(0).numpy()))]
        for factor in (np.inf, -1e-6):
            p, guess = heat_target(factor, *ids), int(compute_probs(1, *ids).argmax())
            others = p.clone().index_fill_(0, torch.tensor([guess]), 0.0)
            ids.append(guess if dice.random() < p[guess] else int(dice.choice(6, p=(others / others.sum()).numpy())))
        rows.append(ids)
    _, _, found = diagnose_on_table(Samples(np.array(rows, dtype=np.int32), SETTINGS.to_record(), "by hand"), total=4)
    first = found.matches[0]
    assert found.named == ("pass-temperature",) and first.fit > ALPHA and first.explained > 0.99
    assert MIXED in first.words and "infinite" in first.words and "negative" in first.words


@pytest.mark.usefixtures("whole_fits")
def test_a_temperature_may_depend_on_the_one_before():
    """4,000 texts. A token is verified at an infinite temperature or at a negative one, and the next token 9 times in 10 at the same.

    Shares of both that do not depend on the token before fit with a p-value below 1e-100.
    """
    rows, dice, tokens = [], np.random.default_rng(SEED), range(6)
    for _ in range(4000):
        ids, factor = [int(dice.choice(6, p=compute_probs(0).numpy()))], (np.inf, -1e-6)[int(dice.random() < 0.3)]
        for _ in range(2):
            p, guess = heat_target(factor, *ids), int(compute_probs(1, *ids).argmax())
            others = torch.tensor([float(p[token]) * (token != guess) for token in tokens])
            ids.append(guess if dice.random() < p[guess] else int(dice.choice(6, p=(others / others.sum()).numpy())))
            factor = factor if dice.random() < 0.9 else {np.inf: -1e-6, -1e-6: np.inf}[factor]
        rows.append(ids)
    _, _, found = diagnose_on_table(Samples(np.array(rows, dtype=np.int32), SETTINGS.to_record(), "by hand"), total=4)
    first = found.matches[0]
    assert found.named == ("pass-temperature",) and first.fit > ALPHA
    assert MIXED in first.words and "infinite" in first.words and "negative" in first.words


@pytest.mark.usefixtures("whole_fits")
def test_a_temperature_of_0_writes_the_draft_token_and_ends_the_round():
    """As vLLM's CPU path does where the memory that it reads holds 0: 5% of the tokens come from an even hotter pass."""
    rows, dice = [], np.random.default_rng(SEED)
    for _ in range(3000):
        ids = [int(dice.choice(6, p=compute_probs(0).numpy()))]
        while len(ids) < SETTINGS.max_new_tokens - 1:
            hot = dice.random() < 0.05
            ids.append(int(dice.integers(6)) if hot else int(compute_probs(1, *ids).argmax()))
        ids.append(int(dice.choice(6, p=compute_probs(0, *ids).numpy())))
        rows.append(ids)
    _, _, found = diagnose_on_table(Samples(np.array(rows, dtype=np.int32), SETTINGS.to_record(), "by hand"))
    assert found.named == ("pass-temperature",) and f"{MIXED}: 0 (" in found.matches[0].words
    assert "the draft takes its likeliest token" in found.matches[0].words and found.first_difference.position == 2


def test_plain_sampling_at_another_temperature_is_no_mistake_of_speculation():
    cooler = draw_exact_samples(Settings(max_new_tokens=3, temperature=0.5), 2000)
    _, _, found = diagnose_on_table(Samples(cooler.tokens, SETTINGS.to_record(), "cooler"))
    assert found.named[0] == "settings" and "plain sampling under other settings (temperature 0.5)" in found.sentence


def test_without_the_servers_draft_only_mistakes_that_hardly_need_it_are_compared(pair):
    """A target that stands for its own draft would make R18 exact."""
    settings, alone = build_settings(pair), replace(pair, draft=pair.target)
    for name, named in (("pass-temperature", ("pass-temperature",)), ("R18", ())):
        found = diagnose(
            alone, settings, pair.encode(PROMPT), draw_mistaken_samples(name, pair, 1000), settings.max_new_tokens, drafting=False
        )
        assert found.named == named and "--draft gives it" in found.sentence


@pytest.mark.usefixtures("whole_fits")
def test_a_mistake_that_is_not_on_the_list_is_called_none_of_them():
    """Every third sample has its first token replaced by one in the middle of the target's order there, which no temperature prefers."""
    samples = draw_exact_samples(SETTINGS, 4000)
    rare = int(OPEN(SETTINGS)[0].compute_probs(IDS).argsort()[3])
    samples.tokens[::3, 0] = rare
    _, _, found = diagnose_on_table(samples)
    assert found.named == () and "None of the known mistakes" in found.sentence
    assert found.first_difference.position == 1 and found.first_difference.gains[0].token == rare


def test_the_exact_distribution_explains_nothing_and_the_frequencies_themselves_everything():
    samples = draw_from_tables(OPEN, "R18", False, IDS, SETTINGS, 4000)
    reading = read_on_table(samples)
    counts = torch.stack([reading.count_tokens(prefix) for prefix in range(len(reading.prefixes))])
    assert compute_explained_share(reading, counts, reading.p) == 0.0
    assert compute_explained_share(reading, counts, counts / counts.sum(-1, keepdim=True)) > 0.99


def test_likely_tokens_that_never_come_are_part_of_the_deviation():
    """All tokens are alike where the target prefers some, so each of them is too rare to be a cell by its count."""
    dice, vocabulary = np.random.default_rng(SEED), 1000
    probs = torch.full((1, vocabulary), 0.2 / (vocabulary - 2), dtype=torch.float64)
    probs[0, :2] = 0.4
    counts = torch.from_numpy(np.bincount(dice.integers(2, vocabulary, 400), minlength=vocabulary)).double()[None]
    reading = read_on_table(draw_from_tables(OPEN, "R18", False, IDS, SETTINGS, 400))
    alike = torch.full_like(probs, 1.0 / vocabulary)
    one = replace(reading, prefixes=((),), p=probs)
    assert compute_explained_share(one, counts, probs) == 0.0 and compute_explained_share(one, counts, alike) > 0.95


def test_a_token_that_a_decoder_never_writes_does_not_fit_it():
    probs, counts = torch.tensor([[0.5, 0.5, 0.0]]).double(), torch.tensor([[20.0, 20.0, 1.0]]).double()
    assert compute_goodness_of_fit(probs, counts) == 0.0
    assert compute_goodness_of_fit(probs, torch.tensor([[20.0, 20.0, 0.0]]).double()) > 0.5
    assert compute_goodness_of_fit(probs, torch.tensor([[1.0, 0.0, 0.0]]).double()) is None, "one sample is too few for a cell"


def test_only_prefixes_that_enough_samples_share_are_read():
    samples = draw_from_tables(OPEN, "R5", False, IDS, SETTINGS, 300)
    reading = read_on_table(samples)
    totals = np.bincount(reading.edge, weights=reading.count)
    assert totals.min() >= MIN_SAMPLES_PER_PREFIX and reading.prefixes[0] == ()
    assert {prefix[:-1] for prefix in reading.prefixes if prefix} <= set(reading.prefixes)
    assert totals[0] == 300


def test_a_share_that_is_not_all_is_never_shown_as_all():
    assert [format_share(share) for share in (0.0, 0.744, 0.985, 0.9998)] == ["0%", "74%", "98%", "over 99%"]


@pytest.mark.parametrize(
    ("exponent", "words"), ((0.0, "1"), (1.5, "32"), (12.4, "1e+12"), (3456.0, "above 1e+30"), (-7.0, "1e-7"))
)
def test_a_ratio_may_be_too_large_for_float64(exponent, words):
    assert format_power_of_ten(exponent) == words
