"""Digests of a record, one for the whole and one for each part, so that a later change is found and named.

A digest is not a signature: anyone who changes a number can recompute the digests. What then contradicts the rest of the record,
or the samples, is found by computing again (check.py, redraw.py).
"""

from __future__ import annotations

import hashlib
from typing import Any

from specviz.records import canonical_json

SEALS = ("digest", "digests")


def seal(record: dict[str, Any]) -> dict[str, Any]:
    """The record with ``digest`` (of everything) and ``digests`` (of each part by name). Earlier ones are replaced."""
    plain = {key: value for key, value in record.items() if key not in SEALS}
    return plain | {"digest": digest(plain), "digests": {name: digest(value) for name, value in split_fields(plain).items()}}


def find_changes(record: dict[str, Any]) -> set[str]:
    """Names of the parts that differ from what was sealed; ``digest`` if only the whole differs; empty if nothing does."""
    plain = {key: value for key, value in record.items() if key not in SEALS}
    here, stored = {name: digest(value) for name, value in split_fields(plain).items()}, record["digests"]
    found = {name for name in {*here, *stored} if here.get(name) != stored.get(name)}
    return found | ({"digest"} if digest(plain) != record["digest"] and not found else set())


def split_fields(record: dict[str, Any]) -> dict[str, Any]:
    """A record's fields by name. Fields of its answers are named ``number mode: field``, their tests one by one."""
    found = {name: value for name, value in record.items() if name not in (*SEALS, "answers", "tests")}
    found["tests"] = record.get("tests")
    for number, answer in enumerate(record.get("answers", ())):
        where = f"{number + 1} {answer['mode']}"
        found |= {f"{where}: {name}": value for name, value in answer.items() if name != "tests"}
        found |= {f"{where}: {test['name']}": test for test in answer["tests"]}
    return found


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
