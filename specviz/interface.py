"""A pair of models in Python: decode with it, trace its rounds, verify that it is exact, plan its speed.

    pair = specviz.Pair.from_pretrained("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B")
    print(pair.decode("Once upon a time", gamma=4, max_new_tokens=64).text)

Every method is a pure function of the pair and its arguments: the keyword arguments of ``PairOptions``, a ``Settings``, or both,
where the keyword arguments win. A ``Settings`` whose ``max_new_tokens`` is the default of 32 takes the method's own default. Values
without an effect raise SettingsError, as on the command line. Results are records: ``to_record`` gives what JSON holds, ``save`` writes it.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from specviz.decoding.method_checks import check_methods, refuse_unread_cuts
from specviz.decoding.run import record_run
from specviz.decoding.samples import Coverage
from specviz.errors import ModelError, SettingsError, suggest
from specviz.evidence.decoder import build_decoder, resolve_name, with_mistake
from specviz.evidence.sampling.effort import DEFAULT_SAMPLING, SAMPLE_TOKENS, refuse_unused_sampling
from specviz.evidence.sampling.sampling_plan import SamplingPlan
from specviz.evidence.sampling.session import Session
from specviz.export.report import write_certificate
from specviz.jobs.tasks import allow_paths
from specviz.models.pairs.catalog import PAIRS
from specviz.models.pairs.loading import LoadedPair, build_pair, load_pair
from specviz.models.pairs.names import PairPlaces, check_place, describe_draftable
from specviz.models.pairs.shared_weights import share_weights
from specviz.pair_options import PairOptions
from specviz.progress import ProgressCallback, ignore_progress
from specviz.proposers.trees.node_count import choose_node_count
from specviz.records import write
from specviz.settings import DEFAULTS, DRAFTING_FIELDS, FOREIGN_NAMES, GAMMA_MAX, RENAMED, Settings, check_whole
from specviz.speed.prediction.assessment import assess_pair
from specviz.speed.prediction.plan_effort import DEFAULT_EFFORT, PlanEffort
from specviz.speed.prediction.planning import make_plan
from specviz.speed.prediction.preflight import Preflight
from specviz.speed.records.assessment import DEFAULT_ASSESSMENT, Assessment, AssessmentEffort
from specviz.speed.records.cost_model import find_cost_model
from specviz.speed.records.plan import PLAN_TEXT, PlanRow, SpeedPlan, load_plan_text
from specviz.threads import preserve_thread_count
from specviz.trace import Trace

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PLANNED = 96  # tokens of a continuation
BARS = 12  # largest tokens of a distribution that a trace keeps


@dataclass(frozen=True, slots=True)
class Decoding:
    """One text. ``trace`` has its rounds, with the decision about every draft token."""

    trace: Trace

    @property
    def text(self) -> str:
        """The continuation, without the prompt; bytes that form no character are U+FFFD."""
        return self.trace.text

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids of the continuation."""
        return self.trace.output_ids

    @property
    def finish_reason(self) -> str:
        """Why the text ends: ``stop`` (a token that ends a text), ``length`` (``max_new_tokens``) or ``context`` (the target's is full)."""
        return self.trace.finish_reason

    @property
    def tokens_per_pass(self) -> float:
        """Mean number of tokens that a pass of the target gave, from 1 to gamma + 1."""
        return self.trace.tokens_per_pass

    def __str__(self) -> str:
        return self.text

    def to_record(self) -> dict[str, Any]:
        """JSON-ready: the trace."""
        return self.trace.to_record()

    def save(self, path: str | PathLike[str], over: bool = False) -> Path:
        """Write the trace as JSON, which ``Trace.from_json`` reads. ``over`` allows replacing a file; else SettingsError is raised."""
        return _save_text(path, self.trace.to_json(indent=1), over)


