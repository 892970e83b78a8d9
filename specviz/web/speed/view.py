"""The page How fast?: the speed, two lanes and three sliders; all else is behind tabs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from specviz.errors import SettingsError, TraceError
from specviz.figures import server_speed
from specviz.models.pairs.catalog import PAIRS
from specviz.settings import GAMMA_MAX
from specviz.speed.records.plan import PLAN_TEMPERATURES, PlanChoice, SpeedPlan
from specviz.speed.records.published_speeds import SOURCE
from specviz.speed.records.study import Study
from specviz.web.common import cost_choice, html, measurement_page, session
from specviz.web.common.controls import Form
from specviz.web.common.elements import (
    describe_machine,
    open_screen,
    show_answer,
    show_dataframe,
    show_figure,
    show_notes,
    show_sentence,
    show_table_list,
    show_tables,
)
from specviz.web.common.error_sentences import explain_error
from specviz.web.common.figure_cache import draw_cached
from specviz.web.common.html import escape_markdown
from specviz.web.common.page_head import end_with_row, show_page_head
from specviz.web.common.pairs import describe_recorded_pair, list_model_notes, name_pair
from specviz.web.hosting.server_options import load_options
from specviz.web.speed import (
    batch_figures,
    export,
    other_speeds,
    plan_figures,
    study_figures,
    surface_figures,
    timeline_figures,
    words,
    work,
)
from specviz.web.speed.round_model import COMPUTED, MEASURED, RoundModel, build_headline_model
from specviz.web.speed.state import (
    FIRST,
    TABS,
    TEXTS,
    Sliders,
    SpeedQuestion,
    SpeedState,
    build_round_model,
    build_slider_key,
    build_tabs_key,
    choose_rounds,
    follow_widgets,
    list_batch_sizes,
    load_batches,
    load_example_text,
    load_gpu_costs,
    load_recorded_plans,
    load_study,
    locate_pair,
    place_sliders,
)

HEADINGS = TEXTS["headings"]
DRAFTS = {"storybook": "distilled draft", "storybook-plain": "plain draft", "ngram": "copied text"}
SLIDERS = {
    "alpha": "Draft tokens accepted, of those checked",
    "c": "Time of a draft step (target pass: 100%)",
    "gamma": "Draft tokens a round",
}
TEXTS_AT_ONCE = "Batch size (texts at once)"
OWN_DRAFTS = {"draft": "draft", "ngram": "copied text"}


@end_with_row("speed")
def show_page() -> None:
    """Draw the state."""
    state = measurement_page.open_state("speed", SpeedState, SpeedQuestion)
    show_page_head("speed", TEXTS["lede"])
    with open_screen("speed", "sliders"):
        top = st.container(key="speed-sandbox")
    middle, more = st.container(), st.container(key="speed-more")
    more.markdown(HEADINGS["more"])
    with more.expander(TEXTS["machine"], key="speed-machine"):
        costs = Form("speed", state.turn, {}).show_choice(
            st, "costs", cost_choice.LABEL, cost_choice.list_cost_titles(), state.question.costs, cost_choice.HELP
        )
    key = build_tabs_key(state.turn)
    open_tab = st.session_state.get(
        key, TABS[state.question.tab]
    )  # another default than the tab in force would make the tabs anew
    tabs = dict(zip(TABS, more.tabs([*TABS.values()], default=open_tab, key=key, on_change="rerun"), strict=True))
    with tabs["text"]:
        intro, choices, picture = st.container(), st.container(key="speed-choices", horizontal=True, gap="medium"), st.container()
        fold = st.expander(TEXTS["own_text"], key="speed-own-text")
    with fold:
        question, problems = show_fields(state, costs, choices)
    state.choose(question)
    model = build_round_model(state.question, state.shown_result, load_batches())
    question = follow_widgets(question, model, st.session_state, state.turn)
    run = "Predict for this text", work.make_plan_of_text, TEXTS["about"], fold
    with middle:
        measurement_page.show_controls("speed", state, question, problems, export.build_offer, *run)
    plan, kind = state.shown_result, session.get_theme()
    with top:
        show_sandbox(state, model, kind)
    study, draft = load_study(), state.question.choice.draft
    shows = {
        "many": lambda: show_batches(state.question.choice, kind),
        "server": lambda: show_server(state, plan, kind),
        "what-if": lambda: show_formula(state, model, kind),
        "acceptance": lambda: show_acceptance(study, plan, draft, kind),
        "foretold": lambda: show_predictions(study, plan, draft, kind),
    }
    for name, show in shows.items():
        if tabs[name].open:
            with tabs[name]:
                show()
    if tabs["text"].open:
        intro.markdown(escape_markdown(words.introduce_plan(state, plan)))
        with picture:
            show_plan(state, plan, kind)


def _show_chart(key: str, plot: Callable[..., Any], describe: Callable[..., str], *records: Any, kind: str) -> None:
    """A picture of records that do not change, with its sentence."""
    show_figure(draw_cached(plot, *records, kind), "speed", key, describe(*records))


def show_sandbox(state: SpeedState, model: RoundModel, kind: str) -> None:
    """The speed, both lanes, and the sliders that it follows from."""
    question = state.question
    left, right = st.columns([4, 8], gap="large")
    said, lanes = left.container(key="speed-answer"), st.container()
    sliders = right.container(key="speed-sliders")
    places = [*sliders.columns(2, gap="medium"), *sliders.columns(2, gap="medium")]  # beside the number that follows from them
    values = show_sliders(question, model, state.turn, places)
    parts = model.compute_parts(values.gamma, values.c, values.texts)
    speed = model.compute_speed(values.alpha, values.c, values.gamma, values.texts)
    has_moved = any(getattr(question, name) is not None for name in ("alpha", "c", "gamma", "texts"))
    with said:
        show_answer(f"{speed:.2f}×", TEXTS["answer"])
        with st.container(key="speed-known", horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(words.describe_answer(state.pair, model, has_moved), width="content")
            if there := words.describe_server_speed(question, state.shown_result, load_batches()):
                st.caption(there, width="content")
            if has_moved and st.button(
                TEXTS["back" if model.kind == MEASURED else "back_begin"], key="speed-back", type="tertiary"
            ):
                state.choose(replace(question, alpha=None, c=None, gamma=None, texts=None))
                state.turn += 1  # sliders anew
                st.rerun()
    with lanes:
        sentence = timeline_figures.describe_round(values.alpha, parts)
        figure = timeline_figures.plot_timeline(values.alpha, parts, kind, has_legend=False)
        show_figure(figure, "speed", "timeline", sentence, sentence=False)
        st.html(timeline_figures.build_round_sum(values.alpha, parts))
    best = timeline_figures.recommend_gamma(model, values.alpha, values.c, values.gamma, values.texts)
    places[2].container(key="speed-best").caption(best)
    if values.texts > 1:
        places[1].container(key="speed-step").caption(words.describe_step(values.texts, parts.step))


def show_sliders(question: SpeedQuestion, model: RoundModel, turn: int, places: Sequence[Any]) -> Sliders:
    """Four sliders, which begin where the model does. A slider that was not moved gives the exact value, not its rounded one."""
    start = place_sliders(question, model)
    for place, (name, label), low, high, step in zip(
        places[:3], SLIDERS.items(), (0.0, 0.0, 1), (1.0, 1.0, GAMMA_MAX), (0.01, 0.01, 1), strict=True
    ):
        value, key = round(getattr(start, name), 2), build_slider_key(name, question, turn)
        place.slider(
            label, low, high, value, step, format=None if name == "gamma" else "percent", key=key, persist_state="session"
        )
    sizes = list_batch_sizes()
    fixed = model.batches is None or len(sizes) < 2
    places[3].select_slider(
        TEXTS_AT_ONCE,
        sizes,
        start.texts if start.texts in sizes and not fixed else sizes[0],
        key=f"{build_slider_key('texts', question, turn)}{'-fixed' * fixed}",
        persist_state="session",
        disabled=fixed,
        help=TEXTS["batch_fixed"] if fixed else None,
    )
    return start


def show_formula(state: SpeedState, model: RoundModel, kind: str) -> None:
    """The speed at the top as a formula, the paper's formula over all alpha and c, and why other pages name other speeds."""
    values, computed = place_sliders(state.question, model), state.shown_plan
    parts = model.compute_parts(values.gamma, values.c, values.texts)
    speed = model.compute_speed(values.alpha, values.c, values.gamma, values.texts)
    st.caption(TEXTS["letters"])
    left, right = st.columns([5, 7], gap="large")
    with left:
        st.markdown(HEADINGS["terms"])
        st.markdown(timeline_figures.describe_round(values.alpha, parts))
        st.markdown(escape_markdown(timeline_figures.explain_terms(values.alpha, values.c, parts)))
        if longer := timeline_figures.explain_pass_cost(model, values.gamma, values.texts):
            st.markdown(longer)
        st.markdown(timeline_figures.explain_paper_formula(model, values.alpha, values.c, values.gamma, speed))
        with st.expander("How it is known"):
            if model.origin:
                st.caption(escape_markdown(model.origin))
            st.caption(TEXTS["alpha"] if model.kind == MEASURED else TEXTS["alpha_computed"])
            if model.kind == COMPUTED and computed is not None:
                show_notes(computed.describe_drafts(), "speed-notes-from-drafts")
                st.caption(f"{computed.origin} {TEXTS['bands_computed']}")
                show_dataframe(plan_figures.build_rows(computed), placeholder="")
        with st.expander(HEADINGS["others"]):
            show_other_speeds()
    with right:
        show_surface(model, values, kind)


