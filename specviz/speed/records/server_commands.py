"""How a server is started with a pair and a draft length: lines to paste, each in the server's own option names. No torch.

The names were checked against the versions that each line's note gives. A server's answers are another matter: ``specviz verify
--sample-file`` tests them (docs/how-to/checking-your-server.md).
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.names import PairPlaces, expand_path, parse_hub_name, parse_pair_name
from specviz.records import ASSETS
from specviz.settings import Settings

SERVED_PROPOSERS = ("draft", "ngram")  # drafting methods that these servers have
SERVED_RULE = "token"  # their acceptance rule
ONE_TOKENIZER = "SGLang and llama.cpp take only a draft with the target's tokenizer."


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """One server.

    server  its name; text  a command, or lines of Python; language  of the text: bash or python
    note    against which version the options were checked, and what else the line needs
    """

    server: str
    text: str
    language: str
    note: str


@dataclass(frozen=True, slots=True)
class _ModelLocation:
    """A model as servers take it: a folder or a hub name, and its revision."""

    name: str
    revision: str | None

    @classmethod
    def of(cls, place: str) -> _ModelLocation:
        found = parse_hub_name(place)
        return cls(str(expand_path(place)), None) if found is None else cls(found.repo, found.revision)


def build_server_commands(settings: Settings, gamma: int, has_other_tokenizer: bool = False) -> tuple[ServerCommand, ...]:
    """vLLM, SGLang, transformers and llama.cpp with the pair and the drafting method of the settings.

    gamma    draft tokens of a round; 0 for the target alone, which needs no line
    foreign  whether the draft has another tokenizer than the target, which SGLang and llama.cpp do not take

    Empty for a drafting method, or a rule, that these servers do not have.
    """
    if gamma < 1 or settings.proposer not in SERVED_PROPOSERS or settings.rule != SERVED_RULE:
        return ()
    places = _locate_models(settings.pair)
    target, draft = _ModelLocation.of(places.target), _ModelLocation.of(places.draft)
    if settings.proposer == "ngram":
        return _build_ngram_commands(target, gamma, settings)
    rounded = " The draft runs unrounded there: rounding it to 8 bits is this program's own." if places.rounded else ""
    if has_other_tokenizer:
        return _build_mapped_commands(target, draft, gamma, settings, rounded)
    return (
        ServerCommand("vLLM", _format_vllm(target, _build_vllm_config(draft, gamma)), "bash", f"Options of vLLM 0.32.{rounded}"),
        ServerCommand(
            "SGLang", _format_sglang(target, draft, gamma), "bash", f"Options by SGLang's documentation of version 0.5.{rounded}"
        ),
        ServerCommand(
            "transformers",
            _format_transformers(target, draft, gamma, settings),
            "python",
            f"Run with transformers 5.23.{rounded}",
        ),
        ServerCommand(
            "llama.cpp",
            _join_command(
                *("llama-server", "--model", "target.gguf", "--model-draft", "draft.gguf"),
                *("--spec-type", "draft-simple", "--spec-draft-n-max", str(gamma)),
            ),
            "bash",
            "Options of llama-server 0.5.0-dev; without --spec-type it loads the draft and does not use it. Both models as GGUF files, which "
            f"convert_hf_to_gguf.py of llama.cpp writes.{rounded}",
        ),
    )


def _locate_models(pair: str) -> PairPlaces:
    """Of a pair of the catalog: folders below the project's own. Of models that were handed over in Python: names to be replaced."""
    if (entry := PAIRS.get(pair)) is None:
        return parse_pair_name(pair) or PairPlaces("TARGET", "DRAFT")
    return PairPlaces(_shorten(entry.target), _shorten(entry.draft))


def _shorten(place: str) -> str:
    """A folder that comes with the project from the project's own folder on: a page says nothing of where a server has it."""
    path = Path(place)
    return str(path.relative_to(ASSETS.parent)) if path.is_relative_to(ASSETS.parent) else place


def _build_vllm_config(draft: _ModelLocation, gamma: int) -> dict[str, object]:
    found: dict[str, object] = {"method": "draft_model", "model": draft.name, "num_speculative_tokens": gamma}
    return found | ({"revision": draft.revision} if draft.revision else {})


def _format_vllm(target: _ModelLocation, drafting: dict[str, object]) -> str:
    revision = ["--revision", target.revision] if target.revision else []
    return _join_command("vllm", "serve", target.name, *revision, "--speculative-config", json.dumps(drafting))


