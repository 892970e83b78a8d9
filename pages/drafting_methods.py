"""Drafting methods: who may draft?"""

from specviz.web.common import frame
from specviz.web.drafting_methods import view

frame.preload_libraries()
view.show_page()
