// Scene 1: two texts grow from one prompt, on one clock. A tick is a pass of the target.

import { h, say, show } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { listenToKeys } from "../lib/keys.js";
import { seconds } from "../lib/numbers.js";
import { makeTokenLegend } from "../lib/tokens.js";
import { findNextMoment, countEvents } from "./playback.js";

const RESTS = 7; // seconds at the end before the race runs again by itself, once
const EARLY = 5; // tokens of each text before they are compared
const LONGEST = 4000; // characters of a prompt; the server has its own limit

export class Race {
  constructor(view, texts) {
    this.view = view;
    this.texts = texts;
    this.now = 0; // seconds on both clocks, as measured
    this.input = h("input", { type: "text", class: "prompt", "aria-label": texts.field, placeholder: texts.field, maxlength: LONGEST, autocomplete: "off", spellcheck: "false", enterkeyhint: "go" });
    this.mirror = h("span", {}); // the typed text once more, so that a caret stands behind it before anybody clicks
    this.start = h("button", { type: "submit", class: "go" });
    this.hint = h("span", { class: "own" }, texts.own);
    this.form = h("form", { class: "ask" }, h("label", { class: "typed" }, h("span", { class: "ghost", "aria-hidden": "true" }, this.mirror, h("i", { class: "caret" }), this.hint), this.input), this.start);
    this.lanes = ["target", "speculative"].map((key) => makeSide(key, texts));
    this.gain = h("p", { class: "gained" });
    this.lanes[1].foot.append(this.gain);
    const { node: legend } = makeTokenLegend(["draft", "accepted", "rejected", "residual", "bonus"]);
    this.busy = h("p", { class: "small", role: "status" });
    this.small = h("p", { class: "small origin" });
    this.about = h("details", { class: "about" }, h("summary", {}, texts.about), this.small);
    this.notices = h("p", { class: "refused", role: "alert" });
    this.node = h("div", { class: "race" }, this.form, this.notices, h("div", { class: "before" }, h("p", { class: "why" }, texts.why), legend),
      h("div", { class: "sides" }, ...this.lanes.map(({ node }) => node)), this.busy, this.about);
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.input.addEventListener("input", () => this.drawButton());
    this.forgetKeys = listenToKeys({ ArrowRight: () => this.step(false), ArrowLeft: () => this.step(true) }, { ready: () => view.here === 0 && Boolean(this.data) });
  }

  /** race: as race_payload.py builds it, null while a run is under way; live: what the server says, null where there is none. */
  update({ race, live }, ask) {
    this.live = live;
    this.sent = ask;
    say(this.notices, live?.notices?.join(" ") ?? "");
    show(this.notices, Boolean(live?.notices?.length));
    this.input.readOnly = !live;
    this.form.classList.toggle("recorded", !live);
    this.node.classList.toggle("busy", Boolean(live?.busy));
    if (race && race.id !== this.data?.id) this.open(race);
    this.drawButton();
    this.drawSmall();
  }

  open(race) {
    const first = !this.data;
    this.data = race;
    if (first || this.input.value.trim() === race.prompt.trim() || document.activeElement === null) this.input.value = race.prompt;
    this.end = Math.max(...race.lanes.map(({ seconds }) => seconds));
    race.lanes.forEach((lane, i) => fillSide(this.lanes[i], lane, this.end));
    this.again = true;
    this.restart(this.view.still ? this.end : 0);
  }

  restart(now = 0) {
    this.now = now;
    this.rested = 0;
    this.held = false;
    this.heard = false;
    for (const lane of this.lanes) clearSide(lane);
    this.draw();
    this.view.run();
  }

  submit() {
    const prompt = this.input.value;
    if (!this.live || prompt.trim() === this.data?.prompt.trim()) {
      this.again = true;
      this.restart(this.view.still ? this.end : 0);
      return;
    }
    this.sent({ prompt });
  }

