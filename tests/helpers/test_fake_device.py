"""The fake GPU reports its tensors' device, raises where a GPU's tensors would raise and nowhere else, and computes the numbers
of the CPU. The behavior of CUDA is taken from PyTorch's documentation of CUDA semantics ("cross-GPU operations are not allowed
by default, with the exception of copy_() and other methods with copy-like functionality such as to()"; zero-dimensional CPU tensors
go with any device) and, for indexing, from its source.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.helpers.fake_device import CPU, DEVICE, fake_device


@pytest.fixture
def device():
    with fake_device() as where:
        yield where


REFUSED = {
    "numpy": lambda x, here: x.numpy(),
    "as an array": lambda x, here: np.asarray(x),
    "written into an array": lambda x, here: np.zeros(3).__setitem__(slice(None), x),
    "a sum": lambda x, here: x + here,
    "a sum the other way": lambda x, here: here + x,
    "a single number of the device with many of the CPU": lambda x, here: here * x[0],
    "in place": lambda x, here: here.add_(x),
    "a comparison": lambda x, here: x > here,
    "a choice": lambda x, here: torch.where(x > 0, x, here),
    "a mask": lambda x, here: x.masked_fill(here > 0, 0.0),
    "joined": lambda x, here: torch.cat([x, here]),
    "stacked": lambda x, here: torch.stack([x, here]),
    "a product": lambda x, here: F.linear(x, torch.ones(2, 3)),
    "selected by an index of the CPU": lambda x, here: x.index_select(0, torch.tensor([0])),
    "gathered by one": lambda x, here: x.gather(0, torch.tensor([0])),
    "filled by one": lambda x, here: x.index_fill(0, torch.tensor([0]), 1.0),
    "an embedding": lambda x, here: F.embedding(torch.tensor([0]), x[:, None]),
    "searched": lambda x, here: torch.searchsorted(x, torch.tensor(1.0)),
    "looked for": lambda x, here: torch.isin(x, here),
    "CPU indexed by the device": lambda x, here: here[x.long()],
    "CPU indexed by its mask": lambda x, here: here[x > 0],
    "places filled from the CPU": lambda x, here: x.__setitem__(torch.tensor([0, 1]), here[:2]),
    "places of the CPU filled from the device": lambda x, here: here.__setitem__([0, 1], x[:2]),
    "drawn with a generator of the CPU": lambda x, here: torch.multinomial(x, 1, generator=torch.Generator()),
    "made with a generator of the CPU": lambda x, here: torch.rand(3, generator=torch.Generator(), device=DEVICE),
}
ALLOWED = {
    "a single number of the CPU": (lambda x, here: x * here[0], DEVICE),
    "indexed by the CPU": (lambda x, here: x[torch.tensor([0, 2])], DEVICE),
    "masked by the CPU": (lambda x, here: x[torch.tensor([True, False, True])], DEVICE),
    "moved": (lambda x, here: x.cpu() + here, CPU),
    "moved by name": (lambda x, here: x.to("cpu") + here, CPU),
    "moved to another's place": (lambda x, here: here.to(x) + x, DEVICE),
    "copied over": (lambda x, here: here.copy_(x), CPU),
    "made like it": (lambda x, here: torch.zeros_like(x) + x, DEVICE),
    "made there": (lambda x, here: torch.arange(3, device=x.device) + x, DEVICE),
    "new": (lambda x, here: x.new_zeros(3) + x, DEVICE),
    "a tensor of its numbers": (lambda x, here: torch.tensor([x[0], x[1]]), CPU),
    "a slice copied into": (lambda x, here: (x.__setitem__(slice(0, 2), here[:2]), x)[1], DEVICE),
    "an item of the CPU by a number of the device": (lambda x, here: here[x.long()[0]], CPU),
    "in place": (lambda x, here: x.add_(1.0), DEVICE),
    "a named result": (lambda x, here: x.topk(2).values, DEVICE),
    "a list of results": (lambda x, here: x.split(1)[0], DEVICE),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_what_a_gpu_refuses(device, what):
    here = torch.arange(3.0)
    with pytest.raises((RuntimeError, TypeError), match=r"same device|numpy|generator"):
        REFUSED[what](here.to(device), here)


@pytest.mark.parametrize("what", sorted(REFUSED.keys() - {"made with a generator of the CPU"}))
def test_on_the_cpu_alone_nothing_of_it_is_refused(device, what):
    REFUSED[what](torch.arange(3.0), torch.arange(3.0))


@pytest.mark.parametrize("what", ALLOWED)
def test_it_allows_what_a_gpu_allows_and_gives_the_same_numbers(device, what):
    work, where = ALLOWED[what]
    found = work(torch.arange(3.0).to(device), torch.arange(3.0))
    assert found.device == where
    assert found.tolist() == work(torch.arange(3.0), torch.arange(3.0)).tolist()


def test_numbers_come_out_one_by_one(device):
    x = torch.tensor([1.5, 2.5], device=device)
    assert (x.device, x.is_cuda, x.is_cpu) == (DEVICE, True, False)
    assert (float(x[0]), x[1].item(), x.tolist(), bool(x[0] > 1)) == (1.5, 2.5, [1.5, 2.5], True)
    assert type(x.cpu()) is torch.Tensor and x.cpu().numpy().tolist() == [1.5, 2.5]


def test_a_copy_on_the_cpu_is_a_copy(device):
    x = torch.zeros(2, device=device)
    x.cpu().fill_(1.0)
    assert x.tolist() == [0.0, 0.0]


def test_modules_move_there_with_all_that_they_hold(device):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval()
    there, x = copy.deepcopy(module).to(device), torch.ones(1, 3)
    assert {held.device for held in (*there.parameters(), *there.buffers())} == {DEVICE}
    assert all(isinstance(held, torch.nn.Parameter) for held in there.parameters())
    assert copy.deepcopy(there)[0].weight.device == DEVICE
    assert there(x.to(device)).tolist() == module(x).tolist()
    with pytest.raises(RuntimeError, match="same device"):
        there(x)


def test_afterward_there_is_no_such_device():
    with fake_device() as device:
        assert torch.cuda.is_available()
        torch.zeros(1, device=device)
    assert not torch.__future__.get_overwrite_module_params_on_conversion()
