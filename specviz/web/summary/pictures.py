"""The pictures of the three points of Summary, from the shipped records: three bars each, as plain records, and their HTML."""

from __future__ import annotations

from html import escape

from specviz.records import ASSETS, read_file
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.web.one_round.words import GPU
from specviz.web.one_token.payload import FIRST_PRESET, GRID, PRESETS, TEXTS
from specviz.web.questions.figures import Bar, BarGroup, BarPicture, build_token_bars
from specviz.web.speed.round_model import RoundModel, build_headline_model
from specviz.web.summary.words import SUMMARY

DRAFTED = 3  # draft tokens of the round whose pass is timed, as in the recorded one of One round
TOKENS = 2  # that have bars of their own; the others share one
HEAT = "1"  # temperature of the speeds
WORDS = SUMMARY["pictures"]


def build_pictures() -> dict[str, BarPicture]:
    """The picture of each point, by its key in assets/texts/summary.toml. Raises TraceError where a record is missing or damaged."""
    return {"draft": _compare_passes(), "rule": _add_up_tokens(), "speed": _compare_speeds()}


def _compare_passes() -> BarPicture:
    """The target's pass over the tokens of a round beside one over a single token, and drafting."""
    model = load_cost_models()[GPU]
    times = (
        ("one", "p", model.passes[1]),
        ("several", "p", model.compute_pass(DRAFTED + 1)),
        ("drafting", "q", DRAFTED * model.find_draft().step),
    )
    groups = tuple(
        BarGroup(WORDS[name].format(tokens=DRAFTED + 1, drafted=DRAFTED), (Bar(((role, ms),), f"{ms:.1f} ms"),))
        for name, role, ms in times
    )
    return BarPicture(WORDS["passes"].format(where=_name_large_model()), groups, (("p", WORDS["target"]), ("q", WORDS["draft"])))


def _add_up_tokens() -> BarPicture:
    """Accepted and replaced add up to p, for the distributions that Why it is exact begins with."""
    preset = PRESETS[FIRST_PRESET]
    parts = [(min(p, q) / GRID, max(0, p - q) / GRID) for p, q in zip(preset.p, preset.q, strict=True)]
    parts = [*parts[:TOKENS], (sum(both for both, _ in parts[TOKENS:]), sum(more for _, more in parts[TOKENS:]))]
    bars = [[Bar((("accepted", both), ("residual", more)), f"{both + more:.2f}")] for both, more in parts]
    names = [*TEXTS["words"][:TOKENS], WORDS["others"]]
    return build_token_bars(
        WORDS["tokens"], names, bars, (("accepted", WORDS["accepted"]), ("residual", WORDS["replaced"]), ("", WORDS["sum"]))
    )


def _compare_speeds() -> BarPicture:
    """The shipped pair with one text and with many, beside its target alone."""
    model, rows, many = _compute_batch_speed()
    speeds = (
        (WORDS["alone"], "plain", 1.0),
        (WORDS["single"], "strong", headline.get_speed(HEAT).value),
        (WORDS["many"].format(rows=rows), "strong", many),
    )
    groups = tuple(BarGroup(name, (Bar(((role, speed),), f"{speed:.2f}×"),)) for name, role, speed in speeds)
    legend = (("plain", WORDS["without"]), ("strong", WORDS["with"]))
    return BarPicture(WORDS["speeds"].format(accepted=f"{model.alpha:.0%}"), groups, legend)


def _compute_batch_speed() -> tuple[RoundModel, int, float]:
    """The model of How fast?, the most texts that were timed at once, and its speed with them."""
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    rows, model = batches.rows[-1], build_headline_model(batches)
    return model, rows, model.compute_speed(model.alpha, model.c, headline.load_headline().gamma, rows)


def _name_large_model() -> str:
    """The model and the machine of the passes."""
    card, _, size = load_cost_models()[GPU].title.rpartition(" of ")
    return f"{size} model on an {card.partition(',')[0]}"


def describe_conditions() -> str:
    """Where the numbers of all pictures are from. Raises KeyError where the costs of the large model are missing."""
    round_ = headline.get_round(HEAT)
    return WORDS["conditions"].format(
        where=_name_large_model(),
        machine=headline.MACHINE,
        temperature=HEAT,
        gamma=headline.load_headline().gamma,
        none=f"{1.0 / round_.cost:.2f}",  # a round commits one token if all are rejected
    )


def build_picture_html(picture: BarPicture) -> str:
    """Build bars under each other on one scale, each below its name and before its number, between their title and their key."""
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
    return f"<figure><figcaption>{escape(picture.title)}</figcaption><div>{rows}</div><small>{key}</small></figure>"
