"""Files of draws on the page Is it exact?: how they come in, and what was found about them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from specviz.figures.exactness import evidence
from specviz.web.exactness.state import LARGEST, Exam, Upload

MARKS = {"consistent": "✓", "rejected": "✗", "too few draws": "?"}
ALARMS = "Chance alone gives right draws a rejection once in 1,000 files; this holds for all tests together."


def uploader(place: Any, turn: int) -> None:
    """The one control that takes files."""
    place.file_uploader(
        "Draws of any server (.jsonl), or two files to compare", type=["jsonl", "json", "txt"], accept_multiple_files=True,
        key=_key(turn), max_upload_size=LARGEST,
        help="A line is a JSON object with prompt, tokens (ids) or text, and perhaps stop and settings: docs/checking-your-server.md.",
    )  # fmt: skip


def take(exam: Exam, turn: int) -> None:
    """Hand what was uploaded to the examination; nobody else's session sees it."""
    found = st.session_state.get(_key(turn)) or ()
    exam.take([Upload(one.file_id, one.name, one.getvalue()) for one in found])


def results(exam: Exam, kind: str) -> None:
    """Verdict, picture and tests. What files and people wrote is text, never markdown."""
    if exam.filed is None:
        st.caption(
            "One file is tested against the target’s exact distribution, under the settings of this page; two files are tested against each "
            "other, without any weights. Speculation on against off, say."
        )
        return
    report, picture = exam.filed.report, exam.filed.picture
    with st.container(key="exact-verdict"):
        st.markdown(f"## {MARKS[report['verdict']]} {report['sentence']}\n{ALARMS}")
        st.container(key="exact-text-file").text(described(report))
    if report["note"]:
        st.container(key="exact-notes-file").text(report["note"])
    if picture:
        st.plotly_chart(
            evidence.filling(picture, evidence.top(picture), kind), key="exact-figure-file", config={"displayModeBar": False},
            alt=picture.conclusion,
        )  # fmt: skip
        st.markdown(
            "The heaviest cells, made from the exact distribution alone; … stands for every text that begins so. "
            "Chance alone keeps all bars inside the grey bands 99 times in 100."
        )
    with st.expander("Every test", expanded=True):
        st.dataframe(tests(report), hide_index=True)
    with st.expander("The same without this page"):
        from specviz.export.report import commands

        st.code("\n".join(commands(report)[:1]), language=None, wrap_lines=True)


def described(report: dict[str, Any]) -> str:
    """Which files, how many draws, after which words."""
    files = " and ".join(f"'{one['name']}' ({one['draws']:,} draws)" for one in report["files"])
    prompt = report["settings"]["prompt"]
    return f"{files}, after “{prompt if len(prompt) <= 80 else '…' + prompt[-79:]}”."


def tests(report: dict[str, Any]) -> list[dict[str, str]]:
    """Every test as a row."""
    return [
        {
            "test": test["name"],
            "p-value": f"{test['p_value']:.3g}",
            "corrected": f"{test['adjusted_p']:.3g}",
            "sees a distance of": "" if test["detectable_tv"] is None else f"{test['detectable_tv']:.2g}",
        }
        for test in report["tests"]
    ]


def _key(turn: int) -> str:
    return f"exact-file-{turn}"
