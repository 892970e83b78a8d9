"""What a visitor meets on a page before scrolling: the words to read, outside of pictures and of what controls are called, and the controls."""

from __future__ import annotations

from playwright.sync_api import Page

FRAME = (
    ".st-key-place, .st-key-fold, .st-key-export, [class*=st-key-onward-], [class*=st-key-terms-], .st-key-presenter, .rail, "
    "[class*=-conditions], .roundHead .state, .moreMenu, .line > .more"
)  # and the quiet places of settings and of where a recording is from
PICTURES = (
    "svg, canvas, figure, [role=img], .js-plotly-plot, .legend, .key, .filling .bars, .heads, .lane > header, .lane > .text, .side > h3, "
    ".side > .strip, .side > .origins, .stops, .token:not(.stage), .chip, .sofar, .fork, "
    "[data-testid=stSliderThumbValue], [data-testid=stSliderTickBar], [data-testid=stIconMaterial]"
)  # with the labels of charts, their keys, and the texts that the models wrote
CONTROLS = "button, a[href], input, select, textarea, summary, [role=slider], [role=tab]"
NAMES = "label, [data-testid=stWidgetLabel]"  # of controls
GROUPS = "[role=radiogroup], [role=tablist], :is(.names, .rows)[role=group]"  # one choice, whatever it has to choose from
FOLDS = "summary"  # all of them together are one quiet row
HEADER = 60  # px

WALK = """([frame, pictures, controls, names, groups, folds, header]) => {
  const words = [], found = new Set();
  const isInSight = ({ width, height, top, bottom }) => width > 2 && height > 2 && top < innerHeight - 4 && bottom > header + 4;
  const isSeen = (node) => isInSight(node.getBoundingClientRect()) && node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const readText = (text, node) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    if (isSeen(node) && isInSight(range.getBoundingClientRect())) words.push(...text.textContent.split(/\\s+/).filter((word) => /[\\p{L}\\p{N}]/u.test(word)));
  };
  const visit = (node, named) => {
    for (const child of (node.shadowRoot ?? node).childNodes) {
      if (child.nodeType === Node.TEXT_NODE && !named) readText(child, node);
      if (child.nodeType !== Node.ELEMENT_NODE || child.matches(`style, script, template, ${frame}, ${pictures}`)) continue;
      const isControl = child.matches(controls);
      if (isControl && isSeen(child)) found.add(child.matches(folds) ? folds : child.closest(groups) ?? child);
      visit(child, named || isControl || child.matches(names));
    }
  };
  visit(document.querySelector(".stMain"), false);
  return [words, [...found].map((one) => one === folds ? folds : one.getAttribute("aria-label") || one.innerText || one.tagName)];
}"""


def read_first_screen(page: Page) -> tuple[list[str], list[str]]:
    """The words to read and the names of the controls that are in sight, without those of the frame around every page."""
    words, controls = page.evaluate(WALK, [FRAME, PICTURES, CONTROLS, NAMES, GROUPS, FOLDS, HEADER])
    return words, controls
