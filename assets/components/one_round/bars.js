// What each model gives to the next token, and the residual that slides out of it.

import { move, s, say, show } from "../lib/dom.js";
import { number, percent } from "../lib/numbers.js";
import { SLOTS, TICKS, drawTicks, findTop, makeTicks, nameSlot, namesOf, makePanel, placePanel, placeBar, placeLine, writeValue } from "./panel.js";
import { plotIn, slot } from "./layout.js";

const DIGIT = 7.6; // px of a character of a number
const LEGEND = 20; // px of a row for it
const ABREAST = 680; // px of a panel that has room for it beside the line under the title
const ROOMY = 42; // px of a pair of bars, from which on both have room for theirs
const COMPACT = { up: 50, foot: 66 }; // px: under the random number of a phone bars have no title, and two lines below them
const ENTRIES = { // of the legend: classes of its swatch, and its words
  p: [["bar p"], "target p"],
  q: [["bar q"], "draft q"],
  rejected: [["bar q rejected"], "rejected"],
  both: [["half bar p", "half bar q", "slab"], "overlap"],
  kept: [["bar p", "slab"], "accepted"],
  add: [["bar add"], "residual"],
  dot: [[], "· is a space"],
};

/** What the legend names at a step: what is drawn then. */
export function listLegend(frame) {
  if (frame.landed) return ["kept", "add"];
  if (frame.lifted) return ["add", "rejected"];
  return frame.p ? ["p", "q", ...(frame.slab ? ["both"] : [])] : ["q"];
}

function drawLegend(panel, frame, left, right) {
  const shown = [...listLegend(frame), ...(frame.lifted ? [] : ["dot"])], apart = left === null ? 18 : 14;
  const whole = shown.reduce((sum, key) => sum + panel.entries[key].width, apart * (shown.length - 1));
  let x = left ?? right - whole;
  for (const [key, { node, width }] of Object.entries(panel.entries)) {
    show(node, shown.includes(key));
    if (shown.includes(key)) {
      move(node, x, 0);
      x += width + apart;
    }
  }
}

export function makeBars() {
  const panel = makePanel("distributions");
  const legend = s("g", { class: "legend" });
  const entries = Object.fromEntries(Object.entries(ENTRIES).map(([key, [classes, words]]) => {
    const parts = classes.map((name, i) => s("rect", { class: name, width: name.startsWith("half") ? 7 : 14, height: 12, x: name === "half bar q" ? 7 : 0, y: -10 }));
    const aside = classes.length ? 20 : 0;
    return [key, { node: s("g", {}, ...parts, s("text", { x: aside }, words)), width: aside + 6.6 * words.length }];
  }));
  legend.append(...Object.values(entries).map(({ node }) => node));
  const axis = s("line", { class: "axis", x2: 1 });
  const lines = makeTicks();
  const foot = s("text", { class: "foot" }), over = s("text", { class: "above" }), taken = s("text", { class: "taken" }, "overlap, taken away");
  const slots = Array.from({ length: SLOTS }, makeSlot);
  panel.node.append(legend, ...lines.flatMap(({ line, text }) => [line, text]), axis, over, foot, ...slots.map((one) => one.node), taken);
  return { ...panel, legend, entries, axis, lines, foot, over, slots, taken };
}

function makeSlot() {
  const one = {
    q: s("rect", { class: "bar q" }),
    p: s("rect", { class: "bar p" }),
    add: s("rect", { class: "bar add" }),
    slab: s("rect", { class: "slab" }),
    fell: s("circle", { class: "fell", r: 5 }),
    name: s("text", { class: "name" }),
    pText: s("text", { class: "value p" }),
    qText: s("text", { class: "value q" }),
    tip: s("title"),
  };
  one.node = s("g", { class: "slot" }, one.tip, one.q, one.p, one.add, one.slab, one.fell, one.name, one.pText, one.qText);
  return one;
}

