"""A pair's own draft as if it had another tokenizer: what token-level intersection is tested with where no foreign draft is at hand."""

from __future__ import annotations

import json
from copy import deepcopy

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from specviz.errors import ModelError
from specviz.models.fast_llama.draft_8bit import is_rounded
from specviz.models.pairs.loading import build_pair
from specviz.models.pairs.pair import LoadedPair

FOREIGN = "\u0100\u0100"  # two zero bytes as byte-level BPE writes them: no tokenizer has learned a token that ends so


def renumber_draft(pair: LoadedPair) -> LoadedPair:
    """The same target beside a draft that numbers its tokens backwards and had other merges in the later half.

    The draft keeps its weights; a token of a later merge stands for other bytes, which the target lacks. So about half of the
    tokens are shared. Raises ModelError for tokenizers that are not byte-level BPE, for drafts in 8 bits, and for encoder-decoder
    models.
    """
    record = _read_bpe(pair.tokenizer)
    if is_rounded(pair.draft) or pair.draft.config.is_encoder_decoder or record is None:
        raise ModelError("Another numbering is made only of byte-level BPE, for decoders whose draft is not in 8 bits.")
    vocabulary, merges = record["model"]["vocab"], record["model"]["merges"]
    last, half = len(pair.tokenizer) - 1, len(merges) // 2
    early = {"".join(merge) for merge in merges[:half]}
    other = {token for merge in merges[half:] if (token := "".join(merge)) not in early}
    record["model"]["vocab"] = {token + FOREIGN * (token in other): last - number for token, number in vocabulary.items()}
    record["model"]["merges"] = merges[:half]
    record["added_tokens"] = [entry | {"id": last - entry["id"]} for entry in record["added_tokens"]]
    record["post_processor"] = None  # it would name ids
    made = Tokenizer.from_str(json.dumps(record))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **pair.tokenizer.special_tokens_map)
    return build_pair(
        pair.target, _reverse_ids(pair.draft, last + 1), pair.tokenizer, pair.name, ("target", "draft, renumbered"), tokenizer
    )


def _read_bpe(tokenizer: PreTrainedTokenizerBase) -> dict | None:
    """A byte-level BPE tokenizer as JSON; None for any other."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    record = json.loads(backend.to_str())
    return record if record["model"]["type"] == "BPE" and "ByteLevel" in str(backend.decoder) else None


@torch.no_grad()
def _reverse_ids(model: PreTrainedModel, count: int) -> PreTrainedModel:
    """A copy of a model whose first ``count`` ids run the other way; nothing else changes."""
    made = deepcopy(model)
    for part in {id(one.weight): one for one in (made.get_input_embeddings(), made.get_output_embeddings())}.values():
        part.weight[:count] = part.weight[:count].flip(0)
    for options in (made.config, made.generation_config):
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(options, name, _mirror_ids(getattr(options, name, None), count))
    return made


def _mirror_ids(ids: int | list[int] | None, count: int) -> int | list[int] | None:
    if isinstance(ids, list):
        return [count - 1 - one for one in ids]
    return None if ids is None else count - 1 - ids
