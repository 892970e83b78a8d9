// The page Why it is exact: which distributions stand there, and what a drag does to them. Nothing here asks the server; it answers when an export is made.

import { makeMirror } from "../lib/address.js";
import { h, say } from "../lib/dom.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { GRID, computeAccount, roundToGrid, computeOutcomes, replaceEntry } from "../lib/arithmetic.js";
import { drawBars, makeBars } from "./bars.js";
import { drawComplete, formatQuestion, makeComplete } from "./completion.js";
import { formatBars, drawHead, drawMore, makeHead, makeMore } from "./controls.js";
import { drawMaths, makeMaths } from "./formulas.js";
import { drawDraftToken, drawOut, makeDraftToken, makeOut } from "./outcomes.js";
import { drawRules, drawSums, makeRules, makeSums } from "./tables.js";
import { describeToken, describeHundred } from "./words.js";

const NARROW = 900;
const FRAME = 608; // px of a window that its pictures do not have: a laptop's first screen ends with the way on
const LETTER = 0.55; // of the size of type: how wide a character of a number is
const AT_ONCE = 400; // ms of quiet before the picture is said aloud

class TokenView {
  constructor(data) {
    this.payload = data.payload;
    this.texts = data.payload.texts;
    this.state = { ...data.state };
    this.end = ""; // of the sentence to complete: p, q or residual
    this.held = this.touched = null;
    this.calm = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.mirror = makeMirror();
    this.notices = h("div", { class: "notices", role: "status" });
    this.head = makeHead(this);
    this.complete = makeComplete(this);
    this.proposal = makeDraftToken(this);
    this.bars = makeBars(this);
    this.outCard = makeOut(this);
    this.sumsCard = makeSums(this);
    this.rules = makeRules(this);
    this.maths = makeMaths(this);
    this.more = makeMore(this);
    this.panels = h("div", { class: "panels" }, this.bars.node, this.outCard.node);
    this.aloud = h("p", { class: "aloud", "aria-live": "polite", role: "status" });
    const forth = () => this.walk(1), back = () => this.walk(-1);
    this.forgetKeys = listenToKeys({ PageDown: forth, ArrowRight: forth, " ": forth, PageUp: back, ArrowLeft: back }, { ready: () => Boolean(this.room) });
    this.node = h("section", { class: "stage token", "aria-label": "one token: two distributions and what comes out" },
      this.notices, this.head.node, this.panels, this.aloud, h("div", { class: "folds" }, this.maths.node, this.sumsCard.node, this.more.node, this.rules.node));
  }

  /** What a clicker walks through while the page is presented: the answers on the first distributions, then the other presets with the right one. */
  scenes() {
    const [first, ...others] = this.payload.presets.map(({ id }) => id);
    return [...["", "p", "q", "residual"].map((end) => ({ preset: first, end })), ...others.map((preset) => ({ preset, end: "residual" }))];
  }

  walk(by) {
    const scenes = this.scenes(), { preset, from, p } = this.state;
    const at = from || p ? -1 : scenes.findIndex((one) => one.preset === preset && one.end === this.end);
    const { preset: next, end } = scenes[Math.max(0, Math.min(at + by, scenes.length - 1))];
    if (next !== preset || from || p) this.begin({ preset: next, from: null });
    this.endWith(end);
  }

  /** What the presenter's second window says. */
  notes() {
    const scenes = this.scenes(), at = scenes.findIndex((one) => one.preset === this.state.preset && one.end === this.end);
    return {
      place: at < 0 || this.state.p || this.state.from ? "Your own bars" : `${at + 1} of ${scenes.length}`,
      now: this.complete.answer.textContent.trim(),
      ask: this.end ? this.preset().about : formatQuestion(this),
      next: scenes[at + 1] ? this.payload.presets.find(({ id }) => id === scenes[at + 1].preset).title : "",
    };
  }

