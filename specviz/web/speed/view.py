"""The page How fast?: three sliders; a text, a draft and a temperature; the verdict; tokens and speed as pictures; four sections in tabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from specviz.errors import SettingsError, TraceError
from specviz.figures import server_speed
from specviz.models.pairs.catalog import PAIRS
from specviz.settings import GAMMA_MAX
from specviz.speed.records import headline
from specviz.speed.records.batches import BatchSpeeds
from specviz.speed.records.plan import PLAN_TEMPERATURES, PlanChoice, SpeedPlan
from specviz.speed.records.published_speeds import SOURCE
from specviz.speed.records.study import Study
from specviz.web.common import cost_choice, html, measurement_page, session
from specviz.web.common.controls import Form
from specviz.web.common.elements import (
    describe_machine,
    open_screen,
    show_dataframe,
    show_figure,
    show_notes,
    show_sentence,
    show_tables,
)
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes, name_pair
from specviz.web.hosting.server_options import load_options
from specviz.web.speed import batch_figures, export, plan_figures, study_figures, surface_figures, timeline_figures, work
from specviz.web.speed.state import (
    NUMBERS,
    TEXTS,
    SpeedQuestion,
    SpeedState,
    build_slider_key,
    build_tabs_key,
    choose_rounds,
    compute_pass_costs,
    follow_widgets,
    list_batch_sizes,
    list_tabs,
    load_batches,
    load_example_text,
    load_recorded_plans,
    load_study,
    locate_pair,
    place_sliders,
)
from specviz.web.speed.surface_figures import Spot

HEADINGS = TEXTS["headings"]
DRAFTS = {"storybook": "distilled draft", "storybook-plain": "plain draft", "ngram": "copied from the text"}
SLIDERS = ("alpha: acceptance rate", "c: draft step over target pass", "gamma: draft tokens per round")
TEXTS_AT_ONCE = "batch: texts at once"
OWN_DRAFTS = {"draft": "draft", "ngram": "copied from the text"}


@end_with_row("speed")
def show_page() -> None:
    """Draw the state."""
    state = measurement_page.open_state("speed", SpeedState, SpeedQuestion)
    show_page_head("speed", TEXTS["lede"])
    with open_screen("speed", "sliders"):
        answer = st.container(key="speed-verdict")
        top = st.container(key="speed-sandbox")
    pass_cost = st.container(key="speed-pass-cost")
    gain = open_screen("speed", "gain", st.container(key="speed-second"))
    gain.markdown("## On one text instead: predicted and measured")
    costs = Form("speed", state.turn, {}).show_choice(
        gain, "costs", cost_choice.LABEL, cost_choice.list_cost_titles(), state.question.costs, cost_choice.HELP
    )
    fold = st.expander("Predict for a text of your own, another drafting method or temperature")
    with fold:
        question, problems = show_fields(state, costs)
    state.choose(question)
    question = follow_widgets(question, state.shown_plan, load_batches(), st.session_state, state.turn)
    run = "Predict for this text", work.make_plan_of_text, TEXTS["about"], fold
    measurement_page.show_controls("speed", state, question, problems, export.build_offer, *run)
    plan, kind = state.shown_plan, session.get_theme()
    if said := describe_answer(state, plan):
        answer.markdown(said)
    with top:
        gamma, spot = show_sliders(question, plan, kind, state.turn, pass_cost)
    if plan is None:
        st.caption("The prediction appears here once it is made.")
    else:
        with gain:
            show_gains(state, plan, kind)
        if not state.has_own_result and not state.question.has_own_pair:
            show_other_drafts(state.question)
        show_server_lines(state, plan)
        show_prediction(plan, kind)
    show_tabs(state, plan, kind, gamma, spot)


def _show_chart(key: str, plot: Callable[..., Any], describe: Callable[..., str], *records: Any, kind: str) -> None:
    """A picture of records that do not change, with its sentence."""
    show_figure(draw_cached(plot, *records, kind), "speed", key, describe(*records))


def show_fields(state: SpeedState, costs: str) -> tuple[SpeedQuestion, list[str]]:
    """Text, draft and temperature: what they ask for, and a sentence where it cannot be used. costs: whose count."""
    question = state.question
    form = Form("speed", state.turn, {})
    left, right = st.columns([6, 4])
    label = f"Prompts like those that will come, 2 to {work.PROMPTS}" if question.lines else "A text like those to be written"
    text = left.text_area(label, value=question.text, height=120, **form.build_key("text"))
    kinds = {"text": "one text", "prompts": "prompts, one per line"}
    lines = form.show_choice(right, "lines", "Read it as", kinds, "prompts" if question.lines else "text") == "prompts"
    draft = form.show_choice(
        right, "draft", "Drafting method", OWN_DRAFTS if question.has_own_pair else DRAFTS, question.choice.draft
    )
    heat = form.show_choice(right, "heat", "Temperature", {one: one for one in PLAN_TEMPERATURES}, question.choice.temperature)
    problems = read_prompt_file(state, left) if lines else []
    choice = PlanChoice(draft, heat)
    is_same = (choice, costs) == (question.choice, question.costs)
    moved = {} if is_same else dict.fromkeys(NUMBERS)  # each pair and machine stands elsewhere
    try:
        return replace(question, text=(text or "").strip(), lines=lines, choice=choice, costs=costs, **moved), problems
    except SettingsError as error:
        return question, [*problems, explain_error(error)]


def read_prompt_file(state: SpeedState, place: Any) -> list[str]:
    """A file of prompts: it fills the field, where it can be read and changed. A sentence where it cannot be used."""
    sent = place.file_uploader(
        "or a file of them", type=["txt"], key=f"speed-file-{state.turn}", max_upload_size=load_options().upload_mb
    )
    if not isinstance(sent, UploadedFile):
        return []
    try:
        text = sent.getvalue().decode("utf-8").strip()
        state.choose(replace(state.question, text=text, lines=True))
    except UnicodeDecodeError:
        return ["The file is not UTF-8 text. Save it as UTF-8, one prompt to a line."]
    except SettingsError as error:
        return [explain_error(error)]
    state.turn += 1
    st.rerun()


def show_positions(plan: SpeedPlan, kind: str) -> None:
    """How often the first, second, .. draft token of a round is accepted."""
    if plan.positions:
        rounds = f"In rounds of {plan.rows[-1].gamma} draft tokens, with 95% intervals over resampled texts."
        with open_screen("speed", "positions"):
            st.markdown(f"### Acceptance by position\n{rounds}")
            _show_chart("positions", plan_figures.plot_positions, plan_figures.describe_positions, plan, kind=kind)
        show_tables("The numbers behind the picture", plan_figures.build_position_rows(plan))


def show_server_lines(state: SpeedState, plan: SpeedPlan) -> None:
    """How servers are started with the best gamma."""
    if plan.best is None:
        return
    with st.expander("Lines to paste: this pair and gamma in your server"):
        if plan.server_commands and (other := describe_recorded_pair(plan.settings.pair, state.pair, "lines")):
            st.caption(escape_markdown(f"{other} Predict for this text to get yours."))
        if not plan.server_commands:
            why = "no gamma is predicted to be faster" if plan.best.value == 0 else "these servers have no such drafting method"
            st.caption(f"Nothing to paste: {why}.")
        elif plan.verdict != "speculate":
            st.caption(f"With the gamma that was predicted best, {plan.best.value:g}. {plan.in_words}")
        if plan.server_commands and plan.settings.pair in PAIRS:
            st.caption("Put your own models in the place of the folders.")
        for one in plan.server_commands:
            st.markdown(f"**{one.server}**")
            st.code(one.text, language=one.language, wrap_lines=True)
            st.caption(escape_markdown(one.note))


def describe_measurement(state: SpeedState, plan: SpeedPlan) -> str:
    """Where the numbers come from, and under which settings."""
    what = f"{plan.openings} prompts of yours, each continued by" if plan.of_prompts else f"{plan.openings} continuations of"
    where = "" if plan.of_prompts else f" of {plan.text['name']}"
    size = f"{what} {plan.length} tokens{where}; {plan.date}, {describe_machine(plan.machine)}."
    size += f" {plan.baseline.in_words}" if plan.baseline else ""
    size += f" {plan.cost_model.describe()}" if plan.cost_model else ""
    under = f"{name_pair(plan.settings.pair)}, temperature {plan.settings.temperature:g}, one text at a time, relative to target-only sampling"
    if state.has_own_result:
        return f"Your prediction: {under}; {size}"
    more = "" if state.question.text == load_example_text() else " Press the button to predict it for yours."
    if state.question.has_own_pair:
        more = f" {describe_recorded_pair(plan.settings.pair, state.pair)} Press the button to predict yours."
    return f"Recorded: {under}; {size}{more}"


def describe_answer(state: SpeedState, plan: SpeedPlan | None) -> str:
    """The page's answer, a heading and a line: what ``bench`` measured for the shipped pair, or what follows with other costs."""
    if plan is not None and plan.cost_model is not None and plan.best is not None and (row := plan.row(int(plan.best.value))):
        speed = f"{row.speedup.value:.2f} times as fast at temperature {plan.settings.temperature:g}"
        return f"## With the costs of {plan.cost_model.title}: {speed}\n{plan.in_words} The sliders stand at these costs."
    if state.pair != headline.PAIR:
        return ""
    return (
        f"## {name_pair(headline.PAIR)}: {headline.describe_headline()}\n"
        f"{headline.describe_headline_origin()} {headline.describe_headline_intervals()}"
    )


