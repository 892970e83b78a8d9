// The pieces that remain when the overlap is gone, on their way into the residual; and the bonus, drawn from p itself.

import { move, place, s, say, show } from "../lib/dom.js";
import { number, readUniform, uniformText } from "../lib/numbers.js";
import { SLOTS, nameSlot, namesOf, makePanel, placePanel, placeBar, placeLine, writeValue } from "./panel.js";
import { plotIn, slot } from "./layout.js";
import { makeField } from "./uniform.js";

export function makeLast(view) {
  const panel = makePanel("residual");
  const axis = s("line", { class: "axis", x2: 1 });
  const note = s("text", { class: "note" });
  const sum = s("text", { class: "foot" });
  const marker = s("g", { class: "marker" }, s("path", { d: "M -8 -12 L 8 -12 L 0 0 Z" }), s("text", { y: -18 }));
  const pieces = Array.from({ length: SLOTS }, () => {
    const one = { bar: s("rect", { class: "piece" }), name: s("text", { class: "name" }), value: s("text", { class: "value" }) };
    one.node = s("g", { class: "slot" }, one.bar, one.name, one.value);
    return one;
  });
  const equal = ["rejected", "missing"].map((word) => ({ word, bar: s("rect", { class: word === "rejected" ? "bar q rejected" : "bar add" }), text: s("text", { class: "taken" }) }));
  panel.node.append(axis, note, sum, ...equal.flatMap(({ bar, text }) => [bar, text]));
  const flying = s("g", { class: "flying" }, ...pieces.map((one) => one.node), marker); // above both panels: pieces cross over
  return { ...panel, axis, note, sum, equal, marker, pieces, flying, drawing: makeDrawForm(view) };
}

export function drawLastPanel(panel, plan, probs, bars, frame, from, view) {
  const plot = plotIn(plan.last, plan.narrow, plan.narrow ? 58 : plan.tight ? 92 : 62); // in a tight panel the field of the draw has its place under the names, else beside the title
  placePanel(panel, plan.last, plan.narrow);
  const bonus = frame.kind === "bonus";
  show(panel.node, plan.beside === "last");
  show(panel.flying, plan.beside === "last" || frame.kind === "lift");
  panel.node.classList.toggle("bonus", bonus);
  panel.flying.classList.toggle("bonus", bonus);
  titleLast(panel, frame, bonus, probs !== null && (probs.beta !== null || bonus), view);
  move(panel.sum, plan.last.x + 12, plan.last.y + plan.last.h - 8);
  say(panel.sum, plan.narrow && frame.landed && probs?.beta != null ? `Overlap ${number(probs.beta)} + residual ${number(probs.left ?? 0)}: exactly the target’s p.` : "");
  placeLine(panel.axis, plot.left, plot.base, plot.width);
  panel.axis.style.opacity = frame.landed ? 1 : 0;
  drawEqual(panel.equal, plan, plot, frame.kind === "lift" ? probs?.left : null);
  drawDrawForm(panel, plan, frame, view);
  const known = frame.landed ? bars.filter((bar) => bar.end > 0) : [];
  const most = Math.max(0.05, ...known.map((bar) => bar.end));
  const scale = (plot.high - (plan.narrow ? 30 : 46)) / most;
  const places = known.map((bar, rank) => slot(plot, rank, known.length, bar.glyphs === null));
  const names = namesOf(known, places, plan, (bar) => bar.drawn && frame.drawn);
  for (const [i, one] of panel.pieces.entries()) drawPiece(one, bars[i], i, bars.length, { known, places, names }, { plot, scale, from, frame, drawnBy: view.round().ending?.u });
  drawMarker(panel.marker, known, { plot, scale, frame, view });
}

/** What is rejected and what is missing, one over the other: as much. */
function drawEqual(equal, { last }, { left: x, width, top }, left) {
  const step = Math.min(72, (last.h - 90) / 2);
  for (const [i, { word, bar, text }] of equal.entries()) {
    for (const node of [bar, text]) show(node, Boolean(left));
    if (!left) continue;
    const y = top + 16 + i * step;
    move(text, x, y);
    say(text, `${word} ${number(left)}`);
    place(bar, { x, y: y + 8, width: (width * left) / Math.max(left, 0.5), height: Math.min(32, step - 30) });
  }
}

