// The view: what stands where, and what happens on each step. Called by the page with the same element at every change of data.

import { makeHistory, makeMirror } from "../lib/address.js";
import { h, s, say, setSize } from "../lib/dom.js";
import { makeHatches } from "../lib/hatches.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { uniformText } from "../lib/numbers.js";
import { Asker } from "./ask.js";
import { uniformBars, drawBars, makeBars } from "./bars.js";
import { drawBoard, makeBoard } from "./board.js";
import { drawChain, makeChain } from "./chain.js";
import { REST, changeSpeed, clampCursor, computeOpeningTime, computeStepTime, findStep, formatCursor, moveCursor } from "./cursor.js";
import { describeFrame, isAccepted, compareMoved } from "./decisions.js";
import { drawMask, makeMask } from "./mask.js";
import { NARROW, planScene } from "./layout.js";
import { drawLastPanel, makeLast } from "./residual.js";
import { drawChips, drawSoFar, fillText, makeText, placeBraces, scrollChips } from "./text.js";
import { Tour } from "./tour.js";
import { drawHead, drawTransport, fillTransport, makeHead, makeMore, makeTransport } from "./transport.js";
import { drawUniform, makeUniform } from "./uniform.js";

const GAP = 12; // px between the rows, --space-more
const SAID = 48; // px of the sentence and its note: their lines change from step to step, the picture's height does not
const HIGH = 300; // px of the picture on a phone
const BESIDE = 528; // px of a narrow window that the picture does not have, where its panels stand beside each other
const HEADROOM = { wide: 222, narrow: 114 }; // the page's bar above, and the row of folds below; on a wide page the way to the next one, too
const LESS_MOTION = "(prefers-reduced-motion: reduce)";

class RoundView {
  constructor() {
    this.at = { round: 0, step: 0 };
    this.drag = null; // {u, node, byKey}: a random number in a person's hand, or just let go
    this.problem = "";
    this.speed = 1; // while playing
    this.track = 400;
    this.wholeText = false;
    this.asker = new Asker(this);
    this.tour = new Tour(this);
    this.head = makeHead(this);
    this.text = makeText(this);
    this.bars = makeBars();
    this.uniform = makeUniform(this);
    this.mask = makeMask();
    this.board = makeBoard();
    this.last = makeLast(this);
    this.chain = makeChain();
    this.svg = s("svg", { class: "scene", role: "group", "aria-label": "distributions, random number and residual distribution; the sentence below describes them" },
      makeHatches("shared", "bad"), this.bars.node, this.board.node, this.mask.node, this.uniform.node, this.last.node, this.last.flying);
    this.scene = h("div", { class: "picture" }, this.svg, this.uniform.form, this.last.drawing.form, this.asker.form, this.chain.node);
    this.sentence = h("p", { class: "sentence", "aria-live": "polite", role: "status" });
    this.note = h("p", { class: "aside" });
    this.said = h("div", { class: "said" }, this.sentence, this.note);
    this.bar = makeTransport(this);
    this.head.state.append(makeMore([h("label", { class: "rounds" }, "Show ", this.bar.rounds), this.tour.start, this.asker.toggle, this.head.live, this.bar.keys]));
    this.node = h("section", { class: "stage", "aria-label": "one round, step by step" },
      this.head.notices, this.head.node, this.text.line, this.said, this.scene, this.bar.node, this.asker.card, this.tour.ring);
    this.mirror = makeMirror();
    this.history = makeHistory((place) => this.payload && this.goTo(place.round, place.step));
    const forgetEscape = listenToKeys({ Escape: () => this.tour.turn(false) }, { ready: () => this.tour.on });
    const forgetKeys = listenToKeys(this.keys(), { own: [this.bar.range, this.uniform.grip], ready: () => Boolean(this.payload) });
    this.forgetKeys = () => { forgetEscape(); forgetKeys(); };
  }

