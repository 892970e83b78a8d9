// One draft token on its ruler, and what comes out: the accepted part and the replaced part of every token, against the mark of p.

import { h, move, place, s, say, show, setSize } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { makeHatches } from "../lib/hatches.js";
import { number, percent, settled } from "../lib/numbers.js";
import { findMost } from "../lib/arithmetic.js";
import { MOST } from "./bars.js";
import { ROW, drawAxis, fitNumber, makeAxis, makeCard, listNames, writeName, planPlot, placeLine, placeRect, formatWord } from "./cards.js";

const HIGH = 58; // px of the ruler with its words

export function makeDraftToken(view) {
  const parts = {
    accepted: s("rect", { class: "zone accepted" }),
    bad: s("rect", { class: "zone bad" }),
    edge: s("line", { class: "edge" }),
    acceptedText: s("text", { class: "zoneName accepted" }),
    rejectedText: s("text", { class: "zoneName bad" }),
  };
  const svg = s("svg", { class: "scene", role: "img" }, makeHatches("bad"), ...Object.values(parts));
  const big = h("b", { class: "big" });
  const card = makeCard("proposal", view.texts.draftToken, svg);
  card.title.append(" ", big);
  card.foot.replaceWith(view.sentence);
  return { ...card, svg, big, ...parts };
}

export function drawDraftToken(card, view, width) {
  const beta = settled(view.sums.beta);
  const rejected = settled(1 - beta);
  setSize(card.svg, width, HIGH);
  say(card.big, percent(beta));
  card.svg.setAttribute("aria-label", `accepted ${number(beta)}, rejected ${number(rejected)}`);
  say(card.acceptedText, `✓ accepted ${number(beta)}`);
  say(card.rejectedText, `✕ rejected ${number(rejected)}`);
  layBars(card, beta, width);
  show(card.acceptedText, beta > 0.001);
  show(card.rejectedText, beta < 0.999);
}

function layBars(card, beta, width) {
  const wide = width - 2;
  place(card.accepted, { x: 1, y: 4, width: beta * wide, height: 30 });
  place(card.bad, { x: 1 + beta * wide, y: 4, width: (1 - beta) * wide, height: 30 });
  place(card.edge, { transform: `translate(${1 + beta * wide}px, 0px)` });
  card.edge.setAttribute("x2", 0);
  card.edge.setAttribute("y2", 38);
  move(card.acceptedText, 1, 54);
  move(card.rejectedText, width - 100, 54);
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
  const added = h("span", {}, swatch, "◆ replaced");
  const key = h("p", { class: "legend" },
    h("span", {}, h("i", { class: "swatch dash" }), "target p"), h("span", {}, h("i", { class: "swatch accepted" }), "✓ accepted"), added);
  return { ...makeCard("out", view.texts.out, key, svg, view.complete.node, view.complete.answer), svg, axis, stacks, added, swatch };
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
  say(card.sub, end ? fill(texts.outSub, { end: end === "residual" ? texts.outResidual : end }) : texts.outSubOpen);
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
  const open = slot.p - row.sum > room;
  const gap = asked ? "" : writeGap(row.sum - slot.p, plot);
  say(stack.wanted, open ? fitNumber(slot.p, plot.step - 4, plot.letter) : ""); // one number at a mark, never two on each other
  move(stack.wanted, plot.middle(i), plot.base - slot.p * plot.unit - 8);
  const close = open && (slot.p - row.sum) * plot.unit < 22;
  move(stack.value, plot.middle(i), plot.base - (open ? row.sum : Math.max(row.sum, slot.p)) * plot.unit - (close ? 4 : 8));
  const both = open || row.sum.toFixed(2) >= slot.p.toFixed(2) ? "" : `${row.sum.toFixed(2)} of ${slot.p.toFixed(2)}`; // it stands above the mark, whose value is another
  say(stack.value, both && plot.letter * both.length <= plot.step - 4 ? both : fitNumber(row.sum, plot.step - 4, plot.letter));
  writeName(stack.name, slot, i, plot);
  say(stack.gap, gap);
  move(stack.gap, plot.middle(i), plot.base + 20 + ROW * plot.rows);
}
