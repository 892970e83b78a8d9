// What one pass of the target gives: beside the draft's probability of each draft token, the target's own, all at once.

import { move, s, say, show } from "../lib/dom.js";
import { number, percent } from "../lib/numbers.js";
import { namesOf, makePanel, nameSlot, placeBar, placeLine, placePanel, writeValue } from "./panel.js";
import { plotIn, slot } from "./layout.js";

const FEET = { wide: 74, narrow: 62 }; // px for the names and what stands under them
const VALUES = 80; // px of a column that has room for both numbers
const SPOKEN = 76; // px of a column that has room for what the two numbers mean, in two lines
const ROOMY = 190; // px of one that has it in one line
const WIDEST = 64; // px of a bar

export function makeBoard() {
  const panel = makePanel("board"), axis = s("line", { class: "axis", x2: 1 }), columns = s("g", {});
  const key = (is, x, words) => [s("rect", { class: `bar ${is}`, x, y: -10, width: 14, height: 12 }), s("text", { x: x + 20 }, words)];
  const legend = s("g", { class: "legend" }, ...key("p", 0, "target p"), ...key("q", 92, "draft q"));
  panel.node.append(legend, axis, columns);
  return { ...panel, legend, axis, columns, of: null };
}

/** What the two probabilities of a draft token mean for it; lines of words. ``chance``: of its acceptance. */
export function describeChance(chance, short) {
  if (short) return chance >= 1 ? ["always", "accepted"] : ["accepted", percent(chance)];
  return [chance >= 1 ? "always accepted" : `accepted ${percent(chance)} of the time`];
}

/** ``tells``: whether the chances stand under the names; somebody who guesses first is to find them. */
export function drawBoard(board, plan, round, there, tells) {
  show(board.node, there);
  if (!there) return;
  const { chips } = round, { narrow } = plan, box = plan.board, pad = narrow ? 12 : 20;
  placePanel(board, box, narrow);
  say(board.title, narrow ? "What the pass gives" : "What the target’s pass gives: its own probability of each draft token");
  say(board.sub, narrow ? "" : "The dot before a word is a space.");
  move(board.legend, box.x + (narrow ? pad : box.w - pad - 166), box.y + (narrow ? 46 : 50));
  const whole = plotIn(box, narrow, FEET[narrow ? "narrow" : "wide"]), plot = { ...whole, top: whole.top - (narrow ? 14 : 0), high: whole.high + (narrow ? 14 : 0) };
  placeLine(board.axis, plot.left, plot.base, plot.width);
  const step = plot.width / Math.max(chips.length, 2), most = Math.max(0.05, ...chips.flatMap(({ p, q }) => [p ?? 0, q ?? 0]));
  const places = chips.map((_, i) => ({ middle: plot.left + step * (i + 0.5), step, wide: Math.min(2 * WIDEST, step * (narrow ? 0.88 : 0.6)) }));
  const names = namesOf(chips, places, plan, () => true);
  const told = tells && step >= SPOKEN && chips.every(({ chance }) => chance !== null);
  const scale = (plot.high - 16) / most;
  board.columns.replaceChildren(...chips.map((chip, i) => drawColumn(chip, names[i], places[i], { plot, scale, step, told, narrow })));
}

function drawColumn({ p, q, chance, glyphs }, name, { middle, wide }, { plot, scale, step, told, narrow }) {
  const half = wide / 2, node = s("g", { class: "slot" }, s("title", {}, `p ${number(p ?? 0)}, q ${number(q ?? 0)}`));
  for (const [key, value, left] of [["p", p, middle - half], ["q", q, middle]]) {
    const bar = s("rect", { class: `bar ${key}${key === "p" ? " rises" : ""}` }), text = s("text", { class: `value ${key}` });
    placeBar(bar, left + (key === "q" ? 1 : 0), half - 1, 0, value ?? 0, plot, scale);
    writeValue(text, step >= VALUES && value !== null ? number(value) : "", left + half / 2, plot.base - (value ?? 0) * scale);
    node.append(bar, text);
  }
  const word = s("text", { class: "name" });
  nameSlot(word, { glyphs }, { middle }, plot.base, true, name);
  node.append(word);
  if (!told) return node;
  for (const [i, line] of describeChance(chance, step < ROOMY).entries()) {
    const said = s("text", { class: `chanceWord${chance >= 1 ? " sure" : ""}` }, line);
    move(said, middle, plot.base + (narrow ? 35 : 42) + 16 * i);
    node.append(said);
  }
  return node;
}
