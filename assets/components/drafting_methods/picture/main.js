// One drafting method at a time, chosen among buttons: a recorded round of it, and how fast it is.

import { button, h, place, s, say, show } from "../../lib/dom.js";
import { mounted } from "../../lib/mount.js";
import { countTokens, makeTokenLegend } from "../../lib/tokens.js";
import { drawTree, fillTree, makeTree, placeTree } from "../../lib/tree.js";

const NARROW = 720;
const HIGH = { wide: 190, narrow: 150 }; // px of a round, at most
const LINE = { wide: 22, narrow: 19, most: 52 }; // px of a line of it
const FROM = 250; // px of the text before a round, where it stands beside it
const LETTERS = { wide: 25, narrow: 40 }; // of that text
const MOST = 15; // draft tokens of a round, for the room of a count
const DRAFTED = 900; // ms that a round stands as drafted, before the target has checked it
const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

class PictureView {
  constructor() {
    this.presented = false; // the round below is what the presenter view shows
    this.picker = h("div", { class: "picker", role: "radiogroup", "aria-label": "Drafting method" });
    this.picker.addEventListener("keydown", (event) => this.onKey(event));
    this.tag = h("span", { class: "tag" });
    this.words = h("span", {});
    this.about = h("p", { class: "about", "aria-live": "polite" }, this.words, this.tag);
    this.walk = button("Step through this round ↓", "how the target checks it, token by token", () => this.walkRound(), "primary");
    this.before = h("p", { class: "before" });
    this.tree = makeTree(this);
    this.legend = makeTokenLegend(["draft", "accepted", "rejected", "residual", "bonus"], MOST);
    this.left = h("span", { class: "n" });
    this.unchecked = h("li", { class: "unchecked" }, h("span", {}, "not checked"), this.left);
    this.legend.node.append(this.unchecked);
    this.checked = h("p", { class: "checked" });
    this.figure = h("figure", { class: "figure" }, this.before, this.tree.node, h("div", { class: "under" }, this.checked, this.legend.node));
    this.title = h("h3", {});
    this.machines = h("div", { class: "machines" });
    this.note = h("p", { class: "note" });
    this.speed = h("div", { class: "speed", "aria-live": "polite" }, this.title, this.machines, this.note);
    this.node = h("section", { class: "stage picture", "aria-label": "One drafting method" },
      this.picker, h("div", { class: "main" }, this.about, this.figure, this.speed, this.walk));
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
    say(this.title, this.payload.title);
    this.choices = this.payload.rows.map((row) => ({ row, node: this.makeChoice(row) }));
    this.picker.replaceChildren(...this.choices.map(({ node }) => node));
  }

  makeChoice(row) {
    const node = h("button", { type: "button", role: "radio", title: row.about }, this.makeDrawing(row), h("span", {}, row.name));
    node.addEventListener("click", () => this.choose(row.key));
    return node;
  }

  makeDrawing({ drawing }) {
    return s("svg", { class: "drawing", "aria-hidden": "true", viewBox: `0 0 ${this.payload.size.join(" ")}` }, ...drawing.map(([tag, attributes]) => s(tag, attributes)));
  }

