"""The pictures of the three points of Summary, from the shipped records: bars as plain records, and their HTML."""

from __future__ import annotations

from html import escape

from specviz.records import ASSETS, read_file
from specviz.speed.records import headline, methods
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.web.one_round.words import GPU
from specviz.web.one_token.payload import FIRST_PRESET, GRID, PRESETS, TEXTS
from specviz.web.questions.figures import Bar, BarPicture, build_comparison, build_token_bars

DRAFTED = 3  # draft tokens of the round whose pass is priced, as in the recorded one of One round
HEAT = "1"  # temperature of the speeds


def build_pictures() -> dict[str, BarPicture]:
    """The picture of each point, by its key in assets/texts/summary.toml. Raises TraceError where a record is missing or damaged."""
    return {"draft": _compare_passes(), "rule": _add_up_tokens(), "speed": _compare_speeds()}


def _compare_passes() -> BarPicture:
    """A target pass over the tokens of a round against as many passes over one token."""
    model = load_cost_models()[GPU]
    _, size = model.title.rsplit(" of ", 1)
    cost = model.compute_pass(DRAFTED + 1) / model.passes[1]
    n = DRAFTED + 1
    values = {f"{n} passes": (float(n), f"{n}"), f"1 pass over {n}": (cost, f"{cost:.2f}")}
    return build_comparison(
        f"time for {n} tokens, one target pass over a token = 1 ({size} model, {model.title.partition(',')[0]})",
        values,
        roles=dict.fromkeys(values, "p"),
    )


def _add_up_tokens() -> BarPicture:
    """Accepted and replaced add up to p, for the distributions that Why it is exact begins with."""
    preset = PRESETS[FIRST_PRESET]
    pairs = [(p / GRID, min(p, q) / GRID) for p, q in zip(preset.p, preset.q, strict=True)]
    bars = [[Bar((("accepted", both), ("residual", p - both)), f"{p:.2f}")] for p, both in pairs]
    return build_token_bars("how often each token comes out", TEXTS["words"][: len(bars)], bars, ())


def _compare_speeds() -> BarPicture:
    """The shipped pair with one text and with many, and the worst draft, over target-only sampling."""
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    compared = read_file(ASSETS / "traces" / "methods.json", methods.load_comparisons)[HEAT]
    rows = batches.rows[-1]
    gamma, many = batches.find_best(f"{batches.settings.pair} {HEAT}", rows)
    plain, bad = (compared.row(key) for key in ("target", "adversarial"))
    assert plain is not None and bad is not None and plain.ms is not None and bad.ms is not None, "both are recorded"
    one, worst = headline.FACTORS[HEAT][0], plain.ms.value / bad.ms.value
    single, batch, worst_draft = "one text", f"{rows} texts", "worst draft"
    values = {name: (value, f"{value:.2f}") for name, value in ((single, one), (batch, many.value), (worst_draft, worst))}
    drafted = {single: headline.GAMMA, batch: gamma, worst_draft: compared.settings.gamma}
    title = (
        f"speed, no draft = 1 (Storybook, temperature {HEAT}, {headline.MACHINE}). "
        "One text: the benchmark’s median over its prompts; the start page’s race has one prompt"
    )
    return build_comparison(
        title,
        values,
        line=(1.0, "no draft"),
        details={name: f"{count} draft token{'s' * (count > 1)}" for name, count in drafted.items()},
    )


def build_picture_html(picture: BarPicture, key: str = "") -> str:
    """Build bars under each other on one scale, each with its name and its number; ``key``: HTML of a legend."""
    most = picture.build_payload()["most"]
    lines = {}
    if picture.line:
        at, words = picture.line
        left = f"<u style='--at:{at / most:.4f}'>"
        lines = {n: f"{left}{f'<s>{escape(words)}</s>' if n == 0 else ''}</u>" for n in range(len(picture.groups))}
    rows = "".join(
        f"<p><span>{escape(group.name)}{f'<small>{escape(group.detail)}</small>' if group.detail else ''}</span><i>"
        + "".join(f"<em class='{role}' style='width:{100.0 * value / most:.2f}%'></em>" for role, value in bar.parts)
        + f"<b>{escape(bar.label)}</b>{lines.get(n, '')}</i></p>"
        for n, group in enumerate(picture.groups)
        for bar in group.bars
    )
    return f"<figure><div{' class=lined' if picture.line else ''}>{rows}</div><figcaption>{escape(picture.title[:1].upper() + picture.title[1:])}</figcaption>{key}</figure>"