/** One scale for a round, up to ``highest`` of its bars: the axis stays from step to step, and ends at a round number. */
export function drawBars(panel, plan, probs, bars, frame, highest) {
  const low = plan.bars.w < ABREAST && !plan.narrow ? LEGEND : 0; // beside the place of the token there is no room for the legend
  const { compact } = plan, up = compact ? -COMPACT.up : low;
  const inside = plotIn({ ...plan.bars, y: plan.bars.y + up, h: plan.bars.h - up }, plan.narrow, compact ? COMPACT.foot : plan.narrow ? 58 : 62);
  const aside = plan.narrow ? 0 : TICKS.wide; // on a phone each bar has its number, and no axis
  const plot = { ...inside, left: inside.left + aside, width: inside.width - aside };
  show(panel.node, !frame.chain && !frame.mask && (!plan.narrow || ["draft", "look", "uniform", "lift", "pass"].includes(frame.kind)));
  placePanel(panel, plan.bars, plan.narrow);
  move(panel.legend, 0, plan.bars.y + (compact ? 20 : plan.narrow ? 62 : 50 + low));
  drawLegend(panel, frame, plan.narrow ? plan.bars.x + 12 : low ? plan.bars.x + 20 : null, plan.bars.x + plan.bars.w - 20);
  move(panel.foot, plan.bars.x + (plan.narrow ? 12 : 20), plan.bars.y + plan.bars.h - (plan.narrow ? 8 : 14));
  move(panel.over, plan.bars.x + 12, plan.bars.y + plan.bars.h - 24);
  placeLine(panel.axis, plot.left, plot.base, plot.width);
  show(panel.legend, !frame.uniforms);
  show(panel.axis, bars.length > 0);
  say(panel.title, compact ? "" : frame.uniforms ? (bars.length ? "Why there is a bonus token" : "No draft tokens in this round") : titleBars(frame, probs, plan));
  say(panel.sub, compact ? "" : frame.uniforms ? uniformsSub(bars, plan) : probs ? probs.place : "");
  const lines = frame.uniforms ? [uniformsFoot(bars, plan)] : describeShares(probs, frame, plan);
  say(panel.over, compact ? lines[0] ?? "" : "");
  say(panel.foot, compact ? lines[1] ?? "" : lines.join(" "));
  const most = frame.uniforms ? 1 : highest;
  const scale = (plot.high - 18) / findTop(most); // and the number of the highest bar stands over it
  drawTicks(panel.lines, plot, scale, most, bars.length > 0 && !plan.narrow);
  const places = bars.map((_, i) => slot(plot, i, bars.length, bars.at(-1).glyphs === null));
  const names = namesOf(bars, places, plan, ({ drafted }) => drafted);
  const least = frame.p && places[0]?.wide < ROOMY ? Infinity : 0;
  nameTaken(panel.taken, bars, places, plot, scale, frame);
  const tops = places.map(({ middle, wide }, i) => ({ from: middle - wide / 2, to: middle + wide / 2, left: frame.p ? bars[i].p ?? 0 : bars[i].q ?? 0, right: bars[i].q ?? bars[i].p ?? 0 }));
  for (const [i, one] of panel.slots.entries()) drawSlot(one, bars[i], names[i], places[i], plot, scale, frame, least, [tops[i - 1], tops[i + 1]]);
  return { plot, scale };
}

/** Beside the largest piece of the overlap, of which an outline remains. */
function nameTaken(node, bars, places, plot, scale, frame) {
  const overlaps = bars.map(({ overlap }) => overlap ?? 0), most = Math.max(0, ...overlaps), at = overlaps.indexOf(most);
  show(node, frame.lifted && !frame.landed && most > 0);
  if (!most) return;
  const half = places[at].wide / 2, onLeft = places[at].middle > plot.left + plot.width / 2;
  node.style.textAnchor = onLeft ? "end" : "start";
  move(node, places[at].middle + (onLeft ? -half - 8 : half + 8), plot.base - most * scale + 12);
}

function titleBars({ p, lifted, landed }, probs, { narrow }) {
  if (lifted && probs?.beta != null) return landed ? "What comes out: accepted + residual" : "What is left without the overlap";
  return narrow ? "Probability of the next token" : p ? "Probability of the next token: p by the target, q by the draft" : "Probability q of the next token, by the draft model";
}

/** The numbers u of a block that was accepted whole: the bonus has no draft to be compared with, so the left panel looks back. */
export function uniformBars(chips) {
  const named = chips.length <= 10; // more names than that would be cut to nothing; then the places are numbered
  return chips.map((chip, i) => ({ glyphs: named ? chip.glyphs : [{ t: String(i + 1), k: "text" }], p: chip.threshold, q: null, overlap: null, drafted: chips.length <= 8, fell: chip.u }));
}

function uniformsSub(bars, { tight }) {
  if (!bars.length) return "the target chooses alone";
  return tight ? "bar: acceptance probability; ring: u" : "bar: acceptance probability of each draft token; ring: its u";
}

function uniformsFoot(bars, { tight }) {
  if (!bars.length) return "";
  if (bars.length > 1 && tight) return `All ${bars.length} numbers u fell inside their bars.`;
  return bars.length === 1 ? "u fell inside the bar." : `Each of the ${bars.length} numbers u fell inside its bar: nothing was rejected.`;
}

/** Sentences below the bars. */
function describeShares(probs, frame, { tight, compact }) {
  if (frame.kind === "draft" || frame.kind === "pass" || !probs || probs.beta === null) return [];
  if (frame.landed && tight) return [`${number(probs.beta)} striped + ${number(probs.left ?? 0)} green: exactly p.`];
  if (frame.landed) return [`Striped (accepted) ${number(probs.beta)} + green (added) ${number(probs.left ?? 0)}: bar for bar exactly the target’s p.`];
  if (frame.lifted) return [`Taken away: ${number(probs.beta)} that both share. What remains: ${number(probs.left ?? 0)}.`];
  const all = `Over all tokens, ${percent(probs.beta)} of draft tokens are accepted.`;
  return tight && !compact ? [all] : ["Striped: overlap, token by token; “all others” sums it.", all];
}

