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


def test_costs_are_read_back() -> None:
    (costs,) = list_gpu_costs().values()
    assert GpuCosts.from_json(costs.to_json()) == costs


def test_a_measurement_without_results_has_no_costs() -> None:
    costs = GpuCosts.from_measurement({"parts": {"machine": {"status": "done"}}}, "2026-11-27")
    assert (costs.machine, costs.date, costs.passes, costs.pair) == ("CPU", "2026-11-27", {}, {})
