"""The frame around every page: Streamlit's own furniture made small, so that a laptop screen holds the stage."""

from __future__ import annotations

import streamlit as st

# The fold's button stands in the header, which is there anyway. Only fixed text reaches this style sheet.
CSS = """
<style>
.stMain .block-container { max-width: 1560px; padding-left: clamp(0.75rem, 4vw, 5rem); padding-right: clamp(0.75rem, 4vw, 5rem); }
@media (max-width: 640px) { .stMain .block-container { padding-top: 3.6rem; padding-bottom: 0.5rem; } [data-testid="stHorizontalBlock"] { row-gap: 1rem; } }
.stMainBlockContainer > div > .stVerticalBlock { gap: 0.5rem; }
[data-testid="stLayoutWrapper"]:has(> :is(.st-key-fold, .st-key-export)) { position: absolute; width: 0; } /* in the header: they leave no gap where they are written */
.st-key-fold { position: fixed; top: 0.65rem; right: 4rem; z-index: 999991; width: auto; }
.st-key-export { position: fixed; top: 0.65rem; right: 12.6rem; z-index: 999990; width: auto; }
body:has(.st-key-exact-head, .st-key-broken-head, .st-key-whole-head) .st-key-export { right: 10.6rem; } /* beside a shorter word */
body:not(:has(.st-key-fold)) .st-key-export { right: 4rem; }
[data-testid="stPopoverBody"]:has([class*="st-key-export-"]) { width: min(24rem, calc(100vw - 1rem)); max-height: calc(100vh - 4.5rem) !important; padding: 1rem; }
.st-key-export-said [data-testid="stText"] { white-space: pre-wrap; overflow-wrap: anywhere; font-family: inherit; font-size: 0.9rem; }
[data-testid="stPopoverBody"]:has([class*="st-key-fold-"]) { width: min(26rem, calc(100vw - 1rem)); max-height: calc(100vh - 4.5rem) !important; padding: 1rem; }
[data-testid="stPopoverBody"]:has([class*="st-key-fold-"]) .stVerticalBlock { gap: 0.5rem; }
body:has(.st-key-fold) [data-testid="stStatusWidget"] { translate: -14.5rem 0; } /* beside the two buttons, not over them */
[data-testid="stStatusWidget"] button { display: none; } /* it would halt the drawing of a page, not its work: each page has a Stop of its own */
[data-testid="stPlotlyChart"] :is([class$="tick"], [class^="g-x"], [class^="g-y"]) text { fill: color-mix(in srgb, currentColor 78%, transparent) !important; } /* Streamlit's grey is too faint to read */
[data-testid="stBaseButton-primary"]:not(:disabled) { background: #0072B2; border-color: #0072B2; color: #fff; } /* white on the lighter blue of dark pages is too faint */
[data-testid="stBaseButton-primary"]:not(:disabled):hover { background: #005f96; border-color: #005f96; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { opacity: 1; }
[data-testid="stCaptionContainer"] { color: color-mix(in srgb, var(--st-text-color, currentColor) 74%, transparent); }
:is(a, button, summary, [role="tab"], [role="radio"]):focus-visible { outline: 2px solid light-dark(#0072B2, #6FBBEA) !important; outline-offset: 2px; }
[data-testid="stSidebar"][data-collapsed="true"] { visibility: hidden; } /* Tab does not go through what cannot be seen */
[data-testid="stTabs"] [role="tablist"] { flex-wrap: wrap; row-gap: 0; overflow: visible; } /* so is every tab */
[data-testid="stButtonGroup"] [role="radiogroup"] { flex-wrap: wrap; row-gap: 0.25rem; } /* on a phone every choice is in sight */
.st-key-problems [data-testid="stText"] {
  white-space: pre-wrap; overflow-wrap: anywhere; font-family: inherit; font-size: 0.9rem; border-left: 0.25rem solid #D55E00; padding-left: 0.6rem;
}
.st-key-problems:empty { display: none; }
@media (min-width: 900px) { body:has(.st-key-exact-head, .st-key-broken-head, .st-key-whole-head) .st-key-problems { display: none; } } /* the fold covers only a phone's own sentence */
</style>
"""


def trim() -> None:
    """Put the style sheet on the page."""
    st.html(CSS)
