// The tree of draft tokens: chips where the payload says they stand, and lines to their parents.

import { h, place, s, say, setSize } from "./dom.js";
import { glyphLine, glyphSpans, spellWord } from "./glyphs.js";

const ROOT = -1;
const HIGH = { usual: 36, grand: 60, least: 28, small: 24 }; // of a line of chips
const FROM = 46; // px that the end of the text takes at the left
const CHIP = { widest: 190, gap: 56, near: 30, closest: 18, apart: 220 };
const LETTER = 8.5; // px, about, of a name in a chip

export function makeTree(view) {
  const links = s("g", { class: "links" });
  const text = s("rect", { class: "soFar", x: 0, width: FROM - 12, height: 8, rx: 4 });
  const chips = h("div", { class: "nodes" });
  const svg = s("svg", { class: "wires", "aria-hidden": "true" }, links, text);
  const node = h("div", { class: "tree" }, svg, chips);
  return { node, svg, links, text, chips, view };
}

function makeChip(one, kind) {
  const face = h("button", { type: "button", class: "leaf", "data-kind": kind, title: one.name });
  const text = h("span", { class: "word" }, ...glyphSpans(spellWord(one.glyphs)));
  const mark = h("span", { class: "mark", "aria-hidden": "true" });
  face.append(mark, text);
  return { face, mark };
}

/** Chips and lines of a payload, made once. */
export function fillTree(tree, payload, view) {
  tree.made = payload.nodes.map((one, i) => ({ ...makeChip(one, "draft"), one, line: s("path", { class: "wire" }), i }));
  tree.end = payload.ending ? { ...makeChip(payload.ending, payload.ending.kind), one: payload.ending, line: s("path", { class: "wire" }) } : null;
  tree.all = tree.end ? [...tree.made, tree.end] : tree.made;
  tree.links.replaceChildren(...tree.all.map(({ line }) => line));
  tree.chips.replaceChildren(...tree.all.map(({ face }) => face));
  for (const { face, i } of tree.made) face.addEventListener("click", () => view.goToNode(i));
  if (tree.end) tree.end.face.addEventListener("click", () => view.goTo(view.steps.findIndex(({ kind }) => kind === "end")));
}

/** Where everything stands in a width, and in a height where one is given, with at least so much for a line; returns the height of a line. No chip is
wider than it needs to be read. ``from``: px that the end of the text takes at the left; ``fills``: the columns share the whole width.
*/
export function placeTree(tree, payload, width, height = Infinity, least = HIGH.least, { from = width < 500 ? 22 : FROM, fills = false } = {}) {
  const columns = Math.max(1, payload.columns), lines = Math.max(1, payload.lines);
  const room = (width - from) / columns;
  const wide = Math.max(26, Math.min(CHIP.widest, room - (room > 150 ? CHIP.near : CHIP.closest)));
  const widths = Array.from({ length: columns }, (_, col) => Math.min(wide, Math.max(56, ...tree.all.filter(({ one }) => one.col === col).map(({ one }) => 44 + LETTER * glyphLine(spellWord(one.glyphs), 24).length))));
  const step = Math.min(room, fills ? CHIP.apart : Math.max(...widths) + CHIP.gap); // a chain reads as a sentence
  const line = Math.min(height < Infinity ? HIGH.grand : HIGH.usual, Math.max(least, Math.floor(height / lines)));
  const used = from + (columns - 1) * step + Math.max(...widths) + 4; // and the ring around a chip
  setSize(tree.svg, used, lines * line);
  place(tree.node, { height: lines * line, width: used });
  tree.node.classList.toggle("tight", line < HIGH.usual);
  tree.node.classList.toggle("small", line < HIGH.small); // letters as low as the line
  place(tree.text, { width: from - 12, y: line / 2 - 4 });
  const high = Math.min(30, line - (line < HIGH.small ? 2 : 4)) + Math.max(0, line - HIGH.usual) / 2;
  const spot = (one) => ({ x: from + one.col * step, y: (one.line + 0.5) * line });
  for (const { face, line: wire, one } of tree.all) {
    const at = spot(one);
    place(face, { left: at.x, top: at.y - high / 2, width: widths[one.col], height: high });
    const [x, y] = one.parent === ROOT ? [from - 12, line / 2] : [spot(payload.nodes[one.parent]).x + widths[payload.nodes[one.parent].col], spot(payload.nodes[one.parent]).y];
    const bend = Math.min(24, (at.x - x) / 2);
    wire.setAttribute("d", `M${x} ${y} C${x + bend} ${y} ${at.x - bend} ${at.y} ${at.x} ${at.y}`);
  }
  return line;
}

export const FATES = { accepted: "accepted", rejected: "rejected", unchecked: "not checked", draft: "draft token" };
const SIGNS = { accepted: "✓", rejected: "", unchecked: "", draft: "", bonus: "+", residual: "↻" };

/** What each chip looks like at a step: decided ones as they were decided, the others as draft tokens; at the end, what was not checked. */
export function drawTree(tree, view) {
  const { step, decided, over } = view;
  for (const { face, mark, line, one, i } of tree.made) {
    const is = decided.has(i) ? one.status : over ? "unchecked" : "draft";
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
