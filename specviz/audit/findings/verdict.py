"""The verdict on the samples of a running server: a certificate as ``verify`` writes it, with the findings of an audit.

Against local weights the samples are tested as ``verify --sample-file`` tests them, texts without ids as texts; without weights, against
another file. A rejection is diagnosed, and reduced to an experiment that anyone can repeat.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from specviz.audit.findings.diagnosis import Diagnosis, diagnose, format_power_of_ten
from specviz.audit.findings.first_difference import TokenReader, find_first_difference_of_two, find_text_difference, join_ids
from specviz.audit.findings.reproduction import ReproducibleRequest, plan_reproduction, write_model_script
from specviz.audit.findings.text_samples import run_text_tests
from specviz.audit.protocol.body_rules import describe_body_rules
from specviz.errors import EvidenceError
from specviz.evidence.sampling.certificate import read_test_report, recompute_masses
from specviz.evidence.sampling.sample_files import SampleFile, compare_files, convert_to_samples, report_against_weights
from specviz.evidence.sampling.whole_texts import explain_no_test, run_whole_text_tests
from specviz.evidence.serving_setups.targets import round_to_bfloat16
from specviz.evidence.testing.hypothesis_tests import CELLS, TestPlan
from specviz.evidence.testing.partition import Partition, build_partition
from specviz.evidence.testing.report import seal
from specviz.models.pairs.catalog import OVERHEAD
from specviz.models.pairs.families import find_free_memory
from specviz.models.pairs.generation_rules import NO_RULES, GenerationRules
from specviz.models.pairs.names import parse_pair_name
from specviz.models.pairs.pair import LoadedPair
from specviz.progress import ProgressCallback, ignore_progress, scale_progress
from specviz.records import to_json_fields
from specviz.settings import Settings
from specviz.speed.records.server_commands import find_target_folder, locate_models
from specviz.statistics.finding import ALPHA, format_count, format_p_value

SHARED = "The server counted more rounds than these samples have tokens, so others use it: its counters do not show that these samples were drafted."
IN_TURNS = "The two servers were asked in turns, a small batch each, so a machine that becomes slower affects both."
BOTH_SPECULATE = "Speculation was seen at work on both servers, so a mistake that both make does not show."
NO_SINGLE_PREFIX = "No single prefix shows the difference by itself."
NEW_SAMPLES = ", with another --seed and another --out for new samples"
MOST_TESTS, MOST_PLACES = 12, 6  # tests of first tokens that a terminal shows in full; of more, and of whole texts, the smallest
ROUNDING_TV = 1e-4  # total variation below which two precisions are one
SPECULATION_SEEN = {
    True: ("speculation was seen at work", "Speculation was seen at work: the server counted draft tokens while it answered."),
    False: (
        "speculation was not seen at work",
        "Speculation was not seen at work: these samples may all come from the target alone, so they say nothing of speculative decoding.",
    ),
    None: ("unknown", "Whether the server drafted anything is not known: it does not tell."),
}


def build_verdict(
    file: SampleFile,
    *,
    settings: Settings,
    pair: LoadedPair | None = None,
    against: SampleFile | None = None,
    tv: float,
    seed: int,
    drafted: Sequence[bool | None],
    command: Sequence[str],
    on_progress: ProgressCallback = ignore_progress,
    requests: Sequence[ReproducibleRequest] = (),
    alpha: float = ALPHA,
    max_tokens: int | None = None,
    gamma: int | None = None,
    accepted_share: float | None = None,
    rules: GenerationRules = NO_RULES,
    other_prompts: Sequence[str] = (),
    read_text: TokenReader = join_ids,
) -> dict[str, Any]:
    """A sealed report in the schema of ``verify``, with a field ``audit``.

    Where requests are longer than the tested tokens, whole texts are tested too: the report's last answer. Both share the false-alarm
    rate equally, and the report's verdict is that of the first answer that was rejected.

    Args:
        file: The samples.
        settings: The distribution that they were sampled from, and the tokens of a sample that are tested (``max_new_tokens``).
        pair: Local weights, the reference where they are given.
        against: Otherwise the samples of another server, or of the same one.
        tv: Total variation that the tests must detect.
        seed: Of the permutations and of our own samples.
        drafted: Whether each server was seen to draft; None: it does not show it.
        command: The words of the audit's own command line, for the report.
        on_progress: Called with the share of the work done, in [0, 1], and what is being done; may raise to stop.
        requests: Of the servers, for the reproduction; empty: there is none.
        alpha: False-alarm rate of all tests together.
        max_tokens: Tokens that each request asked for; None: ``settings.max_new_tokens``.
        gamma: Draft tokens of a round; None: not known.
        accepted_share: Of the draft tokens; None: not known.
        rules: What the requests' bodies change in the reference; its own generation_config is never applied.
        other_prompts: Texts that other requests continued meanwhile, for the diagnosis.
        read_text: The text of token ids, where two servers are compared.

    Raises:
        EvidenceError: Where nothing can be tested.
        SettingsError: For samples of another distribution.
    """
    settings = replace(settings, prompt=file.prompt, seed=seed)
    texts = precision = diagnosis = reproduction = where = difference = None
    sizes: Sequence[int] = ()
    pair = pair and replace(pair, rules=rules)
    is_longer = pair is not None and (max_tokens or 0) > settings.max_new_tokens
    if pair is not None:
        plan = partial(TestPlan.for_distance, tv=tv, alpha=alpha / 2 if is_longer else alpha)
        if file.tokens:
            report = report_against_weights(file, settings, plan, pair, scale_progress(on_progress, 0.0, 0.5, "testing"))
        else:
            report, texts = run_text_tests(file, settings, plan, pair, scale_progress(on_progress, 0.0, 0.5, "testing texts"))
        reading = scale_progress(on_progress, 0.5, 0.7, "another precision")
        precision = compare_precisions(file, settings, plan, pair, report, reading)
        if report["verdict"] == "rejected" and file.tokens:
            diagnosis = _diagnose_rejection(
                file, settings, pair, other_prompts, scale_progress(on_progress, 0.7, 1.0, "known mistakes")
            )
            difference, sizes = diagnosis.first_difference, [diagnosis.samples]
        elif report["verdict"] == "rejected":
            answer = report["answers"][0]
            p_value = min(test["adjusted_p"] for test in answer["tests"])
            difference, sizes = find_text_difference(answer["cells"], p_value, pair.decode), [answer["n"]]
    elif against is not None:
        report = compare_files(file, against, tv, seed, scale_progress(on_progress, 0.0, 1.0, "comparing"), alpha)
        sizes = len(file.samples), len(against.samples)
        if report["verdict"] == "rejected":
            difference = find_first_difference_of_two(file.samples, against.samples, read_text)
    else:
        raise EvidenceError(
            "There is nothing to compare the samples with: give local weights with --target, or a second server with --against."
        )
    if report["verdict"] == "rejected":
        where = difference.describe("on the second server" if pair is None else "exact") if difference else NO_SINGLE_PREFIX
        if difference and len(requests) >= len(sizes):
            ids = () if pair is None else pair.encode(file.prompt)
            made = plan_reproduction(difference, file.prompt, ids, sizes, requests)
            script = "" if pair is None else write_model_script(made, settings, locate_models(pair.name).target)
            reproduction = to_json_fields(made) | {"sentence": made.sentence, "model_script": script}
    whole_texts = None
    if pair is not None and is_longer:
        whole = replace(settings, max_new_tokens=max_tokens or settings.max_new_tokens)
        if not (whole_texts := explain_no_test(file, settings)):
            answer = run_whole_text_tests(
                file,
                whole,
                pair,
                gamma=gamma,
                accepted_share=accepted_share,
                has_draft=_is_draft_known(pair),
                alpha=alpha / 2,
                on_progress=scale_progress(on_progress, 0.0, 1.0, "whole texts"),
            )
            report, whole_texts = add_answer(report, answer), answer["sentence"]
    audit = {
        "command": shlex.join(map(str, command)),
        "speculation": describe_speculation(drafted),
        "fields": describe_body_rules(rules),
        "precision": precision,
        "texts": texts,
        "whole_texts": whole_texts,
        "where": where,
        "diagnosis": diagnosis and diagnosis.to_record(),
        "reproduction": reproduction,
    }
    on_progress(1.0, "done")
    return seal({**report, "audit": to_plain(audit)})


def add_answer(report: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The report with one more answer; the first that is rejected speaks for all."""
    answers = [*report["answers"], dict(answer)]
    spoken = next((one for one in answers if one["verdict"] == "rejected"), answers[0])
    return dict(report) | {name: value for name, value in spoken.items() if name in report} | {"answers": answers}


