// What u meets: u on its ruler, and the bars of the distribution it was compared under.

import { barRow } from "../lib/bars.js";
import { h, move, place, s, say, sized } from "../lib/dom.js";
import { glyphLine } from "../lib/glyphs.js";
import { makeHatches } from "../lib/hatches.js";
import { uniformText, number } from "../lib/numbers.js";
import { FATES } from "./chips.js";

export function makeUniform() {
  const accepted = s("rect", { class: "zone accepted" });
  const bad = s("rect", { class: "zone bad" });
  const edge = s("line", { class: "edge", y1: 0, y2: 30 });
  const disc = s("g", { class: "uniform" }, s("circle", { r: 9, class: "face" }));
  const words = { zero: s("text", {}, "0"), one: s("text", { class: "end" }, "1"), edge: s("text", { class: "said" }), uniform: s("text", { class: "said strong" }) };
  const svg = s("svg", { class: "ruler", role: "img" }, makeHatches("bad"), accepted, bad, edge, disc, ...Object.values(words));
  const title = h("h3", {});
  return { node: h("figure", { class: "uniformCard" }, title, svg), title, svg, accepted, bad, edge, disc, words };
}

export function drawUniform(card, view, width) {
  const one = view.step.node === null ? null : view.payload.nodes[view.step.node];
  const there = Boolean(one) && one.threshold !== null;
  card.node.classList.toggle("idle", !there);
  say(card.title, there ? "The random number u and its threshold" : "No random number at this step");
  sized(card.svg, width, 74);
  const [threshold, u] = there ? [one.threshold, one.u] : [0.5, 0];
  const x = threshold * width;
  const top = 22;
  place(card.accepted, { x: 0, y: top, width: x, height: 30 });
  place(card.bad, { x, y: top, width: Math.max(0, width - x), height: 30 });
  move(card.edge, x, top);
  move(card.disc, Math.min(width - 9, Math.max(9, u * width)), top + 15);
  move(card.words.zero, 0, top + 46);
  move(card.words.one, width, top + 46);
  for (const node of [card.accepted, card.bad, card.edge, card.disc, card.words.edge, card.words.uniform]) node.style.visibility = there ? "visible" : "hidden";
  if (!there) return;
  aside(card.words.edge, `accepted below ${number(threshold)}`, x, top - 8, width);
  aside(card.words.uniform, `u = ${uniformText(u, threshold)}`, u * width, top + 46, width, 26);
  card.svg.setAttribute("aria-label", `u = ${uniformText(u, threshold)}, threshold ${number(threshold)}: ${FATES[one.fate]}.`);
}

/** A text whose middle is at x, clear of the edges and of what stands there. */
function aside(node, text, x, y, width, edge = 0) {
  say(node, text);
  const half = 3.3 * text.length;
  move(node, Math.min(width - half - edge, Math.max(half + edge, x)), y);
}

const DISTRIBUTIONS = { p: "target p", met: "residual before", q: "draft q", residual: "residual after" };

export function makeDistributions() {
  const title = h("h3", {});
  const key = h("p", { class: "key" });
  const list = h("div", { class: "bars", role: "img" });
  return { node: h("figure", { class: "barsCard" }, title, key, list), title, key, list };
}

/** Bars of the step's distribution: the target's and the draft's where u decides, the residual after a rejection, one distribution for the ending. */
export function drawDistributions(card, view) {
  const { step, payload } = view;
  const ending = step.kind === "end" || step.kind === "tally";
  const about = ending ? payload.ending : payload.nodes[step.node ?? 0]; // before the first u: the distributions after the text
  const bars = about?.bars ?? [];
  const met = about?.met === "left" ? "met" : "p";
  const distributions = ending ? [payload.ending?.kind === "residual" ? "residual" : "p"] : step.kind === "residual" ? [met, "q", "residual"] : [met, "q"];
  say(card.title, bars.length ? { end: "The distribution it is drawn from", tally: "The distribution of the last token", tree: "The distributions after the text", residual: "What remains after the rejection" }[step.kind] ?? "The distributions compared" : "No distribution at this step");
  card.key.replaceChildren(...(bars.length ? distributions : []).map((probs) => h("span", {}, h("i", { class: `swatch ${probs}` }), DISTRIBUTIONS[probs])));
  const values = (bar) => distributions.map((probs) => bar[probs === "met" ? "p" : probs] ?? 0);
  const most = Math.max(1e-12, ...bars.filter((bar) => bar.glyphs !== null).flatMap(values));
  card.list.replaceChildren(...bars.map((bar) => {
    const [kind, name] = bar.glyphs === null ? ["rest", "the rest"] : [bar.mine ? "mine" : "", glyphLine(bar.glyphs, 14)];
    return barRow(kind, [name], Object.fromEntries(distributions.map((probs, i) => [probs, values(bar)[i]])), bar.glyphs === null ? Infinity : most);
  }));
  card.list.setAttribute("aria-label", bars.map((bar) => `${bar.glyphs === null ? "the rest" : glyphLine(bar.glyphs, 20)}: ${values(bar).map((x, i) => `${DISTRIBUTIONS[distributions[i]]} ${number(x)}`).join(", ")}`).join("; "));
}
