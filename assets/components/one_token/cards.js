// Words with numbers in them, cards with a title and one sentence, and where things stand inside a card.

import { h, move, place, s, say, show } from "../lib/dom.js";
import { glyphLine } from "../lib/glyphs.js";
import { number } from "../lib/numbers.js";

/** A probability over a bar with ``room`` px, where a character takes ``letter``: with two places, as all on an axis, or nothing; what does not fit stands in the table. */
export function fitNumber(x, room, letter) {
  const text = x === 0 || x === 1 ? String(x) : x < 0.005 ? "<0.01" : x > 0.995 ? ">0.99" : x.toFixed(2);
  return letter * text.length <= room ? text : "";
}

/** a + b = c with as many digits, up to four, as it takes for the written numbers to add up. */
export function formatAddition(a, b, c) {
  const places = [2, 3, 4].find((n) => Math.abs(Number(a.toFixed(n)) + Number(b.toFixed(n)) - Number(c.toFixed(n))) < 1e-9 && [a, b].every((x) => x === 0 || x * 10 ** n >= 1));
  const [first, second, sum] = [a, b, c].map((x) => (x === 0 ? "0" : places ? x.toFixed(places) : number(x)));
  return `${first} + ${second} ${places ? "=" : "≈"} ${sum}`.replaceAll(" ", "\u00a0"); // in one piece
}

/** A token in a sentence. */
export function formatWord(slot) {
  return slot.glyphs === null ? "the rest" : `“${glyphLine(slot.glyphs, 24).replace(/^·/, "")}”`;
}

/** A figure: title, what it shows, the picture, one sentence of meaning. */
export function makeCard(name, title, ...inside) {
  const parts = {
    title: h("h3", {}, title),
    sub: h("p", { class: "sub" }),
    foot: h("figcaption", { class: "foot" }),
  };
  const node = h("figure", { class: `card ${name}` }, parts.title, parts.sub, ...inside, parts.foot);
  return { node, ...parts };
}

/** What is not needed at first sight: a title that opens it, what it shows, and one sentence of meaning. */
export function makeFold(name, title, ...inside) {
  const parts = { sub: h("p", { class: "sub" }), foot: h("p", { class: "foot" }) };
  const node = h("details", { class: `fold ${name}` }, h("summary", {}, title), parts.sub, ...inside, parts.foot);
  return { node, ...parts };
}

export const ROW = 14; // px of a row of names
const TIGHT = 380; // px of a plot; a narrower one has no axis above 0, since each bar has its own

/** A level line of this length. Its ends are coordinates: a line that is stretched by a transform is drawn blurred while something moves. */
export function placeLine(node, x, y, length) {
  node.setAttribute("x2", length.toFixed(2));
  move(node, x, y);
}

/** Bars stand on ``base``; a probability of ``top`` reaches up to ``head``. */
export function planPlot(width, height, count, top, letter, names = []) {
  const left = width < TIGHT ? 6 : 36;
  const head = 24;
  const step = (width - left - 6) / count;
  const rows = names.some((name) => measureName(name, step) > step) ? 2 : 1; // of names: every other one stands lower where one would be cut
  const base = height - 12 - ROW * rows;
  const wide = Math.min(step * 0.8, 92);
  return { left, base, head, step, rows, wide, width, top, letter, unit: (base - head) / top, middle: (i) => left + step * (i + 0.5) };
}

/** A round number above all of these, so that the axis stays while a bar is dragged below it. */
export function chooseTop(values) {
  const highest = Math.max(...values);
  return [0.25, 0.5, 0.75, 1].find((top) => highest <= top) ?? 1;
}

export function placeRect(node, x, wide, from, to, plot) {
  const high = Math.max(0, to - from) * plot.unit;
  place(node, { x, width: Math.max(0, wide), y: plot.base - Math.max(from, to) * plot.unit, height: high });
}

const TICKS = { 0.25: [0, 0.1, 0.2], 0.5: [0, 0.25, 0.5], 0.75: [0, 0.25, 0.5, 0.75], 1: [0, 0.5, 1] };

/** Thin lines at round numbers, which stand beside them. */
export function makeAxis() {
  const lines = Array.from({ length: 4 }, () => ({ line: s("line", { class: "grid", x2: 1 }), text: s("text", { class: "tick" }) }));
  return { node: s("g", { class: "axes" }, ...lines.flatMap(({ line, text }) => [line, text])), lines };
}

export function drawAxis({ lines }, plot) {
  for (const [i, { line, text }] of lines.entries()) {
    const value = TICKS[plot.top][i];
    show(line, value !== undefined && (value === 0 || plot.width >= TIGHT));
    show(text, value !== undefined && plot.width >= TIGHT);
    if (value === undefined) continue;
    const y = plot.base - value * plot.unit;
    placeLine(line, plot.left - 4, y, plot.width - plot.left);
    move(text, plot.left - 9, y + 4);
    say(text, value === 0 || value === 1 ? String(value) : value.toFixed(plot.top === 0.5 || plot.top === 0.75 ? 2 : 1));
  }
}

/** The name of bar ``i`` under it, in the plot's row for it. */
export function writeName(node, slot, i, plot) {
  const row = plot.rows > 1 ? i % 2 : 0, room = plot.rows * plot.step;
  say(node, glyphLine(slot.glyphs, Math.max(3, Math.floor((room - 2) / letterOf(plot.step)))));
  node.classList.toggle("rest", slot.glyphs === null);
  move(node, plot.middle(i), plot.base + 18 + ROW * row);
}

function letterOf(step) {
  return step < 48 ? 6.2 : 6.6;
}

function measureName(name, step) {
  return letterOf(step) * [...name].length + 2;
}

/** The names of all bars, whole. */
export function listNames(slots) {
  return slots.map(({ glyphs }) => glyphLine(glyphs, Infinity));
}
