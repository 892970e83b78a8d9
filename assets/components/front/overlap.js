// Scene 2: the target's distribution and a draft's, which can be dragged; below them what comes out, which stays the target's.

import { computeAccount, roundToGrid, replaceEntry, shareOut } from "../lib/arithmetic.js";
import { h, say } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { number, percent } from "../lib/numbers.js";

const TOP = 0.5; // the largest probability that has room
const LEG = 2.6; // seconds from one draft to the next, and how long each stands
const REST = 1.1;
const IDLE = 10; // seconds without a hand before the draft wanders again
const STEP = 0.01;
const GAMMA = 3; // draft tokens a round, as in the race
const POWERS = ["", "", "²", "³"];

/** Tokens that a round gives on average where each draft token is accepted with this probability: 1 + beta + ... + beta^GAMMA. */
export function countPerPass(beta) {
  return Array.from({ length: GAMMA + 1 }, (_, i) => beta ** i).reduce((sum, one) => sum + one);
}

/** The sum behind ``countPerPass`` in words. */
export function writePerPass(beta) {
  return Array.from({ length: GAMMA + 1 }, (_, i) => (i ? `${beta.toFixed(2)}${POWERS[i]}` : "1")).join(" + ");
}

/** The draft at a moment of the wandering: from each of ``drafts`` to the next, round and round. */
export function computeWanderingDraft(drafts, seconds) {
  const leg = LEG + REST;
  const place = Math.floor(seconds / leg) % drafts.length;
  const x = Math.min(1, (seconds % leg) / LEG);
  const eased = x * x * (3 - 2 * x);
  const next = drafts[(place + 1) % drafts.length];
  return roundToGrid(drafts[place].map((q, i) => q + (next[i] - q) * eased));
}

export class Overlap {
  constructor(view, texts) {
    this.view = view;
    this.texts = texts;
    this.p = roundToGrid(texts.p);
    this.drafts = texts.drafts.map(roundToGrid);
    this.q = this.drafts[0];
    this.seconds = 0;
    this.idle = IDLE;
    this.slots = texts.words.map((word, i) => this.makeSlot(word, i));
    this.share = h("b", { class: "share" });
    this.pace = h("b", { class: "pace" });
    this.added = h("span", { class: "added" });
    this.equal = h("p", { class: "equal" }, h("span", { class: "tick", "aria-hidden": "true" }, "✓"), " ", texts.equal);
    this.node = h("div", { class: "overlap" },
      h("div", { class: "picture" },
        h("p", { class: "caption above" }, h("b", {}, texts.prompt), h("span", { class: "swatch p" }), texts.target, h("span", { class: "swatch q" }), texts.draft),
        h("div", { class: "words", role: "group", "aria-label": texts.group }, ...this.slots.map(({ node }) => node)),
        h("p", { class: "caption below" }, h("b", {}, texts.out), h("span", { class: "swatch kept" }), texts.kept, h("span", { class: "swatch left" }), texts.left, h("span", { class: "swatch line" }), texts.line),
        h("div", { class: "words", "aria-hidden": "true" }, ...this.slots.map(({ under }) => under))),
      h("div", { class: "outcome" }, h("p", { class: "sum" }, this.share, h("span", {}, texts.accepted)), h("p", { class: "speed" }, this.pace, " ", texts.pace, this.added), this.equal, h("p", { class: "small" }, texts.note)));
    this.draw();
  }

  makeSlot(word, i) {
    const p = h("i", { class: "bar p" }), q = h("i", { class: "bar q" }), kept = h("i", { class: "bar kept" }), left = h("i", { class: "bar left" }), mark = h("i", { class: "mark" });
    const grip = h("i", { class: "grip" });
    const [pText, qText] = ["p", "q"].map((key) => h("b", { class: `number ${key}`, "aria-hidden": "true" }));
    const handle = h("div", { class: "handle", role: "slider", tabindex: "0", "aria-orientation": "vertical", "aria-valuemin": "0", "aria-valuemax": String(TOP), "aria-label": fill(this.texts.handle, { word }) });
    const up = h("div", { class: "up" }, p, q, pText, qText, grip, handle);
    const node = h("div", { class: "slot" }, up, h("span", { class: "word" }, word));
    const under = h("div", { class: "slot" }, h("div", { class: "down" }, kept, left, mark), h("span", { class: "word" }, word));
    const slot = { node, under, up, p, q, kept, left, mark, grip, handle, pText, qText, word };
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      this.held = true;
      this.drag(slot, i, event);
    });
    handle.addEventListener("pointermove", (event) => this.held && handle.hasPointerCapture(event.pointerId) && this.drag(slot, i, event));
    for (const end of ["pointerup", "pointercancel"]) handle.addEventListener(end, () => { this.held = false; });
    handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP, PageUp: 10 * STEP, PageDown: -10 * STEP }[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.put(i, this.q[i] + by);
    });
    return slot;
  }

  drag(slot, i, event) {
    const box = slot.up.getBoundingClientRect();
    this.put(i, (TOP * (box.bottom - event.clientY)) / box.height);
  }

  put(i, value) {
    this.idle = 0;
    this.view.run();
    this.q = replaceEntry(this.q, i, Math.min(TOP, Math.max(0, value)));
    this.draw();
    this.view.say(1, fill(this.texts.heard, { word: this.texts.words[i], q: number(this.q[i]), share: this.share.textContent, pace: this.pace.textContent }));
  }

  update() {}

  tick(passed) {
    if (this.view.still) return false;
    if (!this.held) this.idle += passed;
    if (this.idle < IDLE) return true;
    if (this.idle - passed < IDLE && this.touched) { // from where the hand left it
      this.drafts = [this.q, ...this.drafts.slice(1)];
      this.seconds = 0;
    }
    this.touched = false;
    this.seconds += passed;
    this.q = computeWanderingDraft(this.drafts, this.seconds);
    this.draw();
    return true;
  }

  draw() {
    if (this.idle === 0) this.touched = true;
    this.sums = computeAccount(this.p.map((p, i) => ({ p, q: this.q[i] })));
    const written = shareOut(this.q, 100).map((n) => n / 100); // they sum to 1, as q does
    this.slots.forEach((slot, i) => {
      const { p, q, accepted, replaced } = this.sums.rows[i];
      setHeight(slot.p, p);
      setHeight(slot.q, Math.min(TOP, q));
      slot.grip.style.transform = slot.qText.style.transform = raise(q);
      slot.pText.style.transform = slot.mark.style.transform = raise(p);
      say(slot.pText, p.toFixed(2));
      say(slot.qText, written[i].toFixed(2));
      setHeight(slot.kept, accepted);
      setHeight(slot.left, replaced, accepted);
      slot.handle.setAttribute("aria-valuenow", q.toFixed(3));
      slot.handle.setAttribute("aria-valuetext", number(q));
    });
    const shown = this.sums.rows.reduce((sum, { p }, i) => sum + Math.min(p, written[i]), 0); // of the numbers that stand there
    say(this.share, percent(shown));
    say(this.pace, countPerPass(shown).toFixed(1));
    say(this.added, `= ${writePerPass(shown)}`);
  }
}

/** Up to a probability. */
function raise(value) {
  return `translateY(${(-100 * Math.min(TOP, value)) / TOP}%)`;
}

/** A bar of this height, standing on ``from``. */
function setHeight(node, height, from = 0) {
  node.style.transform = `translateY(${(-100 * from) / TOP}%) scaleY(${(height / TOP).toFixed(5)})`;
}