def describe_verdict(state: SpeedState, plan: SpeedPlan) -> str:
    """The verdict; while rounds are timed, that it follows; where that was stopped, that it is missing."""
    if not state.has_own_result or plan.costs is not None:
        return plan.in_words
    return (
        "The verdict follows: rounds are being timed." if state.is_busy else f"{plan.in_words} The work was stopped before that."
    )


def show_gains(state: SpeedState, plan: SpeedPlan, kind: str) -> None:
    """The verdict and how it is reached, beside the speed over gamma; before rounds are timed, beside the tokens."""
    left, right = st.columns(2, gap="large")
    with left:
        show_sentence(describe_verdict(state, plan), "speed-said")
        if ways := plan_figures.build_ways(plan):
            st.html(html.build_plain_table(plan_figures.WAYS, ways))
            st.caption(plan_figures.explain_formula(plan))
        for sentence in plan.describe_drafts():
            show_sentence(sentence, "speed-said-drafts")
        show_notes([describe_measurement(state, plan), *list_model_notes(plan.models)], "speed-notes-from")
    with right, open_screen("speed", "factors"):
        if plan.costs:
            _show_chart("factors", plan_figures.plot_factors, plan_figures.describe_best_gamma, plan, kind=kind)
        else:
            _show_chart("tokens", plan_figures.plot_tokens, plan_figures.describe_tokens, plan, kind=kind)


