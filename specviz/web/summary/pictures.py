"""The pictures of the three points of Summary, from the shipped records: bars as plain records, and their HTML."""

from __future__ import annotations

from html import escape

from specviz.records import ASSETS, read_file
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.cost_model import load_cost_models
from specviz.web.one_round.words import GPU
from specviz.web.one_token.payload import FIRST_PRESET, GRID, PRESETS, TEXTS
from specviz.web.questions.figures import Bar, BarGroup, BarPicture, build_comparison, build_token_bars
from specviz.web.speed.round_model import build_bench_model

DRAFTED = 3  # draft tokens of the round whose pass is priced, as in the recorded one of One round
HEAT = "1"  # temperature of the speeds
NUMBER = 0.15  # of the longest bar: about as wide as the number beside a bar
SHORT = 8  # letters of a name that stands before its bar; a longer one stands over it


def build_pictures() -> dict[str, BarPicture]:
    """The picture of each point, by its key in assets/texts/summary.toml. Raises TraceError where a record is missing or damaged."""
    return {"draft": _compare_passes(), "rule": _add_up_tokens(), "speed": _compare_speeds()}


def _compare_passes() -> BarPicture:
    """Drafting and the target's pass over the tokens of a round against as many passes over one token."""
    model = load_cost_models()[GPU]
    cost, drafting = model.compute_pass(DRAFTED + 1) / model.passes[1], DRAFTED * model.find_draft().step / model.passes[1]
    n = DRAFTED + 1
    groups = (
        BarGroup(f"{n} passes, one token each", (Bar((("p", float(n)),), f"{n}"),)),
        BarGroup(
            f"{DRAFTED} draft steps, one pass over {n} tokens",
            (Bar((("q", drafting), ("p", cost)), f"{drafting:.2f} + {cost:.2f}"),),
        ),
    )
    return BarPicture(_name_large_model(), groups)


def _add_up_tokens() -> BarPicture:
    """Accepted and replaced add up to p, for the distributions that Why it is exact begins with."""
    preset = PRESETS[FIRST_PRESET]
    pairs = [(p / GRID, min(p, q) / GRID) for p, q in zip(preset.p, preset.q, strict=True)]
    bars = [[Bar((("accepted", both), ("residual", p - both)), f"{p:.2f}")] for p, both in pairs]
    return build_token_bars("how often each token comes out", TEXTS["words"][: len(bars)], bars, ())


def _compare_speeds() -> BarPicture:
    """The shipped pair with one text; with many; and with a draft whose tokens are all rejected: each of the others differs in one respect from the first."""
    batches = read_file(ASSETS / "traces" / "batches.json", BatchSpeeds.from_json)
    rows, gamma, model = batches.rows[-1], headline.GAMMA, build_bench_model(batches)
    many = model.compute_speed(model.alpha, model.c, gamma, rows)  # as How fast? has it
    one, lost = (
        headline.FACTORS[HEAT][0],
        1.0 / headline.load_bench_round(HEAT).cost,
    )  # a round commits one token if all are rejected
    values = {
        name: (value, f"{value:.2f}")
        for name, value in (
            ("1 text at once, good draft", one),
            (f"{rows} texts at once, good draft", many),
            ("1 text at once, useless draft", lost),
        )
    }
    return build_comparison("Tiny models on two CPU cores: speed", values, line=(1.0, "no draft"))


def _name_large_model() -> str:
    """The model and the machine of the passes, and their unit."""
    card, _, size = load_cost_models()[GPU].title.rpartition(" of ")
    return f"{size} model on an {card.partition(',')[0]}: time, in passes over one token"


def describe_conditions() -> str:
    """Where the numbers of all pictures are from. Raises KeyError where the costs of the large model are missing."""
    return (
        f"{_name_large_model().partition(':')[0]}: measured, random weights. Probabilities: the example of Why it is exact. Speed: Storybook on "
        f"{headline.MACHINE}, temperature {HEAT}, {headline.GAMMA} draft tokens a round; 1.00 is the speed without a draft. The first is measured, the others are "
        "computed from times of rounds; of a useless draft no token is accepted."
    )


def build_picture_html(picture: BarPicture, key: str = "") -> str:
    """Build bars under each other on one scale, each with its name and its number, without their title; ``key``: HTML of a legend."""
    most = picture.build_payload()["most"]
    lines = {}
    if picture.line:
        at, words = picture.line
        left = f"<u style='--at:{at / most:.4f}'>"
        lines = {n: f"{left}{f'<s>{escape(words)}</s>' if n == 0 else ''}</u>" for n in range(len(picture.groups))}
    rows = "".join(
        f"<p><span>{escape(group.name)}</span><i>"
        + "".join(f"<em class='{role}' style='width:{100.0 * value / most:.2f}%'></em>" for role, value in bar.parts)
        + f"<b{_clear_line(picture, bar, most)}>{escape(bar.label)}</b>{lines.get(n, '')}</i></p>"
        for n, group in enumerate(picture.groups)
        for bar in group.bars
    )
    looks = [
        *(["lined"] if picture.line else []),
        *(["long"] if any(len(group.name) > SHORT for group in picture.groups) else []),
    ]
    return f"<figure><div class='{' '.join(looks)}'>{rows}</div>{key}</figure>"


def _clear_line(picture: BarPicture, bar: Bar, most: float) -> str:
    """The style of a bar's number that the line would cross: it stands behind the line."""
    end = sum(value for _, value in bar.parts)
    if picture.line is None or not 0.0 <= picture.line[0] - end < NUMBER * most:
        return ""
    return f" style='margin-left:calc({100.0 * (picture.line[0] - end) / most:.2f}% + 0.5rem)'"
