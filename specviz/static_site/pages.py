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
from specviz.figures.pages_and_glossary import GLOSSARY
from specviz.figures.pages_and_glossary import PAGES as APP_PAGES
from specviz.figures.preview import describe_page
from specviz.records import ASSETS, load_toml, read_file
from specviz.settings import OLD_NAMES, Settings
from specviz.speed.records import headline, methods, passage, plan
from specviz.speed.records.cost_model import SERVER, load_cost_models
from specviz.speed.records.methods import MethodComparison, MethodRow
from specviz.speed.records.study import Study
from specviz.static_site.document import OF_THE_APP, PAGES, SHARED, PageContent
from specviz.trace import Trace
from specviz.web.drafting_methods import first_token_figures as methods_words
from specviz.web.drafting_methods import rule_matrix, words
from specviz.web.drafting_methods.overview import TEXTS as METHOD_TEXTS
from specviz.web.drafting_methods.overview import build_overview, build_picture
from specviz.web.drafting_methods.tree import build_tree
from specviz.web.front.payload import build_front_payload
from specviz.web.one_round.opening_run import choose_opening_round
from specviz.web.one_round.payload import build_round_payload, find_origin, select_texts
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
TEXTS = load_toml("texts/static_site")


def build_contents(live: str | None) -> dict[str, PageContent]:
    """Content of each page by its name. live: address of the app, None where there is none."""
    return {
        "front": build_front(live),
        "one_round": build_one_round(),
        "one_token": build_one_token(),
        "whole_text": build_whole_text(live),
        "questions": build_questions(),
        "drafting_methods": build_drafting_methods(),
        "evidence": build_evidence(),
        "glossary": build_glossary(),
        "sources": build_sources(),
    }


def build_front(live: str | None) -> PageContent:
    """The front page with the recorded race. live: address of the app, which has more pages to go on to."""
    doors = {page: f"{page}.html" for page in PAGES}
    if live is not None:
        doors = {page: f"{live}{page}" for page in APP_PAGES} | doors
    passages = read_file(TRACES / "passage.json", passage.load_passages)
    data = build_front_payload(next(iter(passages.values())), recorded=True, doors=doors)
    return _fill_page("front", _build_data("front", data=data))


@cache
def load_opening() -> Trace:
    """The recorded run of the first page."""
    return read_file(TRACES / "opening.json", Trace.from_json)


def build_one_round(trace: Trace | None = None, first_round: int | None = None) -> PageContent:
    """The run of ``trace``, by default the recorded one, from ``first_round`` on; the first is 0, None is the one that the page opens with."""
    trace = trace or load_opening()
    first = choose_opening_round(trace.rounds) if first_round is None else first_round
    race = read_file(TRACES / "passage.json", passage.load_passages)
    data = {
        "payload": build_round_payload(trace, has_next=False), **select_texts(trace.settings.get("rule", "token")),
        "cursor": {"round": first, "step": 0}, "mode": "recorded", "busy": None, "alone": True,
        "origin": find_origin(trace, "recorded", next(iter(race.values())).speculative),
    }  # fmt: skip
    return _fill_page("one_round", _build_data("one_round", data=data, own=_build_query(trace.settings)))


def build_one_token() -> PageContent:
    """Why it is exact, for the first draft token of the recorded run."""
    data = {"payload": build_token_payload(load_opening()), "asked": 0}
    return _fill_page("one_token", _build_data("one_token", data=data))


def build_whole_text(live: str | None) -> PageContent:
    """The recorded passages, one for each temperature."""
    passages = [
        {
            "temperature": one.settings.temperature,
            "own": {"temperature": f"{one.settings.temperature:g}"} | _build_query(one.settings.to_record()),
            "from": f"Recorded, {text_words.describe_measurement(one)}",
            "conclusion": [
                text_words.compare_texts(one),
                text_words.relate_speed(one),
                text_words.explain_speed(one),
                text_words.describe_tokens(one),
            ],
            "lanes": text_payload.build_lanes_payload(one, app=live, average=headline.format_average(one.settings)),
            "divergences": text_payload.build_divergences_payload(one),
        }
        for one in read_file(TRACES / "passage.json", passage.load_passages).values()
    ]
    heats = [f"{one['temperature']:g}" for one in passages]
    links = "".join(f'<a href="?temperature={heat}" data-temperature="{heat}">temperature {heat}</a>' for heat in heats)
    return _fill_page(
        "whole_text", _build_data("whole_text", passages=passages), lede=escape(text_words.TEXTS["lede_recorded"]), links=links
    )


def build_drafting_methods() -> PageContent:
    """The recorded comparisons, one for each distribution."""
    known = read_file(TRACES / "methods.json", methods.load_comparisons)
    links = "".join(
        f'<a href="?{urlencode({"distribution": choice})}" data-choice="{escape(choice)}">{escape(_name_distribution(one))}</a>'
        for choice, one in known.items()
    )
    comparisons = {
        choice: {
            name: build("on two CPU cores", *_add_server(one))
            for name, build in (("picture", build_picture), ("overview", build_overview))
        }
        | {
            "rows": {row.key: _build_method(row) for row in one.rows},
        }
        for choice, one in known.items()
    }
    styles = {name: load_component(f"drafting_methods/{name}")["css"] for name in ("picture", "chart")}
    data = _build_data("drafting_methods/tree", comparisons=comparisons, first=FIRST, styles=styles)
    verdicts, sections = (
        "\n".join(build(choice, one) for choice, one in known.items()) for build in (_build_verdict, _build_comparison)
    )
    return _fill_page("drafting_methods", data, links=links, verdicts=verdicts, comparisons=sections)


