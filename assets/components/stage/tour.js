// The tour: at the places of a round that matter, one thing is pointed at and explained. The visitor steps; the tour follows.

import { button, h, say, show } from "../lib/dom.js";

const GAP = 14; // px between what is pointed at and the card

/** Index of the motion of each stop, in the first round with a replacement; null where a run has no such round. */
export function tourPlaces(rounds, stops) {
  const round = rounds.findIndex(({ motions }) => motions.some(({ kind }) => kind === "residual"));
  if (round < 0) return null;
  const { motions } = rounds[round];
  const { node } = motions.find(({ kind }) => kind === "residual");
  const places = stops.map(({ kind }) => motions.findIndex((one) => one.kind === kind && (kind === "draft" || one.node === null || one.node === node)));
  return places.every((place, i) => place >= 0 && (i === 0 || place > places[i - 1])) ? { round, places } : null;
}

/** The stop that a motion belongs to: the last one that begins at or before it. */
export function stopAt(places, motion) {
  return places.filter((place) => place <= motion).length - 1;
}

export class Tour {
  constructor(stage) {
    this.stage = stage;
    this.on = false;
    this.start = button("Take the tour →", "eight stops over this round", () => this.turn(true), "tourStart");
    this.title = h("h3", {});
    this.says = h("p", {});
    this.count = h("span", { class: "tourCount" });
    this.back = button("←", "the stop before", () => this.goTo(this.stop - 1), "small");
    this.next = button("", "", () => (this.stop === this.places.length - 1 ? this.turn(false) : this.goTo(this.stop + 1)), "outline");
    const close = button("×", "end the tour (Esc)", () => this.turn(false), "small");
    this.card = h("section", { class: "tour off", "aria-label": "Tour", "aria-live": "polite" },
      h("div", { class: "tourTop" }, this.title, close), this.says, h("div", { class: "tourFoot" }, this.count, this.back, this.next));
    this.ring = h("div", { class: "ring off", "aria-hidden": "true" });
  }

  /** A new run: where its stops are, and whether the address asks for the tour. */
  renew() {
    const found = tourPlaces(this.stage.payload.rounds, this.stage.data.tour ?? []);
    this.round = found?.round;
    this.places = found?.places ?? null;
    show(this.start, this.places !== null);
    if (this.asked === undefined) {
      this.asked = new URL(window.location.href).searchParams.get("tour") === "1";
      if (this.asked && this.places) this.turn(true, new URL(window.location.href).searchParams.has("at"));
    }
  }

  /** stay: where the address says it stands, if that is on the tour's round. */
  turn(on, stay = false) {
    const { stage } = this;
    this.on = on && this.places !== null;
    stage.play(false);
    stage.mirror.write({ tour: this.on ? "1" : null });
    if (this.on && !(stay && stage.at.round === this.round)) stage.goTo(this.round, this.places[0]);
    this.draw();
    if (!this.on) (this.start.offsetWidth ? this.start : stage.bar.step).focus({ preventScroll: true }); // on a phone the opening words have gone
  }

  get stop() { return stopAt(this.places, this.stage.at.motion); }

  goTo(stop) {
    if (stop >= 0 && stop < this.places.length) this.stage.goTo(this.round, this.places[stop]);
  }

  draw() {
    const { stage } = this;
    const here = this.on && this.places !== null && stage.at.round === this.round;
    show(this.card, here);
    show(this.ring, here);
    if (!here) return;
    const { stop } = this, { title, says, points } = stage.data.tour[stop];
    say(this.title, title);
    say(this.says, says);
    say(this.count, `${stop + 1} of ${this.places.length}`);
    this.back.disabled = stop === 0;
    const last = stop === this.places.length - 1;
    say(this.next, last ? "Done" : "Next stop →");
    this.next.title = last ? "end the tour" : "go to the next stop";
    this.place(stage.node.querySelector(points));
  }

  /** The ring around what is meant, and the card beside it where it covers neither that nor the button that steps. */
  place(target) {
    const whole = this.stage.node.getBoundingClientRect();
    const scale = whole.width / this.stage.node.offsetWidth;
    const boxOf = (node) => {
      const seen = node.getBoundingClientRect();
      return { x: (seen.left - whole.left) / scale, y: (seen.top - whole.top) / scale, w: seen.width / scale, h: seen.height / scale };
    };
    const inSight = target?.getBoundingClientRect().width ? target : this.stage.scene; // on a phone panels take turns
    const meant = boxOf(inSight), step = boxOf(this.stage.bar.step);
    Object.assign(this.ring.style, { left: `${meant.x - 6}px`, top: `${meant.y - 6}px`, width: `${meant.w + 12}px`, height: `${meant.h + 12}px` });
    const w = Math.min(400, this.stage.node.clientWidth);
    this.card.style.width = `${w}px`;
    const { x, y } = placeCard({ w, h: this.card.offsetHeight }, meant, step, { w: this.stage.node.clientWidth, h: this.stage.node.offsetHeight });
    Object.assign(this.card.style, { left: `${x}px`, top: `${y}px` });
  }
}

/** Where a card of that size stands beside what is meant: the first of below, right, above and left that covers it and ``free`` least.

Boxes are {x, y, w, h} in px of the whole, which the card does not leave sideways or at the top.
*/
export function placeCard({ w, h }, meant, free, whole) {
  const sideways = Math.max(0, Math.min(meant.x, whole.w - w)), level = Math.max(0, Math.min(meant.y, whole.h - h));
  const below = { x: sideways, y: meant.y + meant.h + GAP }, above = { x: sideways, y: meant.y - h - GAP };
  const right = { x: meant.x + meant.w + GAP, y: level }, left = { x: meant.x - w - GAP, y: level };
  const last = { x: sideways, y: Math.max(0, above.y) };
  const fits = ({ x, y }) => x >= 0 && y >= 0 && x + w <= whole.w && y + h <= whole.h;
  const covered = (at) => [meant, free].reduce((sum, box) => sum + overlap({ ...at, w, h }, box), 0);
  const places = [...[below, right, above, left].filter(fits), last];
  return places.reduce((best, one) => (covered(one) < covered(best) ? one : best));
}

function overlap(a, b) {
  const wide = Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x), high = Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y);
  return Math.max(0, wide) * Math.max(0, high);
}
