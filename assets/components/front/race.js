// Scene 1: two texts grow from one prompt, on one clock, beside each other. Above each is its strip of time: drafting, and passes of the target.

import { h, say, show } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { listenToKeys } from "../lib/keys.js";
import { seconds } from "../lib/numbers.js";
import { makeTokenLegend } from "../lib/tokens.js";
import { findNextMoment, countEvents } from "./playback.js";

const RESTS = 7; // seconds at the end before the race runs again by itself, once
const ROOM = 0.8; // of a strip, beyond which no word fits behind what is drawn
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
    this.pace = h("span", { class: "pace" });
    this.form = h("form", { class: "ask" }, h("label", { class: "typed" }, h("span", { class: "ghost", "aria-hidden": "true" }, this.mirror, h("i", { class: "caret" }), this.hint), this.input), this.pace, this.start);
    this.gain = h("p", { class: "gained" });
    this.busy = h("p", { class: "small", role: "status" });
    this.small = h("p", { class: "small origin" });
    this.about = h("details", { class: "about" }, h("summary", {}, texts.about), makeTokenLegend(["draft", "accepted", "rejected", "residual", "bonus", "target"]).node, this.small);
    this.notices = h("p", { class: "refused", role: "alert" });
    this.large = h("p", { class: "computed" });
    this.lanes = [makeSide("target", texts, h("div", { class: "foot" }, h("p", { class: "why" }, texts.why), this.about)), makeSide("speculative", texts, makeShortLegend(texts.origins))];
    const claim = h("div", { class: "claim" }, this.gain, this.large);
    this.node = h("div", { class: "race" }, claim, this.form, this.notices, h("div", { class: "sides" }, ...this.lanes.map(({ node }) => node)), this.busy);
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    this.input.addEventListener("input", () => this.drawButton());
    this.forgetKeys = listenToKeys({ ArrowRight: () => this.step(false), ArrowLeft: () => this.step(true) }, { ready: () => view.here === 0 && Boolean(this.data) });
  }

  /** race: as race_payload.py builds it, null while a run is under way; live: what the server says, null where there is none; large: the speed with a large model, whose it is, how it is known, and where it is explained. */
  update({ race, live, large, doors }, ask) {
    if (!this.large.hasChildNodes() && large.gain) this.large.append(...makeClaim(large.gain, this.texts.computed, large.says, ...(doors.speed ? [" ", h("a", { href: doors.speed + large.query }, `${this.texts.fast} →`)] : [])));
    this.how = large.how ?? "";
    if (live && live.asked !== this.live?.asked) this.dismissed = false; // an answer to what was asked last
    this.live = live;
    this.sent = ask;
    say(this.notices, live?.notices?.join(" ") ?? "");
    show(this.notices, Boolean(live?.notices?.length) && !this.dismissed);
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
    this.node.classList.toggle("undivided", !race.lanes[1].rounds.some(({ drafting }) => drafting));
    this.gain.replaceChildren(...this.describeGain(race));
    this.gain.classList.toggle("plain", !this.gain.querySelector("b"));
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
    this.dismissed = true; // what was said of another text
    show(this.notices, false);
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
    if (done && !this.heard) {
      this.heard = true;
      for (const { text } of this.lanes) begin(text);
      const [alone, drafted] = this.data.lanes.map(({ rounds }) => rounds.length);
      this.view.say(0, fill(this.texts.heard, { alone, drafted, gained: this.gain.textContent }));
    }
  }

  /** How many times as fast the recorded pair is on average; of a visitor's text, its own speed. The same whatever the clock shows. */
  describeGain({ gain, average, writer }) {
    if (gain === null) return [this.texts.short];
    if (average) return makeClaim(`${average.gain}×`, this.texts.average, writer);
    if (gain < 1) return [fill(this.texts.slower, { gain: gain.toFixed(2) })];
    return makeClaim(`${gain.toFixed(2)}×`, this.texts.faster, writer);
  }

  drawButton() {
    const own = this.live && this.input.value.trim() !== this.data?.prompt.trim();
    const [word, sign] = own ? [this.texts.run, "↵"] : [this.texts.replay, "↻"];
    this.start.replaceChildren(h("span", {}, word), ` ${sign}`);
    say(this.mirror, this.input.value);
    show(this.hint, Boolean(this.live) && !own);
    const factor = this.data?.factor ?? 1;
    say(this.pace, fill(this.texts.spaced, { factor }));
    show(this.pace, factor > 1 && !own);
    this.start.disabled = Boolean(this.live?.busy);
  }

  drawSmall() {
    if (!this.data) return;
    say(this.busy, this.live?.busy || "");
    show(this.busy, Boolean(this.live?.busy));
    const { origin, lanes, sizes, average, gain } = this.data, [alone, drafted] = lanes.map((lane) => seconds(lane.seconds));
    const parameters = sizes.flatMap((size, i) => (size ? [`${[this.texts.target, this.texts.speculative][i]}: ${size}.`] : []));
    say(this.small, [average?.how, origin, ...parameters, fill(this.texts.timed, { alone, drafted }), gain === null ? "" : fill(this.texts.this, { gain: gain.toFixed(2) }), this.how, this.live ? "" : this.texts.recorded].filter(Boolean).join(" "));
  }

  close() { this.forgetKeys(); }
}