  /** One event further or back, by key; the clock stands until the race is run again. */
  step(back) {
    const at = findNextMoment(this.data.lanes, back || this.now < this.end ? this.now : -1, back);
    if (!back && this.now >= this.end) this.restart(-1);
    this.held = true;
    this.now = at ?? (back ? 0 : this.end);
    for (const lane of this.lanes) if (back) clearSide(lane);
    this.draw();
  }

  /** ``passed``: seconds since the last frame. Returns whether there is more to draw. */
  tick(passed) {
    if (!this.data || this.held || this.view.still) return false;
    if (this.now < this.end) {
      this.now = Math.min(this.end, this.now + passed / this.data.factor);
      this.draw();
      return true;
    }
    this.rested += passed;
    if (this.again && this.rested > RESTS && !this.live?.busy) {
      this.again = false; // it rests after the second time
      this.restart();
    }
    return this.again;
  }

  draw() {
    const done = this.now >= this.end;
    this.data.lanes.forEach((lane, i) => drawSide(this.lanes[i], lane, this.now, this.texts, this.view.still || this.held));
    this.node.classList.toggle("finished", done);
    this.node.classList.toggle("stepped", this.held);
    const { gain } = this.data, shown = this.compare(done);
    const compared = gain === null ? this.texts.short : fill(this.texts.slower, { gain: gain.toFixed(2) });
    const parts = shown === null ? [done ? compared : ""] : [h("b", {}, `${shown.toFixed(done ? 2 : 1)}×`), h("span", {}, done ? this.texts.faster : this.texts.ahead)];
    const key = `${this.data.id} ${done} ${parts.map((part) => part.textContent ?? part).join("")}`;
    if (this.gain.dataset.key !== key) {
      this.gain.dataset.key = key;
      this.gain.replaceChildren(...parts);
    }
    if (done && !this.heard) {
      this.heard = true;
      for (const { text } of this.lanes) begin(text);
      const [alone, drafted] = this.data.lanes.map(({ rounds }) => rounds.length);
      this.view.say(0, fill(this.texts.heard, { alone, drafted, gained: gain === null ? compared : fill(this.texts.gained, { gain: gain.toFixed(2) }) }));
    }
  }

  /** How many times as fast, at the end; before it, how many times as many tokens stand. null: there is nothing to compare yet, or drafting does not pay. */
  compare(done) {
    const { gain, lanes } = this.data;
    if (done || this.now >= lanes[1].seconds) return gain >= 1 ? gain : null;
    const [alone, drafted] = lanes.map((lane) => countEvents(lane, this.now).tokens);
    return Math.min(alone, drafted) < EARLY ? null : drafted / alone;
  }

  drawButton() {
    const own = this.live && this.input.value.trim() !== this.data?.prompt.trim();
    const [word, sign] = own ? [this.texts.run, "↵"] : [this.texts.replay, "↻"];
    this.start.replaceChildren(h("span", {}, word), ` ${sign}`);
    say(this.mirror, this.input.value);
    show(this.hint, Boolean(this.live) && !own);
    this.start.disabled = Boolean(this.live?.busy);
  }

  drawSmall() {
    if (!this.data) return;
    say(this.busy, this.live?.busy || "");
    show(this.busy, Boolean(this.live?.busy));
    say(this.small, `${this.data.origin}${this.live ? "" : ` ${this.texts.recorded}`}`);
    const { factor } = this.data;
    this.lanes.forEach((lane, i) => say(lane.axis, factor > 1 && i === 0 ? fill(this.texts.spaced, { factor }) : this.texts.time));
    this.lanes.forEach((lane, i) => say(lane.size, this.data.sizes[i]));
  }

  close() { this.forgetKeys(); }
}

function makeSide(key, texts) {
  const text = h("p", { class: "text" });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  const axis = h("span", { class: "axis" }), size = h("span", { class: "size" });
  const track = h("div", { class: "track", "aria-hidden": "true" }, ticks, axis);
  const count = h("b", { class: "count" });
  const [unit, spent] = [h("span", {}), h("span", { class: "spent" })];
  const foot = h("div", { class: "foot" }, h("p", { class: "written" }, count, " ", unit, " ", h("span", { class: "spending" }, h("i", { class: "tick" }), spent)));
  const node = h("article", { class: `side ${key}` }, h("h3", {}, texts[key], " ", size), text, track, foot);
  return { key, node, text, ticks, axis, size, count, unit, spent, foot };
}

