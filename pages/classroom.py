"""Classroom: a room in which a class makes the evidence together, for its teacher and for the wall."""

from specviz.web.classroom import view

view.show_page()
