"""``specviz.Pair``: two models decode, trace, verify and plan in a few lines, exactly as on the command line. Models that are lent are not
changed, a raised callback stops the work, and what cannot be done is a sentence."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import specviz
from specviz import interface
from specviz.__main__ import main
from specviz.errors import ModelError, SettingsError
from specviz.pair_options import PairOptions
from specviz.settings import Settings
from specviz.speed.records.plan import SpeedPlan
from tests.helpers.foreign_pairs import write_foreign_pair
from tests.helpers.tiny_pairs import TEXT

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"samples": 1000, "min_tv": 0.4, "max_new_tokens": 2, "mode": "shared-distributions", "gamma": 2, "seed": 3}
SHORT = {"gammas": (1, 2), "continuations": 3, "opening": 8, "max_new_tokens": 8, "probes": 0}


def loaded(folders):
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders]
    return *models, AutoTokenizer.from_pretrained(folders[0])


@pytest.fixture(scope="module")
def own_pair(pair_folders) -> specviz.Pair:
    return specviz.Pair.from_pretrained(*pair_folders, device="cpu")


def run_command(capsys, *options: str) -> str:
    assert main([*options]) == 0
    return capsys.readouterr().out


# Results -----------------------------------------------------------------------------------------------------------------------


def test_settings_are_an_argument_too_and_options_win(own_pair):
    settings = Settings(prompt="Once", gamma=2, max_new_tokens=6, seed=3, pair="another", dtype="float64")
    one, other = own_pair.decode(settings=settings), own_pair.decode("Once", gamma=2, max_new_tokens=6, seed=3)
    assert one.trace.settings == other.trace.settings and one.tokens == other.tokens
    assert own_pair.decode(settings=settings, max_new_tokens=4).trace.settings["max_new_tokens"] == 4


def test_every_method_takes_settings_and_its_own_default_length(own_pair):
    """A Settings says nothing of the length unless it has another one than its default: verify draws 3 tokens, plan 96."""
    settings = Settings(temperature=0.8, seed=3, pair="another", dtype="float64")
    options = {"temperature": 0.8, "seed": 3}
    assert own_pair.decode("Once", settings).trace == own_pair.decode("Once", **options).trace
    assert own_pair.trace("Once", settings) == own_pair.trace("Once", **options)
    some = {"samples": 500, "min_tv": 0.5, "mode": "shared-distributions"}
    found = own_pair.verify("Once", settings, **some)
    assert (
        found.record["settings"]["max_new_tokens"] == 3
        and found.to_record() == own_pair.verify("Once", **options, **some).to_record()
    )
    plan = own_pair.plan(TEXT[0] * 9, settings, gammas=(1,), continuations=2, opening=8, probes=0)
    assert plan.plan.length == 96 and plan.plan.settings.temperature == 0.8
    longer = replace(settings, max_new_tokens=8)
    assert own_pair.plan(TEXT[0] * 4, longer, gammas=(1,), continuations=2, opening=8, probes=0).plan.length == 8
    assert own_pair.verify("Once", replace(settings, max_new_tokens=2), **some).record["settings"]["max_new_tokens"] == 2


def test_assess_takes_settings(own_pair, monkeypatch):
    monkeypatch.setattr(interface, "assess_pair", lambda pair, settings, *others: settings)
    assert own_pair.assess(prompt="Once", settings=Settings(temperature=0.8)).temperature == 0.8


def test_it_writes_what_the_command_writes_and_its_trace_is_the_commands(own_pair, pair_folders, capsys):
    places = "--target", str(pair_folders[0]), "--draft", str(pair_folders[1]), "--device", "cpu"
    words = "decode", *places, "--prompt", "Once upon", "--gamma", "3", "--max-new-tokens", "20", "--seed", "1"
    printed = specviz.Trace.from_json(run_command(capsys, *words, "--format", "json"))
    options = {"gamma": 3, "max_new_tokens": 20, "seed": 1}
    assert own_pair.trace("Once upon", **options) == printed
    made = own_pair.decode("Once upon", **options)
    assert (made.text, made.tokens, made.tokens_per_pass) == (printed.text, printed.output_ids, printed.tokens_per_pass)
    assert str(made) == made.text and made.to_record()["output_ids"] == made.tokens


def test_a_text_is_saved_whole_and_read_back(own_pair, tmp_path):
    made = own_pair.decode("Once upon", max_new_tokens=8)
    place = made.save(tmp_path / "trace.json")
    assert specviz.Trace.from_json(place.read_text()) == made.trace
    with pytest.raises(SettingsError, match="could not be written"):
        made.save(place)
    made.save(place, over=True)


def test_a_verification_is_a_certificate_that_check_redraws(own_pair, tmp_path, capsys, no_pictures):
    found = own_pair.verify("Once upon", **SMALL)
    assert found.consistent and found.verdict in str(found).lower() and 0.0 < found.detectable_tv <= 0.4
    assert found.samples == found.record["answers"][0]["n"] == SMALL["samples"]
    folder = found.save(tmp_path / "evidence")
    assert json.loads((folder / "report.json").read_text()) == json.loads(json.dumps(found.to_record()))
    assert "Nothing was altered" in run_command(capsys, "check", str(folder / "report.json"))


def test_a_published_mistake_is_rejected(own_pair):
    found = own_pair.verify("Once upon", decoder="R5", samples=5000, min_tv=0.2, mode="shared-distributions")
    assert not found.consistent and found.verdict == "rejected"


def test_a_plan_counts_tokens_for_every_gamma_and_is_read_back(own_pair, tmp_path):
    found = own_pair.plan([TEXT[0]] * 4, **SHORT, name="tale")
    assert [row.gamma for row in found.rows] == [1, 2] and all(1.0 <= row.tokens.value <= row.gamma + 1 for row in found.rows)
    assert found.best_gamma is None and found.verdict == "no verdict" and str(found)
    again = SpeedPlan.from_json(found.save(tmp_path / "plan.json").read_text())
    assert again.rows == found.rows and again.text["name"] == "tale"


def test_a_name_of_the_catalog_is_a_pair_and_tokenizers_may_differ(tmp_path):
    assert "10,688,768 parameters" in repr(specviz.Pair.from_pretrained("storybook"))
    foreign = specviz.Pair.from_pretrained(*write_foreign_pair(tmp_path))
    assert "of the draft's 300 tokens" in repr(foreign) and foreign.decode("the river", max_new_tokens=4).tokens
    target, draft = (AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32) for name in ("target", "draft"))
    tokenizers = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("target", "draft"))
    lent = specviz.Pair.from_models(target, draft, *tokenizers)
    assert lent.description["draft"]["tokens"] == foreign.description["draft"]["tokens"]


# Lent models -------------------------------------------------------------------------------------------------------------------


def state(model) -> tuple:
    """Everything of a model that a caller could see changed."""
    return (
        {name: (id(one), one.requires_grad, one.data_ptr(), one._version) for name, one in model.named_parameters()},
        {name: (id(one), one._version) for name, one in model.named_buffers()},
        [module.training for module in model.modules()],
        copy.deepcopy(model.config.to_dict()),
        copy.deepcopy(model.generation_config.to_dict()),
    )


def test_models_that_are_lent_are_read_where_they_lie_and_not_changed(pair_folders, own_pair):
    target, draft, tokenizer = loaded(pair_folders)
    target.train(), draft.requires_grad_(True)
    before = state(target), state(draft)
    lent = specviz.Pair.from_models(target, draft, tokenizer)
    ours = dict(lent._pair.target.named_parameters())
    assert all(ours[name].data_ptr() == one.data_ptr() for name, one in target.named_parameters()), "no weight is copied"
    assert target.lm_head.weight.requires_grad and not ours["lm_head.weight"].requires_grad
    options = {"gamma": 3, "max_new_tokens": 12, "seed": 1}
    text = lent.decode("Once upon", **options).text
    lent.verify("Once upon", **SMALL)
    lent.verify("Once upon", decoder="assisted", samples=20, min_tv=1.0, max_new_tokens=1)
    lent.plan(TEXT[0] * 4, **SHORT)
    assert (state(target), state(draft)) == before
    assert text == own_pair.decode("Once upon", **options).text, "although one is in training mode"


def test_what_a_copy_would_not_do_is_refused(pair_folders):
    target, draft, tokenizer = loaded(pair_folders)
    handle = target.model.layers[0].register_forward_hook(lambda *given: None)
    with pytest.raises(ModelError, match="hooks on its modules"):
        specviz.Pair.from_models(target, draft, tokenizer)
    handle.remove()
    specviz.Pair.from_models(target, draft, tokenizer)
    with pytest.raises(ModelError, match="target lies on cpu and the draft on meta"):
        specviz.Pair.from_models(target, draft.to("meta"), tokenizer)


def test_a_model_smaller_than_the_tokenizer_is_refused_with_both_numbers(pair_folders):
    target, _, tokenizer = loaded(pair_folders)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    small = LlamaForCausalLM(LlamaConfig(vocab_size=5, **shape))
    with pytest.raises(ModelError, match=f"'draft' predicts 5 tokens, and its tokenizer has {len(tokenizer)}"):
        specviz.Pair.from_models(target, small, tokenizer)


@pytest.mark.slow
def test_nothing_of_the_process_is_left_changed_by_importing_loading_or_decoding(pair_folders):
    code = f"""if True:
        import sys, torch, transformers

        def seen():
            bars = transformers.utils.logging.is_progress_bar_enabled()
            return transformers.logging.get_verbosity(), bars, torch.get_default_dtype(), torch.get_rng_state().tolist()

        before = seen()
        import specviz

        specviz.Pair.from_pretrained({str(pair_folders[0])!r}, {str(pair_folders[1])!r}, device="cpu").decode("Once", max_new_tokens=4)
        print(seen() == before, {{"streamlit", "ray"}} & {{name.split(".")[0] for name in sys.modules}})
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True set()\n"


