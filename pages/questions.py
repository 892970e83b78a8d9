"""Eight questions: what would you expect?"""

from specviz.web.questions import view

view.show_page()
