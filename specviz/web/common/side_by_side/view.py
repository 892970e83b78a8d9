"""The histogram that fills, on screen: registered once, for the pages that draw it and nothing else of its component.

A file of its own: the files beside it are also read by files of pages that import no Streamlit (tests/test_layers.py).
"""

from __future__ import annotations

from specviz.web.common.component import Component

histogram = Component("exactness")
