// Scene 2: the target's distribution and a draft's, which can be dragged; below them what comes out, which stays the target's.

import { computeAccount, roundToGrid, replaceEntry, shareOut } from "../lib/arithmetic.js";
import { h, say } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { number, percent } from "../lib/numbers.js";

const TOP = 0.5; // the largest probability that has room
const TICKS = [0, 0.2, 0.4]; // of both axes
const LEG = 1.4; // seconds from one draft to the next, and how long each stands
const REST = 1.8;
const STEP = 0.01;
const RIM = 3; // px of the outline of the draft's bars (main.css)
const GAMMA = 3; // draft tokens a round, as in the race

/** Tokens that a round gives on average where each draft token is accepted with this probability: 1 + beta + ... + beta^GAMMA. */
export function countPerPass(beta) {
  return Array.from({ length: GAMMA + 1 }, (_, i) => beta ** i).reduce((sum, one) => sum + one);
}

/** The draft at a moment of the opening: it rests at the first of ``drafts``, goes to the next, and so on to the last one, where it stays. */
export function computeOpeningDraft(drafts, seconds) {
  const leg = LEG + REST, place = Math.min(drafts.length - 1, Math.floor(seconds / leg));
  const next = drafts[place + 1] ?? drafts[place];
  const x = Math.max(0, Math.min(1, (seconds - place * leg - REST) / LEG));
  const eased = x * x * (3 - 2 * x);
  return roundToGrid(drafts[place].map((q, i) => q + (next[i] - q) * eased));
}

export class Overlap {
  constructor(view, texts) {
    this.view = view;
    this.texts = texts;
    this.p = roundToGrid(texts.p);
    this.drafts = texts.opening.map((name) => roundToGrid(texts.drafts.find((one) => one.name === name).q));
    this.q = this.drafts[0];
    this.seconds = 0; // of the opening
    this.slots = texts.words.map((word, i) => this.makeSlot(word, i));
    this.share = h("b", { class: "share" });
    this.speed = h("b", {});
    this.series = h("p", { class: "small series" });
    this.equal = h("p", { class: "equal" }, h("span", { class: "tick", "aria-hidden": "true" }, "✓"), " ", texts.equal);
    this.choices = texts.drafts.map(({ name, words, q }) => {
      const choice = h("button", { type: "button", class: "choice", "data-name": name }, words);
      choice.addEventListener("click", () => this.take(roundToGrid(q)));
      return choice;
    });
    const key = (kind, words) => h("span", {}, h("span", { class: `swatch ${kind}` }), words);
    this.node = h("div", { class: "overlap" },
      h("div", { class: "picture" },
        h("p", { class: "caption above" }, h("b", {}, texts.prompt), key("p", texts.target), key("q", texts.draft), key("bad", texts.rejected)),
        h("div", { class: "plot" }, makeAxis(), h("div", { class: "words", role: "group", "aria-label": texts.group }, ...this.slots.map(({ node }) => node)))),
      h("div", { class: "outcome" }, h("div", { class: "choices", role: "group", "aria-label": texts.choose }, ...this.choices), h("p", { class: "sum" }, this.share, h("span", {}, texts.accepted)),
        h("p", { class: "cost" }, this.speed, ` ${texts.price}`), this.equal),
      h("div", { class: "picture" },
        h("p", { class: "caption below" }, h("b", {}, texts.out), key("kept", texts.kept), key("left", texts.left), key("line", texts.line)),
        h("div", { class: "plot", "aria-hidden": "true" }, makeAxis(), h("div", { class: "words" }, ...this.slots.map(({ under }) => under)))),
      h("details", { class: "about" }, h("summary", {}, texts.about), this.series));
    this.draw();
  }