def show_other_drafts(question: SpeedQuestion) -> None:
    """The recorded plans of all drafts at this temperature, with the chosen costs."""
    keys = {name: f"{draft} {question.choice.temperature}" for draft, name in DRAFTS.items()}
    recorded = {name: plan for name, key in keys.items() if (plan := load_recorded_plans().get(key))}
    plans = {name: cost_choice.apply_costs(plan, question.costs) for name, plan in recorded.items()}
    with st.expander("The same text with other drafts"):
        st.html(html.build_plain_table(*plan_figures.build_draft_table(plans)))
        st.caption(TEXTS["other_drafts"])


def show_prediction(plan: SpeedPlan, kind: str) -> None:
    """How the prediction is made, and how near it comes; the tokens are here where the speed is above."""
    fold = st.expander("How is it predicted?", key="speed-predicting", on_change="rerun")
    if not fold.open:  # a chart in a closed fold would be drawn for nobody
        return
    with fold:
        st.markdown(TEXTS["method"])
        if plan.costs:
            _show_chart("tokens", plan_figures.plot_tokens, plan_figures.describe_tokens, plan, kind=kind)
        st.caption(TEXTS["bands_computed" if plan.cost_model else "bands" if plan.costs else "no_costs"])
        show_dataframe(plan_figures.build_rows(plan), placeholder="")