function titleLast(panel, frame, bonus, known, view) {
  const { narrow } = view;
  const { tight } = view.plan;
  const lifted = frame.kind === "lift";
  say(panel.title, bonus ? "The bonus token" : lifted ? "As much is missing as is rejected" : narrow ? "The residual" : "The residual distribution");
  const made = tight ? "max(0, p − q), rescaled to 1" : "max(0, p − q), rescaled to 1; one draw from it";
  const lands = tight ? "one draw, by another random number" : "one draw from it, by another random number";
  say(panel.sub, lifted ? (tight ? "rescaled to 1: the residual" : "the missing part, rescaled to 1, is the residual distribution") : frame.drawn ? lands : made);
  const note = frame.drawn && !known ? "The distributions of this round were not recorded." : "";
  const { x, y, w, h: high } = view.plan.last;
  move(panel.note, x + w / 2, y + high / 2 + 12);
  say(panel.note, note);
}

/** The number of the draw, to be typed anew: what it lands on is for the pair to say. */
function makeDrawForm(view) {
  const field = makeField("drawForm", "draw", "random number of the draw", () => {
    const u = readUniform(field.input.value);
    const { ending } = view.round();
    say(field.hint, u === null ? "at least 0 and below 1" : "");
    if (u === null || number(u, 9) === number(ending.u, 9) || field.input.value === field.input.dataset.own) return;
    view.ask({ kind: "uniform", position: ending.position, purpose: ending.kind, u });
  });
  field.form.prepend(field.hint);
  return field;
}

/** Whether the number of the draw can be typed: there is one, and a pair that can say what it lands on. */
function mayType(frame, view) {
  return frame.drawn && view.round().ending !== null && !view.goesBack;
}

function drawDrawForm({ drawing }, plan, frame, view) {
  const { ending } = view.round(), there = mayType(frame, view);
  show(drawing.form, there);
  if (!there) return;
  place(drawing.form, { left: plan.last.x + plan.last.w - 222, top: plan.last.y + (plan.narrow ? 8 : plan.tight ? plan.last.h - 42 : 10), width: 204 });
  drawing.input.disabled = Boolean(view.data.busy);
  if (drawing.input.getRootNode().activeElement !== drawing.input) {
    drawing.input.dataset.own = String(Number(ending.u.toFixed(3)));
    drawing.input.value = drawing.input.dataset.own;
    say(drawing.hint, ending.edited ? "you chose this number" : "");
  }
}

function drawPiece(one, bar, i, n, { known, places, names }, { plot, scale, from, frame, drawnBy }) {
  const rank = known.indexOf(bar);
  const there = bar && rank >= 0;
  show(one.node, Boolean(bar));
  if (!bar) return;
  const home = slot(from.plot, i, n, true);
  if (there) {
    const where = places[rank];
    placeBar(one.bar, where.middle - where.wide / 2, where.wide, 0, bar.end, plot, scale);
    nameSlot(one.name, bar, where, plot.base, bar.drawn && frame.drawn, names[rank]);
    writeValue(one.value, bar.drawn ? uniformText(bar.end, frame.drawn ? drawnBy : undefined) : bar.end < 0.005 ? "<0.01" : bar.end.toFixed(2), where.middle, plot.base - bar.end * scale);
  } else {
    const whole = bar.q === null;
    const half = whole ? home.wide * 0.7 : home.wide / 2;
    const top = bar.p ?? 0;
    placeBar(one.bar, whole ? home.middle - half / 2 : home.middle - half, half - 1, whole ? 0 : top - (bar.residual ?? 0), top, from.plot, from.scale);
  }
  one.bar.style.opacity = there ? (frame.drawn && !bar.drawn ? 0.5 : 1) : frame.kind === "lift" && bar.residual > 0 ? 1 : 0;
  one.bar.classList.toggle("rest", bar.glyphs === null);
  one.name.style.opacity = there ? 1 : 0;
  one.value.style.opacity = there ? 1 : 0;
}

/** The draw comes down on the token that it chose. */
function drawMarker(marker, known, { plot, scale, frame, view }) {
  const rank = known.findIndex((bar) => bar.drawn);
  const lands = frame.drawn && rank >= 0;
  marker.style.opacity = lands ? 1 : 0;
  if (rank < 0) return;
  say(marker.lastChild, "drawn");
  const where = slot(plot, rank, known.length, known[rank].glyphs === null);
  move(marker, where.middle, lands ? plot.base - known[rank].end * scale - 20 : plot.top - 24);
}