def test_two_threads_get_what_one_gets(own_pair):
    options, found = {"max_new_tokens": 12, "seed": 5}, {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: own_pair.decode("Once upon", **options).tokens})) for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found.values()) == {own_pair.decode("Once upon", **options).tokens} and len(found) == 3


# Callbacks and bad input -------------------------------------------------------------------------------------------------------


class StopError(Exception):
    pass


CALLS = {
    "decode": lambda pair, on_progress: pair.decode("Once upon", max_new_tokens=12, on_progress=on_progress),
    "trace": lambda pair, on_progress: pair.trace("Once upon", max_new_tokens=12, on_progress=on_progress),
    "verify": lambda pair, on_progress: pair.verify("Once upon", **SMALL, on_progress=on_progress),
    "plan": lambda pair, on_progress: pair.plan(TEXT[0] * 4, **SHORT, on_progress=on_progress),
}


@pytest.mark.parametrize("name", CALLS)
def test_progress_only_grows_ends_at_1_and_says_what_is_done(own_pair, name):
    heard = []
    CALLS[name](own_pair, lambda share, doing: heard.append((share, doing)))
    shares = [share for share, _ in heard]
    assert shares == sorted(shares) and shares[0] > 0.0 and all(doing for _, doing in heard)
    assert shares[-1] == pytest.approx(1.0) or name in ("decode", "trace"), "a text may end before its length"


