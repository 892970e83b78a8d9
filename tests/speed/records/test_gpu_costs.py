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


def test_an_estimated_pass_lies_between_the_compiled_passes_over_fewer_and_more_tokens() -> None:
    """By what five tokens saved (1.5), two would take less than one, three more than five, and nine less than five."""
    passes = {"large": {"1": 5.0, "2": 5.4, "3": 6.8, "5": 6.0, "9": 5.8, "17": 7.0}, "draft of 2 layers": {"1": 0.5}}
    costs = GpuCosts(
        "a GPU", "2026-11-27", {}, passes, {"large": {"1": 4.0, "5": 4.5}}, {}, {}, {"large": {"draft of 2 layers": 8.0}}, {}
    )
    assert costs.build_cost_models({"large": 28})["large"].passes == {1: 4.0, 2: 4.0, 3: 4.5, 5: 4.5, 9: 4.5, 17: 5.5}


def test_no_pass_of_a_shipped_model_is_quicker_than_one_over_fewer_tokens() -> None:
    for model in list_gpu_costs()["h200"].build_cost_models({"1.7B": 28, "8B": 36}).values():
        assert [*model.passes.values()] == sorted(model.passes.values())


def test_costs_are_read_back() -> None:
    (costs,) = list_gpu_costs().values()
    assert GpuCosts.from_json(costs.to_json()) == costs


def test_a_measurement_without_results_has_no_costs() -> None:
    costs = GpuCosts.from_measurement({"parts": {"machine": {"status": "done"}}}, "2026-11-27")
    assert (costs.machine, costs.date, costs.passes, costs.pair) == ("CPU", "2026-11-27", {}, {})
