// The two distributions as bars that can be dragged: p on the left of each pair, q on the right, and inside q what becomes of its draft tokens.

import { h, move, place, s, say, show, setSize } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { makeHatches } from "../lib/hatches.js";
import { number } from "../lib/numbers.js";
import { drawAxis, fitNumber, makeAxis, makeCard, listNames, writeName, planPlot, placeRect, chooseTop, formatWord } from "./cards.js";
import { describeToken, findExample } from "./words.js";

export const MOST = 8;
const STEP = 0.005; // of a dragged bar; the keys step by 0.01, with Shift by 0.001

export function makeBars(view) {
  const axis = makeAxis();
  const slots = Array.from({ length: MOST }, () => makePair(view));
  const svg = s("svg", { class: "scene", role: "group" }, makeHatches("bad"), axis.node, ...slots.map(({ node }) => node));
  const missing = h("span", { class: "wide" }, h("i", { class: "swatch left" }), "missing");
  const key = h("p", { class: "legend" },
    h("span", {}, h("i", { class: "swatch p" }), "target p"), h("span", {}, h("i", { class: "swatch q" }), "draft q"),
    h("span", {}, h("i", { class: "swatch accepted" }), "✓ accepted"), h("span", {}, h("i", { class: "swatch bad" }), "✕ rejected"), missing);
  const card = makeCard("bars", "", key, svg);
  card.node.append(view.proposal.node);
  card.node.prepend(h("div", { class: "top" }, card.title, view.head.from));
  card.sub.replaceWith(view.head.about);
  for (const [i, pair] of slots.entries()) for (const probs of ["p", "q"]) listenToBar(pair[probs], probs, i, view, svg);
  return { ...card, svg, axis, slots, missing };
}

function makePair() {
  const bar = (probs) => {
    const parts = {
      fill: s("rect", { class: `bar ${probs}` }),
      over: s("rect", { class: probs === "p" ? "over left" : "over bad" }),
      value: s("text", { class: `value ${probs}` }),
      grip: s("rect", { class: "grip", rx: 4 }),
      reach: s("rect", { class: "reach", role: "slider", tabindex: "0", "aria-orientation": "vertical", "aria-valuemin": "0", "aria-valuemax": "1" }),
    };
    return { ...parts, node: s("g", { class: `half ${probs}` }, ...Object.values(parts)) };
  };
  const one = { p: bar("p"), q: bar("q"), kept: s("rect", { class: "over kept" }), name: s("text", { class: "name" }) };
  one.node = s("g", { class: "slot" }, one.p.fill, one.q.fill, one.p.over, one.q.over, one.kept, one.name, one.p.node, one.q.node);
  return one;
}

export function drawBars(card, view, width, height) {
  const { slots, texts } = view;
  const plot = planPlot(width, height, slots.length, Math.max(chooseTop(view.heights), view.held?.top ?? 0), view.letter, listNames(slots));
  card.plot = plot;
  setSize(card.svg, width, height);
  say(card.title, fill(texts.bars, { text: view.position()?.before ?? texts.prompt }));
  card.svg.setAttribute("aria-label", `${card.title.textContent}: ${slots.map((slot) => `${formatWord(slot)} p ${number(slot.p)}, q ${number(slot.q)}`).join("; ")}`);
  drawAxis(card.axis, plot);
  const example = view.narrow && !view.touched ? null : findExample(view); // the name that the sentence has
  const told = view.end === "residual"; // what is missing is colored once it is known to be the answer
  card.missing.classList.toggle("later", !told);
  for (const [i, pair] of card.slots.entries()) {
    drawPair(pair, slots[i], view.sums.rows[i], i, plot, view.touched?.index === i ? view.touched.probs : null, told);
    pair.name.classList.toggle("strong", i === example);
  }
  say(card.foot, describeToken(view));
  card.node.classList.toggle("said", view.touched !== null);
  return plot;
}

