"""specviz: an interactive explainer of exact speculative decoding. Start with ``streamlit run app.py``.

Streamlit imports this file once when the server starts, and runs it again for every page that it draws. Neither this file nor
the first page imports torch: a background thread does so after the first page is sent.
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
