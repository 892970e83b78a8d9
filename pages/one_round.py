"""One round: what happens between a draft token and a token of the text?"""

from specviz.web.common import frame
from specviz.web.one_round import view

frame.preload_libraries()
view.show_page()
