"""Why it is exact: one token, two distributions to drag."""

from specviz.web.one_token import view

view.show_page()