def _is_draft_known(pair: LoadedPair) -> bool:
    """Whether the pair has the server's draft; a target alone is named as its own draft."""
    places = parse_pair_name(pair.name)
    return places is None or places.target != places.draft


def describe_speculation(drafted: Sequence[bool | None]) -> dict[str, Any]:
    """Whether speculation was seen at work, as a verdict of its own. drafted: of each server."""
    if all(drafted) and len(drafted) > 1:
        return {"drafted": True, "verdict": SPECULATION_SEEN[True][0], "sentence": BOTH_SPECULATE}
    drafts = True if True in drafted else None if None in drafted else False
    sentence = SPECULATION_SEEN[drafts][1]
    if drafts and len(drafted) > 1:
        sentence = f"Speculation was seen at work on the {'first' if drafted[0] else 'second'} server alone."
    return {"drafted": drafts, "verdict": SPECULATION_SEEN[drafts][0], "sentence": sentence}


def _diagnose_rejection(
    file: SampleFile, settings: Settings, pair: LoadedPair, other_prompts: Sequence[str], on_progress: ProgressCallback
) -> Diagnosis:
    """How rejected samples are wrong."""
    samples = convert_to_samples(file, settings, pair.vocabulary, pair.eos_token_ids)
    requested = file.settings.get("max_tokens")
    total = requested if isinstance(requested, int) and requested >= settings.max_new_tokens else settings.max_new_tokens
    ids = pair.encode(settings.prompt)
    return diagnose(pair, settings, ids, samples, total, _is_draft_known(pair), on_progress, other_prompts)


