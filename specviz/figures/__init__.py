"""Pictures: a record goes in, something to draw comes out. A folder per page. No torch, no streamlit."""
