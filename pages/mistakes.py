"""Break it: what does a wrong rule look like, and after how many samples is it caught?"""

from specviz.web.mistakes import view

view.show_page()