@dataclass(frozen=True, slots=True)
class PrecisionDistance:
    """reference, other: names of the number types; tv: between the two distributions on the cells of the test, in [0, 1]."""

    reference: str
    other: str
    tv: float


def convert_precision(pair: LoadedPair) -> LoadedPair | None:
    """The pair with its target in bfloat16, or in float32 where it is in 16 bits; None where memory does not hold both."""
    target = pair.target
    other = torch.bfloat16 if target.dtype in (torch.float32, torch.float64) else torch.float32
    if target.num_parameters() * other.itemsize * OVERHEAD > find_free_memory(target.device):
        return None
    return replace(pair, target=round_to_bfloat16(target) if other is torch.bfloat16 else deepcopy(target).float())


def _measure_distance(
    pair: LoadedPair, other: LoadedPair, settings: Settings, prompt: Sequence[int], partition: Partition
) -> PrecisionDistance:
    """Total variation between two precisions on the cells of a partition. Both are computed here, on the same tree of prefixes."""
    masses = [
        recompute_masses(one.open(settings)[0], tuple(prompt), partition, one.eos_token_ids).masses for one in (pair, other)
    ]
    tv = float(np.abs(masses[0] / masses[0].sum() - masses[1] / masses[1].sum()).sum()) / 2.0
    names = [str(one.target.dtype).removeprefix("torch.") for one in (pair, other)]
    return PrecisionDistance(names[0], names[1], tv)


