"""One round: what happens between a draft token and a token of the text?"""

from specviz.web.one_round import view

view.show_page()
