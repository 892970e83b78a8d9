"""Measure the cost model of this machine: the parts of rounds in sequence as in decoding, and passes over large trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from specviz.models.pairs.loading import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, split_progress
from specviz.settings import Settings
from specviz.speed.benchmarks.target_only import find_baseline
from specviz.speed.measurement.acceptance import Ids, decode_texts
from specviz.speed.measurement.costs import RoundProbes, build_branching_parents, build_tree_pass, time_parts
from specviz.speed.measurement.machine import describe_machine, format_today
from specviz.speed.records.cost_model import CostModel

GAMMA = 8  # draft tokens of the longest timed round
NODES = (16, 32, 64)  # of trees, beside the token before them
COPIES = "ngram"  # the proposer of rounds that no model drafts for
DRAFTED, COPIED, TREES = "rounds with the draft", "rounds with copied tokens", "passes over trees"


def measure_cost_model(
    pair: LoadedPair, settings: Settings, prompts: Sequence[Ids], runs: int, on_progress: ProgressCallback = ignore_progress
) -> CostModel:
    """The cost model of this machine and pair, with the pair's draft and without one.

    prompts: that the target continues by ``Settings.max_new_tokens`` tokens each; rounds are timed in these texts; runs: of the
    clocks.
    """
    drafted = replace(settings, proposer="draft", gamma=GAMMA)
    texts = list(zip(prompts, decode_texts(pair, drafted, prompts)[0], strict=True))
    tell = split_progress(on_progress, {DRAFTED: 4.0, COPIED: 3.0, TREES: 1.0})
    curve = RoundProbes(pair, drafted, texts, GAMMA).run_until(runs, tell[DRAFTED]).build_curve()
    curve = curve.with_baseline(find_baseline(pair, drafted, prompts[0]))
    copied = RoundProbes(pair, replace(drafted, proposer=COPIES), texts, GAMMA).run_until(runs, tell[COPIED]).build_curve()
    parts = {nodes: build_tree_pass(pair, drafted, build_branching_parents(nodes)) for nodes in NODES}
    clock = time_parts(parts, pair, runs, warm_runs=1, on_progress=tell[TREES])
    trees = {nodes + 1: round(1e3 * clock.compute_median(nodes).value, 4) for nodes in NODES}
    machine = describe_machine(pair)
    layers, depth = (model.config.get_text_config().num_hidden_layers for model in (pair.target, pair.draft))
    return CostModel(
        title=f"{machine['processor']}, target of {format_parameters(pair.target.num_parameters())}",
        machine=f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores",
        date=format_today(),
        conditions=f"{machine['dtype']}, target of {layers} layers, draft of {depth}, temperature {settings.temperature:g}",
        layers=layers,
        target_only=round(1e3 * median(curve.target_only), 4),
        passes=curve.list_passes() | trees,
        drafts=(copied.fit_draft(0), curve.fit_draft(depth)),
    )


def format_parameters(count: int) -> str:
    """10,688,768 is 11M."""
    size, unit = next((one for one in ((1e9, "B"), (1e6, "M")) if count >= one[0]), (1e3, "K"))
    return f"{count / size:.2g}{unit}" if count < 100 * size else f"{count / size:.0f}{unit}"