def show_other_speeds() -> None:
    """Why other pages and the README name other speeds of the shipped pair."""
    batches = load_batches()
    model = build_round_model(SpeedQuestion(""), None, batches)
    found = other_speeds.list_other_speeds(model, load_recorded_plans().get(FIRST.key), batches)
    st.html(html.build_plain_table(other_speeds.COLUMNS, [one.row for one in found], wide=True))


def show_fields(state: SpeedState, costs: str, choices: Any) -> tuple[SpeedQuestion, list[str]]:
    """Text, draft and temperature: what they ask for, and a sentence where it cannot be used.

    costs: the chosen machine; choices: where draft and temperature stand
    """
    question = state.question
    form = Form("speed", state.turn, {})
    left, right = st.columns([6, 4])
    label = f"Prompts like those that will come, 2 to {work.PROMPTS}" if question.lines else "A text like those to be written"
    text = left.text_area(label, value=question.text, height=120, **form.build_key("text"))
    kinds = {"text": "one text", "prompts": "prompts, one per line"}
    lines = form.show_choice(right, "lines", "Read it as", kinds, "prompts" if question.lines else "text") == "prompts"
    draft = form.show_choice(choices, "draft", "Draft", OWN_DRAFTS if question.has_own_pair else DRAFTS, question.choice.draft)
    heats = {one: one for one in PLAN_TEMPERATURES}
    heat = form.show_choice(choices, "heat", "Temperature", heats, question.choice.temperature)
    problems = read_prompt_file(state, left) if lines else []
    choice = PlanChoice(draft, heat)
    moved: dict[str, None] = (
        {} if costs == question.costs else {"c": None, "gamma": None, "texts": None}
    )  # they are the machine's
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