/** A speed, how it is known, and beside it whose it is. */
function makeClaim(speed, known, ...whose) {
  return [h("b", {}, speed), " ", h("span", { class: "owner" }, h("strong", {}, known), h("span", { class: "aloud" }, ": "), h("span", {}, ...whose))];
}

/** ``foot``: what stands under the text. */
function makeSide(key, texts, foot) {
  const text = h("p", { class: "text" }), strip = makeStrip(key, texts);
  const node = h("article", { class: `side ${key}` }, h("h3", {}, texts[key]), strip.node, text, foot);
  return { key, node, text, strip };
}

/** Where the words of a text are from, by the looks of its tokens. */
function makeShortLegend(origins) {
  return h("p", { class: "origins" }, ...origins.map(({ words, is }) => h("span", {}, `${words} `, ...is.map(([kind, name]) => h("span", { class: "token", "data-is": kind }, name)).flatMap((node, i) => (i ? [" ", node] : [node])))));
}

/** The time of one way, and what it has written in how many seconds by now: its words name what is drawn. */
function makeStrip(key, texts) {
  const run = h("div", { class: "run" }), done = h("span", { class: "done" }, texts.done), count = h("b", { class: "count" }), unit = h("span", { class: "unit" }), spent = h("span", { class: "spent" }), took = h("span", { class: "took" });
  const drafting = key === "speculative" ? [" ", h("span", { class: "drafted" }, `${texts.and} `, h("span", { class: "swatch drafting" }), texts.drafting)] : [];
  const node = h("div", { class: `strip ${key}` }, h("div", { class: "time", "aria-hidden": "true" }, run, done),
    h("p", { class: "written" }, count, " ", unit, " ", took, h("span", { class: "aloud" }, ":"), " ", h("span", { class: "parts" }, h("span", { class: "swatch pass" }), spent, ...drafting)));
  return { node, run, done, count, unit, spent, took };
}

function fillSide(lane, data, end) {
  const share = (seconds) => `${(100 * seconds) / end}%`;
  lane.strip.run.replaceChildren(...data.rounds.flatMap(({ begin, end: at, drafting, passing }) => {
    const drafted = begin + (drafting ?? 0), passed = passing === undefined ? at : drafted + passing;
    const parts = [["drafting", begin, drafted], ["pass", drafted, passed], ["rest", passed, at]].filter(([, left, right]) => right > left);
    return parts.map(([kind, left, right]) => {
      const part = h("i", { class: kind });
      part.style.left = share(left);
      part.style.width = share(right - left);
      return part;
    });
  }));
  lane.strip.done.style.left = share(data.seconds);
  lane.end = end;
  lane.data = data;
}

function clearSide(lane) {
  lane.text.replaceChildren();
  lane.text.classList.remove("under");
  lane.text.removeAttribute("tabindex");
  lane.passes = 0;
  lane.drafts = [];
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
  const { strip } = lane, gone = Math.max(0, Math.min(now, data.seconds));
  strip.done.classList.toggle("shown", now >= data.seconds && data.seconds < ROOM * lane.end); // in what the other still needs
  say(strip.took, seconds(gone));
  say(strip.count, String(tokens));
  say(strip.unit, tokens === 1 ? texts.token : texts.tokens);
  say(strip.spent, fill(passes === 1 ? texts.pass : texts.passes, { n: passes }));
  strip.run.style.clipPath = `inset(0 ${(100 - (100 * gone) / lane.end).toFixed(2)}% 0 0)`;
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
  lane.passes += 1;
}
