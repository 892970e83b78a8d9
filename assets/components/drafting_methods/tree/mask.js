// The attention mask of a tree: which draft tokens each may see.

import { h, s, say, show, setSize } from "../../lib/dom.js";
import { glyphLine } from "../../lib/glyphs.js";

const CELL = 15; // px
const NAMES = 76; // px of the names at its left and above

export function makeMask() {
  const svg = s("svg", { class: "mask", role: "img" });
  const note = h("p", { class: "hint" });
  const node = h("figure", { class: "maskCard" }, h("h3", {}, "Attention mask"), svg, note);
  say(note, "Row: a draft token; column: what it may see, besides the text. Branch by branch.");
  return { node, svg };
}

export function fillMask(card, payload) {
  const { mask, order, nodes } = payload;
  const size = CELL * Math.max(1, order.length);
  card.width = order.length > 1 ? NAMES + size : 0;
  setSize(card.svg, NAMES + size, NAMES + size);
  const middle = (at) => NAMES + (at + 0.5) * CELL;
  const heads = order.map((node, x) => s("text", { class: "column", transform: `translate(${middle(x) + 4} ${NAMES - 6}) rotate(-90)` }, glyphLine(nodes[node].glyphs, 9)));
  card.order = order;
  card.rows = order.map((node, y) =>
    s("g", { class: "maskRow" }, s("text", { x: NAMES - 6, y: middle(y) + 4 }, glyphLine(nodes[node].glyphs, 9)),
      ...order.map((other, x) => s("rect", { class: mask[node][other] ? "sees" : "blind", x: NAMES + x * CELL + 1, y: NAMES + y * CELL + 1, width: CELL - 2, height: CELL - 2, rx: 2 }))));
  card.svg.replaceChildren(...heads, ...card.rows);
  show(card.node, order.length > 1);
  const said = order.map((node) => `${nodes[node].name} sees ${order.filter((other) => mask[node][other] && other !== node).map((other) => nodes[other].name).join(", ") || "only the text"}`);
  card.svg.setAttribute("aria-label", `Attention mask. ${said.join("; ")}.`);
}

export function drawMask(card, view) {
  for (const [y, row] of (card.rows ?? []).entries()) row.classList.toggle("now", view.step.node === card.order[y]);
}
