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

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** The same writing as narration.number in Python: .62, .016, .00054, 5.4×10⁻⁵, >.999. */
function number(x, digits = 2) {
  if (x <= 0 || x >= 1) return x.toFixed(0);
  if (x < 0.0001) {
    const [head, exponent] = x.toExponential(1).split("e");
    return `${head}×10${[...exponent].map((sign) => RAISED[sign]).join("")}`;
  }
  if (Number(x.toFixed(digits)) === 1) digits = Math.max(3, digits);
  if (Number(x.toFixed(digits)) === 1) return `>.${"9".repeat(digits)}`;
  while (x * 10 ** digits < 10) digits += 1;
  return x.toFixed(digits).replace(/^0/, "");
}

/** A share in per cent; never 0% or 100% where it is not. */
function percent(x) {
  const short = (100 * x).toFixed(0);
  if (x > 0 && x < 1 && (short === "0" || short === "100")) return short === "0" ? "less than 1%" : "more than 99%";
  return `${short}%`;
}

/** A random number written with as many digits as it takes to tell it from its threshold. */
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