def _add_server(comparison: MethodComparison) -> tuple[MethodComparison, ...]:
    """A comparison, and the same with the costs of a server's GPU."""
    costs = load_cost_models().get(SERVER)
    return (comparison,) if costs is None else (comparison, comparison.with_cost_model(costs))


def build_questions() -> PageContent:
    """The eight questions."""
    data = {"payload": asked.build_questions_payload(asked.load_recorded_runs(), _link_within_edition, SHARED)}
    return _fill_page("questions", _build_data("questions", data=data))


def _link_within_edition(page: asked.PageLink) -> asked.PageLink:
    return page if page.name in PAGES else asked.PageLink("evidence", {}, PAGES["evidence"])


def _name_distribution(comparison: MethodComparison) -> str:
    settings = comparison.settings
    return f"temperature {settings.temperature:g}" + (f", top-p {settings.top_p:g}" if settings.top_p else "")


def _build_verdict(choice: str, comparison: MethodComparison) -> str:
    """The sentences above the chart of one distribution."""
    texts = {
        "sentence": f"{words.describe_comparison(comparison)} {METHOD_TEXTS['ranks']}",
        "size": words.describe_sample_size(comparison),
    }
    texts = {name: escape(text.replace("*", "") if name == "size" else text) for name, text in texts.items()}
    hidden = "" if choice == FIRST["distribution"] else " off"
    return TEXTS["drafting_methods"]["verdict"].format(hidden=hidden, choice=escape(choice), **texts)


def _build_comparison(choice: str, comparison: MethodComparison) -> str:
    """The sentences and numbers below the chart of one distribution."""
    first_tokens, settings = methods_words.list_first_tokens(comparison), comparison.settings
    charts = [chart for chart in methods_words.FIRST_TOKEN_CHARTS if chart.row in first_tokens]
    origin = (
        f"Recorded for the text “{settings.prompt}” on {comparison.date}; {comparison.runs} runs of {settings.max_new_tokens} tokens. "
        f"{_describe_machine(comparison.machine)}"
    )
    return (
        TEXTS["drafting_methods"]["comparison"]
        .lstrip()
        .format(
            hidden="" if choice == FIRST["distribution"] else "off",
            choice=escape(choice),
            first_tokens="".join(f"<p>{escape(chart.describe(first_tokens[chart.row]))}</p>" for chart in charts),
            origin=escape(origin),
            table=build_table(words.build_detail_rows(comparison), "methods"),
            positions=escape(words.describe_positions(comparison)),
        )
    )


def _build_method(row: MethodRow) -> dict[str, Any]:
    return {
        "name": row.entry.name,
        "about": row.reason or f"{row.entry.description} The last round with a rejection, if there was one. Rule: {row.rule}.",
        "payload": None if row.trace is None else build_tree(row.trace),
    }


def build_evidence() -> PageContent:
    """Tables of the recorded evidence."""
    matrix = read_file(TRACES / "matrix.json", rule_matrix.read_matrix)
    setups = read_file(TRACES / "setups.json", records.SetupComparison.from_json)
    study = read_file(TRACES / "study.json", Study.from_json)
    predicted = next(iter(read_file(TRACES / "plans.json", plan.load_plans).values()))
    columns = (*setups_words.COLUMNS, "what it is")
    setups_rows = [dict(zip(columns, (*row, what), strict=True)) for row, what in setups_words.build_setup_table(setups)]
    blanks = (f"{row['blank because']} Blank: {row['cells']}." for row in rule_matrix.list_blanks(matrix))
    return _fill_page(
        "evidence",
        prompt=escape(matrix["settings"]["prompt"]),
        min_tv=matrix["tv"],
        matrix=rule_matrix.build_matrix_html(matrix),
        matrix_sentence=escape(rule_matrix.describe_matrix(matrix)),
        blanks="".join(f"<li>{escape(blank)}</li>" for blank in blanks),
        setups_machine=escape(_describe_machine(setups.machine)),
        setups=build_table(setups_rows),
        setups_sentence=escape(setups_words.describe_setups(setups)),
        plan=build_table(plan_words.build_rows(predicted)),
        plan_sentence=escape(plan_words.describe_tokens(predicted)),
        scores=build_table(study_words.build_score_rows(study)),
        published=build_table(plan_words.build_published_rows()),
    )


def build_glossary() -> PageContent:
    """The glossary, in alphabetical order."""
    rows = sorted(GLOSSARY.items(), key=lambda item: item[0].lower())
    return _fill_page("glossary", terms="".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in rows))


def build_sources() -> PageContent:
    """The papers, from assets/sources.toml."""
    papers = [{name: escape(str(text)) for name, text in paper.items()} for paper in load_toml("sources")["source"]]
    return _fill_page("sources", papers="".join(TEXTS["sources"]["paper"].format(**paper) for paper in papers))


def _fill_page(page: str, data: Mapping[str, Any] | None = None, **values: Any) -> PageContent:
    """A page of TEXTS with values in it, which are markup or escaped. data: for the page's script, if it has one."""
    body = TEXTS[page]["body"].lstrip().format(**values)
    about = describe_page(page) if page in OF_THE_APP else TEXTS[page]["about"]
    return PageContent(about, body, "words" if data is None else page, data)


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


def _build_data(name: str, **fields: Any) -> dict[str, Any]:
    return {"css": load_component(name)["css"], "settings": KEYS} | fields
