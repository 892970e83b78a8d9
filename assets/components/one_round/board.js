// What one pass of the target gives: beside the draft's probability of each draft token, the target's own, all at once.

import { move, s, say, show } from "../lib/dom.js";
import { number, percent } from "../lib/numbers.js";
import { TICKS, drawTicks, findTop, makeTicks, namesOf, makePanel, nameSlot, placeBar, placeLine, placePanel, writeValue } from "./panel.js";
import { plotIn, slot } from "./layout.js";

const FEET = { wide: 74, narrow: 66 }; // px for the names and what stands under them
const VALUES = 76; // px of a column that has room for both numbers
const ROOMY = 228; // px of one that has room for what they mean in a line; else the line stands below all columns
const WIDEST = 64; // px of a bar
const NARROW_TICKS = 24; // px for the numbers of the axis on a phone, where all bars need their own

export function makeBoard() {
  const panel = makePanel("board"), axis = s("line", { class: "axis", x2: 1 }), columns = s("g", {});
  const lines = makeTicks(), foot = s("text", { class: "foot" });
  const key = (is, x, words) => [s("rect", { class: `bar ${is}`, x, y: -10, width: 14, height: 12 }), s("text", { x: x + 20 }, words)];
  const legend = s("g", { class: "legend" }, ...key("p", 0, "target p"), ...key("q", 92, "draft q"));
  panel.node.append(legend, ...lines.flatMap(({ line, text }) => [line, text]), axis, columns, foot);
  return { ...panel, legend, axis, lines, columns, foot };
}

/** What the two probabilities of draft token ``i`` mean for it. ``chance``: of its acceptance, if all before it are accepted; in ``short`` the foot says so. */
export function describeChance(chance, i, short) {
  const often = chance >= 1 ? "always" : short ? percent(chance) : `${percent(chance)} of the time`;
  if (short) return often;
  return `${i ? "if reached, " : ""}${chance >= 1 ? "always accepted" : `accepted ${often}`}`;
}

/** ``tells``: whether the chances stand under the names; somebody who guesses first is to find them. */
export function drawBoard(board, plan, round, there, tells) {
  show(board.node, there);
  if (!there) return;
  const { chips } = round, { narrow } = plan, box = plan.board, pad = narrow ? 12 : 20;
  placePanel(board, box, narrow);
  say(board.title, narrow ? "What the pass gives" : "What the target’s pass gives: its own probability of each draft token");
  say(board.sub, narrow ? "" : "The dot before a word is a space.");
  move(board.legend, box.x + box.w - pad - (narrow ? 150 : 166), box.y + (narrow ? 24 : 50));
  const whole = plotIn(box, narrow, FEET[narrow ? "narrow" : "wide"]), up = narrow ? 40 : 0, aside = narrow ? NARROW_TICKS : TICKS.wide;
  const plot = { left: whole.left + aside, width: whole.width - aside, top: whole.top - up, base: whole.base, high: whole.high + up };
  placeLine(board.axis, plot.left, plot.base, plot.width);
  const step = plot.width / Math.max(chips.length, 2), most = Math.max(0.05, ...chips.flatMap(({ p, q }) => [p ?? 0, q ?? 0]));
  const places = chips.map((_, i) => ({ middle: plot.left + step * (i + 0.5), step, wide: Math.min(2 * WIDEST, step * (narrow ? 0.88 : 0.6)) }));
  const names = namesOf(chips, places, plan, () => true);
  const told = tells && chips.every(({ chance }) => chance !== null), short = step < ROOMY;
  const scale = (plot.high - 18) / findTop(most);
  drawTicks(board.lines, plot, scale, most, true);
  move(board.foot, box.x + pad, box.y + box.h - (narrow ? 10 : 14));
  say(board.foot, told && short ? `how often it is accepted${chips.length > 1 ? ", if those before it are" : ""}` : "");
  board.columns.replaceChildren(...chips.map((chip, i) => drawColumn(chip, names[i], places[i], { plot, scale, step, narrow, chance: told ? describeChance(chip.chance, i, short) : "" })));
}

function drawColumn({ p, q, chance: sure, glyphs }, name, { middle, wide }, { plot, scale, step, narrow, chance }) {
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
  if (!chance) return node;
  const said = s("text", { class: `chanceWord${sure >= 1 ? " sure" : ""}` }, chance);
  move(said, middle, plot.base + (narrow ? 36 : 42));
  node.append(said);
  return node;
}
