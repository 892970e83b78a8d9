"""How fast? What speculation gains, and whether it can be known before it is run."""

from specviz.web.speed import view

view.show_page()