def show_server_lines(state: SpeedState, plan: SpeedPlan) -> None:
    """How servers are started with the best gamma, a tab for each."""
    if plan.best is None:
        return
    st.markdown(escape_markdown(words.explain_lines(state, plan)))
    if not plan.server_commands:
        return
    for one, tab in zip(plan.server_commands, st.tabs([one.server for one in plan.server_commands]), strict=True):
        with tab:
            text = one.text.replace(" --", " \\\n  --") if one.language == "bash" else one.text  # no option is cut in two
            st.code(text, language=one.language, wrap_lines=True)
            own = " Put your own models in the place of the folders." if plan.settings.pair in PAIRS else ""
            st.caption(escape_markdown(f"{one.note}{own}"))


def describe_measurement(state: SpeedState, plan: SpeedPlan) -> str:
    """Where the numbers of a plan come from, and under which settings."""
    what = f"{plan.openings} prompts of yours, each continued by" if plan.of_prompts else f"{plan.openings} continuations of"
    where = "" if plan.of_prompts else f" of {plan.text['name']}"
    size = f"{what} {plan.length} tokens{where}; {plan.date}, {describe_machine(plan.machine)}."
    size += f" {plan.baseline.in_words}" if plan.baseline else ""
    under = f"{name_pair(plan.settings.pair)}, temperature {plan.settings.temperature:g}, one text at a time, relative to target-only sampling"
    if state.has_own_result:
        return f"Your prediction: {under}; {size}"
    more = "" if state.question.text == load_example_text() else " Press the button to predict it for yours."
    if state.question.has_own_pair:
        more = f" {describe_recorded_pair(plan.settings.pair, state.pair)} Press the button to predict yours."
    return f"Recorded: {under}; {size}{more}"