  /** The page gives data anew at each of its runs; bars that were dragged stay. */
  update(component) {
    this.notices.replaceChildren(...component.data.notices.map((sentence) => h("p", {}, sentence)));
    this.resize();
    this.answer(component);
  }

  mirrorBars() {
    this.mirror.write(formatBars(this.state, { first: this.payload.presets[0].id, shared: this.payload.shared }));
  }

  /** What stands here, said once for each time that the server asks: its export holds the bars as they are. */
  answer({ data, setStateValue }) {
    if (!data.asked || data.asked === this.answered) return;
    this.answered = data.asked;
    const { preset, from, p, q } = this.state;
    setStateValue("shown", { preset, from, p, q, asked: data.asked });
  }

  preset() { return this.payload.presets.find(({ id }) => id === this.state.preset); }
  position() { return this.payload.positions.find(({ id }) => id === this.state.from) ?? null; }
  isRecorded() { return this.position() !== null && !this.state.p; }
  probs(key) { return this.slots.map((slot) => slot[key]); }

  /** What stands on the page: {p, q, glyphs}; a recorded rest also has its own overlap and residual. */
  standing() {
    const place = this.position();
    if (this.isRecorded()) return place.slots.map((slot) => (slot.glyphs === null ? slot : { ...slot, overlap: undefined, residual: undefined }));
    const { p, q } = this.state.p ? this.state : this.preset();
    const own = place && place.slots.length === p.length;
    const word = (i) => [{ t: this.payload.words[i], k: "text" }];
    return p.map((x, i) => ({ p: x, q: q[i], glyphs: own ? place.slots[i].glyphs : word(i), free: true }));
  }

  /** The sentence is completed: from what a rejected draft token is replaced. */
  endWith(end) {
    this.end = end;
    this.resize(); // what it says may take room
    if (this.narrow && !this.room) this.outCard.node.scrollIntoView({ block: "nearest", behavior: this.calm.matches ? "auto" : "smooth" }); // what comes of the answer is seen
  }

  /** Other distributions; with nothing named, those that stood there before any drag. */
  begin(change) {
    this.state = { ...this.state, ...change, p: null, q: null };
    this.held = this.touched = null;
    this.draw();
    this.mirrorBars();
  }

  /** A bar is taken: what it was, and the axis, stay in hand, so that a way back leads back. */
  grab(probs, index) {
    const slot = this.slots[index];
    if (slot.glyphs === null && !slot.free) return false;
    const { p, q } = this.state;
    this.held = { probs, index, before: { p, q }, base: roundToGrid(this.probs(probs)), other: roundToGrid(this.probs(probs === "p" ? "q" : "p")), plot: this.bars.plot, top: this.bars.plot.top };
    this.touched = { probs, index };
    this.node.classList.add("dragging");
    return true;
  }

  put(value) {
    const { probs, index, base, other } = this.held;
    const moved = replaceEntry(base, index, value);
    this.state = { ...this.state, p: probs === "p" ? moved : other, q: probs === "p" ? other : moved };
  }

  dragTo(value) {
    this.put(value);
    this.draw();
    this.mirrorBars();
  }

  letGo() {
    if (!this.held) return;
    this.held = null;
    this.node.classList.remove("dragging");
    this.draw();
  }

  giveBack() {
    this.state = { ...this.state, ...this.held.before };
    this.letGo();
    this.mirrorBars();
  }

  /** A step by key. The bar remembers the distribution that it began with for as long as it is the one that moves. */
  nudge(probs, index, by) {
    const value = Math.min(1, Math.max(0, Math.round((this.slots[index][probs] + by) * GRID) / GRID));
    const known = this.stepped;
    const goesOn = known && known.probs === probs && known.index === index && known.left === this.state[probs];
    if (!this.grab(probs, index)) return;
    if (goesOn) this.held.base = known.base;
    const { base } = this.held;
    this.put(value);
    this.stepped = { probs, index, base, left: this.state[probs] };
    this.letGo();
    this.mirrorBars();
  }