function fillSide(lane, data, end) {
  lane.marks = data.rounds.map((round) => {
    const mark = h("i", {});
    mark.style.left = `${(100 * round.end) / end}%`;
    return mark;
  });
  lane.ticks.style.setProperty("--bars", Math.ceil((data.rounds.length * end) / (data.seconds || 1))); // of so many in a row each is seen alone
  lane.ticks.replaceChildren(...lane.marks);
  lane.data = data;
}

function clearSide(lane) {
  lane.text.replaceChildren();
  lane.text.classList.remove("under");
  lane.text.removeAttribute("tabindex");
  lane.passes = 0;
  lane.drafts = [];
  for (const mark of lane.marks) mark.classList.remove("on");
}

/** ``plain``: what is struck stays until the next change, since nothing moves. */
function drawSide(lane, data, now, texts, plain) {
  const { passes, tokens, drafts } = countEvents(data, now);
  const still = lane.passes === 0 && passes > 1; // drawn at once: no token moves
  if (plain && lane.passes < passes) settle(lane);
  while (lane.passes < passes) endRound(lane, data.rounds[lane.passes], still || passes - lane.passes > 2);
  const open = data.rounds[passes];
  while (open && lane.drafts.length < drafts) {
    const node = makeToken(lane, open.drafts[lane.drafts.length].t, { class: "token", "data-is": "draft" });
    lane.drafts.push(node);
    lane.text.append(node);
    if (plain) settle(lane);
  }
  if (lane.written !== passes + drafts / 100) { // the newest line, where there is no room for all
    lane.written = passes + drafts / 100;
    lane.text.scrollTop = lane.text.scrollHeight;
    lane.text.classList.toggle("over", lane.text.scrollTop > 1);
  }
  say(lane.count, String(tokens));
  say(lane.unit, tokens === 1 ? texts.token : texts.tokens);
  const ended = passes === data.rounds.length;
  say(lane.spent, fill(passes === 1 ? texts.pass : texts.passes, { n: passes, seconds: seconds(Math.max(0, Math.min(now, data.seconds))) }));
  lane.node.classList.toggle("ended", ended);
}

/** A whole text is read from its beginning, where there is no room for all of it. */
function begin(text) {
  text.scrollTop = 0;
  text.classList.replace("over", "under");
  if (text.scrollHeight > text.clientHeight) text.setAttribute("tabindex", "0"); // keys scroll it
}

/** A token: its space, which has no color, and its text; at the beginning of a lane without its space. */
function makeToken(lane, text, marks) {
  const inked = text.trimStart(), space = lane.text.hasChildNodes() ? text.slice(0, text.length - inked.length) : "";
  return h("span", { class: "piece" }, space, inked ? h("span", marks, inked) : "");
}

/** What the last pass did stands out no longer. */
function settle(lane) {
  for (const node of lane.text.querySelectorAll(".fresh")) node.classList.remove("fresh");
  for (const node of lane.text.querySelectorAll("del")) node.remove();
}

/** The target's pass: draft tokens are accepted, or struck and replaced. */
function endRound(lane, round, still) {
  for (const node of lane.drafts) node.remove();
  const failed = round.drafts.findIndex((one) => one.is === "rejected");
  for (const [i, one] of round.tokens.entries()) {
    const node = makeToken(lane, one.t, { class: "token", "data-is": one.is }), inked = node.querySelector(".token");
    if (!still && inked) {
      inked.classList.add("fresh");
      if (i === failed) node.insertBefore(h("del", { class: "token", "data-is": "rejected", "aria-hidden": "true" }, one.t.startsWith(" ") ? round.drafts[failed].t.trimStart() : round.drafts[failed].t), inked); // with its space where what replaces it has none
    }
    lane.text.append(node);
  }
  lane.drafts = [];
  lane.marks[lane.passes].classList.add("on");
  lane.passes += 1;
}
