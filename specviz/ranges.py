"""What numbers may be: a sentence with the value and what is allowed where one is out of its range."""

from __future__ import annotations

import math

from specviz.errors import SettingsError


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def whole(name: str, value: object, low: int, high: int, allowed: str | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(name, value, allowed or f"a whole number from {low} to {high}")


def number(name: str, value: object, low: float, high: float, allowed: str, above: bool = False) -> None:
    if not is_number(value) or not low <= value <= high or (above and value == low):
        raise SettingsError(name, value, allowed)