  resizeTo(size) {
    const fit = (probs) => (probs.length < size ? [...probs, ...Array(size - probs.length).fill(0)] : roundToGrid(probs.slice(0, size).some((x) => x > 0) ? probs.slice(0, size) : Array(size).fill(1)));
    this.state = { ...this.state, p: fit(roundToGrid(this.probs("p"))), q: fit(roundToGrid(this.probs("q"))) };
    this.touched = null;
    this.draw();
    this.mirrorBars();
  }

  /** Everything that is read from the layout is read here alone: a drag must not make the browser lay out twice. */
  resize() {
    const width = this.node.clientWidth;
    if (!width) return;
    this.narrow = width < NARROW;
    this.node.classList.toggle("narrow", this.narrow);
    this.node.classList.toggle("grand", width >= 1400 && window.innerHeight >= 900);
    const grand = this.node.classList.contains("grand");
    this.letter = LETTER * (this.narrow ? 11 : grand ? 14.5 : 13); // as main.css and components.css write a number over a bar
    const usual = width < 640 ? 106 : this.narrow ? 176 : grand ? 340 : Math.max(160, Math.min(300, window.innerHeight - FRAME));
    this.lane = this.narrow ? width - 32 : (width - 32 - 308) * 0.59;
    if (!this.plan) this.jump(); // what stands there first comes from nowhere
    this.planAt(usual, width);
    if (this.room) this.planAt(this.highIn(this.room.height), width);
    if (this.narrow) return;
    this.panels.classList.add("loose");
    const free = this.outCard.node.offsetHeight - this.bars.node.offsetHeight;
    this.panels.classList.remove("loose");
    this.planAt(this.plan.high, width, free); // both cards end at one height, and the shorter one has the larger picture
  }

  jump() {
    this.node.classList.add("jump");
    requestAnimationFrame(() => requestAnimationFrame(() => this.node.classList.remove("jump")));
  }

  /** ``free``: px that the picture of the left card is higher than the other; negative: lower. */
  planAt(high, width, free = 0) {
    const inside = (card) => card.node.clientWidth - (this.narrow ? 24 : 40);
    this.plan = { high, left: high + Math.max(0, free), right: high + Math.max(0, -free), bars: inside(this.bars), out: inside(this.outCard) };
    this.draw();
  }

  /** Height of the plots with which all cards fit that height; the tables below are for scrolling. */
  highIn(height) {
    return Math.max(150, Math.floor(height - this.panels.offsetHeight + this.plan.high));
  }

  draw() {
    if (!this.plan) return;
    const { left, right, bars, out } = this.plan;
    this.slots = this.standing();
    this.sums = computeAccount(this.slots);
    this.out = computeOutcomes(this.sums, this.end);
    this.heights = [...this.slots.flatMap(({ p, q }) => [p, q]), ...["p", "q"].flatMap((end) => computeOutcomes(this.sums, end).map(({ sum }) => sum))]; // of every end: the axis stays when another is chosen
    drawHead(this.head, this);
    drawComplete(this.complete, this);
    const { top } = drawBars(this.bars, this, bars, left);
    drawDraftToken(this.proposal, this, bars);
    drawOut(this.outCard, this, out, right, top);
    drawSums(this.sumsCard, this);
    drawRules(this.rules, this);
    drawMaths(this.maths, this);
    drawMore(this.more, this);
    this.tell();
  }

  tell() {
    const sentence = describeHundred(this);
    clearTimeout(this.later);
    this.later = setTimeout(() => say(this.aloud, this.touched ? `${describeToken(this)} ${sentence}` : sentence), AT_ONCE);
  }

  close() {
    this.mirror.close();
    this.forgetKeys();
    clearTimeout(this.later);
  }
}

export default mounted((data) => new TokenView(data));
