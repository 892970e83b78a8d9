"""Messages as the text that a model was trained to read them in: its tokenizer's chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from transformers import PreTrainedTokenizerBase

from specviz.errors import ModelError


def templated(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]) -> str:
    """The text of messages, up to where the answer begins: a prompt like any other.

    messages  each with ``role`` (system, user or assistant) and ``content``

    A start token at the front is left out where the tokenizer adds one to every text by itself, so that it is not there twice.

    Raises ModelError if the tokenizer has no template, or its template refuses these messages.
    """
    if not tokenizer.chat_template:
        raise ModelError("This pair's tokenizer has no chat template: write the prompt as plain text.")
    try:
        text = tokenizer.apply_chat_template([dict(one) for one in messages], tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's authors, and raises what it likes
        said = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"The chat template of this pair refuses these messages: {said}. Try without a system message."
        ) from error
    start, ids = tokenizer.bos_token, tokenizer.encode("")
    added = start is not None and ids[:1] == [tokenizer.bos_token_id]
    return text.removeprefix(start) if added else text