  makeSlot(word, i) {
    const p = h("i", { class: "bar p" }), q = h("i", { class: "bar q bad" }), both = h("i", { class: "bar both" }), kept = h("i", { class: "bar kept" }), left = h("i", { class: "bar left" }), mark = h("i", { class: "mark" });
    const grip = h("i", { class: "grip" });
    const [pText, qText] = ["p", "q"].map((key) => h("b", { class: `number ${key}`, "aria-hidden": "true" }));
    const handle = h("div", { class: "handle", role: "slider", tabindex: "0", "aria-orientation": "vertical", "aria-valuemin": "0", "aria-valuemax": String(TOP), "aria-label": fill(this.texts.handle, { word }) });
    const up = h("div", { class: "up" }, p, q, both, pText, qText, grip, handle);
    const node = h("div", { class: "slot" }, up, h("span", { class: "word" }, word));
    const under = h("div", { class: "slot" }, h("div", { class: "down" }, kept, left, mark), h("span", { class: "word" }, word));
    const slot = { node, under, up, p, q, both, kept, left, mark, grip, handle, pText, qText, word };
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
    this.show(replaceEntry(this.q, i, Math.min(TOP, Math.max(0, value))));
    this.view.say(1, fill(this.texts.heard, { word: this.texts.words[i], q: number(this.q[i]), share: this.share.textContent, pace: this.pace.toFixed(1) }));
  }

  /** One of the prepared drafts, over a moment. */
  take(q) {
    this.drafts = [this.q, q];
    this.seconds = this.view.still ? LEG + REST : REST;
    this.touched = false;
    if (this.view.still) this.show(q);
    this.view.run();
  }

  show(q) {
    this.touched = true; // the opening is over
    this.q = q;
    this.draw();
  }

  update() {}

  tick(passed) {
    if (this.view.still || this.touched) return false;
    this.seconds += passed;
    this.q = computeOpeningDraft(this.drafts, this.seconds);
    this.draw();
    return this.seconds < (this.drafts.length - 1) * (LEG + REST);
  }

  draw() {
    this.sums = computeAccount(this.p.map((p, i) => ({ p, q: this.q[i] })));
    const written = shareOut(this.q, 100).map((n) => n / 100); // they sum to 1, as q does
    this.slots.forEach((slot, i) => {
      const { p, q, accepted, replaced } = this.sums.rows[i];
      setHeight(slot.p, p);
      slot.q.style.height = `${(100 * Math.min(TOP, q)) / TOP}%`;
      slot.both.style.height = `max(0px, ${(100 * accepted) / TOP}% - ${accepted < q ? 0 : RIM}px)`; // within the outline
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
    this.pace = countPerPass(shown);
    const speed = this.pace / this.texts.cost;
    say(this.speed, fill(this.texts.speed, { speed: speed.toFixed(2) }));
    say(this.series, fill(this.texts.series, { beta: shown.toFixed(2), pace: this.pace.toFixed(2), cost: this.texts.cost.toFixed(2), speed: speed.toFixed(2) }).replaceAll("1.00", "1"));
    this.node.classList.toggle("loses", speed < 1);
    for (const choice of this.choices) {
      const { q } = this.texts.drafts.find(({ name }) => name === choice.dataset.name);
      choice.setAttribute("aria-pressed", String(q.every((x, i) => Math.abs(x - this.q[i]) < 1e-3)));
    }
  }
}

/** Lines at some probabilities, with their numbers. */
function makeAxis() {
  return h("div", { class: "axis", "aria-hidden": "true" }, ...TICKS.map((at) => {
    const tick = h("span", {}, String(at));
    tick.style.bottom = `calc(var(--high) * ${at / TOP})`;
    return tick;
  }));
}

/** Up to a probability. */
function raise(value) {
  return `translateY(${(-100 * Math.min(TOP, value)) / TOP}%)`;
}

/** A bar of this height, standing on ``from``. */
function setHeight(node, height, from = 0) {
  node.style.transform = `translateY(${(-100 * from) / TOP}%) scaleY(${(height / TOP).toFixed(5)})`;
}
