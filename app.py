"""specviz: exact speculative decoding, seen motion by motion. Start with ``streamlit run app.py``.

Nothing here or on the way to the first paint imports torch; that happens in one background thread, once the first page is out.
"""

from specviz.web.common import frame

frame.run()
