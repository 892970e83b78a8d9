"""Pictures: a record goes in, something to draw comes out. No torch, no streamlit."""
