"""How a server is started with a pair and a draft length: lines to paste, each in the server's own option names. No torch.

The names were checked against the versions that each line's note gives. A server's answers are another matter: ``specviz verify
--sample-file`` tests them (docs/checking-your-server.md).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import Places, as_path, hub_name, places_of
from specviz.records import ASSETS
from specviz.settings import Settings

CAUSAL = ("draft", "ngram")  # drafting methods that these servers have
RULE = "token"  # their acceptance rule
ONE_TOKENIZER = "SGLang and llama.cpp take only a draft with the target's tokenizer."


@dataclass(frozen=True, slots=True)
class ServerLine:
    """One server.

    server  its name; text  a command, or lines of Python; language  of the text: bash or python
    note    against which version the options were checked, and what else the line needs
    """

    server: str
    text: str
    language: str
    note: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A model as servers take it: a folder or a hub name, and its revision."""

    name: str
    revision: str | None

    @classmethod
    def of(cls, place: str) -> _Place:
        found = hub_name(place)
        return cls(str(as_path(place)), None) if found is None else cls(found.repo, found.revision)


def server_lines(settings: Settings, gamma: int, foreign: bool = False) -> tuple[ServerLine, ...]:
    """vLLM, SGLang, transformers and llama.cpp with the pair and the drafting method of the settings.

    gamma    draft tokens of a round; 0 for the target alone, which needs no line
    foreign  whether the draft has another tokenizer than the target, which SGLang and llama.cpp do not take

    Empty for a drafting method, or a rule, that these servers do not have.
    """
    if gamma < 1 or settings.proposer not in CAUSAL or settings.rule != RULE:
        return ()
    places = _places(settings.pair)
    target, draft = _Place.of(places.target), _Place.of(places.draft)
    if settings.proposer == "ngram":
        return _copied(target, gamma, settings)
    rounded = " The draft runs unrounded there: rounding it to 8 bits is this program's own." if places.rounded else ""
    if foreign:
        return _foreign(target, draft, gamma, settings, rounded)
    return (
        ServerLine("vLLM", _vllm(target, _drafting(draft, gamma)), "bash", f"Options of vLLM 0.32.{rounded}"),
        ServerLine(
            "SGLang", _sglang(target, draft, gamma), "bash", f"Options by SGLang's documentation of version 0.5.{rounded}"
        ),
        ServerLine(
            "transformers", _transformers(target, draft, gamma, settings), "python", f"Run with transformers 5.23.{rounded}"
        ),
        ServerLine(
            "llama.cpp",
            _command(
                *("llama-server", "--model", "target.gguf", "--model-draft", "draft.gguf"),
                *("--spec-type", "draft-simple", "--spec-draft-n-max", str(gamma)),
            ),
            "bash",
            "Options of llama-server 0.5.0-dev; without --spec-type it loads the draft and does not use it. Both models as GGUF files, which "
            f"convert_hf_to_gguf.py of llama.cpp writes.{rounded}",
        ),
    )


def _places(pair: str) -> Places:
    """Of a pair of the catalog: folders below the project's own. Of models that were handed over in Python: names to be replaced."""
    if (entry := PAIRS.get(pair)) is None:
        return places_of(pair) or Places("TARGET", "DRAFT")
    return Places(_short(entry.target), _short(entry.draft))


def _short(place: str) -> str:
    """A folder that comes with the project from the project's own folder on: a page says nothing of where a server has it."""
    path = Path(place)
    return str(path.relative_to(ASSETS.parent)) if path.is_relative_to(ASSETS.parent) else place


def _drafting(draft: _Place, gamma: int) -> dict[str, object]:
    found: dict[str, object] = {"method": "draft_model", "model": draft.name, "num_speculative_tokens": gamma}
    return found | ({"revision": draft.revision} if draft.revision else {})


def _vllm(target: _Place, drafting: dict[str, object]) -> str:
    revision = ["--revision", target.revision] if target.revision else []
    return _command("vllm", "serve", target.name, *revision, "--speculative-config", json.dumps(drafting))


