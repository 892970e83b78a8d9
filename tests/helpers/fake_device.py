"""A fake GPU for tests: its tensors are stored on the CPU, report the device "cuda", and raise where tensors of a GPU would raise.

Results equal those of the CPU to the last bit, so a run on it must give the same tokens. An operation that mixes devices, or that
a CUDA graph cannot record, fails here too. Not covered: number formats and speed of a real device, code that accesses memory
without torch, calls of torch.cuda.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from specviz.decoding.device import capture, choice
from specviz.models.fast_llama import layers

DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")

_READS = {Tensor.device.__get__: DEVICE, Tensor.is_cuda.__get__: True, Tensor.is_cpu.__get__: False}
_NUMPY = {Tensor.numpy, Tensor.__array__}
_INDEXED = {Tensor.__getitem__, Tensor.__setitem__, Tensor.index_put, Tensor.index_put_, torch.index_put, torch.index_put_}
_SCALARS = {torch.tensor, torch.Tensor.item, Tensor.tolist}  # return numbers or a CPU tensor, whatever the device
_FETCHED = {  # read values from the device, so the host waits
    *(Tensor.item, Tensor.tolist, Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.nonzero),
    torch.nonzero,
}
fetched: list[str] = []  # calls that read values from DEVICE, in order
sent: list[str] = []  # calls that copied values to DEVICE, in order
_ACROSS = {Tensor.copy_, Tensor.data.__set__, torch.Tensor.backward}  # may mix devices: they copy between them
_ALL_ALIKE = {  # may not mix devices, not even for a single number
    *(Tensor.index_select, Tensor.gather, Tensor.scatter, Tensor.scatter_, Tensor.index_fill, Tensor.index_fill_),
    *(Tensor.index_add, Tensor.index_add_, Tensor.index_copy, Tensor.index_copy_, Tensor.scatter_add, Tensor.scatter_add_),
    *(Tensor.matmul, Tensor.__matmul__, Tensor.mm, Tensor.bmm, Tensor.take_along_dim, Tensor.multinomial),
    *(torch.index_select, torch.gather, torch.scatter, torch.index_fill, torch.matmul, torch.searchsorted, torch.bucketize),
    *(torch.isin, torch.stack, torch.cat, torch.take_along_dim, torch.multinomial, torch.bincount, Tensor.bincount),
    *(torch.nn.functional.linear, torch.nn.functional.embedding, torch.nn.functional.scaled_dot_product_attention),
}


class RecordingMode(TorchDispatchMode):
    """Raises for operations that cannot be recorded in a CUDA graph: those that make the host wait, copy between devices, or have
    an output shape that depends on values."""

    REFUSED = (
        "_local_scalar_dense",
        "aten.item",
        "nonzero",
        "masked_select",
        "unique",
        "bincount",
        "repeat_interleave.Tensor",
        "_to_copy.device",
    )

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        name = str(func)
        assert not any(word in name for word in self.REFUSED), f"{name} inside the round"
        return func(*args, **(kwargs or {}))


recordings: list[int] = []  # operations of each call that ``record_on_host`` recorded, in order


def record_on_host(function, packet: Tensor):
    """``capture.record_graph`` without a GPU: a replay is the same call, under ``RecordingMode``, and its numbers are copied into the
    result of the recorded call."""
    for _ in range(capture.WARM_UPS):
        function(packet)

    def call() -> Tensor:
        before = len(fetched)
        with RecordingMode() as mode:
            found = function(packet)
        assert len(fetched) == before, f"{fetched[before:]} inside the round"
        recorded.append(mode.calls)
        return found

    recorded: list[int] = []
    result = call()
    recordings.append(recorded[0])

    def replay() -> None:
        fresh = call()
        assert recorded[-1] == recorded[0], "a replay runs the recorded operations"
        result.copy_(fresh)

    return replay, result


class OnDevice(Tensor):
    """A tensor that reports DEVICE and keeps its values in CPU memory."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})


