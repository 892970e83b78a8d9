"""Thirteen architectures through the pages, as a visitor would take them: a live round, samples that are tested, a plan, each one's export.

Random networks of two layers, some with sliding windows shorter than the texts, and one small tokenizer. False alarms: a right decoder is
rejected with probability 0.001 at most, one of the thirteen with 0.013; the seeds are the pages' own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import AutoModelForCausalLM

from specviz.models.pairs.names import PairPlaces
from specviz.training.corpus import save_tokenizer, train_tokenizer
from specviz.web.common import pairs, session
from specviz.web.exactness import export as exact_export
from specviz.web.hosting import cache, warmup
from specviz.web.one_round import export as round_export
from specviz.web.speed import export as speed_export
from specviz.web.speed import work as speed_work
from tests.helpers.encoder_decoders import write_encoder_decoders
from tests.helpers.pages import settle
from tests.helpers.tiny_pairs import TEXT
from tests.models.test_families import build_config
from tests.web.one_round.test_page import read_stage

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CAUSAL = (
    *("gpt2", "gpt_neox", "opt", "qwen3", "gemma3_text", "mistral", "llama", "phi3", "olmo2", "falcon", "starcoder2"),
    "mixtral",
)
LONG = 128  # tokens of context


@pytest.fixture(autouse=True)
def ready_page(monkeypatch):
    """Plans of a few short texts, and runs that end before their page is drawn."""
    for name, value in {"TEXTS": 3, "OPENING": 8, "LENGTH": 12, "PROBES": 2, "GAMMAS": (1, 2, 3)}.items():
        monkeypatch.setattr(speed_work, name, value)
    monkeypatch.setattr(session, "PROMPT", 60.0)
    warmup.start()
    assert warmup.wait(120)
    yield
    cache.load_weights.cache_clear()


def write_family(folder: Path, family: str) -> str:
    """The name of a random pair of this family: a target, and a draft that is the target with some noise."""
    if family == "t5":
        return PairPlaces(*map(str, write_encoder_decoders(folder))).name
    words = train_tokenizer(TEXT, 300)
    size = words.get_vocab_size()
    config = build_config(family, vocab_size=size, bos_token_id=0, eos_token_id=0, pad_token_id=0)
    for name in ("max_position_embeddings", "n_positions"):
        if hasattr(config, name):
            setattr(config, name, LONG)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(std=0.2)
        for name in ("target", "draft"):
            if name == "draft":
                for weight in model.parameters():
                    weight.add_(torch.randn_like(weight) * 0.03)
            model.save_pretrained(folder / name)
            save_tokenizer(words, folder / name)
    return PairPlaces(str(folder / "target"), str(folder / "draft")).name


def open_page(page: str, pair: str, **query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    for key, value in {"pair": pair, **query}.items():
        app.query_params[key] = value
    return settle(app.run(), page)


@pytest.mark.parametrize("family", (*CAUSAL, "t5"))
def test_an_architecture_passes_stage_exactness_plan_and_export(family, tmp_path, no_pictures):
    pair = write_family(tmp_path, family)
    pairs.remember_pair(pair)

    app = open_page("one_round", pair, prompt="Once upon a time")
    state = app.session_state["one_round"]
    assert not app.exception and read_stage(app)["mode"] == "live" and state.run.settings.pair == pair, state.notices
    files = round_export.build_offer(state.run.trace, 0).build().build_files()
    assert json.loads(files["manifest.json"])["models"]["target"]["family"] == family

    app = open_page("exactness", pair, prompt="Once upon a time", max_new_tokens="2")
    for count in (100, 10_000):
        app.button(key=f"exactness-draw-{count}").click().run()
        settle(app, "exactness")
    exam = app.session_state["exactness"]
    assert not app.exception and exam.result.n >= 10_000, exam.notices
    verdicts = [look.verdict for (look,) in exam.result.looks]
    assert "rejected" not in verdicts and verdicts[-1] == "consistent" and exam.result.engine == 100
    assert len(exact_export.build_offer(exam).build().build_file("cells.csv").splitlines()) > 2

    text = " ".join(TEXT * 3)
    app = open_page("speed", pair, text=text)
    app.button(key="speed-run").click().run()
    settle(app, "speed")
    plan = app.session_state["speed"]
    if family == "t5":
        assert "decoder-only for a plan" in plan.notices[0] and not app.exception
        return
    assert plan.has_own_result and not app.exception, plan.notices
    assert (
        [row.gamma for row in plan.shown_result.rows] == [1, 2, 3]
        and plan.shown_result.settings.pair == pair
        and plan.shown_result.positions
    )
    record = json.loads(speed_export.build_offer(plan).build().build_files()["plan.json"])
    assert record["settings"]["pair"] == pair and record["models"]["draft"]["family"] == family