def _sglang(target: _Place, draft: _Place, gamma: int) -> str:
    """A chain: one candidate a step. What SGLang counts as draft tokens includes the token that the round begins with."""
    return _command(
        *("python", "-m", "sglang.launch_server", "--model-path", target.name),
        *(["--revision", target.revision] if target.revision else []),
        *("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", draft.name),
        *(["--speculative-draft-model-revision", draft.revision] if draft.revision else []),
        *("--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(gamma + 1)),
    )


def _foreign(target: _Place, draft: _Place, gamma: int, settings: Settings, rounded: str) -> tuple[ServerLine, ...]:
    """The servers that take a draft with another tokenizer."""
    drafting = _drafting(draft, gamma) | {"use_heterogeneous_vocab": True}
    alike = "It takes two models that predict equally many tokens for models with one tokenizer, and refuses the second."
    return (
        ServerLine(
            "vLLM",
            _vllm(target, drafting),
            "bash",
            f"Options of vLLM 0.32, which drafts the likeliest token that both have. {ONE_TOKENIZER}{rounded}",
        ),
        ServerLine(
            "transformers",
            _transformers(target, draft, gamma, settings, foreign=True),
            "python",
            f"Run with transformers 5.23. {alike}{rounded}",
        ),
    )


def _transformers(target: _Place, draft: _Place, gamma: int, settings: Settings, foreign: bool = False) -> str:
    opened = "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
    for name, place in (("model", target), ("draft", draft)):
        opened += f"{name} = AutoModelForCausalLM.from_pretrained({_arguments(place)})\n"
    second = f"its_tokenizer = AutoTokenizer.from_pretrained({_arguments(draft)})\n" if foreign else ""
    both = "tokenizer=tokenizer, assistant_tokenizer=its_tokenizer, " if foreign else ""
    return (
        f"{opened}tokenizer = AutoTokenizer.from_pretrained({_arguments(target)})\n{second}"
        f"draft.generation_config.num_assistant_tokens = {gamma}\n"
        'draft.generation_config.num_assistant_tokens_schedule = "constant"\n'
        "draft.generation_config.assistant_confidence_threshold = 0.0\n"
        f"{_ASKED}text = model.generate(**prompt, assistant_model=draft, {both}{_sampling(settings)})\n{_SHOWN}"
    )


_ASKED = 'prompt = tokenizer("Once upon a time", return_tensors="pt")\n'
_SHOWN = "print(tokenizer.decode(text[0]))"


def _sampling(settings: Settings) -> str:
    """All of it, because what is left out comes from the model's own generation_config, and top_k from the library."""
    if settings.temperature == 0.0:
        return "do_sample=False, max_new_tokens=64"
    cuts = f"top_k={settings.top_k or 0}, top_p={settings.top_p or 1.0:g}, min_p={settings.min_p or 0.0:g}"
    return f"do_sample=True, temperature={settings.temperature:g}, {cuts}, max_new_tokens=64"


def _copied(target: _Place, gamma: int, settings: Settings) -> tuple[ServerLine, ...]:
    """Draft tokens that are copied from the text so far."""
    drafting: dict[str, object] = {"method": "ngram", "num_speculative_tokens": gamma, "prompt_lookup_max": 4}
    return (
        ServerLine("vLLM", _vllm(target, drafting), "bash", "Options of vLLM 0.32."),
        ServerLine(
            "transformers",
            "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
            f"model = AutoModelForCausalLM.from_pretrained({_arguments(target)})\n"
            f"tokenizer = AutoTokenizer.from_pretrained({_arguments(target)})\n"
            f"{_ASKED}text = model.generate(**prompt, prompt_lookup_num_tokens={gamma}, {_sampling(settings)})\n{_SHOWN}",
            "python",
            "Run with transformers 5.23.",
        ),
    )


def _arguments(place: _Place) -> str:
    return repr(place.name) + (f", revision={place.revision!r}" if place.revision else "")


def _command(*words: str) -> str:
    return shlex.join(words)