def compare_precisions(
    file: SampleFile,
    settings: Settings,
    plan: Callable[[int, int], TestPlan],
    pair: LoadedPair,
    report: dict[str, Any],
    on_progress: ProgressCallback,
) -> dict[str, Any] | None:
    """How far another precision of the same weights lies from the reference, and whether rejected samples follow that one; None: no memory."""
    other = convert_precision(pair)
    if other is None:
        return None
    ids, answer = pair.encode(settings.prompt), read_test_report(report["answers"][0])
    assert answer is not None, "a test against weights has cells"
    partition = answer.partition
    if not file.tokens:  # cells of texts are no tree of prefixes
        partition = build_partition(
            pair.open(settings)[0], ids, settings.max_new_tokens, CELLS[1], 5.0 / answer.plan.n, pair.eos_token_ids
        )
    distance = _measure_distance(pair, other, settings, ids, partition)
    on_progress(0.5)
    sentence = f"Precision alone: {distance.other} lies within a total variation of {distance.tv:.2g} of {distance.reference} on these cells."
    verdict = None
    if report["verdict"] == "rejected" and distance.tv > ROUNDING_TV:
        test = report_against_weights if file.tokens else run_text_tests
        result = test(file, settings, plan, other, scale_progress(on_progress, 0.5, 1.0))
        verdict = (result[0] if isinstance(result, tuple) else result)["verdict"]
        explains = verdict != "rejected"
        sentence += (
            f" The samples are not rejected in {distance.other}, so rounding may be all that differs: give --dtype {distance.other} if the server uses it."
            if explains
            else f" The samples are rejected in {distance.other} too: rounding does not explain them."
        )
    return asdict(distance) | {"verdict_in_other": verdict, "sentence": sentence}


