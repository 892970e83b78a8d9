// What u meets: u on its ruler, beside its threshold or alone where it draws a token, and the bars of the distribution at that step.

import { makeBarRow } from "../../lib/bars.js";
import { h, move, place, s, say, show, setSize } from "../../lib/dom.js";
import { glyphLine } from "../../lib/glyphs.js";
import { makeHatches } from "../../lib/hatches.js";
import { uniformText, number } from "../../lib/numbers.js";
import { FATES } from "../../lib/tree.js";

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

/** u beside its threshold where it decides, u alone where it draws the last token; nothing where no random number is used. */
export function drawUniform(card, view) {
  const { step, payload } = view;
  const draws = step.kind === "end" && payload.ending && payload.ending.u !== null;
  const one = draws ? payload.ending : step.node === null ? null : payload.nodes[step.node];
  const decides = !draws && Boolean(one) && one.threshold !== null && one.u !== null;
  const [u, threshold] = [one?.u ?? 0, decides ? one.threshold : 1];
  card.node.classList.toggle("idle", !decides && !draws);
  card.node.classList.toggle("draws", Boolean(draws));
  if (!decides && !draws) return;
  say(card.title, draws ? "The random number that draws it" : "The random number u and its threshold");
  const width = card.node.clientWidth - 32; // it has one now
  setSize(card.svg, width, 74);
  const x = threshold * width;
  const top = 22;
  place(card.accepted, { x: 0, y: top, width: x, height: 30 });
  place(card.bad, { x, y: top, width: Math.max(0, width - x), height: 30 });
  move(card.edge, x, top);
  move(card.disc, Math.min(width - 9, Math.max(9, u * width)), top + 15);
  move(card.words.zero, 0, top + 46);
  move(card.words.one, width, top + 46);
  for (const node of [card.bad, card.edge, card.words.edge]) node.style.visibility = decides ? "" : "hidden";
  writeAside(card.words.edge, decides ? `accepted below ${number(threshold)}` : "", x, top - 8, width);
  const written = uniformText(u, decides ? threshold : null);
  writeAside(card.words.uniform, `u = ${written}`, u * width, top + 46, width, 26);
  card.svg.setAttribute("aria-label", draws ? `u = ${written} draws ${one.name}.` : `u = ${written}, threshold ${number(threshold)}: ${FATES[one.fate]}.`);
}

/** A text whose middle is at x, clear of the edges and of what stands there. */
function writeAside(node, text, x, y, width, edge = 0) {
  say(node, text);
  const half = 3.3 * text.length;
  move(node, Math.min(width - half - edge, Math.max(half + edge, x)), y);
}

const TITLES = {
  tree: "The distributions after the text; drafted tokens bold", residual: "What remains after the rejection", end: "The distribution it is drawn from",
  tally: "The distribution that the last token was drawn from",
};
const DISTRIBUTIONS = { p: "target p", met: "residual before", q: "draft q", residual: "left over", drawn: "residual distribution" };

export function makeDistributions() {
  const title = h("h3", {});
  const key = h("p", { class: "key" });
  const list = h("div", { class: "bars", role: "img" });
  return { node: h("figure", { class: "barsCard" }, title, key, list), title, key, list };
}

/** Bars of the step's distribution: the target's and the draft's where u decides, what a rejection leaves, and the one that the last token is drawn from. */
export function drawDistributions(card, view) {
  const { step, payload } = view;
  const ending = step.kind === "end" || step.kind === "tally";
  const about = ending ? payload.ending : payload.nodes[step.node ?? 0]; // before the first u: the distributions after the text
  const bars = step.kind === "tree" ? payload.first : about?.bars ?? [];
  const met = about?.met === "left" ? "met" : "p";
  const known = (probs) => bars.some((bar) => Number.isFinite(bar[probs]));
  const distributions = ending ? [known("drawn") ? "drawn" : "p"] : [met, ...(known("q") ? ["q"] : []), ...(step.kind === "residual" ? ["residual"] : [])];
  show(card.node, bars.length > 0);
  const chosen = ending && payload.ending?.u === null; // typical acceptance takes the likeliest token
  say(card.title, chosen ? "The target’s distribution there" : TITLES[step.kind] ?? "The distributions compared");
  const words = (probs) => (probs === "residual" ? `left over, not rescaled: ${number(about.left)} in all` : DISTRIBUTIONS[probs]);
  card.key.replaceChildren(...distributions.map((probs) => h("span", {}, h("i", { class: `swatch ${probs}` }), words(probs))));
  const values = (bar) => distributions.map((probs) => bar[probs === "met" ? "p" : probs] ?? 0);
  const most = Math.max(1e-12, ...bars.filter((bar) => bar.glyphs !== null).flatMap(values));
  const last = distributions.at(-1); // after a rejection only what it leaves matters, and only what can be drawn
  const shown = ending || step.kind === "residual" ? bars.filter((bar) => bar.mine || bar.glyphs === null || bar[last] > 0) : bars;
  card.list.replaceChildren(...shown.map((bar) => {
    const [kind, name] = bar.glyphs === null ? ["rest", "the rest"] : [bar.mine ? "mine" : "", glyphLine(bar.glyphs, 14)];
    return makeBarRow(kind, [name], Object.fromEntries(distributions.map((probs, i) => [probs, values(bar)[i]])), bar.glyphs === null ? Infinity : most);
  }));
  card.list.setAttribute("aria-label", shown.map((bar) => `${bar.glyphs === null ? "the rest" : glyphLine(bar.glyphs, 20)}: ${values(bar).map((x, i) => `${DISTRIBUTIONS[distributions[i]]} ${number(x)}`).join(", ")}`).join("; "));
}
