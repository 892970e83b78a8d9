"""What a visitor meets on a page before scrolling: the words outside of pictures, and the controls."""

from __future__ import annotations

from playwright.sync_api import Page

FRAME = (
    ".st-key-place, .st-key-fold, .st-key-export, [class*=st-key-onward-], [class*=st-key-terms-], .st-key-presenter, "
    "[class*=-conditions]"
)  # and the quiet line with the settings of a recording
PICTURES = (
    "svg, canvas, figure, [role=img], .js-plotly-plot, .legend, .key, .filling .names, .filling .axis, .filling .top, .token:not(.stage), .chip, .sofar, "
    ".given, [data-testid=stSliderThumbValue], [data-testid=stSliderTickBar], [data-testid=stIconMaterial]"
)  # with the labels of charts, their keys, and the texts that the models wrote
CONTROLS = "button, a[href], input, select, textarea, summary, [role=slider], [role=tab]"
GROUPS = "[role=radiogroup], [role=tablist], .names[role=group]"  # one choice, whatever it has to choose from
HEADER = 60  # px

WALK = """([frame, pictures, controls, groups, header]) => {
  const words = [], found = new Set();
  const isInSight = ({ width, height, top, bottom }) => width > 2 && height > 2 && top < innerHeight - 4 && bottom > header + 4;
  const isSeen = (node) => isInSight(node.getBoundingClientRect()) && node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const readText = (text, node) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    if (isSeen(node) && isInSight(range.getBoundingClientRect())) words.push(...text.textContent.split(/\\s+/).filter((word) => /[\\p{L}\\p{N}]/u.test(word)));
  };
  const visit = (node) => {
    for (const child of (node.shadowRoot ?? node).childNodes) {
      if (child.nodeType === Node.TEXT_NODE) readText(child, node);
      if (child.nodeType !== Node.ELEMENT_NODE || child.matches(`style, script, template, ${frame}, ${pictures}`)) continue;
      if (child.matches(controls) && isSeen(child)) found.add(child.closest(groups) ?? child);
      visit(child);
    }
  };
  visit(document.querySelector(".stMain"));
  return [words, [...found].map((one) => one.getAttribute("aria-label") || one.innerText || one.tagName)];
}"""


def read_first_screen(page: Page) -> tuple[list[str], list[str]]:
    """The words outside of pictures and the names of the controls that are in sight, without those of the frame around every page."""
    words, controls = page.evaluate(WALK, [FRAME, PICTURES, CONTROLS, GROUPS, HEADER])
    return words, controls
