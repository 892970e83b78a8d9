// One drafting method at a time: a recorded round of it, and how fast it is.

import { button, h, s, say, show } from "../../lib/dom.js";
import { mounted } from "../../lib/mount.js";
import { countTokens, makeTokenLegend } from "../../lib/tokens.js";
import { drawTree, fillTree, makeTree, placeTree } from "../../lib/tree.js";

const NARROW = 720;
const HIGH = { wide: 250, narrow: 150 }; // px of a round
const LINE = { wide: 22, narrow: 19 }; // px, at least, of a line of it
const SHORT = 40; // letters of the text before a round, on a phone
const DRAFTED = 900; // ms that a round stands as drafted, before the target has checked it

class PictureView {
  constructor() {
    this.presented = false; // the round below is what the presenter view shows
    this.select = h("select", { "aria-label": "Drafting method" });
    this.select.addEventListener("change", () => this.choose(this.select.value));
    const next = button("›", "the next method", () => this.goToNext());
    next.setAttribute("aria-label", "the next method");
    this.tag = h("span", { class: "tag" });
    this.words = h("span", {});
    this.about = h("p", { class: "about", "aria-live": "polite" }, this.tag, this.words);
    this.icon = h("div", { class: "icon", "aria-hidden": "true" });
    this.walk = button("Step through this round ↓", "how the target checks it, token by token", () => this.walkRound(), "primary");
    this.before = h("p", { class: "before" });
    this.tree = makeTree(this);
    this.legend = makeTokenLegend(["draft", "accepted", "rejected", "residual", "bonus"]);
    this.unchecked = h("li", { class: "unchecked" }, h("span", {}, "not checked"));
    this.legend.node.append(this.unchecked);
    this.checked = h("p", { class: "checked" });
    this.figure = h("figure", { class: "figure" }, this.before, this.tree.node, h("div", { class: "under" }, this.checked, this.legend.node));
    this.title = h("h3", {});
    this.machines = h("div", { class: "machines" });
    this.note = h("p", { class: "note" });
    this.speed = h("div", { class: "speed", "aria-live": "polite" }, this.title, this.machines);
    this.node = h("section", { class: "stage picture", "aria-label": "One drafting method" },
      h("div", { class: "picker" }, this.select, next, this.icon, this.about),
      h("div", { class: "main" }, this.figure, this.speed, this.note, this.walk));
  }

  update({ data: { payload, chosen }, setTriggerValue }) {
    this.send = setTriggerValue;
    const said = JSON.stringify(payload);
    if (chosen && chosen !== this.given) this.chosen = this.given = chosen;
    this.chosen ||= payload.first;
    if (said !== this.said) {
      this.said = said;
      this.payload = payload;
      this.shown = null;
      this.fill();
    }
    this.draw();
  }

  fill() {
    const { rows } = this.payload;
    const groups = [...new Set(rows.map(({ group }) => group))].map((group) => [group, rows.filter((row) => row.group === group)]);
    say(this.title, this.payload.title);
    this.select.replaceChildren(...groups.map(([group, inside]) => h("optgroup", { label: group ? "Not exact" : "Exact" }, ...inside.map(({ key, name }) => h("option", { value: key }, name)))));
    this.order = groups.flatMap(([, inside]) => inside);
  }

  makeDrawing({ drawing }) {
    return s("svg", { class: "drawing", "aria-hidden": "true", viewBox: `0 0 ${this.payload.size.join(" ")}` }, ...drawing.map(([tag, attributes]) => s(tag, attributes)));
  }

  choose(key) {
    this.chosen = this.given = key;
    this.draw();
    this.send("row", key);
  }

  goToNext() {
    const at = this.order.findIndex(({ key }) => key === this.chosen);
    this.choose(this.order[(at + 1) % this.order.length].key);
  }

  walkRound() {
    this.given = this.chosen;
    this.send("round", this.chosen);
  }

  goToNode() { this.walkRound(); } // a chip leads to its round, too

  goTo() { this.walkRound(); }

  get steps() { return [{ kind: "end" }]; }

  get row() { return this.order.find(({ key }) => key === this.chosen) ?? this.order[0]; }

  draw() {
    if (!this.payload) return;
    const { row } = this;
    if (this.shown === row) return;
    this.shown = row;
    this.select.value = row.key;
    say(this.tag, row.tag);
    show(this.tag, Boolean(row.tag));
    say(this.words, row.about);
    this.icon.replaceChildren(this.makeDrawing(row));
    this.machines.replaceChildren(...row.speeds.map(makeSpeed));
    say(this.note, row.note);
    show(this.note, Boolean(row.note));
    show(this.speed, row.speeds.length > 0);
    show(this.walk, Boolean(row.round));
    show(this.figure, Boolean(row.round));
    if (row.round) this.playRound(row.round);
  }

  /** A round as drafted, and a moment later as the target has checked it. */
  playRound(round) {
    const { nodes } = round;
    fillTree(this.tree, round, this);
    this.placeRound();
    const drafts = nodes.length;
    say(this.checked, drafts ? `${drafts} draft token${drafts === 1 ? "" : "s"}, one pass of the target:` : "No draft: one pass of the target writes one token.");
    clearTimeout(this.later);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || !drafts;
    this.check(still);
    if (!still) this.later = setTimeout(() => this.check(true), DRAFTED);
  }

  check(over) {
    const { nodes, ending } = this.shown.round;
    const counts = over ? Object.fromEntries(nodes.map(({ status }) => [status, 1])) : { draft: 1 };
    if (over && ending && nodes.length) counts[ending.kind === "residual" ? "residual" : "bonus"] = 1;
    countTokens(this.legend, counts);
    show(this.unchecked, Boolean(counts.unchecked));
    const decided = new Set(over ? nodes.flatMap(({ status }, i) => (status === "unchecked" ? [] : [i])) : []);
    drawTree(this.tree, { step: { kind: over ? "tally" : "tree", node: null }, decided, over });
    this.node.dataset.checked = String(over);
  }

  placeRound() {
    const width = this.figure.clientWidth;
    if (!width || !this.shown?.round) return;
    const narrow = this.node.classList.contains("narrow"), { before } = this.shown.round;
    say(this.before, before ? `… ${narrow ? endOf(before, SHORT) : before}` : "The text begins here.");
    const size = narrow || this.room ? "narrow" : "wide"; // a projector has no more height than a phone
    placeTree(this.tree, this.shown.round, width, HIGH[size], LINE[size]);
  }

  resize() {
    this.node.classList.toggle("narrow", this.node.clientWidth < NARROW);
    if (this.room !== this.drawn) this.draw(); // a projector has no place for all
    this.drawn = this.room;
    this.placeRound();
  }

  close() { clearTimeout(this.later); }
}

/** The speed on one machine: a number, a word on it, the machine, and its range. */
function makeSpeed({ number, verdict, place, range }) {
  return h("p", { class: "machine" }, h("b", {}, number || "–"), h("span", { class: "verdict" }, verdict), h("span", { class: "place" }, place), h("span", { class: "range" }, range));
}

/** The last whole words of a text, of at most so many letters. */
function endOf(text, most) {
  return text.length > most ? text.slice(-most).replace(/^\S*\s/, "") : text;
}

export default mounted(() => new PictureView());
