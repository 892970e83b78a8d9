"""specviz: exact speculative decoding, seen motion by motion. Start with ``streamlit run app.py``.

Streamlit imports this file once, as the server starts, and runs it again for every page that it draws. Nothing here or on the
way to the first paint imports torch; that happens in one background thread, once the first page is out.
"""

from specviz.web.common import frame

if __name__ == "__main__":
    frame.run_page()
else:
    import streamlit as st

    from specviz.web.hosting import server

    server.prepare_server()
    app = st.App(
        __file__,
        lifespan=server.lifespan,
        routes=server.build_routes(),
        middleware=server.build_middleware(),
        on_script_error=server.count_unexpected_error,
    )
