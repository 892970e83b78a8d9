// One draft token on its ruler, and what comes out: the accepted part and the replaced part of every token, against the mark of p.

import { h, move, place, s, say, show, setSize } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { makeHatches } from "../lib/hatches.js";
import { number, percent, settled } from "../lib/numbers.js";
import { findMost } from "../lib/arithmetic.js";
import { MOST } from "./bars.js";
import { ROW, drawAxis, fitNumber, makeAxis, makeCard, listNames, writeName, planPlot, placeLine, placeRect, formatWord } from "./cards.js";

const HIGH = 30; // px of the ruler

export function makeDraftToken(view) {
  const parts = {
    accepted: s("rect", { class: "zone accepted" }),
    bad: s("rect", { class: "zone bad" }),
    edge: s("line", { class: "edge" }),
  };
  const svg = s("svg", { class: "scene", role: "img" }, makeHatches("bad"), ...Object.values(parts));
  const [big, lost] = [h("b", { class: "big" }), h("b")];
  const [accepted, rejected] = [h("span", { class: "accepted" }, big, " accepted"), h("span", { class: "bad" }, lost, " rejected")];
  const node = h("div", { class: "proposal" }, h("p", { class: "shares" }, accepted, h("span", { class: "among" }, view.texts.draftToken), rejected), svg);
  return { node, svg, big, lost, ...parts };
}

export function drawDraftToken(card, view, width) {
  const beta = settled(view.sums.beta);
  const rejected = settled(1 - beta);
  setSize(card.svg, width, HIGH);
  say(card.big, percent(beta));
  card.svg.setAttribute("aria-label", `accepted ${number(beta)}, rejected ${number(rejected)}`);
  say(card.lost, percent(rejected));
  layBars(card, beta, width);
}

function layBars(card, beta, width) {
  const wide = width - 2;
  place(card.accepted, { x: 1, y: 3, width: beta * wide, height: HIGH - 6 });
  place(card.bad, { x: 1 + beta * wide, y: 3, width: (1 - beta) * wide, height: HIGH - 6 });
  place(card.edge, { transform: `translate(${1 + beta * wide}px, 0px)` });
  card.edge.setAttribute("x2", 0);
  card.edge.setAttribute("y2", HIGH);
}

export function makeOut(view) {
  const axis = makeAxis();
  const stacks = Array.from({ length: MOST }, () => {
    const one = {
      accepted: s("rect", { class: "zone accepted part" }), added: s("rect"), halo: s("line", { class: "halo", x2: 1 }), mark: s("line", { class: "mark", x2: 1 }),
      value: s("text", { class: "value" }), wanted: s("text", { class: "value wanted" }), name: s("text", { class: "name" }), gap: s("text", { class: "name gap" }),
    };
    return { ...one, node: s("g", { class: "slot" }, ...Object.values(one)) };
  });
  const svg = s("svg", { class: "scene", role: "img" }, axis.node, ...stacks.map(({ node }) => node));
  const swatch = h("i");
  const from = h("span");
  const added = h("span", {}, swatch, from);
  const mark = h("span");
  const key = h("p", { class: "legend" }, h("span", {}, h("i", { class: "swatch dash" }), mark), h("span", {}, h("i", { class: "swatch accepted" }), "✓ accepted"), added);
  const card = makeCard("out", view.texts.out, svg, view.complete.answer);
  card.node.prepend(view.complete.node, h("div", { class: "top" }, card.title, key));
  return { ...card, svg, axis, stacks, added, from, swatch, mark };
}

export function drawOut(card, view, width, height, top) {
  const { slots, out, texts, end } = view;
  const plot = planPlot(width, height, slots.length, top, view.letter, listNames(slots));
  const kind = end === "residual" ? "left" : end; // a token drawn again has the color of what it was drawn from
  setSize(card.svg, width, height + ROW + 2); // one more below the names, for what is missing
  drawAxis(card.axis, plot);
  for (const [i, stack] of card.stacks.entries()) drawStack(stack, slots[i], out[i], i, plot, kind, !end);
  const told = slots.map((slot, i) => `${formatWord(slot)} ${number(out[i].accepted)} accepted${end ? ` and ${number(out[i].replaced)} replaced make ${number(out[i].sum)}` : ""}, p is ${number(slot.p)}`);
  card.svg.setAttribute("aria-label", `${texts.out}: ${told.join("; ")}`);
  card.added.classList.toggle("later", !end);
  card.swatch.setAttribute("class", `swatch ${kind}`);
  const source = end === "residual" ? texts.outResidual : end;
  say(card.from, !end || view.narrow ? source : fill(texts.outNew, { end: source })); // a phone has the key in the line of the title
  say(card.mark, view.narrow ? "p" : texts.outMark);
}

/** What comes out too rarely or too often; nothing where it is p, or where the picture does not show a difference. */
function writeGap(difference, { step, letter }) {
  const size = Math.abs(difference).toFixed(2);
  if (Number(size) === 0) return "";
  const words = `${size} ${difference < 0 ? "missing" : "too much"}`;
  return letter * words.length <= step ? words : `${difference < 0 ? "gap" : "over"} ${size}`;
}

/** ``asked``: nobody has answered yet, so no number says what is missing. */
function drawStack(stack, slot, row, i, plot, kind, asked) {
  show(stack.node, Boolean(slot));
  if (!slot) return;
  const wide = plot.wide * 0.72;
  const x = plot.middle(i) - wide / 2;
  const room = 15 / plot.unit; // what a number needs between a stack and the mark above it
  placeRect(stack.accepted, x, wide, 0, row.accepted, plot);
  placeRect(stack.added, x, wide, row.accepted, row.sum, plot);
  stack.added.setAttribute("class", `part added ${kind}`);
  for (const line of [stack.halo, stack.mark]) placeLine(line, x - 5, plot.base - slot.p * plot.unit, wide + 10);
  writeName(stack.name, slot, i, plot);
  if (asked) return askFor(stack, slot, row, i, plot);
  const open = slot.p - row.sum > room;
  say(stack.wanted, open ? fitNumber(slot.p, plot.step - 4, plot.letter) : ""); // one number at a mark, never two on each other
  move(stack.wanted, plot.middle(i), plot.base - slot.p * plot.unit - 8);
  const close = open && (slot.p - row.sum) * plot.unit < 22;
  move(stack.value, plot.middle(i), plot.base - (open ? row.sum : Math.max(row.sum, slot.p)) * plot.unit - (close ? 4 : 8));
  const both = open || row.sum.toFixed(2) >= slot.p.toFixed(2) ? "" : `${row.sum.toFixed(2)} of ${slot.p.toFixed(2)}`; // it stands above the mark, whose value is another
  say(stack.value, both && plot.letter * both.length <= plot.step - 4 ? both : fitNumber(row.sum, plot.step - 4, plot.letter));
  say(stack.gap, writeGap(row.sum - slot.p, plot));
  move(stack.gap, plot.middle(i), plot.base + 20 + ROW * plot.rows);
}

/** Before an answer: p stands at every mark, and what was accepted below every name. */
function askFor(stack, slot, row, i, plot) {
  say(stack.wanted, fitNumber(slot.p, plot.step - 4, plot.letter));
  move(stack.wanted, plot.middle(i), plot.base - slot.p * plot.unit - 8);
  const accepted = fitNumber(row.accepted, plot.step - 4 - 2 * plot.letter, plot.letter);
  say(stack.value, accepted && `✓ ${accepted}`);
  move(stack.value, plot.middle(i), plot.base + 20 + ROW * plot.rows);
  say(stack.gap, "");
}
