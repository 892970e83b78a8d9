"""Classroom: a room in which a class makes the evidence together, for its teacher and for the wall."""

from specviz.web.classroom import view
from specviz.web.common import frame

frame.preload_libraries()
view.show_page()