  keys() {
    const turn = () => this.play(!this.playing), forth = () => this.forward(), back = () => this.backward(), asking = () => this.asker.turn(!this.asker.on);
    return {
      ArrowRight: forth,
      PageDown: forth, // a clicker's
      " ": forth,
      ArrowLeft: back,
      PageUp: back,
      Home: () => this.stepTo(this.at.round, 0),
      End: () => this.stepTo(this.at.round, Infinity),
      "+": () => this.setSpeed(1),
      "=": () => this.setSpeed(1), // the same key without Shift
      "-": () => this.setSpeed(-1),
      a: asking,
      A: asking,
      p: turn,
      P: turn,
      Enter: (event) => !event.repeat && this.nextRound(),
    };
  }

  /** New data from the page: a new run stands at the given cursor, the same run stays where it is. ``alone``: no models stand behind the page. */
  update({ data, setTriggerValue }) {
    const before = this.data;
    this.data = data;
    this.send = setTriggerValue;
    if (!data?.payload?.rounds?.length) return this.wait();
    if (this.payload?.id !== data.payload.id) {
      const first = !this.payload; // the address that brought the first run says where it stands already
      if (!first) this.play(false); // draws the old run for the last time
      this.payload = data.payload;
      this.drag = null;
      this.problem = "";
      this.filled = null;
      const wanted = data.cursor ?? { round: 0, step: 0 };
      this.at = clampCursor(this.payload.rounds, wanted.round, wanted.step);
      if (!first) this.mirrorCursor();
    } else if (!data.busy && (before?.busy || this.asked)) {
      this.drag = null; // the pair answered with the same run, or not at all
      this.tour.waits = false;
    }
    if (!data.busy) this.asked = false;
    this.payload = data.payload;
    this.node.classList.remove("waiting");
    this.resize();
    if (this.toured !== this.payload.id) {
      this.toured = this.payload.id;
      this.tour.renew();
    }
    if (data.plays && !this.opened && !this.tour.on && !window.matchMedia(LESS_MOTION).matches) this.play(true, true);
    this.opened = true;
  }

  wait() {
    if (this.payload) this.play(false);
    this.payload = this.filled = null;
    this.node.classList.add("waiting");
    drawHead(this.head, this);
    say(this.sentence, this.data?.busy ?? "There is no round to show yet. Press Run it now to make one.");
  }

  mirrorCursor() { this.mirror.write({ at: formatCursor(this.at) }); }

  round() { return this.payload.rounds[this.at.round]; }
  step() { return this.round().steps[this.at.step]; }

  atEnd() { return this.at.step === this.round().steps.length - 1; }

  stepIndex(kind, node) { return findStep(this.round(), kind, node); }

  /** The chip whose random number is on the ruler, null where there is none. */
  chip() {
    const { probs } = this.step();
    return (probs === null ? null : this.round().chips[probs]) ?? null;
  }

  verdict() { return isAccepted(this.chip(), this.drag); }
  whatIf() { return compareMoved(this.chip(), this.drag); }

  /** Whether a random number that was dragged goes back when it is let go: nobody works it out, or the tour needs the run as it is. */
  get goesBack() { return Boolean(this.data.alone) || this.tour.on; }

  canDrag() {
    return !this.data.busy && this.chip()?.u != null && !["look", "draft", "pass", "bonus"].includes(this.frame.kind);
  }

  dragTo(u, byKey = false) {
    if (!this.canDrag()) return;
    this.play(false);
    this.problem = "";
    this.drag = { u, node: this.step().probs, byKey };
    this.draw();
  }

  dropDrag() {
    this.drag = null;
    this.draw();
  }

  release(u) {
    const chip = this.chip();
    if (!this.canDrag() || chip.u === u || this.goesBack) return this.dropDrag();
    this.drag = { u, node: this.step().probs, byKey: false };
    this.draw();
    this.ask({ kind: "uniform", position: chip.position, purpose: "accept", u });
  }

  ask(event) {
    this.asked = true;
    this.send("ask", { ...event, at: { ...this.at } });
  }

