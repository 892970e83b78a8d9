// The tree of draft tokens: chips where the payload says they stand, lines to their parents, the mask beside it.

import { h, place, s, say, show, sized } from "../lib/dom.js";
import { glyphSpans } from "../lib/glyphs.js";

const ROOT = -1;
const HIGH = 44; // of a line of chips
const CELL = 15; // of the mask

export function makeTree(view) {
  const links = s("g", { class: "links" });
  const chips = h("div", { class: "nodes" });
  const svg = s("svg", { class: "wires", "aria-hidden": "true" }, links);
  const node = h("div", { class: "tree" }, svg, chips);
  return { node, svg, links, chips, view };
}

function chipOf(one, kind) {
  const face = h("button", { type: "button", class: "leaf", "data-kind": kind, title: one.name });
  const text = h("span", { class: "word" }, ...glyphSpans(one.glyphs));
  const mark = h("span", { class: "mark", "aria-hidden": "true" });
  face.append(mark, text);
  return { face, mark };
}

/** Chips and lines of a payload, made once. */
export function fillTree(tree, payload, view) {
  tree.made = payload.nodes.map((one, i) => ({ ...chipOf(one, "draft"), one, line: s("path", { class: "wire" }), i }));
  tree.end = payload.ending ? { ...chipOf(payload.ending, payload.ending.kind), one: payload.ending, line: s("path", { class: "wire" }) } : null;
  tree.all = tree.end ? [...tree.made, tree.end] : tree.made;
  tree.links.replaceChildren(...tree.all.map(({ line }) => line));
  tree.chips.replaceChildren(...tree.all.map(({ face }) => face));
  for (const { face, i } of tree.made) face.addEventListener("click", () => view.goToNode(i));
  if (tree.end) tree.end.face.addEventListener("click", () => view.goTo(view.steps.findIndex(({ kind }) => kind === "end")));
}

/** Where everything stands for a width. */
export function placeTree(tree, payload, width) {
  const step = width / Math.max(1, payload.columns);
  const wide = Math.min(132, step - 18);
  const high = Math.max(1, payload.lines) * HIGH;
  sized(tree.svg, width, high);
  place(tree.node, { height: high });
  const spot = (one) => ({ x: one.col * step + 16, y: (one.line + 0.5) * HIGH });
  const from = (parent) => (parent === ROOT ? { x: -wide + 2, y: ((payload.lines || 1) / 2) * HIGH } : spot(payload.nodes[parent]));
  for (const { face, line, one } of tree.all) {
    const at = spot(one);
    place(face, { left: at.x, top: at.y - 16, width: Math.max(26, wide) });
    const a = from(one.parent);
    const x0 = a.x + wide;
    line.setAttribute("d", `M${x0} ${a.y} C${x0 + 9} ${a.y} ${at.x - 9} ${at.y} ${at.x} ${at.y}`);
  }
}

export const FATES = { accepted: "accepted", rejected: "rejected", unchecked: "not checked", draft: "draft token" };
const SIGNS = { accepted: "✓", rejected: "✗", unchecked: "", draft: "", bonus: "+", residual: "↻" };

/** What each chip looks like at a step: decided ones as they were decided, the others as draft tokens; at the end, what was not checked. */
export function drawTree(tree, view) {
  const { step, decided, over } = view;
  for (const { face, mark, line, one, i } of tree.made) {
    const is = decided.has(i) ? one.fate : over ? "unchecked" : "draft";
    face.dataset.is = line.dataset.is = is;
    say(mark, SIGNS[is]);
    face.classList.toggle("now", step.node === i);
    face.setAttribute("aria-label", `${one.name}: ${FATES[is]}`);
  }
  if (!tree.end) return;
  const is = over ? (tree.end.one.kind === "residual" ? "residual" : "bonus") : "ghost";
  tree.end.face.dataset.is = tree.end.line.dataset.is = is;
  tree.end.face.classList.toggle("now", step.kind === "end");
  tree.end.face.disabled = !over;
  tree.end.face.setAttribute("aria-label", `${tree.end.one.name}: ${is === "residual" ? "replacement" : "bonus"}`);
  say(tree.end.mark, SIGNS[is] ?? "");
}

export function makeMask() {
  const svg = s("svg", { class: "mask", role: "img" });
  const note = h("p", { class: "hint" });
  const node = h("figure", { class: "maskCard" }, h("h3", {}, "Attention mask"), svg, note);
  say(note, "Row: a draft token. Filled: what it may attend to, besides the text.");
  return { node, svg };
}

export function fillMask(card, payload) {
  const count = payload.mask.length;
  const size = CELL * Math.max(1, count);
  sized(card.svg, size, size);
  card.rows = payload.mask.map((row, y) =>
    s("g", { class: "maskRow" }, ...row.map((sees, x) => s("rect", { class: sees ? "sees" : "blind", x: x * CELL + 1, y: y * CELL + 1, width: CELL - 2, height: CELL - 2, rx: 2 }))));
  card.svg.replaceChildren(...card.rows);
  show(card.node, count > 0);
  const said = payload.mask.map((row, y) => `${payload.nodes[y].name} sees ${row.flatMap((sees, x) => (sees && x !== y ? [payload.nodes[x].name] : [])).join(", ") || "only the text"}`);
  card.svg.setAttribute("aria-label", `Attention mask. ${said.join("; ")}.`);
}

export function drawMask(card, view) {
  for (const [y, row] of (card.rows ?? []).entries()) row.classList.toggle("now", view.step.node === y);
}
