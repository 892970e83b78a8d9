// Two decoders write the next token again and again; one of them has a bug that was in a real project. Whoever plays says which, with as few samples as they dare.

import { h, say, show } from "./dom.js";
import { fill } from "./fill.js";
import { MOST_SAMPLES, countCells, findAxisEnd, findBands, listShareTicks } from "./samples.js";

const SIDES = ["A", "B"];
const LASTS = [2.4, 1.6]; // seconds in which the first samples are drawn, and later ones

/** A page's game adds to it: keep(right), describeNext(), makeNext(), and ``say`` where its view speaks. */
export class Game {
  /** view: still, run(), say(sentence). steps: for each button that draws, a function from the number of samples to how many more it draws. */
  constructor(view, texts, steps, below = []) {
    Object.assign(this, { view, texts });
    this.scale = SIDES.map((name) => h("div", { class: `track side${name}` }));
    this.heads = SIDES.map((name, side) => this.makeHead(name, side));
    this.totals = SIDES.map((name) => h("span", { class: `total side${name}` }));
    this.count = h("span", { class: "drawn" });
    this.hint = h("span", {});
    this.more = steps.map((step) => {
      const button = h("button", { type: "button", class: "draw" });
      button.addEventListener("click", () => this.draw(step(this.asked)));
      return { step, button };
    });
    this.told = h("div", { class: "told" });
    this.title = h("h3", { class: "asked" }); // with the settings of the game
    this.chart = h("div", { class: "rows", role: "img" });
    const names = h("div", { class: "names", role: "group", "aria-label": texts.asks }, ...this.heads.map(({ name }) => name));
    this.acts = h("div", { class: "acts" }, h("div", { class: "drawing" }, ...this.more.map(({ button }) => button)), names, h("p", { class: "hint" }, this.count, " ", this.hint));
    const key = [["exact", texts.exact], ["fill", texts.wrote], ["fill wrong", texts.outside], ["band", texts.chance]].map(([kind, words]) => h("span", { class: `of-${kind.split(" ").at(-1)}` }, h("i", { class: kind }), words));
    const picture = h("figure", {}, this.title, h("p", { class: "key" }, ...key), h("div", { class: "heads" }, this.heads[0].node, this.heads[1].node), this.chart);
    this.node = h("div", { class: "game" }, picture, h("div", { class: "ending" }, this.acts, this.told), ...below);
  }

  /** Open a game. wrong: the side (0, 1) that has the bug; first: place of the first sample. */
  deal(game, wrong, first) {
    Object.assign(this, { game, wrong, first, answer: null });
    this.digits = SIDES.map((_, side) => (side === wrong ? game.wrong : game.right));
    this.n = this.asked = 0; // samples that are shown, and asked for
    this.cells = game.labels.length;
    this.rows = game.labels.map((label, i) => this.makeRow(label, i));
    this.chart.replaceChildren(...this.rows.map(({ node }) => node), h("div", { class: "row scale" }, this.scale[0], this.totals[0], h("i"), this.totals[1], this.scale[1]));
    say(this.title, fill(this.texts.title, { prompt: game.prompt, settings: game.settings }));
    say(this.hint, fill(this.texts.hint, game));
  }

  makeHead(name, side) {
    const word = h("b", { class: "last" }), wrote = h("span", { class: "wrote" }, this.texts.last, " ", word);
    const node = h("p", { class: `head side${name}` }, h("b", {}, fill(this.texts.decoder, { name })), " ", wrote);
    const button = h("button", { type: "button", class: "name" }, fill(this.texts.name, { name }));
    button.addEventListener("click", () => this.choose(side));
    return { node, word, wrote, name: button };
  }

  makeRow(label, i) {
    const bars = SIDES.map(() => h("i", { class: "fill" })), bands = SIDES.map(() => h("i", { class: "band" }));
    const exact = SIDES.map(() => h("i", { class: "exact" }));
    const numbers = SIDES.map((name) => h("span", { class: `times side${name}` }));
    const tracks = SIDES.map((name, side) => h("div", { class: `track side${name}` }, bands[side], bars[side], exact[side]));
    const node = h("div", { class: "row" }, tracks[0], numbers[0], h("span", { class: "label" }, this.nameToken(label)), numbers[1], tracks[1]);
    return { node, bars, bands, exact, numbers };
  }

  nameToken(label) { return label ? this.texts.signs[label] ?? label : this.texts.others; }

  /** Samples that the first draw brings. */
  get firstDraw() { return this.more[0].step(0); }

  /** So many more samples of both, after those that are asked for already. */
  draw(size) {
    if (this.asked >= MOST_SAMPLES || this.answer) return;
    this.from = this.n;
    this.asked = Math.min(MOST_SAMPLES, this.asked + size);
    this.since = 0;
    if (this.view.still) this.settle(this.asked);
    this.paint();
    this.view.run();
  }

  settle(n) {
    this.n = n;
    this.paint();
    if (n === this.asked) this.view.say(fill(this.texts.heard, { n, farthest: this.describeFarthest() }));
  }

  tick(passed) {
    if (this.n >= this.asked || this.answer || this.view.still) return false;
    this.since += passed;
    const share = Math.min(1, this.since / LASTS[this.from ? 1 : 0]);
    const n = this.from + Math.floor((this.asked - this.from) * share);
    if (n !== this.n) this.settle(n);
    return n < this.asked;
  }