  goTo(round, step) {
    const at = clampCursor(this.payload.rounds, round, step);
    if (at.round === this.at.round && at.step === this.at.step) return;
    this.drag = null;
    this.problem = "";
    this.at = at;
    this.draw();
    this.mirrorCursor();
  }

  /** A step that a person takes: it stops playing, and the browser's Back leads back from it. */
  stepTo(round, step) {
    const from = this.at, to = clampCursor(this.payload.rounds, round, step);
    this.play(false);
    if (to.round === from.round && to.step === from.step) return;
    this.goTo(to.round, to.step);
    this.history.push(from, to, { at: formatCursor(to) });
  }

  stepBy(by) {
    if (by > 0 && this.asker.asking) this.asker.skip();
    const to = moveCursor(this.payload.rounds, this.at, by);
    if (to) this.stepTo(to.round, to.step);
  }

  /** What the arrow keys, a clicker and the first button do: the tour's next stop, the next step, or the next round. */
  forward() {
    if (this.tour.leads) this.tour.goOn();
    else if (this.atEnd()) this.nextRound();
    else this.stepBy(1);
  }

  backward() {
    if (this.tour.leads) this.tour.goTo(this.tour.stop - 1);
    else this.stepBy(-1);
  }

  nextRound() {
    if (this.at.round + 1 < this.payload.rounds.length) this.stepTo(this.at.round + 1, 0);
    else if (this.payload.more && !this.data.busy && !this.asked) this.ask({ kind: "next", round: this.at.round + 1 });
  }

  setSpeed(by) {
    this.speed = changeSpeed(this.speed, by);
    if (this.playing) this.play(true);
  }

  /** Steps by itself to the end of the round, each step for as long as its sentence takes to read, or briefly as the page ``opens``. It ends where somebody has to answer. */
  play(on, opens = false) {
    clearTimeout(this.timer);
    this.pulsing?.cancel();
    const changed = this.playing !== on;
    this.playing = on;
    if (on) {
      const rest = opens && this.at.step === 0 ? REST : 0;
      const time = opens ? rest + computeOpeningTime(this.step().kind) : computeStepTime(this.spoken(this.step()), this.speed);
      this.pulsing = this.bar.pulse.animate([{ transform: "scaleX(0)" }, { transform: "scaleX(1)" }], time);
      this.timer = setTimeout(() => {
        const to = this.asker.asking ? null : moveCursor(this.payload.rounds, this.at, 1);
        if (!to) return this.play(false);
        this.goTo(to.round, to.step);
        this.play(!this.atEnd(), opens);
      }, time);
    }
    if (changed && this.filled) drawTransport(this.bar, this);
  }

  resize() {
    if (!this.payload) return;
    const width = this.node.clientWidth;
    if (!width) return;
    this.narrow = width < NARROW;
    this.node.classList.toggle("narrow", this.narrow);
    this.node.classList.toggle("grand", width >= 1400 && window.innerHeight >= 900);
    const others = [...this.node.children].reduce((sum, one) => sum + (one === this.scene || one === this.tour.ring || !one.offsetHeight ? 0 : (one === this.said && !this.room ? SAID : one.offsetHeight) + GAP), 0);
    const free = this.room ? this.room.height - others : window.innerHeight - others - HEADROOM[this.narrow ? "narrow" : "wide"];
    const height = this.narrow ? (this.room ? Math.max(208, Math.min(520, free)) : width < 640 ? HIGH : Math.max(240, Math.min(HIGH, window.innerHeight - BESIDE))) : Math.max(this.room ? 208 : 264, Math.min(620, free));
    const { fontSize, fontFamily } = getComputedStyle(this.bars.slots[0].name); // read here alone
    this.size = { width, height, font: `${fontSize} ${fontFamily}` };
    setSize(this.svg, width, height);
    this.draw();
    const track = this.bar.stops.clientWidth; // read here alone: a step must not make the browser lay out twice
    if (track !== this.track) drawTransport(this.bar, Object.assign(this, { track }));
  }

