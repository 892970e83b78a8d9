"""The prompts of a load: of a file, or the default set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specviz.audit.pays.streams import Prompt
from specviz.errors import Described, SettingsError
from specviz.records import load_toml

MAX_PROMPTS, MAX_CHARACTERS, MAX_BYTES = 4096, 200_000, 64 * 2**20  # of a file; characters of one prompt
ROLES = ("system", "user", "assistant", "tool", "developer")


def load_default_prompts(chat: bool) -> list[Prompt]:
    """The prompts that come with the project: questions, summaries, code, lists, stories. chat: as messages."""
    texts: list[str] = load_toml("texts/prompts")["chat" if chat else "completion"]
    return [_wrap(text) if chat else text for text in texts]


def read_prompts(path: Path, chat: bool) -> list[Prompt]:
    """The prompts of a file: one to a line, or JSON lines with a field ``prompt`` or ``messages``.

    Args:
        path: Ends in ``.jsonl`` for JSON lines.
        chat: Whether plain lines are messages of a user.

    Raises:
        SettingsError: The file cannot be read, holds no prompt or too many, or a line is of another form.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            allowed = f"a file of at most {MAX_BYTES >> 20} MB"
            raise SettingsError("prompts", str(path), allowed, f"The prompts file '{path}' is too large; give {allowed}.")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        sentence = f"The prompts file '{path}' could not be read ({error.strerror})."
        raise SettingsError("prompts", str(path), "a file that can be read", sentence) from error
    except UnicodeDecodeError as error:
        raise SettingsError("prompts", str(path), "a text in UTF-8", f"The prompts file '{path}' is no text in UTF-8.") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not 1 <= len(lines) <= MAX_PROMPTS:
        size, allowed = f"{len(lines):,} prompts", f"1 to {MAX_PROMPTS:,}, each on a line of its own"
        raise SettingsError("prompts", Described(size), allowed, f"The prompts file '{path}' has {size}; {allowed}, are allowed.")
    if path.suffix == ".jsonl":
        found = [_parse_line(line, f"line {number} of '{path.name}'", chat) for number, line in lines]
    else:
        found = [_wrap(line) if chat else line for _, line in lines]
    if len({isinstance(prompt, str) for prompt in found}) > 1:
        sentence = f"The prompts file '{path}' has texts and messages; a file may hold only one of the two."
        raise SettingsError("prompts", str(path), "texts or messages, not both in one file", sentence)
    return found


def _wrap(text: str) -> Prompt:
    return ({"role": "user", "content": text},)


def _parse_line(line: str, where: str, chat: bool) -> Prompt:
    allowed = 'an object such as {"prompt": "Once upon a time"} or {"messages": [{"role": "user", "content": "Hello"}]}'
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise _refuse_line(f"{where} is not JSON", allowed) from None
    if isinstance(found, dict) and isinstance(found.get("prompt"), str) and found["prompt"]:
        _check_length(found["prompt"], where)
        return _wrap(found["prompt"]) if chat else found["prompt"]
    messages = found.get("messages") if isinstance(found, dict) else None
    if not isinstance(messages, list) or not messages:
        raise _refuse_line(f"{where} has neither a prompt nor messages", allowed)
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES or not isinstance(message.get("content"), str):
            raise _refuse_line(f"{where} has a message of another form", f"{allowed}; a role is one of {', '.join(ROLES)}")
        _check_length(message["content"], where)
    return tuple({"role": message["role"], "content": message["content"]} for message in messages)


def _check_length(text: str, where: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise _refuse_line(f"{where} has {len(text):,} characters", f"at most {MAX_CHARACTERS:,}")


def _refuse_line(value: str, allowed: str) -> SettingsError:
    return SettingsError(
        "prompts", Described(value), allowed, f"{value[0].upper()}{value[1:]}. Each line of the prompts must be {allowed}."
    )
