// Making nodes, writing text into them, and putting them in their place.
// Data reaches the page through textContent and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** An HTML element. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A button with its words, what it does (as a tooltip), and what happens on a click. */
export function button(text, label, action, extra = "") {
  const node = h("button", { type: "button", class: `button ${extra}`, title: label }, text);
  node.addEventListener("click", action);
  return node;
}

/** Writes text only where it differs, so that screen readers hear a change once. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, yes) {
  node.classList.toggle("off", !yes);
}

/** Geometry as CSS properties: those can have transitions, attributes cannot. */
export function place(node, box) {
  for (const [key, value] of Object.entries(box)) node.style[key] = typeof value === "number" && key !== "opacity" ? `${value.toFixed(2)}px` : value;
}

export function move(node, x, y) {
  node.style.transform = `translate(${x.toFixed(2)}px, ${y.toFixed(2)}px)`;
}

/** An SVG picture of this size in pixels, whose units are pixels. */
export function setSize(svg, width, height) {
  place(svg, { width, height });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}