def _format_sglang(target: _ModelLocation, draft: _ModelLocation, gamma: int) -> str:
    """A chain: one candidate a step. What SGLang counts as draft tokens includes the token that the round begins with."""
    return _join_command(
        *("python", "-m", "sglang.launch_server", "--model-path", target.name),
        *(["--revision", target.revision] if target.revision else []),
        *("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", draft.name),
        *(["--speculative-draft-model-revision", draft.revision] if draft.revision else []),
        *("--speculative-num-steps", str(gamma), "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(gamma + 1)),
    )


def _build_mapped_commands(
    target: _ModelLocation, draft: _ModelLocation, gamma: int, settings: Settings, rounded: str
) -> tuple[ServerCommand, ...]:
    """The servers that take a draft with another tokenizer."""
    drafting = _build_vllm_config(draft, gamma) | {"use_heterogeneous_vocab": True}
    alike = "It takes two models that predict equally many tokens for models with one tokenizer, and refuses the second."
    return (
        ServerCommand(
            "vLLM",
            _format_vllm(target, drafting),
            "bash",
            f"Options of vLLM 0.32, which drafts the likeliest token that both have. {ONE_TOKENIZER}{rounded}",
        ),
        ServerCommand(
            "transformers",
            _format_transformers(target, draft, gamma, settings, foreign=True),
            "python",
            f"Run with transformers 5.23. {alike}{rounded}",
        ),
    )


def _format_transformers(
    target: _ModelLocation, draft: _ModelLocation, gamma: int, settings: Settings, foreign: bool = False
) -> str:
    opened = "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
    for name, place in (("model", target), ("draft", draft)):
        opened += f"{name} = AutoModelForCausalLM.from_pretrained({_format_location(place)})\n"
    second = f"its_tokenizer = AutoTokenizer.from_pretrained({_format_location(draft)})\n" if foreign else ""
    both = "tokenizer=tokenizer, assistant_tokenizer=its_tokenizer, " if foreign else ""
    return (
        f"{opened}tokenizer = AutoTokenizer.from_pretrained({_format_location(target)})\n{second}"
        f"draft.generation_config.num_assistant_tokens = {gamma}\n"
        'draft.generation_config.num_assistant_tokens_schedule = "constant"\n'
        "draft.generation_config.assistant_confidence_threshold = 0.0\n"
        f"{_PROMPT_LINE}text = model.generate(**prompt, assistant_model=draft, {both}{_format_sampling(settings)})\n{_PRINT_LINE}"
    )


_PROMPT_LINE = 'prompt = tokenizer("Once upon a time", return_tensors="pt")\n'
_PRINT_LINE = "print(tokenizer.decode(text[0]))"


def _format_sampling(settings: Settings) -> str:
    """All of it, because what is left out comes from the model's own generation_config, and top_k from the library."""
    if settings.temperature == 0.0:
        return "do_sample=False, max_new_tokens=64"
    cuts = f"top_k={settings.top_k or 0}, top_p={settings.top_p or 1.0:g}, min_p={settings.min_p or 0.0:g}"
    return f"do_sample=True, temperature={settings.temperature:g}, {cuts}, max_new_tokens=64"


def _build_ngram_commands(target: _ModelLocation, gamma: int, settings: Settings) -> tuple[ServerCommand, ...]:
    """Draft tokens that are copied from the text so far."""
    drafting: dict[str, object] = {"method": "ngram", "num_speculative_tokens": gamma, "prompt_lookup_max": 4}
    return (
        ServerCommand("vLLM", _format_vllm(target, drafting), "bash", "Options of vLLM 0.32."),
        ServerCommand(
            "transformers",
            "from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
            f"model = AutoModelForCausalLM.from_pretrained({_format_location(target)})\n"
            f"tokenizer = AutoTokenizer.from_pretrained({_format_location(target)})\n"
            f"{_PROMPT_LINE}text = model.generate(**prompt, prompt_lookup_num_tokens={gamma}, {_format_sampling(settings)})\n{_PRINT_LINE}",
            "python",
            "Run with transformers 5.23.",
        ),
    )


def _format_location(place: _ModelLocation) -> str:
    return repr(place.name) + (f", revision={place.revision!r}" if place.revision else "")


def _join_command(*words: str) -> str:
    return shlex.join(words)
