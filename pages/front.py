"""The front page: a race, a draft as bad as you like, and a wrong decoder to find."""

from specviz.web.front import view

view.show_page()
