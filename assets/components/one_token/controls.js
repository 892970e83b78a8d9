// The controls in sight, the rest in a fold; the address.

import { button, h, say } from "../lib/dom.js";
import { GRID } from "../lib/arithmetic.js";
import { withFormulas } from "../lib/math.js";
import { markTerms } from "../lib/terms.js";
import { makeFold } from "./cards.js";
import { describeOverlap } from "./words.js";

const OWN = "own"; // bars that were dragged

export function makeHead(view) {
  const presets = h("select", { "aria-label": "starting distributions" });
  const undo = button("Undo", "put the bars back to where they were before you dragged them", () => view.begin({}));
  presets.append(h("option", { value: "", hidden: "" }, "A recorded text"), h("option", { value: OWN, hidden: "" }, "Your own bars"));
  presets.append(...view.payload.presets.map(({ id, title }) => h("option", { value: id }, title)));
  presets.addEventListener("change", () => {
    if (view.payload.presets.some(({ id }) => id === presets.value)) view.begin({ preset: presets.value, from: null });
    else view.draw(); // an option that only says what stands there
  });
  const [smaller, invented, origin] = [h("span", { class: "phone" }), h("span", {}), h("span", {})];
  const about = h("p", { class: "status" }, smaller, " ", invented, " ", origin);
  const example = h("label", { class: "example" }, h("span", {}, "Example"), presets);
  const words = h("div", { class: "words" }, h("h2", { class: "headline" }, view.texts.question), h("p", { class: "lead" }, ...markTerms(view.texts.lead, view.payload.meanings).flatMap((part) => (typeof part === "string" ? withFormulas(part) : [part]))));
  return { node: h("header", {}, words), from: h("div", { class: "from" }, undo, example), example, presets, undo, about, smaller, invented, origin };
}

export function drawHead(head, view) {
  const { preset, from, p } = view.state;
  head.presets.value = p ? OWN : from ? "" : preset;
  head.undo.classList.toggle("later", !p); // its room is kept: nothing moves when a bar is taken
  const place = view.position();
  const origin = place ? `After “${place.before}” the draft model suggested ${place.draft}: draft token ${place.id} of the run.` : preset === view.payload.presets[0].id ? "" : view.preset().about; // the first one is what a draft usually is
  say(head.smaller, place || p ? "" : describeOverlap(view)); // a phone has no room for an example of it
  say(head.invented, place || p ? "" : view.texts.invented);
  head.origin.className = place || p ? "" : "wide";
  say(head.origin, p ? `Your own distributions, dragged from: ${place ? `draft token ${place.id} of the run` : view.preset().title.toLowerCase()}.${place ? ` ${view.texts.lumped}` : ""}` : origin);
  if (place && !p && !view.payload.shared) say(head.origin, `${origin} ${view.texts.unlinked}`);
}

export function makeMore(view) {
  const source = view.payload.shared ? view.texts.source : view.texts.sourceOwn;
  const places = h("select", { "aria-label": source }, h("option", { value: "" }, "no text: one of the examples above"));
  places.append(...view.payload.positions.map(({ id, before, draft }) => h("option", { value: id }, `${id}  ${before} ▸ ${draft}`)));
  places.addEventListener("change", () => view.begin({ from: places.value || null }));
  const count = h("select", { "aria-label": "number of tokens" }, ...[5, 6, 7, 8].map((n) => h("option", { value: String(n) }, String(n))));
  count.addEventListener("change", () => view.resizeTo(Number(count.value)));
  const fields = h("div", { class: "fields" }, h("label", {}, h("span", {}, source), places), h("label", {}, h("span", {}, "Tokens"), count));
  const { node, foot } = makeFold("more", "A real text, more tokens", fields);
  say(foot, "Keys on a bar: ↑ ↓ move it by 0.01, with Shift by 0.001, Page Up and Page Down by 0.1, Home and End to 0 and 1; Esc undoes a drag. The address of this page holds the bars: copy it to share.");
  return { node, fields, places, count };
}

export function drawMore(more, view) {
  more.places.value = view.state.from ?? "";
  more.places.disabled = view.payload.positions.length === 0;
  more.count.value = String(view.slots.length);
  more.count.disabled = Boolean(view.state.from);
}

/** What an address has to hold for these bars to stand there again; null: nothing, for what stands there anyway. */
export function formatBars({ preset, from, p, q }, { first, shared }) {
  return {
    preset: from || preset === first ? null : preset,
    from: shared && from ? from : null, // a place in a run of one's own is in nobody else's
    p: p ? formatPercents(p) : null,
    q: q ? formatPercents(q) : null,
  };
}

function formatPercents(probs) {
  return probs.map((x) => String(Math.round(x * GRID) / 100)).join("-");
}