def show_plan(state: SpeedState, plan: SpeedPlan | None, kind: str) -> None:
    """The prediction as a picture with its best length, where it comes from, and the other drafts."""
    if plan is None:
        st.caption("The prediction appears here once it is made.")
        return
    with open_screen("speed", "factors"):
        left, right = st.columns([7, 5], gap="large")
        with left:
            show_gains(plan, kind)
        with right.container(key="speed-gap"):
            if plan.costs:
                show_answer(*plan_figures.describe_best(plan))
                st.markdown(plan_figures.describe_gap(plan))
            if said := words.describe_verdict(state, plan):
                show_sentence(said, "speed-said")
    notes = [describe_measurement(state, plan), *list_model_notes(plan.models)]
    show_notes([one for one in notes if one], "speed-notes-from")
    with st.expander("Other drafts"):
        show_other_drafts(state.question)


def show_gains(plan: SpeedPlan, kind: str) -> None:
    """Speed over gamma, predicted and measured; before rounds are timed, the tokens."""
    if not plan.costs:
        _show_chart("tokens", plan_figures.plot_tokens, plan_figures.describe_tokens, plan, kind=kind)
        return
    said = " ".join((*plan_figures.describe_best(plan), plan_figures.describe_gap(plan))).strip()
    show_figure(draw_cached(plan_figures.plot_factors, plan, kind), "speed", "factors", said, sentence=False)


def show_other_drafts(question: SpeedQuestion) -> None:
    """The recorded plans of all drafts at this temperature."""
    keys = {name: f"{draft} {question.choice.temperature}" for draft, name in DRAFTS.items()}
    plans = {name: plan for name, key in keys.items() if (plan := load_recorded_plans().get(key))}
    st.html(html.build_plain_table(*plan_figures.build_draft_table(plans)))
    st.caption(TEXTS["other_drafts"].format(temperature=question.choice.temperature))


def show_acceptance(study: Study | None, plan: SpeedPlan | None, draft: str, kind: str) -> None:
    """The acceptance rate over temperature, over top-p and over the position in the round: a small picture and a sentence each."""
    tables: list[Any] = []
    places = iter(st.columns(3, gap="large"))
    if study is not None and study.list_measured((draft,)):
        for axis in study_figures.AXES:
            if len(study_figures.group_by_axis(study, draft, axis)) > 1:
                with next(places), open_screen("speed", axis):
                    st.markdown(HEADINGS[axis])
                    plot, describe = study_figures.plot_acceptance, study_figures.describe_acceptance
                    _show_chart(axis, plot, describe, study, draft, axis, kind=kind)
        tables.append(("By kind of text", study_figures.build_rows(study, draft)))
    else:
        st.caption("There is no recorded study of this draft.")
    if plan is not None and plan.positions:
        with next(places), open_screen("speed", "positions"):
            st.markdown(HEADINGS["positions"].format(gamma=plan.rows[-1].gamma))
            _show_chart("positions", plan_figures.plot_positions, plan_figures.describe_positions, plan, kind=kind)
        tables.append(("By position", plan_figures.build_position_rows(plan)))
    st.caption(TEXTS["study"])
    show_tables("The numbers behind the pictures", *tables)


