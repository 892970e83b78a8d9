// The game: two decoders sample the same text, one of them has a mistake. Both histograms, back to back.

import { fill } from "../lib/fill.js";
import { h, say, show } from "../lib/dom.js";
import { Track, makeKey, startEmpty } from "../lib/histogram.js";

const STEP = 320; // ms between two numbers of samples

export class Game {
  constructor() {
    this.node = h("section", { class: "stage game" });
  }

  update(component) {
    this.send = (event, value) => component.setTriggerValue(event, value);
    const { payload } = component.data, said = JSON.stringify(payload);
    if (said === this.said) return;
    this.said = said;
    Object.assign(this, payload, { at: 0, until: payload.pause, guess: null, frames: payload.sides.map(startEmpty) });
    this.build();
    this.play();
  }

  build() {
    const { texts, labels, exact, end } = this;
    const names = ["A", "B"];
    this.tracks = labels.map((_, row) => names.map(() => new Track(exact[row], end)));
    this.numbers = labels.map(() => names.map(() => h("span", { class: "value" })));
    this.rows = h("div", { class: "pairs", role: "img" }, ...labels.map((label, row) =>
      h("div", { class: "pair" }, this.numbers[row][0], this.tracks[row][0].node, h("span", { class: "cellName" }, label), this.tracks[row][1].node, this.numbers[row][1])));
    this.buttons = names.map((name, side) => this.makeButton(fill(texts.name, { name }), () => this.answer(side), "primary"));
    this.more = this.makeButton("", () => {
      this.until = this.frames[0].length - 1;
      this.play();
    });
    this.count = h("p", { class: "count" });
    this.told = h("div", { class: "answer" });
    this.acts = h("div", { class: "acts" }, this.buttons[0], this.more, this.buttons[1]);
    this.node.replaceChildren(h("h3", {}, this.heading), this.count,
      h("div", { class: "heads" }, ...names.map((name) => h("b", {}, fill(texts.decoder, { name })))), this.rows, makeKey(texts, ["share", "exact", "band"]), this.acts,
      h("p", { class: "enough" }, fill(texts.enough, { n: this.most.toLocaleString("en-US") })), this.told);
  }

  makeButton(words, action, kind = "") {
    const button = h("button", { type: "button", class: `button ${kind}` }, words);
    button.addEventListener("click", action);
    return button;
  }

  play() {
    clearTimeout(this.later);
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) this.at = this.until;
    this.show();
    if (this.at >= this.until) return;
    this.later = setTimeout(() => {
      this.at += 1;
      this.play();
    }, STEP);
  }

  show() {
    const { texts, frames, at, guess } = this, n = frames[0][at].n;
    frames.forEach((side, place) => this.tracks.forEach((tracks, row) => {
      tracks[place].show(side[at], row);
      tracks[place].bar.classList.toggle("outside", guess !== null && place === this.wrong); // until the answer no color tells
      say(this.numbers[row][place], n ? String(Math.round(side[at].shares[row] * n)) : "");
    }));
    say(this.count, fill(texts.drawn, { n: n.toLocaleString("en-US") }));
    const left = frames[0].at(-1).n - n;
    say(this.more, left ? fill(texts.more, { n: left.toLocaleString("en-US") }) : texts.all);
    this.more.disabled = !left || at < this.until;
    for (const button of this.buttons) button.disabled = !n;
    this.rows.setAttribute("aria-label", this.describe(at, n));
    show(this.acts, guess === null);
    show(this.node.querySelector(".enough"), guess === null);
    show(this.told, guess !== null);
  }

  describe(at, n) {
    return ["A", "B"].map((name, side) => {
      const frame = this.frames[side][at], far = frame.shares.map((share, row) => Math.abs(share - this.exact[row])), row = far.indexOf(Math.max(...far));
      return fill(this.texts.far, { name, word: this.labels[row], count: Math.round(frame.shares[row] * n), expected: Math.round(this.exact[row] * n) });
    }).join(" ");
  }

  answer(side) {
    clearTimeout(this.later);
    this.guess = side;
    this.until = this.at;
    const { texts, bug } = this, right = side === this.wrong, n = this.frames[0][this.at].n;
    const links = bug.links.flatMap(({ words, href }, i) => [i ? ", " : " ", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]);
    this.told.className = `answer ${right ? "consistent" : "rejected"}`;
    this.told.replaceChildren(h("div", { class: "told" },
      h("p", { class: "word", role: "status" }, h("b", { class: "sign" }, right ? "✓" : "✕"), " ", fill(right ? texts.right : texts.wrong, { name: "AB"[this.wrong], n: n.toLocaleString("en-US") })),
      h("p", { class: "because" }, h("b", {}, bug.name), " ", bug.description, " ", texts.reported, ...links, ".")),
    h("p", { class: "next" }, this.makeButton(texts.again, () => this.send("again", true), "primary"), this.makeButton(texts.look, () => this.send("chosen", bug.id))));
    this.show();
    this.told.querySelector("button").focus({ preventScroll: true });
  }

  resize() {}

  close() {
    clearTimeout(this.later);
  }
}
