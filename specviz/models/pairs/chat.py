"""A chat as the text that a model reads: the tokenizer's own template with the messages in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from transformers import PreTrainedTokenizerBase

from specviz.errors import MAX_SHOWN, ModelError, SettingsError

ROLES = ("system", "user", "assistant")
_BEGINS = re.compile(rf"^({'|'.join(ROLES)}):[ \t]*", re.M)


def parse_messages(text: str) -> list[dict[str, str]]:
    """Split a chat into messages at lines that begin with ``system:``, ``user:`` or ``assistant:``.

    A text without such a line is one message of the user. Raises SettingsError for text before the first of them, and for a chat
    whose last message is not the user's.
    """
    if not _BEGINS.search(text):
        return [{"role": "user", "content": text.strip()}]
    before, *parts = _BEGINS.split(text)
    if before.strip():
        raise SettingsError(
            "chat", before.strip()[:MAX_SHOWN], f"messages that each begin with {', '.join(f'{one}:' for one in ROLES)}"
        )
    found = [{"role": role, "content": content.strip()} for role, content in zip(parts[::2], parts[1::2], strict=True)]
    if found[-1]["role"] != "user":
        raise SettingsError("chat", f"{found[-1]['role']}: at its end", "a chat that ends with a message of the user")
    return found


def find_template(tokenizer: PreTrainedTokenizerBase) -> str:
    """The template as its author wrote it, in Jinja; of several the one for chats; empty where there is none."""
    found = getattr(tokenizer, "chat_template", None) or ""
    return found.get("default", "") if isinstance(found, Mapping) else str(found)


def apply_template(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]) -> str:
    """The text that ``tokenizer.encode`` turns into the ids that a server's chat endpoint gives the model.

    Where both the template and the tokenizer add a start token, the text is returned without the template's. Raises ModelError
    where there is no template, where it refuses the messages, and where no text gives these ids.
    """
    if not find_template(tokenizer):
        raise ModelError(
            "This tokenizer has no chat template, so it is not known what a chat's model reads: write the prompt as plain text."
        )
    chat = [dict(message) for message in messages]
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # the template is a program of the model's author and raises what it likes
        first = str(error).strip().splitlines()[0][:MAX_SHOWN] if str(error).strip() else type(error).__name__
        raise ModelError(f"The chat template refuses these messages: {first}") from error
    ids = list(tokenizer.encode(text, add_special_tokens=False))
    start = tokenizer.bos_token or ""
    for candidate in (text, text.removeprefix(start)):
        if list(tokenizer.encode(candidate)) == ids:
            return candidate
    raise ModelError(
        "This tokenizer adds tokens to every text that its chat template does not have, so no text stands for the chat's tokens."
    )
