"""Content that was read from a file stays as it was read, whatever becomes of the file."""

from __future__ import annotations

import torch

from specviz.models.attachments.folder import name_layer
from specviz.models.attachments.heads import HEADS, save_heads


def test_weights_of_heads_are_held_and_not_the_pages_of_their_file(tmp_path):
    """safetensors maps a file into memory: one that is cut would end the process, one that is written over would change the numbers."""
    save_heads([[(torch.ones(64, 64), torch.ones(64))]], tmp_path)
    wanted = set(name_layer("0.0"))
    found = HEADS.load_weights(tmp_path, wanted, "one head")
    file = tmp_path / HEADS.weights
    with file.open("r+b") as weights:
        weights.write(bytes(file.stat().st_size))
    assert wanted <= found.keys() and all(bool((one == 1).all()) for one in found.values())
