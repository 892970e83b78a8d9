"""How fast? What speculation gains, and whether it can be known before it is run."""

from specviz.web.common import frame
from specviz.web.speed import view

frame.preload_libraries()
view.show_page()
