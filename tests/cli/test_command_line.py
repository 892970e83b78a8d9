"""``python -m specviz``: the same engine without a browser. Bad input gives one sentence on stderr and exit code 2."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from specviz import __version__
from specviz.__main__ import COMMANDS, build_parser, main, split_command
from specviz.cli.common.parser import MOVED_OPTIONS
from specviz.decoding.method_checks import list_readers
from specviz.models.pairs import loading
from specviz.proposers.registry import PROPOSERS
from specviz.settings import CUT_FIELDS, DRAFTING_FIELDS, SETTINGS
from specviz.trace import Trace
from specviz.verification.registry import RULES
from tests.helpers.fresh_process import run_fresh


@pytest.fixture
def decode(pair_folders, capsys):
    """Run ``decode`` on the tiny pair; returns exit code, stdout, stderr."""
    target, draft = map(str, pair_folders)

    def call(*more: str, pair: tuple[str, ...] = ("--target", target, "--draft", draft)):
        code = main(["decode", *pair, "--device", "cpu", "--max-new-tokens", "20", *more])
        return code, *capsys.readouterr()

    return call


def test_json_is_the_trace_and_reads_back(decode):
    code, out, _ = decode("--prompt", "Once upon", "--format", "json")
    record = json.loads(out)
    assert code == 0
    assert {"schema", "settings", "prompt_ids", "rounds", "output_ids", "text", "timing"} <= record.keys()
    first = record["rounds"][0]
    assert {"prefix_length", "proposals", "accepted_path", "ending"} <= first.keys()
    assert {"token", "parent", "source", "q", "p", "u_draft", "u", "threshold", "accepted"} <= first["proposals"][0].keys()
    assert first["ending"].keys() == {"kind", "token", "u"}
    assert len(record["output_ids"]) <= 20
    assert list(Trace.from_json(out).output_ids) == record["output_ids"]


def test_the_same_settings_give_the_same_trace_and_another_seed_another(decode):
    traces = [Trace.from_json(decode("--prompt", "A", "--format", "json", "--seed", seed)[1]) for seed in ("5", "5", "6")]
    assert traces[0] == traces[1] != traces[2]
    assert traces[0].compute_digest() == traces[1].compute_digest()


def test_stored_distributions_let_anyone_check_each_decision_without_our_code(decode, tmp_path):
    path = tmp_path / "distributions.npz"
    _, out, _ = decode("--prompt", "Once", "--format", "json", "--probs", str(path), "--temperature", "0.8")
    distributions = np.load(path)
    for number, round_ in enumerate(json.loads(out)["rounds"]):
        p, q = distributions[f"r{number}_p"], distributions[f"r{number}_q"]
        nodes = round_["proposals"]
        assert p.shape == (len(nodes) + 1, 300)
        assert q.shape == (len(nodes), 300)
        for node, d in enumerate(nodes):
            assert np.searchsorted(np.cumsum(q[node]), d["u_draft"] * q[node].sum(), side="right") == d["token"]
            if d["accepted"] is not None:
                above, token = p[d["parent"] + 1], d["token"]
                assert d["accepted"] == (d["u"] * q[node][token] < above[token])
                assert d["threshold"] == min(1.0, above[token] / q[node][token])
        ending, path_nodes = round_["ending"], round_["accepted_path"]
        probs = p[path_nodes[-1] + 1 if path_nodes else 0]
        if ending["kind"] == "residual":
            probs = np.maximum(0.0, probs - q[len(path_nodes)])
        if ending["token"] is not None:
            assert np.searchsorted(np.cumsum(probs), ending["u"] * probs.sum(), side="right") == ending["token"]


def test_distributions_beyond_the_limit_are_refused_with_the_rounds_that_fit(decode, tmp_path, monkeypatch):
    monkeypatch.setattr("specviz.cli.decode.DISTRIBUTIONS_LIMIT", 60_000)
    code, out, err = decode("--prompt", "Once", "--probs", str(tmp_path / "distributions.npz"))
    assert code == 2
    assert "those of 2 rounds fit" in err
    assert out == ""
    assert not list(tmp_path.iterdir()), "nothing half written"


def test_a_chosen_accept_uniform_decides_that_token_and_leaves_earlier_rounds_alone(decode):
    base = Trace.from_json(decode("--prompt", "Once", "--format", "json")[1])
    start, victim = 0, None
    for number, round_ in enumerate(base.rounds):
        for depth, node in enumerate(round_.accepted_path):
            if number and round_.proposals[node].threshold < 1.0:
                victim = victim or (number, start + depth, node)
        start += len(round_.committed)
    number, position, node = victim
    edited = Trace.from_json(decode("--prompt", "Once", "--format", "json", "--uniform", f"{position}=0.999999")[1])
    assert edited.rounds[:number] == base.rounds[:number]
    assert edited.rounds[number].proposals[node].accepted is False
    assert edited.settings["uniforms"] == [f"{position}=0.999999"]


def test_colored_text_shows_origins_and_says_when_random_numbers_were_chosen(decode):
    _, out, _ = decode("--prompt", "Once", "--color", "always", "--uniform", "0=0.5")
    assert "\x1b[34m" in out
    assert "target passes" in out
    assert "this run is not a sample" in out
    piped, plain = (
        decode("--prompt", "Once", "--uniform", "0=0.999999")[1],
        decode("--prompt", "Once", "--uniform", "0=0.999999", "--color", "plain")[1],
    )
    assert "\x1b[" not in piped + plain, "no colors into a pipe"
    text, tally = piped.split("\n\n", 1)
    assert text.startswith("Once[") and "[" in tally and re.search(r"\[\d+ from the residual\], <\d+ bonus>", tally), (
        "marks say where tokens came from"
    )
    assert re.sub(r"[\[\]<>]", "", text) == plain.split("\n\n", 1)[0]


def test_an_empty_prompt_uses_a_start_token_and_says_so(decode):
    assert "empty prompt: started from <|endoftext|>" in decode("--prompt", "")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--gamma", "-1"], "gamma must be a whole number from 0 to 16, got -1."),
        (["--gamma", "17"], "gamma must be a whole number from 0 to 16, got 17."),
        (["--temperature", "-1"], "temperature must be a number from 0 (greedy) to 5, got -1.0."),
        (["--temperature", "nan"], "temperature must be a number from 0 (greedy) to 5, got nan."),
        (["--top-k", "0"], "leave it out to switch it off, got 0."),
        (["--top-p", "0"], "leave it out to switch it off, got 0.0."),
        (["--top-p", "1.5"], "leave it out to switch it off, got 1.5."),
        (["--min-p", "0"], "leave it out to switch it off, got 0.0."),
        (["--uniform", "3=1.0"], "random number must be at least 0 and below 1, got 1.0."),
        (["--uniform", "3"], "random number must be written POS=U"),
        (["--uniform", "3:side=0.1"], "random number purpose must be one of draft, accept, residual, bonus, got 'side'."),
        (["--uniform", "3=0.1", "--uniform", "3=0.2"], "given once for each position and purpose"),
        (["--seed", "-1"], "decode: --seed must be a whole number from 0"),
        (["--prompt", "a\x07b"], "U+0007 at character 2"),
        (["--prompt", "word " * 200], "tokens, at most 128, the context of this pair"),
        (["--length", "5"], "--length is called --max-new-tokens now."),
        (["--nodes", "5"], "--nodes is called --tree-budget now."),
        (["--text", "dorothy"], "--text is called --source-text now."),
        (["--max-new-token", "5"], "There is no option --max-new-token; did you mean --max-new-tokens?"),
        (["--temp", "1"], "There is no option --temp"),
        (["--tree", "2-1"], "tree must be left out with proposer draft, which does not read it (eagle, medusa, tree read it)"),
        (
            ["--typical-epsilon", "0.5"],
            "typical-epsilon must be left out with rule token, which does not read it (typical reads it)",
        ),
        (["--gamma", "many"], "decode: --gamma must be a whole number from 0 to 16, got 'many'."),
        (["too", "many"], "'too' is one argument too many"),
        (["--seed", "abc"], "seed must be a whole number from 0 to 9223372036854775807, got 'abc'."),
        (["--bogus"], "There is no option --bogus; --help lists the options."),
        (
            ["--uniform", "99=0.5"],
            "decode: The random number position must be below 20, the number of tokens to generate, got 99.",
        ),
        (["--max-new-tokens", "0"], "max-new-tokens must be a whole number from 1 to 4096, got 0."),
        (["--probs", "distributions.txt"], "a file ending in .npz"),
        (["--probs", "/nowhere/distributions.npz"], "in a folder that exists"),
    ],
)
def test_bad_input_is_one_sentence_with_the_value_and_exit_code_2(decode, arguments, sentence):
    code, out, err = decode(*arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("specviz decode: ")
    assert err.count("\n") == 1
    assert out == ""


PLAN_TEXT = "--text takes a file with a text like those that will be written."
REFERENCE = "local weights (--target or --pair), or a second server (--against, or --against-body for the same one)"
SITE = "Give a folder that is new, empty, or holds an earlier site."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("audit http://HOST", f"An audit compares the server with {REFERENCE}; neither was given."),
        ("audit http://HOST --pair storybook --against http://B", f"An audit compares the server with {REFERENCE}; both were given."),
        ("audit HOST --pair storybook", "The URL must be an address such as http://HOST:PORT/v1, got 'HOST'."),
        ("audit", "The URL of the server is missing. Give a URL, or --log FILE in its place."),
        ("audit http://HOST --log x", "Both a URL and --log were given. Give a URL, or --log FILE in its place."),
        ("audit http://HOST --draft x", "--draft was given without --target. Give --pair NAME, or --target, alone or with --draft."),
        ("plan", "A plan needs exactly one of --text FILE and --prompts FILE; neither was given."),
        ("plan --text {none}", "The text file '{none}' does not exist. " + PLAN_TEXT),
        ("plan --text {folder}", "'{folder}' is no file. " + PLAN_TEXT),
        ("plan --prompts {none}", "The prompts file '{none}' does not exist. --prompts takes a file with one prompt to a line."),
        ("plan --text {file} --gammas 9-1", "--gammas must be a range from the smaller number to the larger, such as 1-9, got '9-1'."),
        ("site {folder}", "The folder '{folder}' holds other files, such as 'file'. " + SITE),
        ("site {file}", "'{file}' is a file. " + SITE),
        ("verify --target x", "--draft is missing. Give --pair NAME, or --target and --draft together."),
        ("pays http://HOST --prompts {none}", "The prompts file '{none}' could not be read (No such file or directory)."),
        ("study --read {none}", "There is no file '{none}'. --read takes a file that study --out has written."),
        ("study --out {folder}", "'{folder}' is a folder. --out takes a file."),
        ("worksheet --out {file}", "--out must be the name of a file that ends in .pdf, got '{file}'."),
        ("decode --prompt x --uniform x", "The random number must be written POS=U or POS:draft|residual|bonus=U, such as 3=0.71, got 'x'."),
    ],
)  # fmt: skip
def test_a_refusal_names_the_option_the_value_and_what_is_allowed(line, sentence, tmp_path, capsys):
    places = {"none": tmp_path / "none", "folder": tmp_path, "file": tmp_path / "file"}
    places["file"].write_text("mine")
    words = line.format(**places).split()
    assert main(words) == 2
    assert capsys.readouterr().err == f"specviz {words[0]}: {sentence.format(**places)}\n"


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        (("--pair", "nope"), "There is no pair 'nope'. Known pairs: storybook"),
        (("--target", "x"), "--target and --draft together"),
        (("--target", "/nowhere", "--draft", "/nowhere"), "neither a folder on this machine nor a hub name"),
        (("--pair", "storybook", "--target", "x", "--draft", "y"), "left out when --target and --draft are given"),
    ],
)
def test_a_bad_pair_is_one_sentence(decode, pair, sentence):
    code, _, err = decode("--prompt", "Once", pair=pair)
    assert (code, sentence in err) == (2, True), err


def test_training_without_data_says_where_the_books_come_from(capsys):
    assert main(["train"]) == 2
    assert "--data FILE is required" in capsys.readouterr().err


def test_help_and_unknown_options_need_no_torch():
    """The help of every command, in a fresh process."""
    lines = [["--help"], *([name, "--help"] for name in COMMANDS), ["decode", "--nonsense"], ["nonsense"]]
    code = "import json, sys; from specviz.__main__ import main\ncodes = [main(words) for words in json.loads(sys.argv[1])]\n"
    done = run_fresh(code + "print(json.dumps([codes, 'torch' in sys.modules]))", json.dumps(lines))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[0] * (1 + len(COMMANDS)) + [2, 2], False]


def test_a_bug_does_not_look_like_a_rejection(monkeypatch, capsys):
    """verify exits with 1 for rejected, and Python exits with 1 after a traceback."""
    monkeypatch.setattr("specviz.cli.decode.read_run_settings", lambda options: 1 / 0)
    assert main(["decode"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_three_examples_that_the_parser_reads(name):
    parser = build_parser(name)
    lines = [
        line.strip()
        for line in parser.epilog.partition("examples:")[2].partition("exit codes:")[0].splitlines()
        if line.startswith("  ")
    ]
    assert len(lines) >= 3
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        if program == "specviz":
            command, words = split_command(words[: words.index(">")] if ">" in words else words)
            build_parser(command).parse(words)


@pytest.mark.parametrize("words", (["--version"], ["decode", "--version"], ["bench", "curves", "--version"]))
def test_every_command_says_its_version(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out == f"specviz {__version__}\n"


def test_an_unknown_command_names_the_nearest(capsys):
    assert main(["verfy"]) == 2
    assert "There is no command 'verfy'; did you mean verify?" in capsys.readouterr().err


@pytest.mark.parametrize(("old", "place"), MOVED_OPTIONS.items(), ids=str)
def test_an_old_spelling_names_the_command_that_took_its_place(old, place, capsys):
    assert main(list(old)) == 2
    assert f"{old[1]} of {old[0]} is a command now: {place}." in capsys.readouterr().err
    assert place.removeprefix("specviz ").split(" ")[0] in COMMANDS


def test_quiet_leaves_nothing_on_stderr(decode, capsys):
    code, out, err = decode("--prompt", "Once", "-q")
    assert (code, err) == (0, "") and out
    code, _, err = decode("--prompt", "Once", "-q", "--gamma", "99")
    assert code == 2 and "gamma must be" in err


@pytest.mark.parametrize("name", DRAFTING_FIELDS)
def test_the_help_of_a_setting_names_the_methods_and_rules_that_read_it(name):
    entries = {**PROPOSERS.load_all(), **RULES.load_all()}
    assert list_readers(name) == tuple(one for one, entry in entries.items() if name in entry.reads)
    assert all({*entry.reads} <= {*SETTINGS} for entry in entries.values())


def test_no_parser_takes_an_abbreviation_for_an_option():
    """An abbreviation could choose another option than was meant, such as ``--length`` one that begins like it."""
    root = Path(__file__).resolve().parents[2]
    parsers = []
    for file in [*(root / "specviz").rglob("*.py"), *(root / "tools").rglob("*.py")]:
        source = file.read_text(encoding="utf-8")
        if "ArgumentParser" not in source and "allow_abbrev" not in source:
            continue
        for call in (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            is_base = isinstance(call.func, ast.Attribute) and name == "__init__" and "allow_abbrev" in ast.dump(call)
            if name == "ArgumentParser" or is_base:
                parsers.append(any(one.arg == "allow_abbrev" and ast.unparse(one.value) == "False" for one in call.keywords))
    assert len(parsers) > 5 and all(parsers)


WITHOUT_READER = ("proposer", "rule")  # they choose the readers of others


def list_ineffective_options():
    """(command, options) with an option that has no effect: every declared cut at temperature 0, every drafting setting under methods that do not read it."""
    texts = {
        "draft_length_policy": "gain",
        "siblings": "top",
        "tree": "2-1",
        "source_text": "dorothy",
        **dict.fromkeys(("heads", "early_exit", "eagle"), "nowhere"),
    }
    values = {int: "3", float: "0.5"}
    for name in CUT_FIELDS:
        for command in ("decode", "verify", "plan", "try"):
            yield command, ("--temperature", "0", SETTINGS[name].option, values[SETTINGS[name].kind])
    for name in DRAFTING_FIELDS:
        one = SETTINGS[name]
        value = texts.get(name) or values.get(one.kind, "")
        if name in WITHOUT_READER or str(one.default) == value:
            continue
        proposer = "draft" if "draft" not in list_readers(name) else "ngram"
        for command in ("decode", "verify", "bench"):
            yield command, ("--proposer", proposer, one.option, value)
    yield "verify", ("--decoder", "target", "--gamma", "2")
    yield "verify", ("--mode", "shared-distributions", "--seconds", "5")
    yield "verify", ("--decoder", "assisted", "--mode", "engine")
    yield "try", ("storybook", "other/draft")


@pytest.mark.parametrize(
    "command, options", list_ineffective_options(), ids=lambda one: one if isinstance(one, str) else " ".join(one)
)
def test_an_option_without_effect_is_refused_before_anything_is_loaded(command, options, monkeypatch, capsys):
    monkeypatch.setattr(loading, "load_pair", lambda *_: pytest.fail("weights were read"))
    asked = {"plan": ["--text", "README.md"], "try": [], "bench": []}.get(command, ["--prompt", "Once"])
    assert main([command, *asked, *options]) == 2
    error = capsys.readouterr().err
    assert "left out" in error and error.count("\n") == 1