def to_plain(value: Any) -> Any:
    """Records as JSON has them: lists for tuples."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(one) for key, one in value.items()}
    return [to_plain(one) for one in value] if isinstance(value, list | tuple) else value


def list_server_remarks(audit: Mapping[str, Any]) -> list[str]:
    """What the records of the servers say that changes how a verdict is read.

    These are checks in spite of which samples were collected, end tokens that were not given, requests that failed, other users, and how two
    servers share a machine.
    """
    servers = audit.get("servers", ())
    lines = [IN_TURNS] if len(servers) > 1 else []
    for number, server in enumerate(servers):
        sentences = [trap["sentence"] for trap in server["traps"] if trap["stops"]]
        if stripped := server["seen"]["stripped"]:
            sentences.append(
                f"The end token was left out of {format_count(stripped, 'sample')}; it was added from the reason for stopping."
            )
        if uncounted := server["seen"].get("uncounted"):
            sentences.append(_describe_uncounted(uncounted, server["seen"].get("alone") or 0))
        if retried := server["seen"].get("retried"):
            sentences.append(
                f"{format_count(retried, 'request')} failed (429, an error or the connection) and went out again with the same seed."
            )
        if (server["seen"].get("rounds") or 0) > server["samples"] * server["manner"]["max_tokens"]:
            sentences.append(SHARED)
        whose = ("First server: ", "Second server: ")[number] if len(servers) > 1 else ""
        lines += [whose + sentence for sentence in sentences]
    return lines


def _describe_uncounted(samples: int, single_requests: int) -> str:
    if single_requests:
        return (
            f"No count says how many tokens {format_count(samples, 'sample')} have; {format_count(single_requests, 'request')} of one sample each had as many "
            "as were asked for."
        )
    return f"Whether {format_count(samples, 'sample')} have as many tokens as were asked for could not be seen: the server gives neither ids nor a count."


def format_verdict(report: Mapping[str, Any]) -> str:
    """The verdicts of an audit for a terminal: the samples', that on speculation, and how a rejection looks."""
    audit = report["audit"]
    lines = [report["sentence"], audit["speculation"]["sentence"], *list_server_remarks(audit)]
    lines += [audit["fields"]] if audit.get("fields") else []
    lines += [audit["log_probabilities"]["sentence"]] if audit.get("log_probabilities") else []
    lines += [audit["beside"]["sentence"]] if audit.get("beside") else []
    lines += [audit["window"]] if audit.get("window") else []
    if (whole := audit.get("whole_texts")) and whole != report["sentence"]:
        lines.append(whole)
    lines += [report["note"]] if report["note"] else []
    one = report["answers"][0]
    if one["tv"] is not None:
        band = one["tv_null_band"]
        lines.append(
            f"Total variation on {len(one['cells']):,} cells, which pool {one['pooled_mass'] or 0.0:.0%} of the mass: {one['tv']:.4f}; sampling noise of an exact server: median {band['median']:.4f}, "
            f"above {band['upper']:.4f} once in {1 / (1 - band['level']):.0f}."
        )
    lines += [audit["precision"]["sentence"]] if audit["precision"] else []
    lines += ["", audit["where"]] if audit["where"] else []
    if found := audit["diagnosis"]:
        lines.append(found["sentence"])
        if parting := found["parting"]:
            lines += [f"  {'token':<20} {'seen':>7} {'exact':>7}"]
            lines += [
                f"  {shift['text']!r:<20} {shift['seen']:>7.4f} {shift['exact']:>7.4f}"
                for shift in (*parting["gains"], *parting["loses"])
            ]
        lines += [
            f"  {match['mistake']:<18} likelihood ratio {format_power_of_ten(match['log10_ratio'])}, explains {match['explained']:.0%}  {match['words']}"
            for match in found["matches"]
        ]
    if again := audit["reproduction"]:
        lines += ["", again["sentence"], ""]
        if again["counts"]:
            names = (f"first, of {again['n']:,}", f"second, of {again['m']:,}")
            lines += [f"  {'token':<20} {names[0]:>18} {names[1]:>18}"]
            lines += [f"  {one['text']!r:<20} {one['first']:>18,} {one['second']:>18,}" for one in again["counts"]] + [""]
        lines += [audit["confirmation"]["sentence"], ""] if audit.get("confirmation") else []
        lines += [again["script"].rstrip()]
        if model_script := again.get("model_script"):
            model_script = locate_target(model_script, report["settings"].get("pair") or "")
            lines += ["", "The exact probability by itself, with transformers:", "", model_script.strip()]
    lines += ["", f"To run it again{NEW_SAMPLES if audit.get('servers') else ''}: {audit['command']}"]
    lines += ["", *_format_tests(one["tests"], "")] if len(one["tests"]) <= MOST_TESTS else _format_smallest(one["tests"], "")
    for answer in report["answers"][1:]:
        lines += _format_smallest(answer["tests"], "whole texts")
    return "\n".join(lines)


def locate_target(script: str, pair: str) -> str:
    """The model script with the target's folder on this machine; a record, which is passed on, names it from the project's folder on."""
    place, folder = locate_models(pair).target, find_target_folder(pair)
    return script if folder is None else script.replace(f"from_pretrained({place!r}", f"from_pretrained({str(folder)!r}")


def _format_smallest(tests: Sequence[Mapping[str, Any]], of_what: str) -> list[str]:
    """The tests with the smallest p-values, under a line that says so; the record has all."""
    worst = sorted(tests, key=lambda test: (test["adjusted_p"], test["p_value"]))[:MOST_PLACES]
    what = f"{of_what.capitalize()}, the" if of_what else "The"
    return ["", f"{what} {len(worst)} smallest of {len(tests)} p-values:", *_format_tests(worst, "note")]


def _format_tests(tests: Sequence[Mapping[str, Any]], last: str) -> list[str]:
    """A line for each test. last: a field at its end; empty: none."""
    wide = max(45, *(len(test["name"]) for test in tests))
    rows = (
        (f"  {test['name']:<{wide}} {format_p_value(test['p_value']):<12} corrected: {format_p_value(test['adjusted_p'])}", test)
        for test in tests
    )
    return [f"{row}  {test[last]}".rstrip() if last else row for row, test in rows]
