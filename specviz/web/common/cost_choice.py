"""The machine of a speed: that on which it was timed, or one whose costs it is computed from. The same choice on every page about speed."""

from __future__ import annotations

from typing import Any, TypeVar

from specviz.errors import SettingsError
from specviz.records import to_json_value
from specviz.speed.records.cost_model import ON_RECORD, CostModel, load_cost_models
from specviz.speed.records.methods import MethodComparison
from specviz.speed.records.plan import SpeedPlan

Result = TypeVar("Result", SpeedPlan, MethodComparison)
MEASURED = "measured"
LABEL = "Machine"
TIMED, FROM_PASSES = "two CPU cores, timed", "two CPU cores, computed"
HELP = (
    "Timed: the speed was measured as a whole. The others are computed: how many draft tokens are accepted is this pair’s, what a pass takes "
    "is the machine’s, on the H200 with random weights of the published shapes. “Two CPU cores, computed” does the same for the two CPU cores: it shows how far such a "
    "computation is from the measured speed."
)


def list_cost_titles() -> dict[str, str]:
    """The choices, by what they are called in links."""
    models = load_cost_models()
    titles = {MEASURED: TIMED} | ({ON_RECORD: FROM_PASSES} if ON_RECORD in models else {})
    return titles | {name: model.title for name, model in models.items() if name != ON_RECORD}


def check_costs(name: str) -> str:
    """The name itself. Raises SettingsError for one that is no choice: a link names no file."""
    if name not in list_cost_titles():
        raise SettingsError("costs", name[:60], f"one of {', '.join(list_cost_titles())}")
    return name


def apply_costs(result: Result, name: str) -> Result:
    """A result with the chosen costs, the same object for the same result."""
    from specviz.web.common.figure_cache import draw_cached  # plotly, which exports do without

    model = load_cost_models().get(name)
    return result if model is None else draw_cached(type(result).with_cost_model, result, model)


def describe_costs(model: CostModel | None) -> dict[str, Any]:
    """Field of a manifest: whose costs count, with all their numbers; nothing where the result was measured as a whole."""
    return {"costs": to_json_value(model)} if model else {}


def name_cost_model(model: CostModel) -> str:
    """What ``plan --costs`` calls a shipped cost model; another one is a file of the user's."""
    return next((name for name, one in load_cost_models().items() if one == model), "costs.json")
