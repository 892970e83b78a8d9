"""The pages: a folder for each, and what all share in common/. Nothing outside web, pages and app imports streamlit."""
