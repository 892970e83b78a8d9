"""Everything that imports streamlit, bar pages and app."""