@pytest.mark.parametrize("name", CALLS)
def test_a_callback_that_raises_stops_the_work_and_its_error_reaches_the_caller(own_pair, name):
    heard = []

    def on_progress(share: float, doing: str) -> None:
        heard.append(share)
        raise StopError

    with pytest.raises(StopError):
        CALLS[name](own_pair, on_progress)
    assert len(heard) == 1 and heard[0] < 1.0
    assert CALLS["decode"](own_pair, lambda *said: None).tokens, "and the pair works as before"


BAD = {
    "gamma": (lambda pair: pair.decode("a", gamma=17), "gamma must be a whole number from 0 to 16, got 17."),
    "a name": (lambda pair: pair.decode("a", proposer="nobody"), "proposer must be one of draft, "),
    "no option": (lambda pair: pair.decode("a", tokens=3), "There is no option tokens. It must be one of uniforms, proposer"),
    "max_new_tokens": (
        lambda pair: pair.verify("a", max_new_tokens=5),
        "max-new-tokens must be a whole number from 1 to 4, got 5.",
    ),
    "min-tv": (lambda pair: pair.verify("a", min_tv=0.0), "min-tv must be above 0 and at most 1, got 0.0."),
    "samples": (lambda pair: pair.verify("a", samples=0), "samples must be a whole number from 1 to 20,000,000, got 0."),
    "mode": (lambda pair: pair.verify("a", mode="fast"), "mode must be one of both, shared-distributions, engine, got 'fast'."),
    "seconds": (lambda pair: pair.verify("a", seconds=0), "seconds must be above 0, got 0."),
    "decoder": (lambda pair: pair.verify("a", decoder="R99"), "decoder must be one of speculative"),
    "chosen numbers": (lambda pair: pair.verify("a", uniforms={(0, "accept"): 0.5}), "left out: a run with random numbers"),
    "gammas": (lambda pair: pair.plan(TEXT[0], gammas=(0,)), "gammas must be whole numbers from 1 to 16, got 0."),
    "no gammas": (lambda pair: pair.plan(TEXT[0], gammas=()), "gammas must be whole numbers from 1 to 16"),
    "a short text": (lambda pair: pair.plan("short", opening=8, max_new_tokens=8), "text must be at least 16 tokens long"),
    "unknown costs": (lambda pair: pair.plan(TEXT[0] * 9, costs="a100"), "costs must be h200-1.7b, h200-8b, two-cpu-cores"),
    "a tree": (lambda pair: pair.plan(TEXT[0] * 9, proposer="tree"), "proposer must be one of draft"),
    "a draft length of a plan": (
        lambda pair: pair.plan(TEXT[0], gamma=4),
        "gamma must be left out of a plan, which compares the draft lengths of gammas, got 4.",
    ),
    "one gamma": (lambda pair: pair.plan(TEXT[0], gammas=3), "gammas must be whole numbers from 1 to 16, such as (3,), got 3."),
    "gammas of the command": (
        lambda pair: pair.plan(TEXT[0], gammas="1-8"),
        "gammas must be whole numbers from 1 to 16, such as range(1, 9), got '1-8'.",
    ),
    "names among gammas": (
        lambda pair: pair.plan(TEXT[0], gammas=(2, "a")),
        "gammas must be whole numbers from 1 to 16, got 'a'.",
    ),
    "texts": (lambda pair: pair.plan(5), "texts must be a text or several, got 5."),
    "numbers for texts": (lambda pair: pair.plan(["a", 5]), "texts must be a text or several, got ['a', 5]."),
    "options as settings": (
        lambda pair: pair.decode("x", {"gamma": 4}),
        "settings must be a specviz.Settings; options are keyword arguments, such as gamma=4, got {'gamma': 4}.",
    ),
    "settings as a prompt": (lambda pair: pair.decode(Settings()), "prompt must be text, got Settings("),
    "uniforms": (
        lambda pair: pair.decode("x", uniforms=[0.5]),
        "uniforms must be a mapping such as {(3, 'accept'): 0.71}, got [0.5].",
    ),
    "a position alone": (
        lambda pair: pair.decode("x", uniforms={3: 0.5}),
        "uniforms must be a mapping such as {(3, 'accept'): 0.71}",
    ),
    "an old name": (lambda pair: pair.decode("x", length=4), "The option length is called max_new_tokens now."),
    "an old name of verify's": (lambda pair: pair.verify("x", tv=0.1), "The option tv is called min_tv now."),
    "another project's name": (
        lambda pair: pair.decode("x", num_speculative_tokens=4),
        "There is no option num_speculative_tokens; here it is gamma.",
    ),
    "a misspelled name": (
        lambda pair: pair.decode("x", temprature=0.5),
        "There is no option temprature. It must be one of uniforms",
    ),
    "an unread tree": (
        lambda pair: pair.decode("x", proposer="ngram", tree="2-2"),
        "tree must be left out with proposer ngram, which does not read it (",
    ),
    "an unread tree of settings": (
        lambda pair: pair.trace("x", Settings(proposer="ngram", tree="2-2")),
        "tree must be left out with proposer ngram",
    ),
    "a cut at temperature 0": (
        lambda pair: pair.decode("x", temperature=0.0, top_k=3),
        "top-k must be left out at temperature 0, where the most probable token is kept anyway, got 3.",
    ),
    "a cut of a plan at temperature 0": (
        lambda pair: pair.plan(TEXT[0] * 9, temperature=0.0, top_p=0.9),
        "top-p must be left out at temperature 0",
    ),
    "a method beside a mistake": (
        lambda pair: pair.verify("x", decoder="R5", proposer="ngram"),
        "proposer must be left out with decoder R5, which brings its own, got 'ngram'.",
    ),
    "a draft length of the target alone": (
        lambda pair: pair.verify("x", decoder="target", gamma=2),
        "gamma must be left out with decoder target, which drafts nothing, got 2.",
    ),
    "a mode of assisted generation": (
        lambda pair: pair.verify("x", decoder="assisted", mode="engine"),
        "mode must be left out with decoder assisted, which draws one text at a time, got 'engine'.",
    ),
    "seconds of shared distributions": (
        lambda pair: pair.verify("x", mode="shared-distributions", seconds=5.0),
        "seconds must be left out with mode shared-distributions, where samples says how much is drawn, got 5.0.",
    ),
    "a method for all methods": (
        lambda pair: pair.assess(proposer="ngram"),
        "proposer must be left out of a first look, which chooses it, got 'ngram'.",
    ),
    "bars": (lambda pair: pair.trace("a", bars=0), "bars must be a whole number from 1, got 0."),
    "a catalog name": (lambda pair: specviz.Pair.from_pretrained("nowhere"), "There is no pair 'nowhere'."),
    "bits": (lambda pair: specviz.Pair.from_pretrained("a", "b", draft_bits=4), "draft_bits must be 8, or left out, got 4."),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(own_pair, name):
    call, said = BAD[name]
    with pytest.raises((SettingsError, ModelError)) as error:
        call(own_pair)
    assert said in str(error.value) and "\n" not in str(error.value)


# The surface -------------------------------------------------------------------------------------------------------------------


def test_the_options_are_the_settings_without_what_the_pair_and_the_prompt_say():
    assert set(PairOptions.__annotations__) == set(Settings.__dataclass_fields__) - {"pair", "prompt", "device", "dtype"}


def test_importing_the_package_imports_no_torch():
    code = "import sys, specviz; specviz.Settings(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


PUBLIC = ("__init__.py", "py.typed", "interface.py", "pair_options.py", "settings.py", "trace.py", "progress.py", "threads.py")
USE = """
import specviz

def watch(share: float, doing: str = "") -> None: ...
def other(share: str) -> None: ...

pair = specviz.Pair.from_pretrained("target", "draft")
text: str = pair.decode("a", gamma=4, on_progress=watch).text
pair.plan("a", on_progress=other)
pair.decode("a", gama=4)
pair.verify("a", gamma="4")
name: str = pair.verify("a").samples
seen: specviz.Trace = pair.trace("a")
"""


@pytest.mark.slow  # mypy reads the standard library's stubs anew
def test_type_checkers_see_the_arguments_the_callback_and_the_results(tmp_path):
    """The package says with py.typed that its types count; without it a checker takes everything of it for Any.

    Only the modules of the public surface are checked, and no library: with everything that they import mypy takes a minute.
    """
    for name in PUBLIC:
        (tmp_path / "specviz" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "specviz" / name, tmp_path / "specviz" / name)
    (tmp_path / "use.py").write_text(USE)
    command = [
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(tmp_path),
        "--no-site-packages",
        "use.py",
    ]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert lines == ["9", "10", "11", "12"], done.stdout + done.stderr


def test_an_unknown_name_is_an_attribute_error_and_the_known_ones_are_three():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        specviz.nothing  # noqa: B018
    assert {"Pair", "Settings", "Trace"} <= set(dir(specviz)) and not {"run", "load_pair", "pair_of"} & set(dir(specviz))
