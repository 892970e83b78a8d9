"""Models that a caller lends: read through copies that share their weights, so that nothing of theirs is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain

import transformers
from torch import nn
from transformers import PreTrainedModel

from specviz.errors import ModelError


def share_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a model, in eval mode and without gradients, on the weights of the given one, which is not changed.

    The given one must not be trained while the copy is in use: some values are computed once from the weights. Raises ModelError for
    a model with hooks, such as those that spread one over devices: a fast pass does not call them.
    """
    if has_hooks(model):
        raise ModelError(
            f"The {model.config.model_type} model has hooks on its modules, which not every pass would call. Remove them, and load it "
            "on one device."
        )
    shared: dict[int, object] = {id(one): nn.Parameter(one.data, requires_grad=False) for one in model.parameters()}
    shared |= {id(one): one for one in chain(model.buffers(), _list_plain_tensors(model)) if id(one) not in shared}
    return deepcopy(model, shared).eval()


def has_hooks(model: PreTrainedModel) -> bool:
    """Whether something is called before or after one of its modules."""
    return any(module._forward_hooks or module._forward_pre_hooks or hasattr(module, "_hf_hook") for module in model.modules())


def _list_plain_tensors(model: PreTrainedModel) -> Iterator[object]:
    """Tensors that are plain attributes of a module."""
    for module in model.modules():
        yield from (value for value in vars(module).values() if hasattr(value, "data_ptr"))


@contextmanager
def silence_transformers() -> Iterator[None]:
    """No warnings and progress bars of transformers in here; afterwards as it was before."""
    level, bars = transformers.logging.get_verbosity(), transformers.utils.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.utils.logging.enable_progress_bar()
