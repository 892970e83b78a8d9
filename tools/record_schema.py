"""The JSON schema of a record from the ``TypedDict`` that describes it."""

from __future__ import annotations

import re
import types
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def build_schema(record: Any, title: str) -> dict[str, Any]:
    """The schema of a record; its parts stand in ``$defs``. Further fields are allowed."""
    parts: dict[str, Any] = {}
    whole = _build_part(record, parts)
    return {"$schema": DIALECT, "title": title, **whole, "$defs": parts}


def _build_part(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    descriptions = read_attributes(kind.__doc__ or "")
    properties, required = {}, []
    for name, hint in hints.items():
        if get_origin(hint) is NotRequired:
            hint = get_args(hint)[0]
        else:
            required.append(name)
        properties[name] = _build_value(hint, parts) | {"description": descriptions[name]}
    first = (kind.__doc__ or "").strip().splitlines()[0]
    return {"type": "object", "description": first, "properties": properties, "required": required}


def _build_value(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if is_typeddict(hint):
        if hint.__name__ not in parts:
            parts[hint.__name__] = _build_part(hint, parts)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _build_value(arguments[0], parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _build_value(arguments[1], parts) or True}
    if origin in (types.UnionType, Union):
        return {"anyOf": [_build_value(one, parts) for one in arguments]}
    raise TypeError(f"{hint} has no form in a schema yet")


def read_attributes(docstring: str) -> dict[str, str]:
    """Name -> description of the section ``Attributes`` of a docstring."""
    section = docstring.partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", section, re.M)
    return {name: " ".join(text.split()) for name, text in found}
