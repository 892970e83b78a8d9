"""Whole text: one prompt continued with and without draft tokens."""

from specviz.web.whole_text import view

view.show_page()