@dataclass(frozen=True, slots=True)
class Verification:
    """What samples of the decoder showed. ``record`` is the report, whose JSON is a certificate."""

    record: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """``consistent``, ``rejected``, ``too few samples``, or ``nothing tested`` where no draft token was proposed."""
        return self.record["verdict"]

    @property
    def consistent(self) -> bool:
        """Whether the samples follow the target's distribution, as far as their number can tell."""
        return self.verdict == "consistent"

    @property
    def detectable_tv(self) -> float:
        """Smallest total variation that the samples would have shown, in [0, 1]."""
        return self.record["detectable_tv"]

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self.record["n"]

    @property
    def coverage(self) -> Coverage | None:
        """What the samples exercised: draft tokens proposed, accepted and rejected, residual and bonus tokens, cache rollbacks."""
        exercised = self.record.get("exercised")
        return None if exercised is None else Coverage.from_record(exercised)

    def __str__(self) -> str:
        return self.record["sentence"]

    def to_record(self) -> dict[str, Any]:
        """JSON-ready: what ``specviz check`` reads."""
        return dict(self.record)

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the certificate (report.json, for ``specviz check``), tables and figures to a folder, all of it or nothing.

        Without Plotly and matplotlib (``pip install "specviz[app]"``) it warns, and leaves the figures out. Raises SettingsError
        for a folder that holds anything but an earlier export.
        """
        place = Path(folder)
        if sentence := write_certificate(place, self.record):
            warnings.warn(sentence, stacklevel=2)
        return place


@dataclass(frozen=True, slots=True)
class Plan:
    """What speculation would gain on texts of yours. ``plan`` has tokens per pass and speed for each gamma, with intervals."""

    plan: SpeedPlan

    @property
    def verdict(self) -> str:
        """``speculate``, ``do not speculate``, or ``no verdict``."""
        return self.plan.verdict

    @property
    def best_gamma(self) -> int | None:
        """The fastest gamma, 0 for the target alone; None: no costs were measured."""
        return None if self.plan.best is None else int(self.plan.best.value)

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """One for each gamma, ascending."""
        return self.plan.rows

    def __str__(self) -> str:
        return self.plan.in_words

    def to_record(self) -> dict[str, Any]:
        """JSON-ready: the plan."""
        return json.loads(self.plan.to_json())

    def save(self, path: str | PathLike[str], over: bool = False) -> Path:
        """Write the plan as JSON, which ``SpeedPlan.from_json`` reads. Raises as ``Decoding.save``."""
        return _save_text(path, self.plan.to_json(), over)


class Pair:
    """A target and a draft. Immutable; methods may be called from several threads, each of which opens caches of its own."""

    __slots__ = ("_pair", "_settings")

    def __init__(self, loaded: LoadedPair, settings: Settings | None = None):
        """Use ``from_pretrained`` or ``from_models``. ``settings`` are those that every call begins with."""
        self._pair, self._settings = loaded, settings or Settings(pair=loaded.name)

    @classmethod
    def from_pretrained(
        cls,
        target: str | PathLike[str],
        draft: str | PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        draft_bits: Literal[8] | None = None,
    ) -> Pair:
        """Load a pair. The tokenizers may differ; the draft then proposes the tokens that both have.

        Args:
            target: A folder, a hub name (owner/model, or owner/model@revision), or alone a name of the catalog, such as ``storybook``.
            draft: A folder or a hub name.
            device: ``auto`` (cuda, then mps, then cpu), ``cuda``, ``mps`` or ``cpu``.
            dtype: ``auto`` (bfloat16 on cuda, else float32), ``float32``, ``bfloat16``, ``float16`` or ``float64``.
            draft_bits: 8 rounds the draft's weights to 8 bits after reading.

        Raises:
            ModelError: The pair cannot be found, loaded or used. Nothing half loaded is kept.
        """
        if draft_bits not in (None, 8):
            raise SettingsError("draft_bits", draft_bits, "8, or left out")
        if draft is None:
            if str(target) not in PAIRS:
                raise ModelError(f"There is no pair {str(target)!r}. Known pairs: {', '.join(PAIRS)}; or name a draft as well.")
            if draft_bits is not None:
                raise SettingsError("draft_bits", draft_bits, "left out for a pair of the catalog, which brings its own")
            name = str(target)
        else:
            for role, place in (("target", target), ("draft", draft)):
                check_place(role, str(place))
            name = PairPlaces(str(target), str(draft), draft_bits == 8).name
        return cls(load_pair(name, device, dtype), Settings(pair=name, device=device, dtype=dtype))

    @classmethod
    def from_models(
        cls,
        target: PreTrainedModel,
        draft: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        draft_tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        name: str = "own",
    ) -> Pair:
        """Make a pair of loaded transformers models. They are not changed: the pair reads copies in eval mode that share their weights.

        After further training make a new pair: some values are computed once from the weights.

        Args:
            target: The model whose distribution is kept.
            draft: The model that drafts.
            tokenizer: The target's.
            draft_tokenizer: The draft's, if it has another one; the draft then proposes the tokens that both have.
            name: Name of the pair in records.

        Raises:
            UnsupportedModelError: The family of a model was not tested.
            ModelError: The models do not fit each other, or lie on two devices.
        """
        if target.device != draft.device:
            raise ModelError(f"The target lies on {target.device} and the draft on {draft.device}. Move both to one device.")
        return cls(build_pair(share_weights(target), share_weights(draft), tokenizer, name, draft_tokenizer=draft_tokenizer))

    @property
    def description(self) -> dict[str, Any]:
        """Names, sizes, device and dtype, JSON-ready; where the tokenizers differ, how many tokens both have."""
        return self._pair.describe()

    def __repr__(self) -> str:
        target, draft = (f"{one['family']}, {one['parameters']:,} parameters" for one in self._models)
        said = f"<specviz.Pair {self._pair.name}: target {target}; draft {draft}"
        return f"{said}. {describe_draftable(self.description)}>" if describe_draftable(self.description) else f"{said}>"

    @property
    def _models(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.description["target"], self.description["draft"]

    def decode(
        self,
        prompt: str = "",
        settings: Settings | None = None,
        *,
        on_progress: ProgressCallback = ignore_progress,
        **options: Unpack[PairOptions],
    ) -> Decoding:
        """Write one text.

        Args:
            prompt: Text to continue; if it is empty, the one of ``settings``, or a start token.
            settings: Settings of the run. Pair, device and dtype are those of this pair.
            on_progress: Called after each round.
            **options: Fields of ``PairOptions``, which override ``settings``.

        Raises:
            SettingsError: A value is out of range, a name is unknown, or the prompt does not fit.
        """
        return Decoding(self._run(prompt, settings, 0, on_progress, options, self.decode))

    def trace(
        self,
        prompt: str = "",
        settings: Settings | None = None,
        *,
        bars: int = BARS,
        on_progress: ProgressCallback = ignore_progress,
        **options: Unpack[PairOptions],
    ) -> Trace:
        """As ``decode``, but keep the ``bars`` most probable tokens of both distributions at every position, for figures."""
        check_whole("bars", bars, 1, 10**6, "a whole number from 1")
        return self._run(prompt, settings, bars, on_progress, options, self.trace)

    @preserve_thread_count()
    def verify(
        self,
        prompt: str = "",
        settings: Settings | None = None,
        *,
        samples: int = DEFAULT_SAMPLING.samples,
        min_tv: float = DEFAULT_SAMPLING.min_tv,
        mode: Literal["both", "shared-distributions", "engine"] = "both",
        seconds: float = DEFAULT_SAMPLING.seconds,
        decoder: str = "speculative",
        on_progress: ProgressCallback = ignore_progress,
        **options: Unpack[PairOptions],
    ) -> Verification:
        """Draw samples and test whether they follow the target's distribution. ``max_new_tokens`` is 1 to 4 tokens of a sample, 3 by default.

        The same seed gives the same samples again.

        Args:
            prompt: As in ``decode``.
            settings: As in ``decode``.
            samples: Number of samples on shared distributions, and most from the engine, 1 to 20,000,000.
            min_tv: Total variation that the tests must detect, above 0 and at most 1.
            mode: ``shared-distributions`` (samples share each computed distribution), ``engine`` (the decoder with its caches), or both.
            seconds: Time for samples from the engine; up to twice as much where fewer than 2,000 fit.
            decoder: ``speculative``, ``target``, ``assisted`` (of transformers), or the id of a published mistake, such as ``R5``.
            on_progress: Called with the share that is done.
            **options: As in ``decode``.

        Raises:
            SettingsError: A value is out of range.
            EvidenceError: Nothing can be tested.
        """
        plan = SamplingPlan(mode, samples, min_tv, seconds)
        settings = self._build_settings(self.verify, prompt, settings, options, SAMPLE_TOKENS.default)
        SAMPLE_TOKENS.check(settings.max_new_tokens)
        name = resolve_name(decoder)
        refuse_unused_sampling(name, settings, plan)
        made = build_decoder(name, self._pair, with_mistake(name, settings))
        session = Session(made, plan)
        begun: list[str] = []

        def begin_stage(doing: str) -> ProgressCallback:
            begun.append(doing)
            before, stages = len(begun) - 1, 2 * len(session.modes)
            return lambda share, _="": on_progress(min(1.0, (before + share) / stages), doing)

        return Verification(session.run(begin_stage))

    @preserve_thread_count()
    def plan(
        self,
        texts: str | Sequence[str],
        settings: Settings | None = None,
        *,
        gammas: Iterable[int] = range(1, 9),
        continuations: int = DEFAULT_EFFORT.continuations,
        opening: int = DEFAULT_EFFORT.opening,
        probes: int = DEFAULT_EFFORT.probes,
        check: bool = False,
        runs: int = DEFAULT_EFFORT.runs,
        seconds: int = DEFAULT_EFFORT.seconds,
        costs: str = "",
        name: str = "",
        on_progress: ProgressCallback = ignore_progress,
        **options: Unpack[PairOptions],
    ) -> Plan:
        """Predict tokens per target pass, speed and the best gamma on your texts, before anything is decoded speculatively.

        Args:
            texts: One text or several, like those that will be written.
            settings: As in ``decode``; its gamma is not read.
            gammas: Draft lengths to compare, each from 1 to 16.
            continuations: Number of texts that the target writes, each from another place, 2 to 4096.
            opening: Tokens of your text before each, 1 to 4096; ``max_new_tokens`` tokens follow, 96 by default.
            probes: Runs of the probes that time a round, 2 to 1000; 0: tokens only.
            check: Whether to measure as well, under other seeds.
            runs: Runs of the clock, if measured.
            seconds: Time that the plan may take, 10 to 86,400; where it would take longer, less is done. A plan that is checked is never cut.
            costs: Another machine whose costs count instead of this one's: the name of a shipped cost model, such as ``h200-8b``,
                or a file.
            name: Name of the texts in the record.
            on_progress: Called with the share that is done.
            **options: As in ``decode``.

        Raises:
            SettingsError: The texts are too short, a plan does not cover the settings (trees, adaptive lengths), or no cost model has
                this name.
            TraceError: The file holds no cost model.
        """
        wanted = _read_gammas(gammas)
        if "gamma" in options:
            allowed = "left out of a plan, which compares the draft lengths of gammas"
            raise SettingsError("gamma", options["gamma"], allowed)
        effort = PlanEffort(continuations, opening, probes, check, runs, seconds=seconds)
        settings = replace(self._build_settings(self.plan, "", settings, options, PLANNED), gamma=wanted[-1])
        text = _join_texts(texts)
        model = find_cost_model(costs) if costs else None
        return Plan(make_plan(self._pair, settings, text, wanted, effort, name, on_progress, cost_model=model))

    @preserve_thread_count()
    def assess(
        self,
        texts: str = "",
        prompt: str = "",
        settings: Settings | None = None,
        *,
        seconds: int = DEFAULT_ASSESSMENT.seconds,
        name: str = "",
        on_progress: ProgressCallback = ignore_progress,
        show: Callable[[Assessment], None] = ignore_progress,
        preflight: Preflight | None = None,
        **options: Unpack[PairOptions],
    ) -> Assessment:
        """Look at the pair for about two minutes: is decoding exact, does speculation pay here, which other method would pay more.

        Each answer is a short form of ``verify``, ``plan`` and ``specviz bench``, with what it can detect or its interval.

        Args:
            texts: A text like those that will be written, at least 80 tokens; if it is empty, one that comes with the project.
            prompt: Of the samples; if it is empty, one that comes with the project.
            settings: As in ``decode``. Drafting methods and draft lengths are chosen here.
            seconds: How long it may take, about, 20 to 3600.
            name: Name of the text in the record.
            on_progress: Called with the share that is done.
            show: Called with what is known after each answer.
            preflight: What was found out before the models were loaded, for the record.
            **options: As in ``decode``.

        Raises:
            SettingsError: A value is out of range, or the text is too short.
        """
        effort = AssessmentEffort(seconds)
        for chosen in ("gamma", "max_new_tokens", *DRAFTING_FIELDS):
            if chosen in options:
                allowed = "left out of a first look, which chooses it"
                raise SettingsError(chosen.replace("_", "-"), options.get(chosen), allowed)
        settings = self._build_settings(self.assess, prompt, settings, options)
        text, name = (texts, name) if texts else (load_plan_text(), f"{PLAN_TEXT}.txt")
        return assess_pair(self._pair, settings, text, effort, name, on_progress, show, preflight)

    def _build_settings(
        self,
        call: Callable[..., Any],
        prompt: str,
        base_settings: Settings | None,
        options: Mapping[str, Any],
        max_new_tokens: int = DEFAULTS.max_new_tokens,
    ) -> Settings:
        """Settings of a call: the given ones or the defaults, with the options over them.

        max_new_tokens: the call's default, which takes the place of that of ``Settings``.

        Raises SettingsError for what a command refuses: an unknown name, or a value that has no effect.
        """
        for name in options:
            _check_name(name, call)
        if base_settings is not None and not isinstance(base_settings, Settings):
            raise SettingsError("settings", base_settings, "a specviz.Settings; options are keyword arguments, such as gamma=4")
        own = {name: getattr(self._settings, name) for name in ("pair", "device", "dtype")}
        base = self._settings if base_settings is None else replace(base_settings, **own)
        if base_settings is None or base.max_new_tokens == DEFAULTS.max_new_tokens:
            base = replace(base, max_new_tokens=max_new_tokens)
        changes = {**options, "prompt": prompt or base.prompt}
        settings = choose_node_count(replace(base, **changes))
        refuse_unread_cuts(settings)
        check_methods(settings)
        allow_paths(settings)
        return settings

    @preserve_thread_count()
    def _run(
        self,
        prompt: str,
        base_settings: Settings | None,
        bars: int,
        on_progress: ProgressCallback,
        options: Mapping[str, Any],
        call: Callable[..., Any],
    ) -> Trace:
        settings, made = self._build_settings(call, prompt, base_settings, options), 0

        def report_progress(round_: Any) -> None:
            nonlocal made
            made += len(round_.committed)
            on_progress(min(1.0, made / settings.max_new_tokens), f"{made} of at most {settings.max_new_tokens} tokens")

        return record_run(self._pair, settings, bars=bars, on_round=report_progress)


def _check_name(name: str, call: Callable[..., Any]) -> None:
    """Raise SettingsError for a keyword argument that a method of ``Pair`` does not have; old names are answered with the present one."""
    if name in PairOptions.__annotations__:
        return
    own = [one.name for one in inspect.signature(call).parameters.values() if one.kind is one.KEYWORD_ONLY]
    known = (*PairOptions.__annotations__, *own)
    if RENAMED.get(name) in known:
        raise SettingsError("option", name, RENAMED[name], f"The option {name} is called {RENAMED[name]} now.")
    if FOREIGN_NAMES.get(name) in known:
        own_name = FOREIGN_NAMES[name]
        raise SettingsError("option", name, own_name, f"There is no option {name}; here it is {own_name}.")
    allowed = f"one of {', '.join(known)}{suggest(name, known)}"
    raise SettingsError("option", name, allowed, f"There is no option {name}. It must be {allowed}.")


def _read_gammas(gammas: Iterable[int]) -> tuple[int, ...]:
    """Draft lengths, ascending, each once. Raises SettingsError."""
    allowed = f"whole numbers from 1 to {GAMMA_MAX}"
    if isinstance(gammas, int):
        raise SettingsError("gammas", gammas, f"{allowed}, such as ({gammas},)")
    if isinstance(gammas, str) or not isinstance(gammas, Iterable):
        raise SettingsError("gammas", gammas, f"{allowed}, such as range(1, 9)")
    wanted = tuple(gammas)
    for gamma in wanted or (0,):
        check_whole("gammas", gamma, 1, GAMMA_MAX, allowed)
    return tuple(sorted(set(wanted)))


def _join_texts(texts: str | Sequence[str]) -> str:
    """One text, or several with a blank line between them. Raises SettingsError."""
    parts = [texts] if isinstance(texts, str) else list(texts) if isinstance(texts, Iterable) else [texts]
    if not all(isinstance(one, str) for one in parts):
        raise SettingsError("texts", texts, "a text or several")
    return "\n\n".join(parts)


def _save_text(path: str | PathLike[str], content: str, over: bool) -> Path:
    place = Path(path)
    write(place, content + "\n", over, "path")
    return place
