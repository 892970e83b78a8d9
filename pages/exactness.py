"""Exactness test: do samples of the decoder follow the exact distribution of the target?"""

from specviz.web.exactness import view

view.show_page()
