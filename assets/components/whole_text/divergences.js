// The places where the models differ most: a list to choose from, and both distributions at the chosen one.

import { makeBarRow } from "../lib/bars.js";
import { h, say } from "../lib/dom.js";
import { glyphLine, glyphSpans } from "../lib/glyphs.js";
import { number, percent } from "../lib/numbers.js";
import { DIVERGENCE } from "./lane.js";
import { NARROW } from "./tracks.js";

const OPENS = 1500; // ms in which a fold has opened

export class Divergences {
  constructor() {
    this.presented = false; // the lanes are
    this.at = 0;
    this.list = h("div", { class: "divergenceList", role: "radiogroup", "aria-label": "Places where the models differ most" });
    this.title = h("h3", {});
    this.key = h("p", { class: "key" }, h("span", {}, h("i", { class: "swatch p" }), "target p"), h("span", {}, h("i", { class: "swatch q" }), "draft q"), h("span", {}, "▸ in the text"), h("span", { class: "order" }, "sorted by the larger of both"));
    this.bars = h("div", { class: "divergenceBars", role: "img" });
    this.sentence = h("p", { class: "sentence", "aria-live": "polite" });
    const head = h("p", { class: "divergenceHead", id: "divergence-head" }, h("span", {}, "the target’s text, and its next token"), h("span", {}, "rejection probability"));
    this.list.setAttribute("aria-describedby", "divergence-head");
    this.card = h("figure", { class: "divergenceCard" }, this.title, this.sentence, this.key, this.bars);
    this.node = h("section", { class: "stage divergences" }, h("div", {}, head, this.list), this.card);
    this.onDivergence = ({ detail }) => this.choose(this.payload?.divergences.findIndex(({ place }) => place === detail), true);
    window.addEventListener(DIVERGENCE, this.onDivergence);
  }

  update({ data: { payload } }) {
    const fresh = this.payload?.id !== payload.id;
    this.payload = payload;
    if (fresh) this.at = 0;
    this.items = payload.divergences.map((one, n) => {
      const item = h("button", { type: "button", class: "divergenceItem", role: "radio" }, h("span", { class: "before" }),
        h("strong", {}, one.start, h("u", {}, ...glyphSpans(one.glyphs)), one.end), h("span", { class: "share" }, percent(one.rejected)));
      item.addEventListener("click", () => this.choose(n));
      item.addEventListener("keydown", (event) => this.walk(event, n));
      return item;
    });
    this.list.replaceChildren(...this.items);
    this.resize();
    this.draw();
  }

  resize() {
    const narrow = this.node.clientWidth < NARROW;
    this.node.classList.toggle("narrow", narrow);
    this.items?.forEach((item, n) => say(item.firstChild, keepLastWords(this.payload.divergences[n].before, narrow ? 22 : 44)));
  }

  choose(n, scroll = false) {
    if (n === undefined || n < 0) return;
    this.at = n;
    this.draw();
    const fold = this.node.getRootNode().host?.closest("details");
    if (scroll && fold && !fold.open) {
      const opens = new ResizeObserver(() => this.show(scroll)); // what grows stays in sight
      opens.observe(fold);
      setTimeout(() => opens.disconnect(), OPENS);
      return fold.querySelector("summary").click();
    }
    this.show(scroll);
  }

  show(scroll) {
    const n = this.at;
    const narrow = this.node.classList.contains("narrow"); // the card opens under its row there
    if (narrow) this.items[n].scrollIntoView({ block: "nearest" });
    const shown = narrow ? this.card : scroll ? this.node : null;
    shown?.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  }

  walk(event, n) {
    const to = { ArrowDown: n + 1, ArrowRight: n + 1, ArrowUp: n - 1, ArrowLeft: n - 1, Home: 0, End: this.items.length - 1 }[event.key];
    if (to === undefined || !this.items[to]) return;
    event.preventDefault();
    this.choose(to);
    this.items[to].focus();
  }

  draw() {
    const one = this.payload.divergences[this.at];
    this.items.forEach((item, n) => {
      item.setAttribute("aria-checked", String(n === this.at));
      item.tabIndex = n === this.at ? 0 : -1;
      item.style.order = 2 * n;
    });
    this.card.style.order = 2 * this.at + 1;
    const token = glyphLine(one.glyphs, 20);
    say(this.title, `Token ${one.place + 1}: “${token}”${one.start || one.end ? ` of “${one.start}${token}${one.end}”` : ""}`);
    say(this.sentence, one.sentence);
    const most = Math.max(...[...one.bars, one.rest].flatMap(({ p, q }) => [p, q]), 0.01);
    const rows = one.bars.map(({ glyphs, p, q, mine }) => makeBarRow(mine ? "mine" : "", glyphSpans(glyphs), { p, q }, most, hundredths));
    this.bars.replaceChildren(...rows, makeBarRow("rest", ["all others"], one.rest, most, hundredths));
    const said = one.bars.map(({ glyphs, p, q }) => `${glyphLine(glyphs, 20)}: p ${number(p)}, q ${number(q)}`);
    this.bars.setAttribute("aria-label", `Both distributions. ${said.join("; ")}.`);
  }

  close() {
    window.removeEventListener(DIVERGENCE, this.onDivergence);
  }
}

/** The last whole words of a text that have room. */
function keepLastWords(text, most) {
  if (text.length <= most) return text;
  const end = text.slice(-most);
  return `… ${end.slice(end.indexOf(" ") + 1)}`;
}

/** A probability beside its bar, which shows no more than two digits. */
function hundredths(x) {
  return x > 0 && x < 0.005 ? "<0.01" : x > 0 && x < 0.995 ? x.toFixed(2) : number(x);
}

function calm() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