  describeFarthest() {
    const rows = this.rows.map((_, i) => SIDES.map((__, side) => this.counts[side][i] / this.n - this.game.probs[i]));
    const far = [0, 1].map((side) => rows.reduce((best, row, i) => (Math.abs(row[side]) > Math.abs(rows[best][side]) ? i : best), 0));
    return far.map((i, side) => fill(this.texts.far, { name: SIDES[side], word: this.nameToken(this.game.labels[i]), count: this.counts[side][i], expected: Math.round(this.n * this.game.probs[i]) })).join(" ");
  }

  /** Rows in which this decoder's bar lies outside the room that chance leaves. */
  findOutside(side) {
    const counts = countCells(this.digits[side], this.first, this.n, this.cells), bands = findBands(this.game.probs, this.n);
    return counts.flatMap((count, i) => (count < this.n * bands[i][0] - 0.5 || count > this.n * bands[i][1] + 0.5 ? [i] : []));
  }

  choose(side) {
    if (this.answer || !this.n || this.n < this.asked) return;
    const right = side === this.wrong;
    this.keep?.(right);
    this.reveal(this.n, right);
    this.paint();
    this.view.say(this.told.textContent);
    this.told.querySelector("button")?.focus({ preventScroll: true });
  }

  reveal(n, right) {
    this.n = this.asked = n;
    this.answer = { right };
    const { texts, game } = this, outside = this.findOutside(this.wrong), word = this.nameToken(game.labels[outside[0]] ?? "");
    const values = { n, needed: game.needed, name: SIDES[this.wrong], word };
    const luck = right && 2 * n < game.needed ? ` ${texts.luck}` : "", next = this.describeNext?.() ?? "";
    const links = game.threads.flatMap(({ words, href }, i) => [i ? ", " : " ", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]);
    this.told.replaceChildren(
      h("p", { class: "result" }, fill(right ? texts.right : outside.length ? texts.overlooked : texts.wrong, values)),
      h("p", { class: "bug" }, h("b", {}, game.name), " ", game.description, " ", texts.reported, ...links, "."),
      h("p", { class: "power" }, fill(texts.power, values), luck, next && ` ${next}`), h("p", { class: "then" }, ...this.makeNext()));
  }

  /** The axis of the samples that are asked for, at first of the next ones: it stays while they are drawn. Returns its end. */
  drawScale() {
    const top = findAxisEnd(this.game.probs, this.asked || this.firstDraw, this.digits.map((digits) => countCells(digits, this.first, this.asked, this.cells)));
    if (top === this.top) return top;
    this.top = top;
    for (const track of this.scale) {
      track.replaceChildren(...listShareTicks(top).map((at) => {
        const tick = h("span", { class: "tick" }, `${Math.round(100 * at)}%`);
        tick.style.setProperty("--at", at / top);
        return tick;
      }));
    }
    return top;
  }

  paint() {
    this.counts = this.digits.map((digits) => countCells(digits, this.first, this.n, this.cells));
    const n = this.n || this.firstDraw, top = this.drawScale(); // before the first sample: the room of the first ones
    const bands = findBands(this.game.probs, n);
    this.rows.forEach((row, i) => SIDES.forEach((_, side) => {
      const share = Math.min(1, this.counts[side][i] / n / top);
      row.exact[side].style.setProperty("--at", this.game.probs[i] / top);
      const [low, high] = [Math.max(0, bands[i][0] - 0.5 / n), bands[i][1] + 0.5 / n].map((at) => Math.min(1, at / top)); // half a sample more: a bar that ends on an edge is inside
      row.bands[side].style.setProperty("--at", low);
      row.bands[side].style.setProperty("--bar", high - low);
      row.bars[side].style.transform = this.answer ? "none" : `scaleX(${share.toFixed(4)})`;
      row.bars[side].style.width = this.answer ? `${100 * share}%` : ""; // a hatch keeps its shape
      say(row.numbers[side], this.n ? String(this.counts[side][i]) : "");
    }));
    SIDES.forEach((_, side) => {
      const { word, wrote } = this.heads[side];
      say(word, this.n ? this.nameToken(this.game.labels[Number(this.digits[side][this.first + this.n - 1])]) : "");
      wrote.classList.toggle("none", !this.n);
      say(this.totals[side], this.n ? fill(this.texts.of, { n: this.n.toLocaleString("en") }) : "");
      this.heads[side].name.disabled = !this.n || this.n < this.asked || Boolean(this.answer);
    });
    say(this.count, fill(this.texts.drawn, { n: this.n.toLocaleString("en") }));
    for (const { step, button } of this.more) {
      say(button, fill(this.texts.more, { n: Math.min(step(this.asked), MOST_SAMPLES - this.asked) || step(MOST_SAMPLES) }));
      button.disabled = this.asked >= MOST_SAMPLES;
    }
    show(this.acts, !this.answer);
    show(this.told, Boolean(this.answer));
    this.node.classList.toggle("answered", Boolean(this.answer));
    const outside = this.answer ? this.findOutside(this.wrong) : [];
    this.rows.forEach((row, i) => SIDES.forEach((_, side) => row.bars[side].classList.toggle("wrong", side === this.wrong && outside.includes(i))));
    this.chart.setAttribute("aria-label", `${fill(this.texts.drawn, { n: this.n })} ${this.n ? this.describeFarthest() : ""}`.trim());
  }
}
