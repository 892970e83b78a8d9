"""Serving limits: what does exactness not cover?"""

from specviz.web.common import frame
from specviz.web.serving_limits import view

frame.preload_libraries()
view.show_page()