/** The probability over which a number of these ends stands: its own, or that of a neighbor's bar which it reaches. */
function clearNeighbors(value, from, to, [before, after]) {
  return Math.max(value, before && from < before.to ? before.right : 0, after && to > after.from ? after.left : 0);
}

/** ``least``: from which probability on a bar has its number though it is not the drafted token; ``neighbors``: the ends and bars of the slots beside it. */
function drawSlot(one, bar, name, where, plot, scale, frame, least, neighbors) {
  show(one.node, Boolean(bar));
  if (!bar) return;
  const half = bar.q === null ? where.wide * 0.7 : where.wide / 2;
  const before = bar.q === null ? where.middle - half / 2 : where.middle - half;
  const shared = frame.lifted && bar.overlap !== null ? bar.overlap : 0;
  one.q.classList.toggle("rejected", frame.lifted && bar.overlap !== null);
  const p = frame.p ? bar.p : 0;
  const gone = frame.lifted && bar.overlap !== null;
  const joined = gone && frame.landed; // overlap and residual, put together again: the blue bar
  const thick = joined ? where.wide * 0.66 : half - 1, left = joined ? where.middle - thick / 2 : before; // over its name
  placeBar(one.p, left, thick, joined ? 0 : shared, Math.max(shared, p), plot, scale);
  placeBar(one.add, left, thick, shared, Math.max(shared, p), plot, scale);
  one.add.style.opacity = joined ? 1 : 0;
  const alone = bar.q !== null && !frame.p; // before the pass a bar stands over its name
  const broad = alone ? where.wide * 0.76 : half - 1;
  placeBar(one.q, alone ? where.middle - broad / 2 : where.middle, broad, shared, Math.max(shared, bar.q ?? 0), plot, scale);
  one.q.style.opacity = bar.q === null || joined ? 0 : 1;
  placeBar(one.slab, left - (joined ? 1 : 2), joined ? thick + 2 : where.wide + 3, 0, bar.overlap ?? 0, plot, scale);
  one.slab.classList.toggle("gone", frame.lifted && !joined);
  one.slab.style.opacity = (frame.slab || frame.lifted) && bar.overlap ? 1 : 0;
  one.fell.style.opacity = bar.fell == null ? 0 : 1;
  if (bar.fell != null) move(one.fell, where.middle, plot.base - bar.fell * scale);
  nameSlot(one.name, bar, where, plot.base, bar.drafted, name);
  one.node.classList.toggle("others", bar.glyphs === null);
  one.node.classList.toggle("beside", !bar.drafted && !frame.lifted && !frame.uniforms);
  say(one.tip, bar.fell != null ? `accepted below ${number(bar.p)}, u = ${number(bar.fell)}` : `p ${number(bar.p ?? 0)}${bar.q === null ? "" : `, q ${number(bar.q)}`}`);
  const pNumbered = frame.p && !gone && (bar.drafted || bar.p >= least), qNumbered = bar.q !== null && !gone && (bar.drafted || bar.q >= least);
  const write = (x) => (bar.drafted || x === 0 ? number(x) : x < 0.005 ? "<0.01" : x.toFixed(2)); // the sentence names the drafted token's
  const both = pNumbered && qNumbered;
  const [high, low] = [bar.p * scale, bar.q * scale]; // px
  const pAside = both && high < low + 14, qAside = both && low < high + 14; // beside a bar that reaches as high, a number keeps to its own side
  one.pText.classList.toggle("aside", pAside);
  one.qText.classList.toggle("aside", qAside);
  const pAt = pAside ? -3 : -half / 2 - 3, qAt = qAside ? 3 : half / 2 + 3;
  const [pSaid, qSaid] = [pNumbered ? write(bar.p) : "", qNumbered ? write(bar.q) : ""], [pX, qX] = [where.middle + (bar.q === null ? 0 : pAt), where.middle + (alone ? 0 : qAt)];
  const pEnd = pX + (pAside ? 0 : (DIGIT * pSaid.length) / 2), qStart = qX - (qAside ? 0 : (DIGIT * qSaid.length) / 2);
  const pOver = pSaid ? clearNeighbors(p, pEnd - DIGIT * pSaid.length, pEnd, neighbors) : p, qOver = qSaid ? clearNeighbors(bar.q, qStart, qStart + DIGIT * qSaid.length, neighbors) : bar.q;
  writeValue(one.pText, pSaid, pX, plot.base - pOver * scale);
  writeValue(one.qText, qSaid, qX, plot.base - qOver * scale);
}