  /** The arrow keys go from method to method, as in any group of radio buttons. */
  onKey(event) {
    if (!Object.hasOwn(KEYS, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const seen = this.choices.filter(({ row }) => this.isSeen(row));
    const at = seen.findIndex(({ row }) => row.key === this.chosen);
    const { row, node } = seen[(at + KEYS[event.key] + seen.length) % seen.length];
    this.choose(row.key);
    node.focus();
  }

  choose(key) {
    this.chosen = this.given = key;
    this.draw();
    this.send("row", key);
  }

  walkRound() {
    this.given = this.chosen;
    this.send("round", this.chosen);
  }

  goToNode() { this.walkRound(); } // a chip leads to its round, too

  goTo() { this.walkRound(); }

  get steps() { return [{ kind: "end" }]; }

  get row() { return this.payload.rows.find(({ key }) => key === this.chosen) ?? this.payload.rows[0]; }

  isSeen(row) { return row.inSight || row === this.row; }

  draw() {
    if (!this.payload) return;
    const { row } = this;
    if (this.shown === row) return;
    this.shown = row;
    this.drawChoices();
    say(this.tag, row.tag);
    show(this.tag, Boolean(row.tag));
    say(this.words, row.about);
    this.machines.replaceChildren(...row.speeds.map(makeSpeed));
    say(this.note, row.note);
    show(this.note, Boolean(row.note));
    show(this.speed, row.speeds.length > 0);
    show(this.walk, Boolean(row.round));
    show(this.figure, Boolean(row.round));
    if (row.round) this.playRound(row.round);
  }

  drawChoices() {
    for (const { row, node } of this.choices) {
      const is = row === this.row;
      show(node, this.isSeen(row));
      node.setAttribute("aria-checked", String(is));
      node.tabIndex = is ? 0 : -1;
    }
    this.showChosen();
  }

  /** On a phone the buttons are a strip, which brings the chosen one into its middle. */
  showChosen() {
    const node = this.choices?.find(({ row }) => row === this.row)?.node;
    if (node) this.picker.scrollTo({ left: node.offsetLeft - (this.picker.clientWidth - node.offsetWidth) / 2 });
  }

  /** A round as drafted, and a moment later as the target has checked it. */
  playRound(round) {
    const { nodes } = round;
    fillTree(this.tree, round, this);
    this.placeRound();
    const drafts = nodes.length;
    say(this.checked, drafts ? `${drafts} draft token${drafts === 1 ? "" : "s"}, one target pass:` : "No draft: one target pass writes one token.");
    clearTimeout(this.later);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || !drafts;
    this.check(still);
    if (!still) this.later = setTimeout(() => this.check(true), DRAFTED);
  }

  check(over) {
    const { nodes, ending } = this.shown.round;
    const counts = over ? {} : { draft: nodes.length };
    for (const { status } of over ? nodes : []) counts[status] = (counts[status] ?? 0) + 1;
    if (over && ending && nodes.length) counts[ending.kind === "residual" ? "residual" : "bonus"] = 1;
    countTokens(this.legend, counts);
    show(this.unchecked, Boolean(counts.unchecked));
    say(this.left, String(counts.unchecked ?? 0));
    const decided = new Set(over ? nodes.flatMap(({ status }, i) => (status === "unchecked" ? [] : [i])) : []);
    drawTree(this.tree, { step: { kind: over ? "tally" : "tree", node: null }, decided, over });
    this.node.dataset.checked = String(over);
  }

  placeRound() {
    const width = this.figure.clientWidth;
    if (!width || !this.shown?.round) return;
    const { round } = this.shown, narrow = this.node.classList.contains("narrow");
    const size = narrow || this.room ? "narrow" : "wide"; // a projector has no more height than a phone
    say(this.before, round.before ? `… ${endOf(round.before, LETTERS[narrow ? "narrow" : "wide"])}` : "The text begins here.");
    const high = Math.min(HIGH[size], LINE.most * Math.max(1, round.lines));
    const line = placeTree(this.tree, round, width, high, LINE[size], { fills: true, ...(narrow ? {} : { from: FROM }) });
    place(this.before, narrow ? { top: "", width: "" } : { top: line / 2 - 12, width: FROM - 20 });
  }

  resize() {
    const narrow = this.node.clientWidth < NARROW;
    if (this.node.classList.toggle("narrow", narrow) && narrow !== this.narrow) this.showChosen();
    this.narrow = narrow;
    this.placeRound();
  }

  close() { clearTimeout(this.later); }
}

/** The speed on one machine: a number, a word on it, and the machine. */
function makeSpeed({ number, verdict, place: machine }) {
  return h("p", { class: "machine" }, h("b", {}, number || "–"), h("span", { class: "verdict" }, verdict), h("span", { class: "place" }, machine));
}

/** The last whole words of a text, of at most so many letters. */
function endOf(text, most) {
  return text.length > most ? text.slice(-most).replace(/^\S*\s/, "") : text;
}

export default mounted(() => new PictureView());