function drawPair(pair, slot, row, i, plot, touched, told) {
  show(pair.node, Boolean(slot));
  if (!slot) return;
  const middle = plot.middle(i);
  const half = plot.wide / 2;
  for (const probs of ["p", "q"]) drawHalf(pair[probs], slot, probs, probs === "p" ? middle - half : middle, half - 1, plot, touched === probs);
  placeRect(pair.p.over, middle - half, half - 1, told ? row.accepted : slot.p, slot.p, plot);
  const rim = Math.min(4, half / 7); // of the draft's color, around what becomes of it
  const top = Math.max(0, slot.q - rim / plot.unit);
  placeRect(pair.q.over, middle + rim, half - 1 - 2 * rim, row.accepted, Math.max(row.accepted, top), plot);
  placeRect(pair.kept, middle + rim, half - 1 - 2 * rim, 0, Math.min(row.accepted, top), plot);
  writeName(pair.name, slot, i, plot);
}

function drawHalf(half, slot, probs, x, wide, plot, touched) {
  const value = slot[probs];
  const y = plot.base - value * plot.unit;
  placeRect(half.fill, x, wide, 0, value, plot);
  const grip = Math.min(22, wide - 8); // two of a pair do not touch
  place(half.grip, { x: x + (wide - grip) / 2, y: y - 4, width: grip, height: 8 });
  const top = Math.min(y - 26, plot.base - 48);
  place(half.reach, { x: probs === "p" ? x + wide + 1 - plot.step / 2 : x, y: top, width: plot.step / 2, height: plot.base - top }); // all of the place of a bar: a finger is wide
  const written = fitNumber(value, plot.step / 2 - 3, plot.letter) || (touched ? number(value) : "");
  const aside = plot.letter * written.length > wide - 8; // it grows away from the other bar of the pair, which may be taller
  half.value.classList.toggle("aside", aside);
  move(half.value, aside ? (probs === "p" ? x + wide - 4 : x + 4) : x + wide / 2, y - 10);
  say(half.value, written);
  const free = slot.glyphs !== null || slot.free;
  half.node.classList.toggle("fixed", !free);
  half.reach.setAttribute("tabindex", free ? "0" : "-1");
  half.reach.setAttribute("aria-disabled", String(!free));
  half.reach.setAttribute("aria-label", `${probs === "p" ? "target p" : "draft q"} of ${formatWord(slot)}`);
  half.reach.setAttribute("aria-valuenow", String(value));
  half.reach.setAttribute("aria-valuetext", number(value, 4));
}

function listenToBar({ reach }, probs, index, view, svg) {
  const valueAt = (event) => {
    const { plot } = view.held;
    const { top, height } = svg.getBoundingClientRect();
    const y = (event.clientY - top) * (svg.clientHeight / height); // a presenter's page is scaled
    return Math.round((plot.base - y + view.held.offset) / plot.unit / STEP) * STEP;
  };
  reach.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !view.grab(probs, index)) return;
    event.preventDefault();
    reach.focus({ preventScroll: true });
    view.held.offset = 0;
    view.held.offset = Math.round((view.probs(probs)[index] - valueAt(event)) * view.held.plot.unit); // where in the bar it was taken
    reach.setPointerCapture(event.pointerId);
  });
  reach.addEventListener("pointermove", (event) => {
    if (reach.hasPointerCapture(event.pointerId) && view.held) view.dragTo(valueAt(event));
  });
  for (const kind of ["pointerup", "pointercancel"]) reach.addEventListener(kind, () => view.letGo());
  reach.addEventListener("keydown", (event) => {
    const by = event.shiftKey ? 0.001 : 0.01;
    const steps = { ArrowUp: by, ArrowRight: by, ArrowDown: -by, ArrowLeft: -by, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1 };
    if (event.key === "Escape" && view.held) return view.giveBack();
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    view.nudge(probs, index, steps[event.key]);
  });
}
