"""The pictures of the three points of Summary, from the shipped records: three bars each, as plain records, and their HTML."""

from __future__ import annotations

from html import escape

from specviz.records import ASSETS, read_file
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.theory import compute_expected_tokens
from specviz.web.front.payload import build_large_model
from specviz.web.one_round.words import GPU
from specviz.web.one_token.payload import FIRST_PRESET, GRID, PRESETS, TEXTS
from specviz.web.questions.figures import Bar, BarGroup, BarPicture, build_token_bars
from specviz.web.speed.batch_figures import estimate_speeds
from specviz.web.speed.round_model import RoundModel, build_headline_model
from specviz.web.summary.words import SUMMARY, set_variables

TURN = 2  # place of the number of texts from which on little is gained
TOKENS = 2  # that have bars of their own; the others share one
HEAT = "1"  # temperature of the speeds
WORDS = SUMMARY["pictures"]


def build_pictures() -> dict[str, BarPicture]:
    """The picture of each point, by its key in assets/texts/summary.toml. Raises TraceError where a record is missing or damaged."""
    return {"draft": _compare_passes(), "rule": _add_up_tokens(), "speed": _compare_speeds()}


def build_conclusions() -> dict[str, str]:
    """What each picture says, by the same keys. Raises TraceError where a record is missing or damaged."""
    large, (model, batches) = _load_large_model(), _load_batch_model()
    texts = batches.rows[TURN]
    later = [one.value for one in estimate_speeds(model, batches)[TURN:]]
    return {
        "draft": WORDS["gain"].format(gain=f"{large.compute_speed(large.alpha, large.c, large.gamma):.2f}"),
        "rule": WORDS["sum"],
        "speed": WORDS["turn"].format(rows=texts, low=f"{min(later):.2f}", high=f"{max(later):.2f}"),
    }


def _compare_passes() -> BarPicture:
    """A token without a draft, a round of a large target at its best number of draft tokens, and each of that round's tokens."""
    large, unit = _load_large_model(), load_cost_models()[GPU].target_only
    parts, tokens = large.compute_parts(large.gamma, large.c), compute_expected_tokens(large.alpha, large.gamma)
    round_ = (("q", parts.gamma * parts.step * unit), ("p", parts.target_pass * unit), ("plain", parts.rest * unit))
    rows = (
        ("one", (("p", unit),)),
        ("several", round_),
        ("each", tuple((role, ms / tokens) for role, ms in round_)),
    )
    groups = tuple(
        BarGroup(
            WORDS[name].format(drafted=large.gamma, tokens=f"{tokens:.1f}"),
            (Bar(times, f"{sum(ms for _, ms in times):.2f} ms"),),
        )
        for name, times in rows
    )
    legend = (("q", WORDS["draft"]), ("p", WORDS["target"]), ("plain", WORDS["rest"]))
    return BarPicture(WORDS["passes"].format(where=_name_large_model()), groups, legend)


def _add_up_tokens() -> BarPicture:
    """Accepted and replaced add up to p, for the distributions that Why it is exact begins with."""
    preset = PRESETS[FIRST_PRESET]
    parts = [(min(p, q) / GRID, max(0, p - q) / GRID) for p, q in zip(preset.p, preset.q, strict=True)]
    parts = [*parts[:TOKENS], (sum(both for both, _ in parts[TOKENS:]), sum(more for _, more in parts[TOKENS:]))]
    bars = [[Bar((("accepted", both), ("residual", more)), f"{both + more:.2f}")] for both, more in parts]
    names = [*TEXTS["words"][:TOKENS], WORDS["others"]]
    return build_token_bars(WORDS["tokens"], names, bars, (("accepted", WORDS["accepted"]), ("residual", WORDS["replaced"])))


def _compare_speeds() -> BarPicture:
    """The shipped pair with one text and with many, beside its target alone."""
    model, batches = _load_batch_model()
    rows = batches.rows[-1]
    many = model.compute_speed(model.alpha, model.c, headline.load_headline().gamma, rows)
    speeds = (
        (WORDS["alone"], "p", 1.0),
        (WORDS["single"], "q", headline.get_speed(HEAT).value),
        (WORDS["many"].format(rows=rows), "q", many),
    )
    groups = tuple(BarGroup(name, (Bar(((role, speed),), f"{speed:.2f}×"),)) for name, role, speed in speeds)
    return BarPicture(WORDS["speeds"], groups, (("p", WORDS["without"]), ("q", WORDS["with"])))


def _load_batch_model() -> tuple[RoundModel, BatchSpeeds]:
    """The model of How fast?, and the times of several texts at once that it is made of."""
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    return build_headline_model(batches), batches


def _load_large_model() -> RoundModel:
    """The model of the large target whose speed the front page names. Raises KeyError where its costs are missing."""
    if (model := build_large_model()) is None:
        raise KeyError(GPU)
    return model


def _name_large_model() -> str:
    """The model and the machine of the passes."""
    card, _, size = load_cost_models()[GPU].title.rpartition(" of ")
    return f"{size} model on an {card.partition(',')[0]}"


def describe_conditions() -> str:
    """Where the numbers of all pictures are from. Raises KeyError where the costs of the large model are missing."""
    round_ = headline.get_round(HEAT)
    return WORDS["conditions"].format(
        where=_name_large_model(),
        accepted=f"{_load_large_model().alpha:.0%}",
        machine=headline.MACHINE,
        temperature=HEAT,
        gamma=headline.load_headline().gamma,
        none=f"{1.0 / round_.cost:.2f}",  # a round commits one token if all are rejected
    )


def build_picture_html(picture: BarPicture, conclusion: str) -> str:
    """Build bars under each other on one scale, each below its name and before its number, between their title and their key; below it what they say."""
    most = picture.build_payload()["most"]
    rows = "".join(
        f"<p><span>{escape(group.name)}</span><i>"
        + "".join(f"<em class='{role}' style='width:{100.0 * value / most:.2f}%'></em>" for role, value in bar.parts if value)
        + f"<b>{escape(bar.label)}</b></i></p>"
        for group in picture.groups
        for bar in group.bars
    )
    key = "".join(
        f"<span>{f'<em class={role}></em>' if role else ''}<span>{escape(words)}</span></span>" for role, words in picture.legend
    )
    return f"<figure><figcaption>{escape(picture.title)}</figcaption><div>{rows}</div><small>{key}</small><strong>{set_variables(conclusion)}</strong></figure>"
