"""Eight questions: what would you expect?"""

from specviz.web.common import frame
from specviz.web.questions import view

frame.preload_libraries()
view.show_page()
