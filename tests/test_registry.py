"""A package that was installed beside this one adds a proposer, a rule, a warper and a test statistic: each is one registration.

The package is written into a folder on ``sys.path``, with the metadata that an installer would write.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from specviz.__main__ import build_parser
from specviz.decoding.method_checks import build_rule, list_readers
from specviz.decoding.run import record_run
from specviz.errors import PluginError, SettingsError
from specviz.evidence.decoder import ENGINE, SHARED, build_decoder
from specviz.evidence.serving_setups.records import TOLERANCE
from specviz.interface import Pair
from specviz.proposers.registry import PROPOSERS, find_form
from specviz.proposers.request import open_models
from specviz.randomness import Prefix
from specviz.registry import Registry
from specviz.settings import Settings
from specviz.speed.measurement.acceptance import refuse_unplanned
from specviz.speed.records.server_commands import ServerCommand, build_server_commands
from specviz.statistics.registry import STATISTICS, load_extra_statistics
from specviz.verification.draft_tree import build_empty_tree
from specviz.verification.registry import RULES
from specviz.verification.warpers import WARPERS, find_warpers
from tools import generated_docs

ENTRY_POINTS = """
[specviz.proposers]
last-token = dummy_methods.proposer
sharp-draft = dummy_methods.model_proposer

[specviz.rules]
strict = dummy_methods.rule:build_strict_rule
absent = dummy_methods.nowhere

[specviz.warpers]
flatten = dummy_methods.warper

[specviz.statistics]
largest = dummy_methods.statistic
silent = dummy_methods.silent
"""
FILES = {
    "__init__.py": "",
    "proposer.py": """
import torch
from specviz.proposers.copied import CopiedTokens
from specviz.proposers.registry import register_proposer
from specviz.verification.registry import DraftForm

@register_proposer(
    "last-token", title="the last token again", form=DraftForm(copies=True), reads=("gamma", "num_chains"), runs_model=False
)
def build(request):
    return CopiedTokens("last-token", lambda ids, count: [ids[-1]] * count, request.settings.gamma, request.target.vocabulary)
""",
    "model_proposer.py": """
from dataclasses import replace
from specviz.models.uncached import build_draft_reference
from specviz.proposers.chains import build_chain, describe_chain
from specviz.proposers.registry import register_proposer

def sharpen(settings):
    return replace(settings, temperature=0.5)

COMMAND = {"server": "own", "language": "bash", "text": "serve {target} --tokens {gamma}", "note": "Version 1."}

@register_proposer(
    "sharp-draft",
    title="the draft model at temperature 0.5",
    form=describe_chain,
    reads=("gamma",),
    open_models=lambda pair, settings: (pair.open(settings)[0], pair.open(sharpen(settings))[1]),
    build_reference=lambda pair, settings: build_draft_reference(pair, sharpen(settings)),
    server_commands=(COMMAND,),
)
def build(request):
    return build_chain(request, request.draft, "sharp-draft")
""",
    "rule.py": """
from specviz.verification.registry import RuleNeeds, register_rule
from specviz.verification.token import TokenRule

class StrictRule(TokenRule):
    name, title = "strict", "token by token, of chains"

@register_rule("strict", title=StrictRule.title, exact=True, needs=RuleNeeds(chain=True))
def build_strict_rule(settings):
    return StrictRule()
""",
    "warper.py": """
from specviz.verification.warpers import register_warper

@register_warper("flatten", title="probabilities to a power")
def flatten(probs, value):
    return probs ** value
""",
    "statistic.py": """
from scipy import stats
from specviz.statistics.finding import Finding
from specviz.statistics.registry import register_statistic

@register_statistic("largest", title="the likeliest cell")
def test_largest(counts, probs, *, alpha):
    place, n = int(probs.argmax()), int(counts.sum())
    p_value = stats.binomtest(int(counts[place]), n, float(probs[place])).pvalue
    return Finding("largest", n, float(counts[place]), None, p_value, None, alpha, 0.99)
