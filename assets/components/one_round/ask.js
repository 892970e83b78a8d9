// Guess first: before a draft token is decided, the learner says how probable it is that it is accepted. What was said stays in this browser.

import { computeBrier, groupForecasts, computeExpectedBrier, readForecasts } from "../lib/calibration.js";
import { button, h, place, s, say, show } from "../lib/dom.js";
import { number, percent } from "../lib/numbers.js";

const KEPT = "specviz-forecasts";
const CURVE = { size: 132, left: 34, top: 8 }; // px

export class Asker {
  constructor(view) {
    this.view = view;
    this.on = false;
    this.forecasts = load();
    this.said = new Map(); // of this visit: which draft token -> the probability that was said, null for one that was skipped
    this.toggle = button("Guess first", "say how probable it is that a draft token is accepted, before it is decided (A)", () => this.turn(!this.on), "plain asker");
    this.toggle.setAttribute("aria-pressed", "false");
    this.range = h("input", { type: "range", min: "0", max: "100", step: "1", "aria-label": "probability that it is accepted, in per cent" });
    this.range.addEventListener("input", () => this.drawForm());
    this.output = h("output", {});
    this.draw_ = button("Draw u →", "draw the random number and see", () => this.answer(), "primary");
    const end = (verdict, words) => h("span", { "data-is": verdict }, words);
    this.form = h("form", { class: "asked", "aria-label": "what do you expect?" },
      h("label", { class: "chance" }, h("span", {}, "probability of acceptance"), this.output, this.range),
      h("div", { class: "chanceEnds", "aria-hidden": "true" }, end("rejected", "✕ rejected"), end("accepted", "accepted ✓")), this.draw_);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.score = h("p", { class: "score" });
    this.meaning = h("p", { class: "meaning" });
    this.curve = s("svg", { class: "curve", role: "img" });
    this.anew = button("Forget these", "forget what this browser has kept of your answers", () => this.forget(), "next");
    this.card = h("section", { class: "calibrated", "aria-label": "Your calibration" }, this.curve, h("div", {}, this.score, this.meaning, this.anew));
  }

  turn(on) {
    this.on = on;
    this.toggle.setAttribute("aria-pressed", String(on));
    this.view.play(false);
    this.view.resize();
  }

  key() { return `${this.view.payload.id} ${this.view.at.round}.${this.view.step().node}`; }

  /** Whether the draft token at hand waits for an answer. */
  get asking() {
    const { view } = this;
    return this.on && view.step().kind === "look" && view.chip()?.u != null && !this.said.has(this.key());
  }

  /** What the sentence asks meanwhile; it does not tell the answer. */
  question() {
    const chip = this.view.chip();
    return `The draft gives ${chip.name} ${chip.ratio.q}, the target ${chip.ratio.p}. How probable is it that ${chip.name} is accepted? (The rule: always if p is at least q, else with p/q.)`;
  }

  /** What is added to the sentence: before the checks that there will be questions, after a check what was said. */
  echo() {
    const { kind } = this.view.step();
    if (this.on && (kind === "draft" || kind === "pass")) return " You will be asked before each check.";
    if (kind !== "uniform" || !this.said.has(this.key())) return "";
    const said = this.said.get(this.key());
    return said === null ? " You skipped the question." : ` You gave acceptance ${percent(said)}; the rule gives it ${percent(Math.min(1, this.view.chip().threshold))}.`;
  }

  answer() {
    const chip = this.view.chip(), said = Number(this.range.value) / 100;
    this.forecasts = readForecasts(JSON.stringify([...this.forecasts, { said, happened: chip.status === "accepted" ? 1 : 0, truth: Math.min(1, chip.threshold) }]));
    keep(this.forecasts);
    this.said.set(this.key(), said);
    this.view.stepBy(1);
  }

  /** A step without an answer. */
  skip() { this.said.set(this.key(), null); }

  forget() {
    this.forecasts = [];
    keep(this.forecasts);
    this.view.resize();
  }

  draw() {
    const { asking } = this;
    if (asking && this.asked !== this.key()) {
      this.asked = this.key();
      this.range.value = "50";
    }
    show(this.form, asking);
    if (asking) {
      const { narrow, uniform } = this.view.plan;
      place(this.form, narrow ? { left: "", top: "", width: "" } : { left: uniform.x + 20, top: uniform.y + 56, width: uniform.w - 40 });
      this.drawForm();
    }
    show(this.card, this.on && this.forecasts.length > 0);
    if (this.on && this.forecasts.length > 0) this.drawCard();
  }

  drawForm() {
    say(this.output, `${this.range.value}%`);
    this.range.setAttribute("aria-valuetext", `${this.range.value} per cent`);
  }

  drawCard() {
    const { forecasts } = this, score = computeBrier(forecasts), least = computeExpectedBrier(forecasts), n = forecasts.length;
    say(this.score, `Mean squared error of your probabilities: ${number(score)} after ${n} answer${n === 1 ? "" : "s"}.`);
    say(this.meaning, `Lower is better (it is called the Brier score): an accepted token counts as 1, a rejected one as 0. Saying 50% each time gives 0.25; the rule’s own probabilities give about ${number(least)}. `
      + "The curve: of the draft tokens that you gave a probability, what share was accepted? On the dashed line both agree.");
    const { size, left, top } = CURVE;
    const x = (p) => left + size * p, y = (p) => top + size * (1 - p);
    const points = groupForecasts(forecasts);
    this.curve.setAttribute("viewBox", `0 0 ${left + size + 12} ${top + size + 34}`);
    place(this.curve, { width: left + size + 12, height: top + size + 34 });
    this.curve.setAttribute("aria-label", points.map((one) => `said ${number(one.said)}, happened ${number(one.happened)} (${one.count})`).join("; "));
    this.curve.replaceChildren(
      s("rect", { class: "frame", x: left, y: top, width: size, height: size }), s("line", { class: "even", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
      s("polyline", { class: "path", points: points.map((one) => `${x(one.said).toFixed(1)},${y(one.happened).toFixed(1)}`).join(" ") }),
      ...points.map((one) => s("circle", { class: "point", cx: x(one.said).toFixed(1), cy: y(one.happened).toFixed(1), r: Math.min(9, 3 + Math.sqrt(one.count)).toFixed(1) })),
      s("text", { x: left - 6, y: y(1) + 10, class: "end" }, "1"), s("text", { x: left - 6, y: y(0), class: "end" }, "0"),
      s("text", { x: left + size / 2, y: top + size + 28, class: "middle" }, "you said"), s("text", { class: "middle", transform: `translate(12 ${top + size / 2}) rotate(-90)` }, "happened"),
      s("text", { x: x(0), y: top + size + 14, class: "middle" }, "0"), s("text", { x: x(1), y: top + size + 14, class: "middle" }, "1"));
  }
}

function load() {
  try { return readForecasts(window.localStorage.getItem(KEPT) ?? "[]"); } catch { return []; }
}

function keep(forecasts) {
  try { window.localStorage.setItem(KEPT, JSON.stringify(forecasts)); } catch { /* a browser that keeps nothing: they last as long as the page */ }
}
