"""Summary: what the tour has shown."""

from specviz.web.summary import view

view.show_page()