  draw() {
    if (!this.size) return;
    const key = `${this.payload.id} ${this.at.round}`;
    if (this.filled !== key) {
      this.filled = key;
      this.jump();
      fillText(this.text, this.round(), this);
      fillTransport(this.bar, this);
    }
    drawHead(this.head, this);
    drawSoFar(this.text, this);
    const step = this.step();
    this.node.dataset.step = step.kind;
    this.node.classList.toggle("dragging", Boolean(this.drag));
    const { chips, ending } = this.round(), { width, height, font } = this.size;
    this.frame = describeFrame(step.kind, ending, chips.length);
    const alone = (step.kind === "pass" && !this.frame.mask) || (this.narrow && this.asker.asking); // the bars have no panel beside them
    this.plan = { ...planScene(width, height, alone ? "draft" : this.frame.kind), font };
    drawChips(this.text, this);
    scrollChips(this.text, this);
    placeBraces(this.text);
    this.drawScene(step);
    say(this.sentence, this.spoken(step));
    say(this.note, step.note ?? "");
    drawTransport(this.bar, this);
    this.tour.draw();
  }

  /** Another round is another picture: it stands at once, nothing slides out of the one before. */
  jump() {
    this.node.classList.add("jump");
    requestAnimationFrame(() => requestAnimationFrame(() => this.node.classList.remove("jump")));
  }

  /** Bars of another distribution are other bars: they stand at once, with their numbers. Only those of one distribution move. */
  holdBars(shown) {
    if (this.shown === shown) return;
    this.shown = shown;
    this.svg.classList.add("still");
    requestAnimationFrame(() => requestAnimationFrame(() => this.svg.classList.remove("still")));
  }

  drawScene(step) {
    const probs = step.probs === null ? null : this.round().distributions[step.probs] ?? null;
    const view = this.plan.tight ? "narrow" : "wide";
    const bars = probs ? probs.views[view] : [];
    const highest = Math.max(0, ...this.round().distributions.flatMap((one) => one?.views[view] ?? []).flatMap(({ p, q }) => [p ?? 0, q ?? 0]));
    const left = this.frame.uniforms ? uniformBars(this.round().chips) : bars;
    this.holdBars(`${this.filled} ${step.probs} ${this.frame.p} ${this.frame.uniforms}`);
    const from = drawBars(this.bars, this.plan, probs, left, this.frame, highest);
    this.asker.draw();
    drawBoard(this.board, this.plan, this.round(), this.frame.mask, !this.asker.on);
    drawMask(this.mask, this.plan, this.round().chips, this.data.mask, step.kind === "draft" ? step.node + 1 : null);
    drawUniform(this.uniform, this.plan, this);
    drawLastPanel(this.last, this.plan, probs, bars, this.frame, from, this);
    drawChain(this.chain, this.frame.chain, this.round(), this.data.chain);
  }

  /** The step's sentence, or, with a random number in a person's hand, the sentence of the status it would bring. */
  spoken(step) {
    const what = this.whatIf();
    if (!what) return this.asker.asking ? this.asker.question() : step.sentence + this.asker.echo();
    const chip = this.chip();
    const sentence = what.accepted ? chip.ifAccepted : chip.ifRejected;
    const after = this.tour.on ? " Let go, and u goes back to where it was." : what.accepted && sentence && !this.goesBack ? " Let go, and the models work out what follows." : "";
    return (sentence ?? step.sentence).replace("{u}", uniformText(this.drag.u, chip.threshold)) + after;
  }

  /** What the presenter's second window says. */
  notes() {
    if (!this.payload) return null;
    const { steps } = this.round(), to = moveCursor(this.payload.rounds, this.at, 1);
    return {
      place: `Round ${this.at.round + 1}, step ${this.at.step + 1} of ${steps.length}`,
      now: this.sentence.textContent,
      ask: this.payload.notes[this.step().kind] ?? "",
      next: to ? this.payload.rounds[to.round].steps[to.step].sentence : "The recorded rounds end here.",
    };
  }

  close() {
    this.play(false);
    this.mirror.close();
    this.history.close();
    this.forgetKeys();
  }
}

export default mounted(() => new RoundView());
