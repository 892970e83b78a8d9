// Two lanes of text over two lanes of time. Replaying and walking ask nothing of the server.

import { button, h, say, show } from "../lib/dom.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { seconds } from "../lib/numbers.js";
import { countTokens, makeTokenLegend } from "../lib/tokens.js";
import { Divergences } from "./divergences.js";
import { drawLane, fillLane, makeLane, tell } from "./lane.js";
import { NARROW, chooseZoom, drawNow, drawTracks, makeTracks } from "./tracks.js";

class Lanes {
  constructor() {
    this.now = null; // seconds on both clocks while a replay stands or runs
    this.tracks = makeTracks();
    this.lanes = ["target", "speculative"].map(makeLane);
    this.answer = makeAnswer();
    this.button = button("", "", () => (this.playing ? this.pause() : this.play()), "primary");
    this.range = h("input", { type: "range", min: "0", max: "1000", step: "1", "aria-label": "moment of both clocks" });
    this.range.addEventListener("input", () => this.stand(Number(this.range.value) / 1000));
    this.slow = h("span", { class: "slow" });
    this.moment = h("span", { class: "moment" });
    this.transport = h("div", { class: "replay" }, this.button, this.slow, this.range, this.moment);
    this.node = h("section", { class: "stage whole", "aria-label": "One text, decoded both ways" },
      h("div", { class: "lead" }, this.answer.node, this.transport), this.tracks.node, h("div", { class: "pair" }, ...this.lanes.map(({ node }) => node)));
    const forth = () => this.step(1), back = () => this.step(-1), turn = () => (this.playing ? this.pause() : this.play());
    this.forgetKeys = listenToKeys({ PageDown: forth, ArrowRight: forth, PageUp: back, ArrowLeft: back, " ": turn },
      { ready: () => Boolean(this.room && this.payload?.done) });
    this.watch = new IntersectionObserver((seen) => !seen.at(-1).isIntersecting && this.now !== null && !this.room && this.stop()); // whoever has left the race behind reads about the whole text
    this.watch.observe(this.tracks.node);
  }

  update({ data: { payload, plays, busy } }) {
    if (this.payload && (this.payload.id !== payload.id || !payload.done)) this.stop();
    this.payload = payload;
    const opens = plays && payload.done && !this.opened && !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (opens) this.now = 0;
    payload.lanes.forEach((data, n) => fillLane(this.lanes[n], data, this));
    this.legend = makeTokenLegend(payload.legend);
    this.tracks.legend.replaceChildren(this.legend.node);
    show(this.transport, payload.done && payload.end > 0 && !busy); // the progress of a run stands in its place
    fillAnswer(this.answer, payload);
    this.resize();
    if (opens) this.play();
    this.opened = true;
  }

  play() {
    this.playing = true;
    const from = this.now === null || this.now >= this.payload.end ? 0 : this.now;
    const began = performance.now();
    const frame = (time) => {
      if (!this.playing) return;
      const now = from + (time - began) / 1000 / this.payload.pace;
      if (now >= this.payload.end) return this.stop();
      this.now = Math.max(0, now);
      this.draw();
      this.frame = requestAnimationFrame(frame);
    };
    this.frame = requestAnimationFrame(frame);
    this.draw();
  }

  pause() {
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.draw();
  }

  stop() {
    this.now = null;
    this.pause();
  }

  stand(share) {
    this.now = share >= 1 ? null : share * this.payload.end;
    this.pause();
  }

  /** To the end of the next round of speculative decoding, or of the one before; after the last one all of both texts stands. */
  step(by) {
    const ends = [0, ...this.payload.lanes[1].rounds.map(({ at }) => at)];
    const last = ends.length - 1, over = this.now === null;
    const at = over ? (by > 0 ? -1 : last + 1) : ends.findLastIndex((end) => end <= this.now + 1e-9);
    const to = !over && by < 0 && ends[at] < this.now - 1e-9 ? at : at + by;
    if (to < 0) return;
    this.now = to > last ? null : ends[to];
    this.pause();
  }