class _Device(TorchFunctionMode):
    """Makes ``OnDevice`` tensors where torch creates them on DEVICE or moves them there."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})


@contextmanager
def fake_device() -> Iterator[torch.device]:
    """Within this context DEVICE exists: tensors can be created on it and modules moved to it."""
    overwritten = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # a parameter's class changes with its device
    try:
        with (
            mock.patch.object(torch.cuda, "is_available", return_value=True),
            mock.patch.object(torch.cuda, "mem_get_info", return_value=(1 << 40, 1 << 40)),
            mock.patch.object(torch.cuda, "synchronize"),
            mock.patch.object(torch.cuda, "get_device_name", return_value="none"),
            mock.patch.object(torch.cuda, "get_device_capability", return_value=(8, 0)),
            mock.patch.object(layers, "type", _kind, create=True),  # it asks for a weight's very class
            mock.patch.object(capture, "record_graph", record_on_host),
            mock.patch.object(capture, "WARM_UPS", 1),
            mock.patch.object(choice, "PROBE_ROUNDS", 1),
            mock.patch.object(choice, "PROBE_WARM_UPS", 0),
            _Device(),
        ):
            yield DEVICE
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwritten)


def _kind(thing: Any) -> type:
    """A tensor's class as a real device's would be."""
    return (nn.Parameter if isinstance(thing, nn.Parameter) else Tensor) if isinstance(thing, OnDevice) else type(thing)


def _call(func, args: tuple, kwargs: dict[str, Any]):
    tensors = list(_tensors((args, kwargs)))
    there = [isinstance(x, OnDevice) for x in tensors]
    if func in _FETCHED and there[0]:
        fetched.append(func.__name__)
    if func is Tensor.copy_ and there == [True, False]:
        sent.append("copy_")
    if func is torch._has_compatible_shallow_copy_type and any(there) and not all(there):
        return False
    if func in _READS and there[0]:
        return _READS[func]
    if func in _NUMPY and there[0]:
        raise TypeError(
            f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if func is torch.histc and there[0] and not args[0].is_floating_point():
        args = (args[0].to(torch.float64), *args[1:])  # a GPU counts whole numbers too, the CPU only floats
    if func is Tensor.__deepcopy__ and there[0]:
        return args[1].setdefault(id(args[0]), args[0].detach().clone().requires_grad_(args[0].requires_grad))
    if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
        return _move(func, args, kwargs)
    goes = _check(func, args, kwargs, tensors)
    if kwargs.get("device") is not None:
        goes = torch.device(kwargs["device"]).type == DEVICE.type
        kwargs = kwargs | {"device": CPU if goes else kwargs["device"]}
    generator = kwargs.get("generator")
    if goes and generator is not None:
        raise RuntimeError(f"Expected a '{DEVICE.type}' device type for generator but found '{generator.device.type}'")
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
    return _place(result, tensors, goes)


def _check(func, args: tuple, kwargs: dict[str, Any], tensors: list[Tensor]) -> bool:
    """Whether the result is on DEVICE. Raises where a GPU would refuse to mix these tensors."""
    if func in _SCALARS:
        return False
    if func in _ACROSS:
        return isinstance(tensors[0], OnDevice)
    if func in _INDEXED:
        return _check_indexed(args, kwargs)
    if not any(isinstance(x, OnDevice) for x in tensors):
        return False
    for x in tensors:
        if not isinstance(x, OnDevice) and (x.dim() > 0 or func in _ALL_ALIKE):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and cpu!"
            )
    return True


def _check_indexed(args: tuple, kwargs: dict[str, Any]) -> bool:
    """An index may lie on the CPU or with what it indexes; so must what is written, unless a slice is copied into."""
    there, index = isinstance(args[0], OnDevice), list(_tensors(args[1]))
    if not there and any(isinstance(x, OnDevice) and (x.dim() > 0 or x.dtype is torch.bool) for x in index):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
    lists = any(isinstance(part, list) for part in (args[1] if isinstance(args[1], tuple) else (args[1],)))
    for value in _tensors((args[2:], kwargs)):
        if isinstance(value, OnDevice) is not there and value.dim() > 0 and (index or lists):
            raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")
    return there


def _move(func, args: tuple, kwargs: dict[str, Any]):
    """``to``, ``cpu`` and ``cuda``: a copy where the device changes, as between memories."""
    x, rest = args[0], [*args[1:], *kwargs.values()]
    there = goes = isinstance(x, OnDevice)
    if func is not Tensor.to:
        goes = func is Tensor.cuda
        rest, func, args, kwargs = [], Tensor.to, (x, CPU), {}
    for part in rest:
        if isinstance(part, Tensor):
            goes = isinstance(part, OnDevice)
        elif isinstance(part, str | torch.device) or (isinstance(part, int) and not isinstance(part, bool)):
            goes = torch.device(part).type == DEVICE.type
    if there and not goes:
        fetched.append("cpu")
    if goes and not there:
        sent.append("to")
    args = tuple(_map_device(part) for part in args)
    kwargs = {name: _map_device(part) for name, part in kwargs.items()}
    with torch._C.DisableTorchFunction():
        result = func(*args, **kwargs)
        if result is x and there != goes:
            result = x.clone()
    return result if result is x else _place(result, [], goes)


def _map_device(part):
    """The device to pass to torch: the CPU instead of DEVICE."""
    if isinstance(part, str | torch.device) and torch.device(part).type == DEVICE.type:
        return CPU
    return part


def _place(result, tensors: list[Tensor], goes: bool):
    if isinstance(result, Tensor):
        if any(result is x for x in tensors):
            return result  # written in place
        with torch._C.DisableTorchFunction():
            return (
                result.as_subclass(OnDevice) if goes else result if type(result) is not OnDevice else result.as_subclass(Tensor)
            )
    if type(result) in (tuple, list):
        return type(result)(_place(one, tensors, goes) for one in result)
    if isinstance(result, tuple) and goes and any(isinstance(one, Tensor) for one in result):
        return type(result)([_place(one, tensors, goes) for one in result])  # torch's named results
    return result


def _tensors(value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
