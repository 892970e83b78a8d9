// What the three panels of the picture have in common: a back with titles, and bars with names and numbers.

import { glyphLine } from "../lib/glyphs.js";
import { move, place, s, say } from "../lib/dom.js";

export const SLOTS = 16; // a block's draft tokens, or a distribution's bars and the rest

export function panelOf(name) {
  const parts = { back: s("rect", { class: "panel", rx: 12 }), title: s("text", { class: "title" }), sub: s("text", { class: "sub" }) };
  const node = s("g", { class: name }, parts.back, parts.title, parts.sub);
  return { node, ...parts };
}

export function placePanel(panel, box, narrow) {
  const pad = narrow ? 12 : 20;
  place(panel.back, { x: box.x, y: box.y, width: box.w, height: box.h });
  move(panel.title, box.x + pad, box.y + (narrow ? 24 : 30));
  move(panel.sub, box.x + pad, box.y + (narrow ? 42 : 50));
}

/** A rectangle from one probability to another. */
export function stand(node, x, width, from, to, plot, scale) {
  place(node, { x, width: Math.max(0, width), y: plot.base - to * scale, height: Math.max(0, (to - from) * scale) });
}

export function nameSlot(node, bar, where, base, strong) {
  move(node, where.middle, base + 18);
  node.classList.toggle("strong", Boolean(strong));
  node.classList.toggle("rest", bar.glyphs === null);
  say(node, glyphLine(bar.glyphs, Math.max(3, Math.floor(where.step / 6.5))));
}

export function valueOver(node, text, x, y) {
  move(node, x, y - 6);
  if (text) say(node, text);
  node.style.opacity = text ? 1 : 0;
}
