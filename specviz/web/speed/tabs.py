"""The sections of How fast? behind tabs, of which only the open one is drawn: acceptance, its forecast, many texts, what if."""

from __future__ import annotations

import streamlit as st

from specviz.figures.speed import batch, surface
from specviz.figures.speed import study as fast_study
from specviz.prediction.batches import BatchSpeeds
from specviz.prediction.plan import SpeedPlan
from specviz.prediction.plans import Choice
from specviz.prediction.study import Study
from specviz.settings import GAMMA_MAX
from specviz.web.speed.parts import picture, sentence
from specviz.web.speed.sections import of_batches, running, slider, tabs, what_if
from specviz.web.speed.state import TABS, Ask, Forecasts, batches, study


def sections(forecasts: Forecasts, plan: SpeedPlan | None, kind: str, turn: int) -> None:
    """All tabs, and in the open one its section."""
    ask, choice, found = forecasts.question, forecasts.question.choice, study()
    shown = st.tabs([*TABS.values()], default=TABS[ask.tab], key=tabs(turn), on_change="rerun")
    for name, tab in zip(TABS, shown, strict=True):
        if not tab.open:
            continue
        with tab:
            if name == "what-if":
                _what_if(ask, plan, kind, turn)
            elif name == "many":
                _many(batches(), choice, kind)
            elif found is None or not found.measured((choice.draft,)):
                st.caption("There is no recorded study of this draft.")
            else:
                (_kept if name == "kept" else _foretold)(found, choice.draft, kind)


def _kept(found: Study, draft: str, kind: str) -> None:
    st.caption(
        "A thin line for each of nine kinds of text, a thick one for their mean with the middle 95% over resampled kinds; recorded."
    )
    sides = st.columns(2, gap="large")
    for side, axis in zip(sides, fast_study.AXES, strict=True):
        if len(fast_study.cells_over(found, draft, axis)) < 2:
            continue
        with side:
            st.markdown("### Over temperature" if axis == fast_study.TEMPERATURE else "### Over top-p, at temperature 1")
            picture(fast_study.kept(found, draft, axis, kind), axis, fast_study.kept_conclusion(found, draft, axis))
    with st.expander("The numbers behind the pictures"):
        st.dataframe(fast_study.rows(found, draft), hide_index=True)


def _foretold(found: Study, draft: str, kind: str) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(
            "### Foretold and measured\nA point for each kind of text and distribution; on the dotted line both are the same."
        )
        picture(fast_study.foretold(found, draft, kind), "foretold", fast_study.foretold_conclusion(found, draft))
    with right:
        st.markdown(
            "### Does the draft know what it knows?\nHow often its first choice is right about the text, over how sure it is."
        )
        picture(fast_study.confidence(found, draft, kind), "confidence", fast_study.confidence_conclusion(found, draft))
    with st.expander("Which plain statistic would have told it beforehand?"):
        st.dataframe(fast_study.scores(found), hide_index=True)
        st.caption(
            "Error of the predicted share of accepted draft tokens over all drafts, on kinds of text that the fit had not seen. Accepted draft tokens and "
            "the overlap itself are fitted to nothing; the overlap is read off the text, accepted draft tokens off what the target writes on from it."
        )
    with st.expander("The numbers behind the pictures"):
        st.dataframe(fast_study.rows(found, draft), hide_index=True)
        st.dataframe(fast_study.bins(found, draft), hide_index=True)


def _many(found: BatchSpeeds | None, choice: Choice, kind: str) -> None:
    if found is None:
        st.caption("There is no recorded measurement of many texts.")
        return
    key, said = of_batches(found, choice)
    st.caption(said)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(
            "### Where it stops paying\nSpeed over the number of texts, by the passes that were timed and the rounds that were counted."
        )
        picture(batch.factors(found, key, kind), "batch", found.in_words(key))
    with right:
        st.markdown("### What checking costs\nA pass over more tokens of every text; a line for each number of texts.")
        picture(batch.passes(found, kind), "passes", batch.passes_conclusion(found))
    with st.expander("The numbers behind the pictures"):
        st.dataframe(batch.rows(found, key), hide_index=True)


def _what_if(ask: Ask, plan: SpeedPlan | None, kind: str, turn: int) -> None:
    """The surface with its three sliders, which begin where the running pair stands."""
    st.caption(surface.FORMULA)
    choice = ask.choice
    start, places, held = what_if(ask, plan, batches()), st.columns(3, gap="large"), {"persist_state": "session"}
    said = {"alpha": "alpha: share of draft tokens kept", "c": "c: draft step over target pass"}
    alpha, c = (
        place.slider(text, 0.0, 1.0, getattr(start.spot, name), 0.01, key=slider(name, choice, turn), **held)
        for place, (name, text) in zip(places, said.items(), strict=False)
    )
    gamma = places[2].slider(
        "gamma: draft tokens of a round", 1, GAMMA_MAX, start.gamma, key=slider("gamma", choice, turn), **held
    )
    spot, pair = surface.Spot(alpha, c), running(choice, plan, batches(), gamma)
    picture(surface.surface(gamma, spot, pair, kind), "surface", surface.in_words(gamma, spot))
    sentence(surface.of_pair(gamma, pair, counted(plan, gamma)), "-pair")
    with st.expander("The numbers behind the picture"):
        st.dataframe(surface.table(pair, spot), hide_index=True)


def counted(plan: SpeedPlan | None, gamma: int) -> float | None:
    row = plan and plan.row(gamma)
    return row.factor.value if row and row.factor else None
