// Bugs as rows, in groups by the samples that show them. A row says what goes wrong and where it was found; a click chooses it.
// Closed, the list shows whole rows, the chosen one among them, and on a phone this one alone, between the ways to its neighbors; a button opens it.

import { fill } from "../lib/fill.js";
import { h, say } from "../lib/dom.js";

const CLOSED = 504; // px, most that a closed list takes
const PHONE = "(max-width: 640px)";

export class List {
  constructor() {
    this.list = h("nav", { class: "mistakes" });
    this.pick = h("span", {});
    this.guess = h("button", { type: "button", class: "button outline" });
    this.guess.addEventListener("click", () => this.choose(this.game));
    this.more = h("button", { type: "button", class: "button mistakesMore" });
    this.more.addEventListener("click", () => this.open(!this.isOpen));
    this.steps = [["‹", -1], ["›", 1]].map(([sign, way]) => {
      const button = h("button", { type: "button", class: "button mistakesStep" }, sign);
      button.addEventListener("click", () => this.step(way));
      return button;
    });
    this.row = h("div", { class: "mistakesRow" }, this.steps[0], this.list, this.steps[1]);
    this.node = h("div", { class: "stage mistakesStage" }, h("div", { class: "mistakesPick" }, this.pick, this.guess), this.row, this.more);
    this.rows = new Map();
  }

  update(component) {
    this.choose = (id) => component.setTriggerValue("chosen", id);
    const { game, groups, chosen, opened, texts } = component.data, said = JSON.stringify(groups);
    this.texts = texts;
    if (said !== this.said) {
      this.said = said;
      this.rows.clear();
      this.game = game.id;
      say(this.pick, texts.pick);
      say(this.guess, game.title);
      this.guess.title = game.about;
      this.list.setAttribute("aria-label", texts.label);
      [texts.before, texts.next].forEach((words, place) => this.steps[place].setAttribute("aria-label", words));
      this.list.replaceChildren(...groups.map((group) => h("section", {}, h("h3", {}, group.title), h("ul", {}, ...group.rows.map((row) => this.makeRow(row))))));
      [...this.rows.values()].slice(0, texts.last).forEach(({ item }, at) => item.append(h("span", { class: "place", "aria-hidden": "true" }, fill(texts.place, { n: at + 1 }))));
      this.open(false);
    }
    if (chosen === this.chosen) return;
    this.chosen = chosen;
    this.guess.classList.toggle("ready", chosen === this.game);
    for (const [id, { item, button }] of this.rows) {
      item.classList.toggle("chosen", id === chosen);
      if (id === chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    this.row.classList.toggle("none", !this.rows.has(chosen)); // the game: a phone has no row to show
    if (window.matchMedia(PHONE).matches) this.open(opened);
    this.showChosen();
  }

  /** Choose a neighbor in the list, from its end its beginning. */
  step(way) {
    const ids = [...this.rows.keys()];
    this.choose(ids.at((ids.indexOf(this.chosen) + way) % ids.length));
  }

  makeRow({ id, title, where, label }) {
    const button = h("button", { type: "button" }, title);
    button.addEventListener("click", () => this.choose(id));
    const links = where.flatMap(({ words, href }, i) => [i ? ", " : "", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]);
    const item = h("li", {}, button, h("span", { class: "found" }, label), h("p", { class: "where" }, ...links));
    this.rows.set(id, { item, button });
    return item;
  }

  open(on) {
    this.isOpen = on;
    this.row.classList.toggle("open", on);
    say(this.more, on ? this.texts.fewer : `${this.texts.more} ↓`);
    this.more.setAttribute("aria-expanded", String(on));
    this.showChosen();
  }

  /** Ends a closed list on a whole row: from its first row on, or else the chosen row is the last. */
  showChosen() {
    const { list } = this, endOf = (item) => item.offsetTop + item.offsetHeight;
    list.style.height = "";
    if (this.isOpen || window.matchMedia(PHONE).matches) return;
    const items = [...this.rows.values()].map(({ item }) => item), head = list.querySelector("h3")?.offsetHeight ?? 0;
    let last = this.rows.get(this.chosen)?.item, top = 0;
    if (last && endOf(last) > CLOSED) top = items.find((item) => endOf(last) - item.offsetTop + head <= CLOSED).offsetTop - head;
    else last = items.findLast((item) => endOf(item) <= CLOSED);
    if (!last || !list.clientHeight) return;
    list.style.height = `${endOf(last) - top}px`;
    list.scrollTop = top;
  }

  resize() {
    this.showChosen();
  }

  close() {}
}
