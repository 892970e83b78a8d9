// Why one pass gives a distribution for every place: a picture of what each place sees, the causal mask.

import { move, place, s, say, show } from "../lib/dom.js";
import { glyphLine } from "../lib/glyphs.js";
import { makePanel, placePanel } from "./panel.js";

const LABEL = 104; // px beside the rows
const FOOT = 590; // px that both sentences under it take

export function makeMask() {
  const panel = makePanel("mask");
  const cells = s("g", {});
  const foot = s("text", { class: "foot" });
  panel.node.append(cells, foot);
  return { ...panel, cells, foot };
}

/** Which cells are seen: row r is the place of draft token r (the last row the place after all), column 0 the text so far, column c draft token c - 1. */
export function listSeenCells(drafted) {
  return Array.from({ length: drafted + 1 }, (_, row) => Array.from({ length: drafted + 1 }, (_, column) => column <= row));
}

export function drawMask(mask, plan, chips, texts) {
  const there = plan.beside === "mask" && chips.length > 0;
  show(mask.node, there);
  if (!there) return;
  const { x, y, w, h: high } = plan.mask, pad = plan.narrow ? 12 : 20, named = chips.length <= (plan.narrow ? 4 : 8);
  placePanel(mask, plan.mask, plan.narrow);
  say(mask.title, texts.title);
  say(mask.sub, texts.sub);
  move(mask.foot, x + pad, y + high - (plan.narrow ? 8 : 14));
  say(mask.foot, plan.narrow ? "" : w < FOOT ? texts.foot[0] : texts.foot.join(" "));
  const rows = listSeenCells(chips.length), left = x + pad + (named ? LABEL : 0), top = y + (plan.narrow ? 76 : 88), below = plan.narrow ? 12 : 42;
  const step = Math.min(plan.narrow ? 34 : 80, (y + high - below - top) / rows.length), wide = Math.min(named ? 92 : 40, (x + w - pad - left) / rows.length);
  const names = chips.map(({ glyphs }) => glyphLine(glyphs, Math.max(3, Math.floor(wide / 7))));
  const nodes = rows.flatMap((row, r) => row.map((seen, c) => {
    const cell = s("rect", { class: seen ? "cell seen" : "cell", rx: 3 });
    place(cell, { x: left + c * wide + 1.5, y: top + r * step + 1.5, width: wide - 3, height: step - 3 });
    cell.style.setProperty("--nth", r);
    return cell;
  }));
  if (named) {
    nodes.push(...[wide < 84 ? "text" : "text so far", ...names].map((name, c) => s("text", { class: "name", x: left + (c + 0.5) * wide, y: top - 6 }, name)));
    nodes.push(...[...names.map((name) => `p of ${name}`), "p of the next"].map((name, r) => s("text", { class: "rowName", x: left - 8, y: top + (r + 0.5) * step + 4 }, name)));
  }
  mask.cells.replaceChildren(...nodes);
}

