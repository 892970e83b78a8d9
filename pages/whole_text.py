"""Whole text: what did the target model really decide?"""

from specviz.web.common import frame
from specviz.web.whole_text import view

frame.enter()
view.page()
