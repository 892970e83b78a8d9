"""cuDNN's attention is left out of passes of varying shape on a GPU, and comes back when the last of them has ended."""

from __future__ import annotations

import pytest
import torch

from specviz.models.attention import avoid_shape_plans


@pytest.fixture
def switch(monkeypatch) -> list[bool]:
    states = [True]
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", states.append)
    return states


def test_the_last_pass_switches_it_on_again(switch) -> None:
    device = torch.device("cuda")
    with pytest.raises(ValueError), avoid_shape_plans(device):
        with avoid_shape_plans(device):
            assert switch[-1] is False
        assert switch[-1] is False
        raise ValueError
    assert switch[-1] is True


def test_nothing_is_switched_on_a_cpu(switch) -> None:
    with avoid_shape_plans(torch.device("cpu")):
        assert switch == [True]
