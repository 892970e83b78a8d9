// Making nodes, and writing numbers. Data reaches the page through textContent and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function s(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Writes text only where it differs, so that screen readers hear a change once. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(node, yes) {
  node.classList.toggle("off", !yes);
}

/** Geometry as CSS properties: those can have transitions, attributes cannot. */
function place(node, box) {
  for (const [key, value] of Object.entries(box)) node.style[key] = typeof value === "number" && key !== "opacity" ? `${value.toFixed(2)}px` : value;
}

function move(node, x, y) {
  node.style.transform = `translate(${x.toFixed(2)}px, ${y.toFixed(2)}px)`;
}

/** The same writing as narration.number in Python: .62, and .004 or <.001 where two digits would say nothing. */
function number(x, digits = 2) {
  if (x <= 0 || x >= 1) return x.toFixed(0);
  if (x < 0.0005) return "<.001";
  if (x > 0.9995) return ">.999";
  const short = Number(x.toFixed(digits));
  if (short === 0 || short === 1 || x < 0.01) digits = 3;
  return x.toFixed(digits).replace(/^0/, "");
}

/** A coin written with as many digits as it takes to tell it from its threshold. */
function coinText(u, threshold) {
  for (const digits of [2, 3, 4, 6, 9]) {
    if (number(u, digits) !== number(threshold ?? 2, digits) || u === threshold) return number(u, digits);
  }
  return number(u, 9);
}

/** Spans for the glyphs of one token; bytes are boxes, whitespace is a mark. */
function glyphSpans(glyphs) {
  return glyphs.map(({ t, k }) => {
    const span = h("span", { class: `glyph ${k}` });
    span.textContent = t;
    return span;
  });
}

/** One line of plain text for the glyphs, cut to a width in characters. */
function glyphLine(glyphs, room) {
  const line = glyphs === null ? "rest" : glyphs.map(({ t, k }) => (k === "byte" ? `${t} ` : t)).join("").trim();
  const letters = [...line];
  return letters.length > room ? `${letters.slice(0, Math.max(1, room - 1)).join("")}…` : line;
}
