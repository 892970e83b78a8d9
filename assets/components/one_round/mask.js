// Why the draft needs a pass for each token and the target one for all: which tokens each row of a pass reads, the causal mask.

import { move, place, s, say, show } from "../lib/dom.js";
import { glyphLine } from "../lib/glyphs.js";
import { makePanel, placePanel } from "./panel.js";

const LABEL = 104; // px beside the rows

export function makeMask() {
  const panel = makePanel("mask");
  const cells = s("g", {});
  const foot = s("text", { class: "foot" });
  panel.node.append(cells, foot);
  return { ...panel, cells, foot };
}

/** Which tokens each row reads: row r predicts draft token r (the last row the token after them), column 0 is the text so far, column c draft token c - 1. */
export function listSeenCells(drafted) {
  return Array.from({ length: drafted + 1 }, (_, row) => Array.from({ length: drafted + 1 }, (_, column) => column <= row));
}

/** ``drawn``: how many draft tokens there are so far, each with a row of its own pass; null at the target's pass, which has all rows. */
export function drawMask(mask, plan, chips, texts, drawn) {
  const there = plan.beside === "mask";
  show(mask.node, there);
  if (!there) return;
  const { x, y, w, h: high } = plan.mask, pad = plan.narrow ? 12 : 20, named = chips.length <= (plan.narrow ? 4 : 8), count = chips.length + 1;
  const { title, sub, foot } = drawn === null ? texts.target : texts.draft;
  placePanel(mask, plan.mask, plan.narrow);
  say(mask.title, title);
  say(mask.sub, sub);
  move(mask.foot, x + pad, y + high - 14);
  say(mask.foot, plan.narrow ? "" : foot);
  const rows = listSeenCells(chips.length), left = x + pad + (named ? LABEL : 0), top = y + (plan.narrow ? 76 : 88), below = plan.narrow ? 12 : 42;
  const step = Math.min(plan.narrow ? 34 : 80, (y + high - below - top) / count), wide = Math.min(named ? 92 : 40, (x + w - pad - left) / count);
  const names = chips.map(({ glyphs }) => glyphLine(glyphs, Math.max(3, Math.floor(wide / 7))));
  const has = (token) => drawn === null || token < drawn; // a token that is not drawn yet has no name and no row
  const nodes = rows.flatMap((row, r) => row.map((seen, c) => {
    const cell = s("rect", { class: !seen || !has(r) ? "cell" : drawn === null ? "cell seen" : r === drawn - 1 ? "cell seen q new" : "cell seen q", rx: 3 });
    place(cell, { x: left + c * wide + 1.5, y: top + r * step + 1.5, width: wide - 3, height: step - 3 });
    return cell;
  }));
  if (named) {
    const letter = drawn === null ? "p" : "q";
    nodes.push(s("text", { class: "rowName", x: left - 8, y: top - 6 }, "reads"));
    nodes.push(...[wide < 84 ? "text" : "text so far", ...names].map((name, c) => s("text", { class: "name", x: left + (c + 0.5) * wide, y: top - 6 }, c === 0 || has(c - 1) ? name : "")));
    nodes.push(...[...names.map((name) => `${letter} of ${name}`), "p of the next"].map((name, r) => s("text", { class: "rowName", x: left - 8, y: top + (r + 0.5) * step + 4 }, has(r) ? name : "")));
  }
  mask.cells.replaceChildren(...nodes);
}
