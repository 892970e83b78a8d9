// Why the draft needs a pass for each token and the target one for all: which tokens each row of a pass reads, the causal mask.

import { move, place, s, say, show } from "../lib/dom.js";
import { glyphLine } from "../lib/glyphs.js";
import { makePanel, placePanel } from "./panel.js";

const LABEL = 104; // px beside the rows
const NUMBER = 16; // px beside the rows of two that stand side by side on a phone: the number of the pass
const LARGEST = { wide: 110, high: 72 }; // px of a cell

export function makeMask() {
  const [draft, target] = [makeStairs("draftMask"), makeStairs("targetMask")];
  return { node: s("g", { class: "mask" }, draft.node, target.node), draft, target };
}

function makeStairs(name) {
  const panel = makePanel(name), cells = s("g", {});
  panel.node.append(cells);
  return { ...panel, cells };
}

/** Which tokens each row of the target's pass reads: row r predicts draft token r (the last row the token after them), column 0 is the text so far, column c draft token c - 1. */
export function listSeenCells(drafted) {
  return Array.from({ length: drafted + 1 }, (_, row) => Array.from({ length: drafted + 1 }, (_, column) => column <= row));
}

/** ``drawn``: how many draft tokens there are so far, each with a row of its own pass; null at the target's pass, beside which the draft's passes stay. */
export function drawMask(mask, plan, chips, texts, drawn) {
  const there = plan.beside === "mask", both = drawn === null;
  show(mask.node, there);
  if (!there) return;
  const [left, right] = both && chips.length ? plan.halves : [plan.mask, plan.mask];
  show(mask.draft.node, chips.length > 0);
  show(mask.target.node, both);
  if (chips.length) drawStairs(mask.draft, left, plan.narrow, chips, texts.draft, both ? chips.length : drawn, false, chips.length + (both ? 1 : 0));
  if (both) drawStairs(mask.target, right, plan.narrow, chips, texts.target, chips.length + 1, true, chips.length + 1);
}

/** A row for each draft token, and for the target one more; the first ``filled`` have what they read. ``small``: two stand side by side on a phone, with the number of the pass beside its rows; ``count``: rows that the panel has room for. */
function drawStairs(panel, box, small, chips, { title, sub, small: short, small_sub: shortSub }, filled, isTarget, count) {
  const { x, y, w, h: high } = box, pad = small ? 12 : 20, named = chips.length <= 8 && (!small || chips.length <= 4);
  placePanel(panel, box, small);
  say(panel.title, small ? short.replace("{n}", chips.length) : title);
  say(panel.sub, small ? shortSub : sub);
  const left = x + pad + (!named ? 0 : small ? NUMBER : LABEL), top = y + (!small ? 88 : named ? 72 : 54);
  const step = Math.min(LARGEST.high, (y + high - pad - top) / count), wide = Math.min(LARGEST.wide, (x + w - pad - left) / count);
  const size = isTarget ? chips.length + 1 : chips.length, rows = listSeenCells(chips.length).slice(0, size).map((row) => row.slice(0, size));
  const nodes = rows.flatMap((row, r) => row.map((seen, c) => {
    const is = !seen || r >= filled ? "" : isTarget ? " seen" : r === filled - 1 ? " seen q new" : " seen q";
    const cell = s("rect", { class: `cell${is}`, rx: 3 });
    place(cell, { x: left + c * wide + 1.5, y: top + r * step + 1.5, width: wide - 3, height: step - 3 });
    return cell;
  }));
  if (named) {
    const names = chips.map(({ glyphs }) => glyphLine(glyphs, Math.max(3, Math.floor(wide / (small ? 6.4 : 7)))));
    const columns = ["text", ...names].slice(0, size).map((name, c) => (c <= filled ? name : "…")); // a token that is not drawn yet has no name
    if (small) { // the target's rows are one pass: its number stands once, in the middle of them
      const passes = isTarget ? 1 : size, rowsOfOne = isTarget ? size : 1;
      nodes.push(...Array.from({ length: passes }, (_, n) => s("text", { class: "rowName", x: left - 5, y: top + (n + 0.5) * rowsOfOne * step + 4 }, String(n + 1))));
      nodes.push(...columns.map((name, c) => s("text", { class: "name", x: left + (c + 0.5) * wide, y: top - 6 }, name)));
      return panel.cells.replaceChildren(...nodes);
    }
    const labels = isTarget ? [...names.map((name) => `p of ${name}`), "p of the next"] : names.map((name, r) => (r < filled ? `pass ${r + 1}: ${name}` : `pass ${r + 1}`));
    nodes.push(s("text", { class: "rowName", x: left - 8, y: top - 6 }, "reads"));
    nodes.push(...columns.map((name, c) => s("text", { class: "name", x: left + (c + 0.5) * wide, y: top - 6 }, name)));
    nodes.push(...labels.map((name, r) => s("text", { class: "rowName", x: left - 8, y: top + (r + 0.5) * step + 4 }, name)));
  }
  panel.cells.replaceChildren(...nodes);
}
