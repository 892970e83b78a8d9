"""Why it is exact: one token, two distributions to drag."""

from specviz.web.common import frame
from specviz.web.one_token import view

frame.preload_libraries()
view.show_page()
