"""What speculation gains on a running server: the report of ``pays`` -> Plotly figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.figures.charts import build_error_bars, frame_chart
from specviz.figures.lazy_plotly import go
from specviz.figures.theme import GRAY, MEANINGS
from specviz.speed.records.estimate import Estimate

ON, OFF = "with speculation", "without"
PAYS = {"pays": "circle", "unclear": "diamond-open", "hurts": "x"}  # the verdict on a level -> mark, never color alone


def read_estimate(record: Mapping[str, Any]) -> Estimate:
    """The estimate of a report's field."""
    return Estimate(record["value"], record["low"], record["high"], record["n"], record["unit"])


def plot_speedups(report: Mapping[str, Any], kind: str = "light") -> go.Figure:
    """Speed-up over the same server without speculation, over the number of users, with 95% intervals."""
    figure, levels = go.Figure(), [level for level in report["levels"] if level["speedup"]]
    color = getattr(MEANINGS["target"], kind)
    estimates, users = [read_estimate(level["speedup"]) for level in levels], [level["users"] for level in levels]
    figure.add_scatter(x=users, y=[one.value for one in estimates], mode="lines", name="speed-up, 95% interval",
                       error_y=build_error_bars(estimates, thickness=1.4, width=4, color=color), line={"width": 2.2, "color": color},
                       hoverinfo="skip")  # fmt: skip
    for verdict, symbol in PAYS.items():
        judged = [level for level in levels if level["verdict"] == verdict]
        if judged:
            figure.add_scatter(x=[level["users"] for level in judged], y=[level["speedup"]["value"] for level in judged], mode="markers",
                               name=verdict, marker={"size": 10, "symbol": symbol, "color": color},
                               hovertemplate=f"%{{x}} users: %{{y:.2f}} ({verdict})<extra></extra>")  # fmt: skip
    figure.add_hline(y=1.0, line={"width": 1.2, "color": GRAY[kind]})
    figure.add_annotation(x=0.0, xref="paper", y=1.0, xanchor="left", xshift=3, yshift=-9, showarrow=False,
                          text="without speculation", font={"size": 12, "color": GRAY[kind]})  # fmt: skip
    frame_chart(figure, 340, "users at a time", "speed-up")
    figure.update_xaxes(type="log", tickvals=users, ticktext=[str(one) for one in users])
    return figure


def plot_rates(report: Mapping[str, Any], kind: str = "light") -> go.Figure:
    """Tokens, or characters, per second of all users together, with speculation and without."""
    figure = go.Figure()
    for key, name, color, dash in (("on", ON, getattr(MEANINGS["target"], kind), "solid"), ("off", OFF, GRAY[kind], "dash")):
        levels = [level for level in report["levels"] if level[key]]
        estimates = [read_estimate(level[key]) for level in levels]
        if levels:
            figure.add_scatter(x=[level["users"] for level in levels], y=[one.value for one in estimates], mode="lines+markers", name=name,
                               error_y=build_error_bars(estimates, thickness=1.4, width=4, color=color),
                               line={"width": 2.2, "dash": dash, "color": color}, marker={"size": 7, "color": color},
                               hovertemplate=f"{name}: %{{y:.1f}}<extra></extra>")  # fmt: skip
    frame_chart(figure, 340, "users at a time", report["unit"])
    users = [level["users"] for level in report["levels"]]
    figure.update_xaxes(type="log", tickvals=users, ticktext=[str(one) for one in users])
    figure.update_yaxes(rangemode="tozero")
    return figure


def plot_gammas(report: Mapping[str, Any], kind: str = "light") -> go.Figure:
    """Computed speed-up of one user over the draft length: the server's own length is filled, lengths beyond it are open."""
    figure, rows, color = go.Figure(), report["gammas"], getattr(MEANINGS["draft"], kind)
    figure.add_scatter(x=[row["gamma"] for row in rows], y=[row["speedup"] for row in rows], mode="lines", name="computed",
                       line={"width": 2.0, "color": color}, hoverinfo="skip")  # fmt: skip
    others = [row for row in rows if row["gamma"] != report["gamma"]]
    for name, size, symbol, chosen in (
        ("the server's own", 13, "circle", [row for row in rows if row["gamma"] == report["gamma"]]),
        ("acceptance measured", 8, "circle", [row for row in others if not row["is_extrapolated"]]),
        ("acceptance extrapolated", 8, "circle-open", [row for row in others if row["is_extrapolated"]]),
    ):
        if chosen:
            figure.add_scatter(x=[row["gamma"] for row in chosen], y=[row["speedup"] for row in chosen], mode="markers", name=name,
                               marker={"size": size, "symbol": symbol, "color": color},
                               hovertemplate="gamma %{x}: %{y:.2f}<extra></extra>")  # fmt: skip
    figure.add_hline(y=1.0, line={"width": 1.2, "color": GRAY[kind]})
    frame_chart(figure, 340, "gamma, draft tokens per round", "speed-up, one user")
    figure.update_xaxes(tickvals=[row["gamma"] for row in rows])
    return figure


def describe_rates(report: Mapping[str, Any]) -> str:
    """The rates at the least and at the largest load."""
    parts = []
    for level in dict.fromkeys((0, len(report["levels"]) - 1)):
        one = report["levels"][level]
        off = f" and {one['off']['value']:.0f} without" if one["off"] else ""
        users = "one user" if one["users"] == 1 else f"{one['users']} users"
        parts.append(f"With {users} the server writes {one['on']['value']:.0f} {report['unit']} with speculation{off}.")
    return " ".join(parts)


def describe_gammas(report: Mapping[str, Any]) -> str:
    """The computed speed-up of the server's own draft length and of the best."""
    best = max(report["gammas"], key=lambda row: row["speedup"])
    own = next((row for row in report["gammas"] if row["gamma"] == report["gamma"]), None)
    said = f"The server drafts {own['gamma']} tokens a round, computed speed-up {own['speedup']:.2f}. " if own else ""
    beyond = ", with extrapolated acceptance" if best["is_extrapolated"] else ""
    return f"{said}The highest is {best['speedup']:.2f} at {best['gamma']}{beyond}."


def build_level_rows(report: Mapping[str, Any]) -> list[dict[str, object]]:
    """Every level of load as a row."""
    return [
        {
            "users": level["users"],
            f"with speculation, {report['unit']}": round(level["on"]["value"], 1),
            f"without, {report['unit']}": round(level["off"]["value"], 1) if level["off"] else None,
            "speed-up (95%)": read_estimate(level["speedup"]).format(".2f") if level["speedup"] else "",
            "verdict": level["verdict"] if level["speedup"] else "",
            "prompts without an answer": level["failed"],
        }
        for level in report["levels"]
    ]
