"""The recorded costs of a GPU: what ships can be read, and what is written is read back."""

from __future__ import annotations

from specviz.speed.records.gpu_costs import GpuCosts, list_gpu_costs


def test_the_shipped_costs_can_be_read_and_grow_with_the_tokens() -> None:
    costs = list_gpu_costs()["h200"]
    assert costs.machine == "NVIDIA H200"
    for curve in costs.passes.values():
        assert [*map(int, curve)] == sorted(map(int, curve))
        assert max(curve.values()) < 2 * curve["1"]  # up to 64 tokens cost less than two passes over one
    for speed in costs.pair.values():
        assert speed.rates[speed.baseline][0] >= max(v[0] for name, v in speed.rates.items() if name.startswith("target only"))


def test_costs_are_compiled_ones_only_where_every_pass_was_compiled() -> None:
    passes = {"large": {"1": 5.0, "2": 5.4, "5": 6.0}, "draft of 2 layers": {"1": 0.5}}
    replays = {"large": {"draft of 2 layers": 9.0, "draft of 2 layers, compiled": 7.0}}
    for compiled, expected, rest in (
        ({"large": {"1": 4.0, "5": 4.5}}, {1: 5.0, 2: 5.4, 5: 6.0}, 1.0),
        ({"large": {"1": 4.0, "2": 4.2, "5": 4.5}, "draft of 2 layers": {"1": 0.25}}, {1: 4.0, 2: 4.2, 5: 4.5}, 1.5),
    ):
        model = GpuCosts("a GPU", "2026-11-27", {}, passes, compiled, {}, {}, replays, {}).build_cost_models({"large": 28})[
            "large"
        ]
        assert model.passes == expected and model.drafts[0].rest == rest


def test_a_shipped_pass_is_no_quicker_than_one_over_fewer_tokens() -> None:
    """But for 2%, what a clock leaves open."""
    for model in list_gpu_costs()["h200"].build_cost_models({"1.7B": 28, "8B": 36}).values():
        times = [*model.passes.values()]
        assert all(later > 0.98 * max(times[: place + 1]) for place, later in enumerate(times[1:]))


def test_costs_are_read_back() -> None:
    (costs,) = list_gpu_costs().values()
    assert GpuCosts.from_json(costs.to_json()) == costs


def test_a_measurement_without_results_has_no_costs() -> None:
    costs = GpuCosts.from_measurement({"parts": {"machine": {"status": "done"}}}, "2026-11-27")
    assert (costs.machine, costs.date, costs.passes, costs.pair) == ("CPU", "2026-11-27", {}, {})
