// One round as a tree, walked. Everything is drawn from the number of the step; no server is asked.

import { button, h, say } from "../../lib/dom.js";
import { listenToKeys } from "../../lib/keys.js";
import { mounted } from "../../lib/mount.js";
import { drawTree, fillTree, makeTree, placeTree } from "../../lib/tree.js";
import { drawMask, fillMask, makeMask } from "./mask.js";
import { drawUniform, drawDistributions, makeUniform, makeDistributions } from "./uniform.js";

const NARROW = 640;
const GAP = 32; // px between the columns
const THREE = 1100; // px from which tree, bars and mask stand beside each other
const BARS = 330; // px of the bars then
const TREE = 0.42; // of a projector's height: the bars need the rest
const ALOUD = 250; // ms that a step stands before it is read out

class TreeView {
  constructor() {
    this.at = 0;
    this.before = h("p", { class: "before" });
    this.tree = makeTree(this);
    this.mask = makeMask();
    this.uniform = makeUniform();
    this.distributions = makeDistributions();
    this.sentence = h("p", { class: "sentence" });
    this.aloud = h("p", { class: "aloud", "aria-live": "polite" });
    this.back = button("← Back", "one step back (←)", () => this.goTo(this.at - 1));
    this.next = button("Step →", "next step (→)", () => this.goTo(this.at + 1), "primary");
    this.range = h("input", { type: "range", min: "0", step: "1", "aria-label": "step of this round" });
    this.range.addEventListener("input", () => this.goTo(Number(this.range.value)));
    this.count = h("p", { class: "count" });
    const transport = h("div", { class: "walk" }, h("div", { class: "buttons" }, this.next, this.back), this.range, this.count);
    this.body = h("div", { class: "body" }, h("div", { class: "place" }, this.tree.node), this.uniform.node, this.distributions.node, this.mask.node);
    this.node = h("section", { class: "stage walked", tabindex: "-1", "aria-label": "One round as a tree" },
      transport, this.sentence, this.aloud, this.before, this.body);
    this.forgetKeys = listenToKeys(this.keys(), { ready: () => Boolean(this.steps) });
  }

  update({ data: { payload, arrive } }) {
    if (arrive) setTimeout(() => this.node.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }), 250); // a click in the table leads to its round
    if (this.payload?.id === payload.id) return;
    this.payload = payload;
    this.steps = payload.steps;
    this.at = 0;
    this.range.max = String(this.steps.length - 1);
    say(this.before, payload.before ? `… ${payload.before}` : "The text begins here.");
    // no card grows on the way
    this.node.style.setProperty("--bars", Math.max(1, payload.first.length, ...[...payload.nodes, payload.ending].map((one) => one?.bars.length ?? 0)));
    fillTree(this.tree, payload, this);
    fillMask(this.mask, payload);
    this.resize();
  }

  get step() { return this.steps[this.at]; }

  /** Nodes decided up to and at this step. */
  get decided() {
    return new Set(this.steps.slice(0, this.at + 1).filter(({ kind }) => kind === "uniform").map(({ node }) => node));
  }

  get over() { return this.step.kind === "end" || this.step.kind === "tally"; }

  goTo(at) {
    const to = Math.min(this.steps.length - 1, Math.max(0, at));
    if (to === this.at) return;
    this.at = to;
    this.draw();
  }

  goToNode(node) {
    const at = this.steps.findIndex((step) => step.node === node);
    this.goTo(at < 0 ? this.steps.length - 1 : at);
  }

  keys() {
    const forth = () => this.goTo(this.at + 1), back = () => this.goTo(this.at - 1);
    return {
      ArrowRight: forth,
      PageDown: forth, // a clicker's
      ArrowLeft: back,
      PageUp: back,
      Home: () => this.goTo(0),
      End: () => this.goTo(this.steps.length - 1),
    };
  }

  resize() {
    const width = this.node.clientWidth;
    if (!width || !this.payload) return;
    const narrow = width < NARROW;
    this.node.classList.toggle("narrow", narrow);
    const three = width >= THREE && !this.room; // a projector has no place for the mask
    this.node.classList.toggle("three", three);
    const beside = three ? BARS + GAP + (this.mask.width ? this.mask.width + GAP : 0) : narrow || this.room ? 0 : BARS + GAP;
    placeTree(this.tree, this.payload, width - beside, this.room ? this.room.height * TREE : Infinity);
    this.node.classList.toggle("roomy", Boolean(this.room) && this.fitsRoomy());
    this.draw();
  }

  /** Whether every step fits a projector with its bars in one column. */
  fitsRoomy() {
    const { at } = this;
    this.node.classList.add("roomy");
    const fits = this.steps.every((_, step) => {
      this.at = step;
      this.draw();
      return this.node.scrollHeight <= this.node.clientHeight;
    });
    this.at = at;
    return fits;
  }

  draw() {
    const { step } = this;
    this.node.dataset.step = String(this.at);
    drawTree(this.tree, this);
    drawMask(this.mask, this);
    drawUniform(this.uniform, this);
    drawDistributions(this.distributions, this);
    say(this.sentence, step.sentence);
    this.range.value = String(this.at);
    this.range.setAttribute("aria-valuetext", `step ${this.at + 1} of ${this.steps.length}`);
    say(this.count, `${this.at + 1} of ${this.steps.length}`);
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at === this.steps.length - 1;
    clearTimeout(this.later);
    this.later = setTimeout(() => say(this.aloud, step.sentence), ALOUD);
  }

  /** What the presenter's second window says. */
  notes() {
    if (!this.steps) return null;
    return { place: `Step ${this.at + 1} of ${this.steps.length}`, now: this.step.sentence, next: this.steps[this.at + 1]?.sentence ?? "This is the last step of the round." };
  }

  close() {
    clearTimeout(this.later);
    this.forgetKeys();
  }
}

export default mounted(() => new TreeView());