""",
    "silent.py": "",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package, installed; what it registered is forgotten afterwards."""
    for name, text in FILES.items():
        path = tmp_path / "dummy_methods" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    metadata = tmp_path / "dummy_methods-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: dummy-methods\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    registries: tuple[Registry, ...] = (PROPOSERS, RULES, WARPERS, STATISTICS)
    yield tmp_path
    for one in registries:
        for name in ("last-token", "sharp-draft", "strict", "flatten", "largest"):
            one._entries.pop(name, None)
        one._reported.clear()
    find_warpers.cache_clear()
    for name in [name for name in sys.modules if name.startswith("dummy_methods")]:
        del sys.modules[name]


def test_names_are_listed_without_loading_what_they_stand_for(package):
    names = PROPOSERS.list_names(), RULES.list_names(), WARPERS.list_names(), STATISTICS.list_names()
    assert names[0][0] == "draft" and "last-token" in names[0] and {"strict", "absent"} < {*names[1]}
    assert {"flatten", "min-p", "top-k", "top-p"} <= {*names[2]} and {"chi-square", "G", "largest", "silent"} <= {*names[3]}
    assert not [name for name in sys.modules if name.startswith("dummy_methods")]


def test_help_names_a_method_of_another_package_among_those_that_read_a_setting(package, capsys):
    assert {"last-token", "lookahead", "several"} <= {*list_readers("num_chains")}
    with pytest.raises(SystemExit):
        build_parser("decode").parse(["--help"])
    assert re.search(r"for [^:]*last-token[^:]*: number of chains", " ".join(capsys.readouterr().out.split()))


def test_what_documents_the_project_lists_its_own_names_alone(package):
    """Else the generated reference and the numbers of a page would depend on what is installed."""
    PROPOSERS.find("last-token")
    with PROPOSERS.list_own_only(), STATISTICS.list_own_only():
        assert "last-token" not in PROPOSERS and "last-token" not in PROPOSERS.list_names() and "draft" in PROPOSERS
        assert "last-token" not in list_readers("num_chains") and "largest" not in {one.name for one in load_extra_statistics()}
    assert "last-token" in PROPOSERS.list_names()
    text = generated_docs.KEYWORDS_FILE.read_text(encoding="utf-8")
    assert generated_docs.format_keyword_arguments() == text and "last-token" not in generated_docs.format_block("decode")
    assert "last-token" not in generated_docs.format_block("drafting")


