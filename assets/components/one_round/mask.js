// Why the draft needs a pass for each token and the target one for all: which tokens each row of a pass reads, the causal mask.

import { glyphLine } from "../lib/glyphs.js";
import { move, place, s, say, show } from "../lib/dom.js";
import { namesOf, shorten } from "./panel.js";

const NUMBER = 16; // px beside the rows for the number of a pass, where tokens have no names
const ASIDE = { wide: 60, narrow: 54 }; // px for the names of rows
const APART = { wide: 12, narrow: 14 }; // px between the pictures of both models
const LARGEST = { wide: 72, high: 72 }; // px of a cell
const ROW = 14; // px between two rows of names
const NAMED = 5; // draft tokens; the names of more have no room

export function makeMask() {
  const back = s("rect", { class: "panel", rx: 12 }), [draft, target] = [makeStairs("draftMask"), makeStairs("targetMask")];
  return { node: s("g", { class: "mask" }, back, draft.node, target.node), back, draft, target };
}

function makeStairs(name) {
  const parts = { title: s("text", { class: "title" }), sub: s("text", { class: "sub" }), cells: s("g", {}) };
  return { ...parts, node: s("g", { class: name }, ...Object.values(parts)) };
}

/** Which tokens each row of the target's pass reads: row r predicts draft token r (the last row the token after them), column 0 is the text so far, column c draft token c - 1. */
export function listSeenCells(drafted) {
  return Array.from({ length: drafted + 1 }, (_, row) => Array.from({ length: drafted + 1 }, (_, column) => column <= row));
}

/** ``texts``: of both pictures, and the words of their rows and columns. ``drawn``: how many draft tokens there are so far, each with a row of its own pass; null at the target's pass, which fills all rows of its own at once. */
export function drawMask(mask, plan, chips, texts, drawn) {
  const there = plan.beside === "mask";
  show(mask.node, there);
  if (!there) return;
  const { x, y, w, h: high } = plan.mask, pad = plan.narrow ? 12 : 20;
  place(mask.back, { x, y, width: w, height: high });
  const inside = { x: x + pad, y, w: w - 2 * pad, h: high }, apart = APART[plan.narrow ? "narrow" : "wide"], half = (inside.w - apart) / 2;
  const [left, right] = chips.length ? [{ ...inside, w: half }, { ...inside, x: inside.x + half + apart, w: half }] : [inside, inside];
  show(mask.draft.node, chips.length > 0);
  const passed = drawn === null, row = chips.length + 1;
  if (chips.length) drawStairs(mask.draft, left, plan, chips, { ...texts, ...texts.draft }, { rows: chips.length, filled: drawn ?? chips.length, most: row, passes: chips.length });
  drawStairs(mask.target, right, plan, chips, { ...texts, ...texts.target, sub: passed ? texts.target.sub : texts.target.later }, { rows: row, filled: passed ? row : 0, most: row, passes: 1, drawn: drawn ?? chips.length });
}

/** A row for each draft token, and for the target one more; the first ``filled`` have what they read. ``most``: rows that there is room for; ``passes``: 1 where all rows are one. */
function drawStairs(stairs, { x, y, w, h: high }, plan, chips, { title, sub, row: rowWords, next, reads }, { rows, filled, most, passes, drawn = filled }) {
  const { narrow } = plan, isTarget = rows > chips.length, named = chips.length <= NAMED, size = narrow ? "narrow" : "wide", top = y + (narrow ? 30 : 68) + (named ? 20 + (narrow ? ROW : 0) : 0), aside = named ? ASIDE[size] : NUMBER;
  move(stairs.title, x, y + (narrow ? 20 : 30));
  move(stairs.sub, x, y + 50);
  say(stairs.title, title.replace("{n}", String(passes)).replace("{s}", passes === 1 ? "" : "es"));
  say(stairs.sub, narrow ? "" : sub);
  const step = Math.min(LARGEST.high, (y + high - (narrow ? 8 : 20) - top) / most), wide = Math.min(LARGEST.wide, (w - aside) / most), left = x + aside;
  const nodes = listSeenCells(chips.length).slice(0, rows).flatMap((row, r) => row.slice(0, rows).map((seen, c) => {
    const is = !seen || r >= filled ? "" : isTarget ? " seen" : r === filled - 1 ? " seen q new" : " seen q";
    const cell = s("rect", { class: `cell${is}`, rx: narrow ? 1 : 3 });
    place(cell, { x: left + c * wide + 1, y: top + r * step + 1, width: Math.max(0, wide - 2), height: Math.max(0, step - 2) });
    return cell;
  }));
  if (named) {
    const plain = (t) => ({ glyphs: [{ t, k: "text" }] }), columns = [plain("text"), ...chips].slice(0, rows).map((one, c) => (c <= drawn ? one : plain("…"))); // a token that is not drawn yet has no name
    const places = columns.map((_, c) => ({ middle: left + (c + 0.5) * wide }));
    nodes.push(...namesOf(columns, places, plan, () => false).map(({ name, row }, c) => s("text", { class: "name", x: places[c].middle, y: top - 6 - ROW * row }, name)));
    const beside = (words, at, of) => s("text", { class: of, x: left - 5, y: at }, shorten(words, `400 ${plan.font}`, aside - 5));
    nodes.push(beside(reads, top - 6, "reads"));
    const ofRow = (r) => (r >= chips.length ? next : (narrow ? "{token}" : rowWords).replace("{token}", () => (r < drawn ? glyphLine(chips[r].glyphs, Infinity) : "…")));
    nodes.push(...Array.from({ length: rows }, (_, r) => beside(narrow && r >= chips.length ? next.split(" ").at(-1) : ofRow(r), top + (r + 0.5) * step + 4, "rowName")));
  } else nodes.push(...Array.from({ length: passes }, (_, n) => s("text", { class: "rowName", x: left - 5, y: top + (n + 0.5) * (rows / passes) * step + 4 }, String(n + 1)))); // the target's rows are one pass: its number stands once, in the middle of them
  stairs.cells.replaceChildren(...nodes);
}
