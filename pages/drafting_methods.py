"""Drafting methods: who may draft?"""

from specviz.web.drafting_methods import view

view.show_page()
