"""Signs that markdown would take as its own."""

from __future__ import annotations

ALL = "\\`*_{}[]()#+-!|<>$~:&"  # whatever markdown could take as a sign


def escaped(text: str, signs: str = "$~") -> str:
    """Our own sentences hold no markdown but for signs that could be taken as such."""
    return "".join(f"\\{sign}" if sign in signs else sign for sign in text)