def show_tabs(state: SpeedState, plan: SpeedPlan | None, kind: str, gamma: int, spot: Spot) -> None:
    """All tabs, and in the open one its section."""
    question, choice, study = state.question, state.question.choice, load_study()
    titles = list_tabs()
    tabs = st.tabs([*titles.values()], default=titles[question.tab], key=build_tabs_key(state.turn), on_change="rerun")
    for name, tab in zip(titles, tabs, strict=True):
        if not tab.open:
            continue
        with tab:
            if name == "what-if":
                show_surface(question, plan, kind, gamma, spot)
            elif name == "many":
                show_batches(load_batches(), choice, None if state.has_own_result or (plan and plan.cost_model) else plan, kind)
            elif name == "server":
                show_server_record(state.turn, kind)
            elif study is None or not study.list_measured((choice.draft,)):
                st.caption("There is no recorded study of this draft.")
            else:
                (show_acceptance if name == "acceptance" else show_predictions)(study, choice.draft, kind)
            if name == "acceptance" and plan is not None:
                show_positions(plan, kind)


def show_acceptance(study: Study, draft: str, kind: str) -> None:
    """The acceptance rate over temperature and over top-p."""
    st.caption(TEXTS["study"])
    for column, axis in zip(st.columns(2, gap="large"), study_figures.AXES, strict=True):
        if len(study_figures.group_by_axis(study, draft, axis)) > 1:
            with column, open_screen("speed", axis):
                st.markdown(HEADINGS[axis])
                plot, describe = study_figures.plot_acceptance, study_figures.describe_acceptance
                _show_chart(axis, plot, describe, study, draft, axis, kind=kind)
    show_tables("The numbers behind the pictures", study_figures.build_rows(study, draft))


def show_predictions(study: Study, draft: str, kind: str) -> None:
    """Whether the acceptance rate can be predicted, and whether the draft is calibrated."""
    left, right = st.columns(2, gap="large")
    with left, open_screen("speed", "predictions"):
        st.markdown(HEADINGS["predictions"])
        plot, describe = study_figures.plot_predictions, study_figures.describe_predictions
        _show_chart("foretold", plot, describe, study, draft, kind=kind)
    with right, open_screen("speed", "confidence"):
        st.markdown(HEADINGS["confidence"])
        plot, describe = study_figures.plot_confidence, study_figures.describe_confidence
        _show_chart("confidence", plot, describe, study, draft, kind=kind)
    with st.expander("Which simple statistic predicts it best?"):
        show_dataframe(study_figures.build_score_rows(study))
        st.caption(TEXTS["scores"])
    tables = study_figures.build_rows(study, draft), study_figures.build_calibration_rows(study, draft)
    show_tables("The numbers behind the pictures", *tables)


def show_server_record(turn: int, kind: str) -> None:
    """What speculation gains on a server of the visitor's own: the record that ``specviz pays`` has written."""
    st.markdown(TEXTS["server"])
    st.code(TEXTS["server_command"], language="bash", wrap_lines=True)
    sent = st.file_uploader("The record: report.json", type=["json"], key=f"speed-server-{turn}", max_upload_size=1)
    if not isinstance(sent, UploadedFile):
        return
    from specviz.audit.pays.record import parse_pays_record

    try:
        report = parse_pays_record(sent.getvalue())
    except TraceError as error:
        st.error(escape_markdown(str(error)))
        return
    show_sentence(report["sentence"], "speed-said-server", plain=True)
    charts = [(server_speed.plot_rates, server_speed.describe_rates, "rates", "server_rates")]
    if report["gammas"]:
        charts.append((server_speed.plot_gammas, server_speed.describe_gammas, "lengths", "server_gammas"))
    if any(level["speedup"] for level in report["levels"]):
        st.markdown(HEADINGS["server_speedup"])
        show_figure(server_speed.plot_speedups(report, kind), "speed", "server", report["sentence"], sentence=False)
    for column, (plot, describe, key, heading) in zip(st.columns(2, gap="large"), charts, strict=False):
        with column:
            st.markdown(HEADINGS[heading])
            show_figure(plot(report, kind), "speed", f"server-{key}", describe(report), plain=True)
    lines = [*report["lines"], *(line for one in report["what_if"] for line in one["lines"])]
    show_notes([one["sentence"] for one in report["what_if"]], "speed-notes-what-if")
    if lines:
        st.markdown(HEADINGS["server_lines"])
        st.code("\n".join(lines), language=None, wrap_lines=True)
    show_tables("The numbers behind the pictures", server_speed.build_level_rows(report))
    show_notes([f"Measured on {report['date']}, prompts: {report['prompts']}.", *report["remarks"]], "speed-notes-server")