def test_names_are_listed_without_torch():
    """``--help`` lists them and must be fast."""
    program = (
        "import sys; from specviz.proposers.registry import PROPOSERS; from specviz.verification.registry import RULES; "
        "from specviz.verification.warpers import WARPERS; assert 'tree' in PROPOSERS.list_names() and 'block' in RULES.list_names(); "
        "assert 'min-p' in WARPERS.list_names() and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_proposer_of_another_package_decodes_under_a_rule_of_it(package, pair):
    trace = record_run(pair, Settings(proposer="last-token", rule="strict", gamma=2, max_new_tokens=8, seed=3))
    assert {one.source for round_ in trace.rounds for one in round_.proposals} == {"last-token"}
    assert sum(len(round_.committed) for round_ in trace.rounds) == 8
    assert not find_form(Settings(proposer="last-token")).fixed_length, "so shared distributions are not offered"


def test_the_distribution_of_a_decoder_with_a_proposer_of_another_package_is_computed(package, pair):
    """The proposer's registration says which distributions its draft tokens come from; one without a model has none."""
    sharp = Settings(proposer="sharp-draft", gamma=2, max_new_tokens=3, prompt="Once upon", seed=3)
    decoder = build_decoder("speculative", pair, sharp)
    assert 0.0 < decoder.compute_analytic_tv(20) < TOLERANCE
    assert decoder.modes == (SHARED, ENGINE), "a chain of a fixed length"
    entry = PROPOSERS.find("sharp-draft")
    text = pair.encode("Once upon a time there was a little girl")
    reference, plain = (build(pair, sharp) for build in (entry.build_reference, PROPOSERS.find("draft").build_reference))
    q, other = (one.compute_distributions(text, 3)[0] for one in (reference, plain))
    assert float((q - other).abs().sum(-1).min()) > 0.01, "it is not that of the draft method"
    row = Prefix(tuple(text), 0, 4)
    assert torch.allclose(open_models(pair, sharp)[1].compute_distributions([row], build_empty_tree(1))[0, 0], q[-1], atol=1e-5)
    assert build_decoder("speculative", pair, replace(sharp, proposer="last-token")).compute_analytic_tv(20) is None


def test_what_a_plan_needs_of_a_proposer_is_declared_by_its_registration(package):
    sharp, copied = (Settings(proposer=name) for name in ("sharp-draft", "last-token"))
    assert build_server_commands(sharp, 3) == (
        ServerCommand("own", "serve assets/models/storybook/target --tokens 3", "bash", "Version 1."),
    )
    assert build_server_commands(copied, 3) == () and len(build_server_commands(Settings(proposer="ngram"), 3)) > 1
    names = ("sharp-draft", "last-token", "draft", "ngram", "uniform", "nobody")
    assert [PROPOSERS.read_argument(name, "runs_model", True) for name in names] == [True, False, True, False, False, True]
    for settings in (sharp, copied):
        refuse_unplanned(settings)


def test_a_rule_of_another_package_is_compared_with_what_a_proposer_guarantees(package):
    with pytest.raises(SettingsError, match="rule must be token, k-seq or typical here: strict judges chains"):
        build_rule(Settings(proposer="several", rule="strict"))


def test_verify_runs_on_it_and_a_statistic_of_another_package_is_among_its_tests(package, pair):
    asked = {"proposer": "last-token", "gamma": 2, "max_new_tokens": 2, "mode": "engine"}
    record = Pair(pair).verify(samples=300, min_tv=0.5, **asked).to_record()
    assert record["verdict"] != "rejected"
    names = [test["name"] for answer in record["answers"] for test in answer["tests"]]
    assert names.count("largest") == len(record["answers"])
    assert {entry.name: entry.title for entry in load_extra_statistics()}["largest"] == "the likeliest cell"


def test_a_warper_of_another_package_takes_part_in_every_distribution(package, pair):
    plain, flat = (Settings(warpers=text) for text in ("", "flatten=0.5"))
    ids = pair.encode("Once")
    p, q = (pair.open(one)[0].compute_distributions([Prefix(ids, 0, 4)], build_empty_tree(1))[0, 0] for one in (plain, flat))
    wanted = p.sqrt() / p.sqrt().sum()
    assert float((q - wanted).abs().max()) < 1e-12


@pytest.mark.parametrize(
    ("text", "sentence"),
    (
        ("flatten=half", "warpers must be NAME or NAME=NUMBER"),
        ("nobody=1", "warper must be one of .*flatten.*top-p.*, got 'nobody'"),
        ("top-k=3", "without top-k, which is the setting top-k"),
    ),
)
def test_a_warper_that_cannot_be_used_is_a_sentence(package, text, sentence):
    with pytest.raises(SettingsError, match=sentence):
        find_warpers(Settings(warpers=text).warpers)


def test_a_broken_plugin_is_one_sentence_and_stops_no_other(package, caplog):
    with pytest.raises(
        PluginError, match=r"The rule 'absent' of the package 'dummy-methods' could not be loaded \(ModuleNotFound"
    ):
        RULES.find("absent")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert "strict" in RULES.load_all() and "absent" not in RULES.load_all()
            names = {entry.name for entry in load_extra_statistics()}
            assert "largest" in names and "silent" not in names
    assert [said for record in caplog.records if "dummy-methods" in (said := record.message.split(" could")[0])] == [
        "The rule 'absent' of the package 'dummy-methods'",
        "The statistic 'silent' of the package 'dummy-methods'",
    ]


def test_every_setting_that_a_method_reads_is_a_setting():
    known = {*Settings().to_record()}
    for entry in (*PROPOSERS.load_all().values(), *RULES.load_all().values()):
        assert {*entry.reads} <= known, entry.name