  /** The tokens and the column of one round stand out together. */
  mark(key, round) {
    for (const lane of this.lanes) {
      for (const { face, one } of lane.made) face.classList.toggle("same", lane.key === key && one.round === round && key === "speculative");
    }
    for (const column of this.tracks.svg.querySelectorAll(".column")) {
      column.classList.toggle("same", column.dataset.lane === key && column.dataset.round === String(round));
    }
  }

  /** Arrows walk along a lane: all tokens of the second, the divergences of the first. */
  walk(event, key, item) {
    const { reachable } = this.lanes.find((one) => one.key === key);
    const at = reachable.indexOf(item);
    if ((event.key === "Enter" || event.key === " ") && item.divergence) {
      event.preventDefault();
      return tell(item.place);
    }
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: reachable.length - 1 }[event.key];
    if (to === undefined || !reachable[to]) return;
    event.preventDefault();
    item.face.tabIndex = -1;
    reachable[to].face.tabIndex = 0;
    reachable[to].face.focus();
  }

  resize() {
    const width = this.node.clientWidth;
    if (!width || !this.payload) return;
    this.node.classList.toggle("narrow", width < NARROW);
    for (const lane of this.lanes) lane.narrow = width < NARROW || Boolean(this.room); // without the hint the texts have its line
    this.tracks.width = this.tracks.node.clientWidth;
    drawTracks(this.tracks, this.payload);
    this.draw();
  }

  draw() {
    const { now, payload } = this;
    for (const lane of this.lanes) drawLane(lane, now, payload.done);
    const zoom = chooseZoom(payload.done ? now : null, payload.end, this.tracks.width < NARROW);
    if (this.tracks.zoom !== zoom) {
      this.tracks.zoom = zoom;
      drawTracks(this.tracks, payload);
    }
    drawNow(this.tracks, now);
    this.node.classList.toggle("running", now !== null || !payload.done);
    const drafted = this.lanes[1];
    const kinds = drafted.made.slice(0, drafted.there).map(({ one }) => one.is);
    countTokens(this.legend, Object.fromEntries(this.legend.entries.map(({ is }) => [is, kinds.filter((kind) => kind === is).length])));
    say(this.slow, payload.pace > 1 ? `${payload.pace}× slower than it ran` : "as fast as it ran");
    say(this.moment, `${seconds(now ?? payload.end)} of ${seconds(payload.end)}`);
    say(this.button, this.playing ? "❚❚ Pause" : now === null ? "▶ Replay" : "▶ Continue");
    this.range.value = String(now === null ? 1000 : Math.round((1000 * now) / payload.end));
    this.range.setAttribute("aria-valuetext", this.moment.textContent);
  }

  /** What the presenter's second window says. */
  notes() {
    if (!this.payload) return null;
    const [, { rounds, tokens }] = this.payload.lanes, { now } = this;
    const done = now === null ? rounds.length : rounds.filter(({ at }) => at <= now + 1e-9).length;
    const after = tokens.filter(({ round }) => round === done);
    return {
      place: now === null ? "Both texts" : `Round ${done} of ${rounds.length}`,
      now: this.lanes.map(({ title, clock }) => `${title.textContent}: ${clock.textContent}`).join(". "),
      ask: this.payload.ask,
      next: now === null ? "Page Down replays the text round by round; Space replays all of it." : after.length ? `Round ${done + 1} gives ${after.length} token${after.length === 1 ? "" : "s"}: ${after.map(({ name }) => name).join(" ")}` : "That was the last round.",
    };
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.forgetKeys();
  }
}

/** How much faster it was, in large type, and the two numbers that it comes of: of the whole text, at every moment of a replay. */
function makeAnswer() {
  const [text, factor, unit, average, passes] = [h("span", {}), h("b", {}), h("span", {}), h("span", { class: "average" }), h("p", { class: "why" })];
  return { node: h("div", { class: "answer" }, h("p", { class: "found" }, text, " ", h("span", { class: "speed" }, factor, " ", unit), " ", average), passes), text, factor, unit, average, passes };
}

function fillAnswer(made, { answer }) {
  say(made.text, answer.text);
  say(made.factor, answer.factor && `${answer.factor}×`);
  say(made.unit, answer.unit || "Both texts are being written");
  say(made.average, answer.average);
  say(made.passes, answer.passes);
}

export default mounted(({ payload }) => new (payload.divergences ? Divergences : Lanes)());
