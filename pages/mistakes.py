"""Break it: what does a wrong rule look like, and after how many samples is it caught?"""

from specviz.web.common import frame
from specviz.web.mistakes import view

frame.preload_libraries()
view.show_page()
