"""Content of each page of the static edition, from the records in assets/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from html import escape
from typing import Any
from urllib.parse import urlencode

from specviz.evidence.serving_setups import records
from specviz.figures.components import load_component
from specviz.figures.glossary import GLOSSARY
from specviz.records import ASSETS, load_toml, read_file
from specviz.settings import OLD_NAMES, Settings
from specviz.speed.records import methods, passage, plan
from specviz.speed.records.methods import MethodComparison, MethodRow
from specviz.speed.records.study import Study
from specviz.static_site.document import PAGES, SHARED, PageContent
from specviz.trace import Trace
from specviz.web.drafting_methods import method_figures as methods_words
from specviz.web.drafting_methods import rule_matrix
from specviz.web.drafting_methods.overview import build_overview
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.one_round.payload import build_round_payload, select_texts
from specviz.web.one_token.payload import build_token_payload
from specviz.web.questions import questions as asked
from specviz.web.serving_limits import setup_figures as setups_words
from specviz.web.speed import plan_figures as plan_words
from specviz.web.speed import study_figures as study_words
from specviz.web.whole_text import payload as text_payload
from specviz.web.whole_text import words as text_words

TRACES = ASSETS / "traces"
KEYS = [field.name for field in fields(Settings)] + list(OLD_NAMES)  # of a link that asks for a run
FIRST = {"distribution": "1", "row": "tree-wide"}  # what Drafting methods shows first
NOTICES = '<div id="notices" class="notices" role="status"></div>'


def build_contents(live: str | None) -> dict[str, PageContent]:
    """Content of each page by its name. live: address of the app, None where there is none."""
    return {
        "one_round": build_one_round(),
        "one_token": build_one_token(),
        "whole_text": build_whole_text(live),
        "questions": build_questions(),
        "drafting_methods": build_drafting_methods(),
        "evidence": build_evidence(),
        "glossary": build_glossary(),
        "sources": build_sources(),
    }


@cache
def load_opening() -> Trace:
    """The recorded run of the first page."""
    return read_file(TRACES / "opening.json", Trace.from_json)


def build_one_round(trace: Trace | None = None, shown: int = 0) -> PageContent:
    """The run of ``trace``, by default the recorded one, from its round ``shown`` on; the first is 0."""
    trace = trace or load_opening()
    data = {
        "payload": build_round_payload(trace, more=False), **select_texts(trace.settings.get("rule", "token")), "cursor": {"round": shown, "step": 0}, "mode": "recorded",
        "busy": None, "alone": True,
    }  # fmt: skip
    about = "One round of exact speculative decoding on real language models, step by step."
    body = f'<h1 class="unseen">One round</h1>\n{NOTICES}\n<div id="one_round" class="component"></div>'
    return PageContent(about, body, "one_round", _build_data("one_round", data=data, own=_build_query(trace.settings)))


def build_one_token() -> PageContent:
    """Why it is exact, for the first draft token of the recorded run."""
    data = {"payload": build_token_payload(load_opening()), "asked": 0}
    about = "Two distributions to drag: why the output of speculative decoding follows the target model exactly."
    body = '<h1 class="unseen">Why it is exact</h1>\n<div id="one_token" class="component"></div>'
    return PageContent(about, body, "one_token", _build_data("one_token", data=data))


def build_whole_text(live: str | None) -> PageContent:
    """The recorded passages, one for each temperature."""
    found = []
    for one in read_file(TRACES / "passage.json", passage.load_passages).values():
        measured = text_words.describe_measurement(one)
        found.append(
            {
                "temperature": one.settings.temperature,
                "own": {"temperature": f"{one.settings.temperature:g}"} | _build_query(one.settings.to_record()),
                "from": f"Recorded, {measured}",
                "conclusion": [text_words.describe_tokens(one), text_words.compare_texts(one)],
                "lanes": text_payload.build_lanes_payload(one, app=live),
                "forks": text_payload.build_forks_payload(one),
            }
        )
    links = "".join(
        f'<a href="?temperature={one["temperature"]:g}" data-temperature="{one["temperature"]:g}">temperature {one["temperature"]:g}</a>'
        for one in found
    )
    body = (
        f'<h1>Whole text</h1>\n<p>{escape(text_words.LEDE)}</p>\n<nav class="choices" aria-label="Recorded texts">{links}</nav>\n{NOTICES}\n'
        '<p id="from" class="from"></p>\n<div id="whole_text" class="component"></div>\n<div id="conclusion" class="said"></div>\n'
        '<section id="parting"><h2>Where do the two models differ?</h2>\n<div id="forks" class="component"></div></section>'
    )
    about = "The same text from target-only sampling and from speculative decoding, replayed token by token."
    return PageContent(about, body, "whole_text", _build_data("whole_text", passages=found))


def build_drafting_methods() -> PageContent:
    """The recorded comparisons, one for each distribution."""
    known = read_file(TRACES / "methods.json", methods.load_comparisons)
    links = "".join(
        f'<a href="?{urlencode({"distribution": choice})}" data-choice="{escape(choice)}">{escape(_name_distribution(one))}</a>'
        for choice, one in known.items()
    )
    verdicts = "\n".join(_build_verdict(choice, one) for choice, one in known.items())
    body = (
        "<h1>Drafting methods</h1>\n<p>Anything may draft: the acceptance rule verifies every token. A bad draft costs speed, never "
        f'correctness.</p>\n<nav class="choices" aria-label="Sampling">{links}</nav>\n{NOTICES}\n{verdicts}\n'
        '<div id="chart" class="component"></div>\n<h2 id="row-name"></h2>\n<p id="row-about"></p>\n<div id="tree" class="component"></div>\n'
        + "\n".join(_build_comparison(choice, one) for choice, one in known.items())
    )
    comparisons = {
        choice: {"overview": build_overview(one), "rows": {row.key: _build_method(row) for row in one.rows}}
        for choice, one in known.items()
    }
    about = "Chains, trees, heads and copied text as drafts: tokens per target pass and evidence of exactness, as recorded."
    return PageContent(
        about,
        body,
        "drafting_methods",
        _build_data(
            "drafting_methods/tree", comparisons=comparisons, first=FIRST, chart=load_component("drafting_methods/chart")["css"]
        ),
    )


def build_questions() -> PageContent:
    """The eight questions."""
    data = {"payload": asked.build_questions_payload(asked.load_recorded_runs(), _link_within_edition, SHARED)}
    about = "Eight situations from recorded runs of speculative decoding: answer before you look."
    body = '<h1 class="unseen">Eight questions</h1>\n<div id="questions" class="component"></div>'
    return PageContent(about, body, "questions", _build_data("questions", data=data))


def _link_within_edition(page: asked.PageLink) -> asked.PageLink:
    return page if page.name in PAGES else asked.PageLink("evidence", {}, PAGES["evidence"])


def _name_distribution(comparison: MethodComparison) -> str:
    return f"temperature {comparison.settings.temperature:g}" + (
        f", top-p {comparison.settings.top_p:g}" if comparison.settings.top_p else ""
    )


def _build_verdict(choice: str, comparison: MethodComparison) -> str:
    """The sentences above the chart of one distribution."""
    plans_ = read_file(TRACES / "plans.json", plan.load_plans).values()
    few = methods_words.describe_sample_size(comparison, plans_).replace("*", "")
    return f'<div class="said{_hide_unless_first(choice)}" data-distribution="{escape(choice)}"><p>{escape(methods_words.describe_comparison(comparison))}</p><p class="from">{escape(few)}</p></div>'


def _build_comparison(choice: str, comparison: MethodComparison) -> str:
    """The sentences and numbers below the chart of one distribution."""
    first_tokens = methods_words.list_first_tokens(comparison)
    shown = [chart for chart in methods_words.FIRST_TOKEN_CHARTS if chart.row in first_tokens]
    first = "".join(f"<p>{escape(chart.describe(first_tokens[chart.row]))}</p>" for chart in shown)
    when = f"Recorded for the text “{comparison.settings.prompt}” on {comparison.date}; {comparison.runs} runs of {comparison.settings.max_new_tokens} tokens. {_describe_machine(comparison.machine)}"
    return (
        f'<section class="{_hide_unless_first(choice).strip()}" data-distribution="{escape(choice)}"><div class="said">{first}</div><p class="from">{escape(when)}</p>'
        f"<details><summary>The numbers behind the chart</summary>{build_table(methods_words.build_detail_rows(comparison), 'methods')}"
        f'<p class="from">{escape(methods_words.describe_positions(comparison))}</p></details></section>'
    )


def _hide_unless_first(choice: str) -> str:
    return "" if choice == FIRST["distribution"] else " off"


def _build_method(row: MethodRow) -> dict[str, Any]:
    return {
        "name": row.entry.name,
        "about": row.reason or f"{row.entry.description} The last round with a rejection, if there was one. Rule: {row.rule}.",
        "payload": None if row.trace is None else build_tree(row.trace),
    }


def build_evidence() -> PageContent:
    """Tables of the recorded evidence."""
    cells = read_file(TRACES / "matrix.json", rule_matrix.read_matrix)
    served = read_file(TRACES / "setups.json", records.load_setups)
    kinds = read_file(TRACES / "study.json", Study.from_json)
    predicted = next(iter(read_file(TRACES / "plans.json", plan.load_plans).values()))
    setups_rows = [
        dict(zip((*setups_words.COLUMNS, "what it is"), (*row, meaning), strict=True))
        for row, meaning in setups_words.build_setup_table(served)
    ]
    blank = "".join(
        f"<li>{escape(row['blank because'])} Blank: {escape(row['cells'])}.</li>" for row in rule_matrix.list_blanks(cells)
    )
    parts = (
        "<h1>Recorded evidence</h1>\n<p>What was measured on the pair of models that ships with specviz. Each number is from a recorded run.</p>",
        f"<h2>Every drafting method under every rule</h2>\n<p class=from>Recorded for the text “{escape(cells['settings']['prompt'])}”. "
        f"<code>specviz matrix --min-tv {cells['tv']:g}</code> draws the samples again.</p>\n{rule_matrix.build_matrix_html(cells)}\n"
        f"<p class=said>{escape(rule_matrix.describe_matrix(cells))}</p>\n<details><summary>Why cells are blank</summary><ul>{blank}</ul></details>",
        f"<h2>Is the target as served still the target?</h2>\n<p class=from>{escape(_describe_machine(served.machine))}</p>\n"
        f"{build_table(setups_rows)}\n<p class=said>{escape(setups_words.describe_setups(served))}</p>",
        f"<h2>Can the speed be known before it is run?</h2>\n{build_table(plan_words.build_rows(predicted))}\n"
        f"<p class=said>{escape(plan_words.describe_tokens(predicted))}</p>",
        f"<h2>Which statistic of two models predicts the acceptance rate?</h2>\n{build_table(study_words.build_score_rows(kinds))}",
        f"<h2>The published speed-ups, and their formula</h2>\n{build_table(plan_words.build_published_rows())}",
    )
    about = "Recorded evidence that speculative decoding is exact, what it does not cover, and what it gains."
    return PageContent(about, "\n".join(parts))


def build_glossary() -> PageContent:
    """The glossary."""
    rows = sorted(GLOSSARY.items(), key=lambda item: item[0].lower())
    words = "".join(f"<dt>{escape(term)}</dt><dd>{escape(means)}</dd>" for term, means in rows)
    return PageContent("The words of speculative decoding, each in a sentence or two.", f"<h1>Glossary</h1>\n<dl>{words}</dl>")


def build_sources() -> PageContent:
    """The papers, from assets/sources.toml."""
    papers = load_toml("sources")["source"]
    rows = "".join(
        f'<li><p>{escape(one["authors"])}: <a href="{escape(one["url"])}" rel="noopener"><cite>{escape(one["title"])}</cite></a>, '
        f"{escape(one['where'])}.</p><p>{escape(one['what'])}</p><p>It reports: {escape(one['claims'])}</p><p>Here: {escape(one['here'])}</p></li>"
        for one in papers
    )
    said = "The runs on these pages were recorded with the shipped pair of models, which was trained on public-domain books."
    return PageContent("The papers behind specviz.", f'<h1>Sources</h1>\n<ul class="papers">{rows}</ul>\n<p>{said}</p>')


def build_table(rows: Sequence[Mapping[str, Any]], kind: str = "") -> str:
    """Rows as a table that scrolls by itself where a page is narrow. kind: its class, for the style sheet."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in rows[0])
    columns = [_format_column([row[name] for row in rows]) for name in rows[0]]
    lines = []
    for first, *others in zip(*columns, strict=True):
        lines.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>')
    return f'<div class="table {kind}"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _format_column(values: Sequence[Any]) -> list[str]:
    """The cells of a column: its numbers with two decimals, unless all of them are whole."""
    numbers = [value for value in values if isinstance(value, float)]
    places = 0 if all(number.is_integer() for number in numbers) else 2
    return [_format_cell(value, places) for value in values]


def _format_cell(value: Any, places: int) -> str:
    if value is None or value == "" or value == []:
        return "–"
    if isinstance(value, float):
        return f"{value:.{places}f}" if value == 0.0 or abs(value) >= 0.5 * 10**-places else f"{value:.1g}"
    return " · ".join(_format_cell(one, 2) for one in value) if isinstance(value, list) else escape(str(value))


def _describe_machine(machine: Mapping[str, Any]) -> str:
    return f"Measured on {machine.get('processor', 'a machine')}, {machine.get('threads', '?')} of {machine.get('cores', '?')} cores."


def _build_query(record: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of a link that asks for just the run that was recorded."""
    settings = Settings.from_record(record)
    return settings.to_query() | {"prompt": settings.prompt}


def _build_data(name: str, **more: Any) -> dict[str, Any]:
    return {"css": load_component(name)["css"], "settings": KEYS} | more
