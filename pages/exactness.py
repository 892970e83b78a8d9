"""Is it exact?: do samples of the decoder follow the exact distribution of the target?"""

from specviz.web.common import frame
from specviz.web.exactness import view

frame.preload_libraries()
view.show_page()
