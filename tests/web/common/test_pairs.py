"""What pages say of the models of a result."""

from __future__ import annotations

import pytest

from specviz.speed.records.gpu_costs import describe_bfloat16
from specviz.web.common.pairs import list_model_notes


@pytest.mark.parametrize(
    ("device", "dtype", "is_said"),
    [("cuda:0", "bfloat16", True), ("cuda", "float32", False), ("cpu", "bfloat16", False), ("cpu", "float32", False)],
)
def test_the_number_type_is_explained_where_speeds_are_those_of_cuda(device, dtype, is_said):
    assert list_model_notes({"device": device, "dtype": dtype}) == [describe_bfloat16()] * is_said
