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
    if (!this.on) this.start.focus({ preventScroll: true });
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

  /** The ring around what is meant, and the card beside it: below where there is room, else above. */
  place(target) {
    const whole = this.stage.node.getBoundingClientRect();
    const scale = whole.width / this.stage.node.offsetWidth;
    const seen = target?.getBoundingClientRect();
    const box = seen?.width ? seen : this.stage.scene.getBoundingClientRect(); // on a phone panels take turns
    const [left, top, width, height] = [box.left - whole.left, box.top - whole.top, box.width, box.height].map((x) => x / scale);
    Object.assign(this.ring.style, { left: `${left - 6}px`, top: `${top - 6}px`, width: `${width + 12}px`, height: `${height + 12}px` });
    const wide = Math.min(400, this.stage.node.clientWidth);
    this.card.style.width = `${wide}px`;
    const high = this.card.offsetHeight, all = this.stage.node.offsetHeight;
    const beside = left + width + GAP + wide <= this.stage.node.clientWidth;
    const below = top + height + GAP + high <= all;
    const x = below || !beside ? Math.max(0, Math.min(left, this.stage.node.clientWidth - wide)) : left + width + GAP;
    const y = below ? top + height + GAP : beside ? Math.max(0, top) : Math.max(0, top - high - GAP);
    Object.assign(this.card.style, { left: `${x}px`, top: `${y}px` });
  }
}