def show_batches(batches: BatchSpeeds | None, choice: PlanChoice, plan: SpeedPlan | None, kind: str) -> None:
    """Speed over the number of texts. plan: the recorded one above, to compare one text with."""
    if batches is None:
        st.caption("There is no recorded measurement of several texts at once.")
        return
    key, origin = choose_rounds(batches, choice)
    st.caption(origin)
    left, right = st.columns(2, gap="large")
    with left, open_screen("speed", "batch"):
        st.markdown(HEADINGS["batch"])
        show_figure(batch_figures.plot_factors(batches, key, kind), "speed", "batch", batches.describe(key))
        if why := batch_figures.compare_with_plan(batches, key, plan if key == choice.key else None):
            st.caption(why)
    with right, open_screen("speed", "passes"):
        st.markdown(HEADINGS["passes"])
        _show_chart("passes", batch_figures.plot_pass_costs, batch_figures.describe_pass_costs, batches, kind=kind)
    show_tables("The numbers behind the pictures", batch_figures.build_rows(batches, key))


def show_sliders(question: SpeedQuestion, plan: SpeedPlan | None, kind: str, turn: int, below: Any) -> tuple[int, Spot]:
    """Four sliders, which begin where the running pair is, over the rounds that follow from them; below: what a pass costs. Returns the first three values."""
    start, places = place_sliders(question, plan, load_batches()), st.columns(4, gap="large")
    alpha, c, gamma = (
        place.slider(
            label,
            low,
            high,
            getattr(start, name),
            step,
            key=build_slider_key(name, question, turn),
            persist_state="session",
        )
        for place, name, label, low, high, step in zip(
            places[:3], ("alpha", "c", "gamma"), SLIDERS, (0.0, 0.0, 1), (1.0, 1.0, GAMMA_MAX), (0.01, 0.01, 1), strict=True
        )
    )
    fixed = question.has_own_pair or bool(plan and plan.cost_model)
    sizes = list_batch_sizes()
    texts = places[3].select_slider(
        TEXTS_AT_ONCE,
        sizes,
        1 if fixed or start.texts not in sizes else start.texts,
        key=f"{build_slider_key('texts', question, turn)}{'-fixed' * fixed}",
        persist_state="session",
        disabled=fixed or len(sizes) < 2,
        help=TEXTS["batch_fixed"] if fixed else None,
    )
    spot, texts = Spot(alpha, c), texts or 1
    costs, origin = compute_pass_costs(plan, load_batches(), question.has_own_pair, texts)
    cost = costs.get(gamma)
    if cost is None:
        cost, origin, costs = 1.0, "", dict.fromkeys(range(1, GAMMA_MAX + 1), 1.0)
    alt = timeline_figures.describe_round(gamma, spot, cost)
    show_figure(timeline_figures.plot_timeline(gamma, spot, cost, kind), "speed", "timeline", alt, sentence=False)
    show_sentence(f"{alt} {timeline_figures.recommend_gamma(gamma, spot, costs)}", "speed-said-sandbox")
    below.markdown(escape_markdown(timeline_figures.explain_pass_cost(gamma, texts, cost, origin)))
    return gamma, spot


def show_surface(question: SpeedQuestion, plan: SpeedPlan | None, kind: str, gamma: int, spot: Spot) -> None:
    """The surface, with the point of the sliders and that of the running pair."""
    st.caption(f"{TEXTS['formula']} The circle is where the sliders at the top stand.")
    pair, row = locate_pair(question.choice, plan, load_batches(), gamma), plan and plan.row(gamma)
    surface, sentence = surface_figures.plot_surface(gamma, spot, pair, kind), surface_figures.describe_spot(gamma, spot)
    with open_screen("speed", "surface"):
        show_figure(surface, "speed", "surface", sentence)
    show_sentence(surface_figures.describe_pair(gamma, pair, row.factor.value if row and row.factor else None), "speed-said-pair")
    show_tables("The numbers behind the picture", surface_figures.build_rows(pair, spot))
    with st.expander("How close is the formula to the paper’s own table?"):
        show_dataframe(plan_figures.build_published_rows())
        st.caption(f"{SOURCE}: {TEXTS['table']}")
