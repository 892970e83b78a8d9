"""Whole text: one prompt continued with and without draft tokens."""

from specviz.web.common import frame
from specviz.web.whole_text import view

frame.preload_libraries()
view.show_page()
