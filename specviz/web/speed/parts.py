"""What every section of How fast? is made of: a picture with its conclusion under it, and our sentences kept from markdown."""

from __future__ import annotations

from typing import Any

import streamlit as st

PLOT = {"displayModeBar": False}


def picture(figure: Any, name: str, said: str) -> None:
    """A figure, its conclusion as its text for who cannot see it, and the same sentence under it."""
    st.plotly_chart(figure, key=f"fast-figure-{name}", config=PLOT, alt=said)
    sentence(said, f"-{name}")


def sentence(text: str, name: str = "") -> None:
    """A sentence of meaning beside its line of blue."""
    st.container(key=f"fast-said{name}").markdown(escaped(text))


def escaped(text: str) -> str:
    """Our own sentences hold no markdown but for signs that could be taken as such."""
    return text.replace("$", "\\$").replace("~", "\\~")
