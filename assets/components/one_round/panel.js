// What the three panels of the picture have in common: a back with titles, and bars with names and numbers.

import { glyphLine } from "../lib/glyphs.js";
import { move, place, s, say, show } from "../lib/dom.js";

export const SLOTS = 16; // a block's draft tokens, or a distribution's bars and the rest
export const TICKS = { wide: 28, narrow: 36 }; // px for the numbers of the axis
const TOPS = [[0.25, [0.1, 0.2]], [0.5, [0.25, 0.5]], [0.8, [0.4, 0.8]], [1, [0.5, 1]]]; // of the axis, and where it has lines
const APART = 5; // px between two names
const ROW = 14; // px between two rows of them
const widths = new Map(); // of names, in their font
const pen = globalThis.document?.createElement("canvas").getContext("2d");

export function makePanel(name) {
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

/** A level line of this length. Its ends are coordinates: a line that is stretched by a transform is drawn blurred while something moves. */
export function placeLine(node, x, y, length) {
  node.setAttribute("x2", length.toFixed(2));
  move(node, x, y);
}

/** Where the axis of bars up to ``most`` ends: a round number. */
export function findTop(most) { return chooseAxis(most)[0]; }

function chooseAxis(most) { return TOPS.find(([end]) => most <= end) ?? TOPS.at(-1); }

export function makeTicks() { return [0, 1].map(() => ({ line: s("line", { class: "axis", x2: 1 }), text: s("text", { class: "tick" }) })); }

/** The lines of the axis and their numbers; none where there are no bars. */
export function drawTicks(lines, plot, scale, most, there) {
  const [, ticks] = chooseAxis(most);
  for (const [i, { line, text }] of lines.entries()) {
    show(line, there);
    show(text, there);
    const y = plot.base - ticks[i] * scale;
    placeLine(line, plot.left, y, plot.width);
    move(text, plot.left - 6, y + 4);
    say(text, String(ticks[i]));
  }
}

/** A rectangle from one probability to another. */
export function placeBar(node, x, width, from, to, plot, scale) {
  place(node, { x, width: Math.max(0, width), y: plot.base - to * scale, height: Math.max(0, (to - from) * scale) });
}

export function nameSlot(node, bar, where, base, strong, { name, row }) {
  move(node, where.middle, base + 18 + ROW * row);
  node.classList.toggle("strong", Boolean(strong));
  node.classList.toggle("rest", bar.glyphs === null);
  say(node, name);
}

/** The names under these bars with their rows: in two rows where they would meet in one, and cut only where they meet even so. strong: whether a bar's name is bold. */
export function namesOf(bars, places, plan, strong) {
  const fonts = bars.map((bar) => `${bar.glyphs === null ? "italic " : ""}${strong(bar) ? 700 : 400} ${plan.font}`);
  const names = bars.map(({ glyphs }) => (glyphs === null ? "all others" : glyphLine(glyphs, Infinity)));
  const placed = arrangeNames(names.map((name, i) => measureWidth(name, fonts[i])), places.map(({ middle }) => middle));
  return names.map((name, i) => ({ name: shorten(name, fonts[i], placed[i].room), row: placed[i].row }));
}

/** For names of these widths around these middles (px, from left to right): the room of each, and its row. Every other one stands in row 1 where row 0 has no room for all. */
export function arrangeNames(wanted, middles) {
  const single = shareRoom(wanted, middles);
  if (wanted.every((width, i) => width <= single[i])) return single.map((room) => ({ room, row: 0 }));
  const rows = [0, 1].map((row) => wanted.map((_, i) => i).filter((i) => i % 2 === row));
  const rooms = rows.map((row) => shareRoom(row.map((i) => wanted[i]), row.map((i) => middles[i])));
  return wanted.map((_, i) => ({ room: rooms[i % 2][Math.floor(i / 2)], row: i % 2 }));
}

/** How wide each name can be beside its neighbors: a short one leaves its room to a long one. Widths and middles in px, from left to right. */
export function shareRoom(wanted, middles) {
  const rooms = [...wanted];
  for (let i = 0; i + 1 < rooms.length; i += 1) {
    const both = 2 * (middles[i + 1] - middles[i] - APART);
    if (rooms[i] + rooms[i + 1] <= both) continue;
    const left = rooms[i + 1] <= both / 2 ? both - rooms[i + 1] : Math.min(rooms[i], both / 2);
    rooms[i + 1] = Math.min(rooms[i + 1], both - left);
    rooms[i] = left;
  }
  return rooms;
}

function measureWidth(name, font) {
  const key = `${font} ${name}`, known = widths.get(key);
  if (known !== undefined) return known;
  pen.font = font;
  const { width } = pen.measureText(name);
  if (document.fonts.status === "loaded") widths.set(key, width);
  return width;
}

/** A name, cut with dots to so many px. */
export function shorten(name, font, room) {
  if (measureWidth(name, font) <= room) return name;
  const letters = [...name];
  while (letters.length > 1 && measureWidth(`${letters.join("")}…`, font) > room) letters.pop();
  return `${letters.join("")}…`;
}

export function writeValue(node, text, x, y) {
  move(node, x, y - 6);
  if (text) say(node, text);
  node.style.opacity = text ? 1 : 0;
}
