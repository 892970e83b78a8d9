"""A model's linear layers, computed in the fastest known way, for families whose layers run in the library's code.

The products of fast_llama/products.py are quicker than the library's, and most of the time goes into the output layer where the vocabulary is
large. Which product is taken depends on the layer's shape and on the number of tokens alone, never on who asks. Passes over one token and
over several may differ by rounding, as in the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specviz.models.fast_llama.products import Weights, multiply
from specviz.models.pairs.shared_weights import has_hooks, share_weights

_wanted = local()  # rows: how many last columns the output layer of this thread's pass reads, and which of their tokens
_copies: WeakKeyDictionary = WeakKeyDictionary()  # model -> its copy; read-only once made
_copies_lock = Lock()


class FewTokensLinear(nn.Linear):
    """A linear layer whose product is ``multiply``."""

    weights: Weights

    def forward(self, entering: Tensor) -> Tensor:
        found = multiply(entering.reshape(1, -1, entering.shape[-1]), self.weights).view(*entering.shape[:-1], -1)
        return found if self.bias is None else found + self.bias


class OutputLinear(FewTokensLinear):
    """The output layer. Within ``compute_only`` it reads the wanted tokens alone."""

    def forward(self, entering: Tensor) -> Tensor:
        rows = getattr(_wanted, "rows", None)
        if rows is not None:
            keep, picked = rows
            entering = entering[:, -keep:].reshape(-1, entering.shape[-1])[picked][None]
        return super().forward(entering)


@contextmanager
def compute_only(keep: int, picked: Tensor) -> Iterator[None]:
    """Compute only these logits, (1, U, V), in the passes of this thread.

    ``picked``: (U,) int64, places among the last ``keep`` columns of all rows, row by row.
    """
    _wanted.rows = keep, picked
    try:
        yield
    finally:
        _wanted.rows = None


def copy_for_few_tokens(model: PreTrainedModel) -> PreTrainedModel:
    """A copy on the model's own weights with such layers, made once and shared by all requests.

    On a GPU, in other dtypes, and where something is attached to the model that a copy would lack, it is the model itself.
    """
    if model.device.type != "cpu" or model.dtype is not torch.float32 or has_hooks(model) or "forward" in vars(model):
        return model
    with _copies_lock:
        if model not in _copies:
            copy = share_weights(model)
            for module in copy.modules():
                if type(module) is nn.Linear and type(module.weight) is nn.Parameter and module.weight.dtype is torch.float32:
                    module.__class__ = FewTokensLinear
                    module.weights = Weights(module.weight)
            if isinstance(output := copy.get_output_embeddings(), FewTokensLinear):
                output.__class__ = OutputLinear
            _copies[model] = copy
        return _copies[model]
