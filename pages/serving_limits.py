"""Serving limits: what does exactness not cover?"""

from specviz.web.serving_limits import view

view.show_page()
