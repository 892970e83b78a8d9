"""cuDNN's attention is left out of passes of varying shape on a GPU, and is as before when the last of them has ended."""

from __future__ import annotations

import pytest
import torch

from specviz.models.attention import avoid_shape_plans


@pytest.fixture
def switch(monkeypatch) -> list[bool]:
    states = [True]
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", states.append)
    monkeypatch.setattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: states[-1])
    return states


@pytest.mark.parametrize("before", [True, False])
def test_after_the_last_pass_it_is_as_before(switch, before: bool) -> None:
    switch[-1] = before
    device = torch.device("cuda")
    with pytest.raises(ValueError), avoid_shape_plans(device):
        with avoid_shape_plans(device):
            assert switch[-1] is False
        assert switch[-1] is False
        raise ValueError
    assert switch[-1] is before


def test_nothing_is_switched_on_a_cpu(switch) -> None:
    with avoid_shape_plans(torch.device("cpu")):
        assert switch == [True]
