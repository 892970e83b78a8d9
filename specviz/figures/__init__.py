"""Figures that several pages share: colors, how tokens are shown, sentences, the components' scripts. No torch, no streamlit."""