def show_predictions(study: Study | None, plan: SpeedPlan | None, draft: str, kind: str) -> None:
    """How tokens and acceptance are predicted, how near both come, and whether the draft is calibrated."""
    st.caption(TEXTS["letters"])
    st.markdown(TEXTS["method"])
    tables: list[Any] = []
    places = iter(st.columns(3, gap="large"))
    if plan is not None:
        with next(places):
            st.markdown(HEADINGS["tokens"])
            if plan.costs:  # else it stands above
                _show_chart("tokens", plan_figures.plot_tokens, plan_figures.describe_tokens, plan, kind=kind)
            st.caption(TEXTS["bands" if plan.costs else "no_costs"])
        tables.append(("By gamma", plan_figures.build_rows(plan)))
    if study is not None and study.list_measured((draft,)):
        with next(places), open_screen("speed", "predictions"):
            st.markdown(HEADINGS["predictions"])
            plot, describe = study_figures.plot_predictions, study_figures.describe_predictions
            _show_chart("foretold", plot, describe, study, draft, kind=kind)
        with next(places), open_screen("speed", "confidence"):
            st.markdown(HEADINGS["confidence"])
            plot, describe = study_figures.plot_confidence, study_figures.describe_confidence
            _show_chart("confidence", plot, describe, study, draft, kind=kind)
        tables.append((f"Which statistic predicts acceptance best? {TEXTS['scores']}", study_figures.build_score_rows(study)))
        tables.append(("By kind of text", study_figures.build_rows(study, draft)))
        tables.append(("Calibration", study_figures.build_calibration_rows(study, draft)))
    else:
        st.caption("There is no recorded study of this draft.")
    show_tables("The numbers behind the pictures", *tables)


def show_server(state: SpeedState, plan: SpeedPlan | None, kind: str) -> None:
    """How one's own server is started and measured; below, the record of one that was uploaded."""
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(HEADINGS["start"])
        if plan is not None:
            show_server_lines(state, plan)
    sent = None
    with right:
        st.markdown(TEXTS["server"])
        st.code(TEXTS["server_command"], language=None, wrap_lines=True)
        if load_options().mode == "local":  # what a visitor uploads is nobody else's business, and a host needs none
            sent = st.file_uploader("Its record: report.json", type=["json"], key=f"speed-server-{state.turn}", max_upload_size=1)
    if isinstance(sent, UploadedFile):
        show_server_record(sent, kind)


def show_server_record(sent: UploadedFile, kind: str) -> None:
    """What speculation gains on a server of the visitor's own: the record that ``specviz pays`` has written."""
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


def show_batches(choice: PlanChoice, kind: str) -> None:
    """The shipped pair over the number of texts at once, and why more gain less: what a pass costs there."""
    batches = load_batches()
    if batches is None:
        st.caption("There is no recorded measurement of several texts at once.")
        return
    model, (key, origin) = build_headline_model(batches), choose_rounds(batches, choice)
    (number, said), dip = words.describe_batches(model, batches), words.explain_dip(model, batches)
    costs = model, batches, load_gpu_costs()
    left, right = st.columns(2, gap="large")
    with left, open_screen("speed", "batch"):
        st.markdown(HEADINGS["batch"])
        st.markdown(TEXTS["batch_why"])
        figure = batch_figures.plot_model_speeds(model, batches, kind)
        show_figure(figure, "speed", "batch", f"{number} {said} {dip}".strip(), sentence=False)
        with st.container(key="speed-batch"):
            st.markdown(f"**{number}** {said}")
            st.caption(TEXTS["batch"])
    with right, open_screen("speed", "passes"):
        st.markdown(HEADINGS["passes"])
        st.markdown(TEXTS["passes_why"])
        longer = batch_figures.describe_pass_costs(*costs)
        show_figure(batch_figures.plot_pass_costs(*costs, kind), "speed", "passes", longer, sentence=False)
        st.markdown(longer)
        st.caption(TEXTS["passes"])
    with st.expander(TEXTS["batch_fold"]):
        if dip:
            st.markdown(dip)
        st.caption(f"{origin} {TEXTS['batch_table']}")
        show_table_list(draw_cached(batch_figures.build_rows, batches, key))


def show_surface(model: RoundModel, sliders: Sliders, kind: str) -> None:
    """The paper's formula as a surface, with the point of the sliders and that of the pair."""
    pair, gamma, spot = locate_pair(model), sliders.gamma, sliders.spot
    surface, sentence = surface_figures.plot_surface(gamma, spot, pair, kind), surface_figures.describe_spot(gamma, spot)
    with open_screen("speed", "surface"):
        st.markdown(HEADINGS["surface"])
        show_figure(surface, "speed", "surface", sentence)
    st.caption(TEXTS["formula"])
    tables = (
        ("At both points, by gamma", surface_figures.build_rows(pair, spot)),
        (f"How close is the formula to the paper’s own table? {SOURCE}: {TEXTS['table']}", plan_figures.build_published_rows()),
    )
    show_tables("The numbers behind the picture", *tables)
