// The tour: at the places of a round that matter, one thing is ringed and explained. The visitor steps; the tour follows.
// Its card stands where the opening words stood, so that it covers nothing and its buttons stay where they are.

import { button, h, place, say, show } from "../lib/dom.js";
import { number } from "../lib/numbers.js";

/** A round with a replacement (``shown`` if it is one, else the first), the draft token that it replaces, and the step of each stop there; null where a run has no such round, or there are no stops. */
export function findTourPlaces(rounds, stops, shown = 0) {
  const replaces = ({ steps }) => steps.some(({ kind }) => kind === "residual");
  const round = rounds[shown] && replaces(rounds[shown]) ? shown : rounds.findIndex(replaces);
  if (round < 0 || !stops.length) return null;
  const { steps } = rounds[round];
  const { node } = steps.find(({ kind }) => kind === "residual");
  const places = stops.map(({ kind }) => steps.findIndex((one) => one.kind === kind && (kind === "draft" || one.node === null || one.node === node)));
  return places.every((place, i) => place >= 0 && (i === 0 || place > places[i - 1])) ? { round, node, places } : null;
}

/** The stop that a step belongs to: the last one that begins at or before it. */
export function stopAt(places, step) {
  return places.filter((place) => place <= step).length - 1;
}

/** What a stop says, with the numbers of the draft token that the round rejects: {token}, {p}, {q}, {rate} (p/q), {left} (what is rejected here). */
export function fillStop(says, { chips, distributions }, node) {
  const { name, ratio } = chips[node];
  const words = { token: name, p: ratio.p, q: ratio.q, rate: ratio.rate, left: number(distributions[node].left) };
  return says.replace(/\{(\w+)\}/g, (_, word) => words[word]);
}

export class Tour {
  constructor(view) {
    this.view = view;
    this.on = false;
    this.start = button("Tour", "take the tour: eight stops over one round; random numbers that you chose are put back first", () => this.begin(), "plain tourStart");
    this.told = h("div", { class: "tourStops", "aria-live": "polite" });
    this.count = h("span", { class: "tourCount" });
    this.back = button("←", "the stop before", () => this.goTo(this.stop - 1), "small");
    this.next = button("", "", () => this.goOn(), "primary");
    const close = button("×", "end the tour (Esc)", () => this.turn(false), "small");
    this.card = h("section", { class: "tour off", "aria-label": "Tour" }, this.told, h("div", { class: "tourFoot" }, this.count, this.back, this.next, close));
    this.ring = h("div", { class: "ring off", "aria-hidden": "true" });
  }

  /** A new run: where its stops are, and whether the address asks for the tour. */
  renew() {
    const { payload, data } = this.view;
    const found = findTourPlaces(payload.rounds, data.tour ?? [], this.view.at.round);
    this.round = found?.round;
    this.places = found?.places ?? null;
    show(this.start, this.places !== null);
    this.stops = !found ? [] : data.tour.map(({ title, says }) => h("div", { class: "tourStop" }, h("h3", {}, title), h("p", {}, fillStop(says, payload.rounds[found.round], found.node))));
    this.told.replaceChildren(...this.stops); // one behind the other: the card is as high as the longest of them needs
    if (this.asked === undefined) {
      this.asked = new URL(window.location.href).searchParams.get("tour") === "1";
      if (this.asked && this.places) return this.turn(true, new URL(window.location.href).searchParams.has("at"));
    }
    const begins = this.waits && !payload.edits.length;
    this.waits = false;
    if (begins) this.turn(true);
    else if (this.on) this.turn(this.places !== null, true); // where the new run stands
  }

  /** The tour is about numbers as they were drawn: chosen ones are put back first, and it begins with the run that comes then. */
  begin() {
    const { view } = this;
    this.waits = view.payload.edits.length > 0 && !view.data.busy && !view.data.alone;
    if (this.waits) view.ask({ kind: "undo" });
    else this.turn(true);
  }

  /** stay: where the address says it stands, if that is on the tour's round. */
  turn(on, stay = false) {
    const { view } = this, before = this.on;
    this.on = on && this.places !== null;
    view.play(false);
    view.mirror.write({ tour: this.on ? "1" : null });
    if (this.on && !(stay && view.at.round === this.round)) view.stepTo(this.round, this.places[0]);
    this.draw();
    if (before && !this.on) view.bar.forward.focus({ preventScroll: true });
  }

  get stop() { return stopAt(this.places, this.view.at.step); }

  goTo(stop) {
    if (stop >= 0 && stop < this.places.length) this.view.stepTo(this.round, this.places[stop]);
  }

  /** Whether the tour has the word: then there is one text and one way on. */
  get leads() { return this.on && this.view.at.round === this.round; }

  goOn() {
    if (this.stop === this.places.length - 1) this.turn(false);
    else this.goTo(this.stop + 1);
  }

  draw() {
    const { view } = this;
    const here = this.leads;
    if (view.node.classList.contains("touring") !== here) {
      for (const node of [this.card, this.ring]) show(node, here);
      view.node.classList.toggle("touring", here);
      return view.resize(); // the card is not as high as what stood in its place
    }
    if (!here) return;
    const { stop } = this, last = stop === this.places.length - 1;
    for (const [i, node] of this.stops.entries()) node.classList.toggle("now", i === stop);
    say(this.count, `${stop + 1} of ${this.places.length}`);
    this.back.disabled = stop === 0;
    say(this.next, last ? "Done" : "Next →");
    this.next.title = last ? "end the tour" : "go to the next stop";
    this.placeRing(view.node.querySelectorAll(view.data.tour[stop].points));
  }

  /** The ring around all that is meant and in sight. */
  placeRing(meant) {
    const { node, scene } = this.view, whole = node.getBoundingClientRect(), scale = whole.width / node.offsetWidth;
    const inSight = [...meant].map((one) => one.getBoundingClientRect()).filter(({ width }) => width > 0);
    const boxes = inSight.length ? inSight : [scene.getBoundingClientRect()]; // on a phone panels take turns
    const [left, top] = ["left", "top"].map((side) => Math.min(...boxes.map((box) => box[side])));
    const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
    const from = Math.max(left, whole.left), to = Math.min(right, whole.right); // tokens in a strip may be further aside
    place(this.ring, { left: (from - whole.left) / scale - 6, top: (top - whole.top) / scale - 6, width: (to - from) / scale + 12, height: (bottom - top) / scale + 12 });
  }
}
