// Bugs as rows, in groups by the samples that show them. A row says what goes wrong and where it was found; a click chooses it.
// Closed, one line says which bug is shown, beside the way to the next; its button opens the list, and a choice closes it.

import { fill } from "../lib/fill.js";
import { h, say } from "../lib/dom.js";

export class List {
  constructor() {
    this.place = h("span", { class: "mistakesPlace" });
    this.more = h("button", { type: "button", class: "button mistakesMore" });
    this.more.addEventListener("click", () => this.open(!this.isOpen));
    this.next = h("button", { type: "button", class: "button mistakesNext" });
    this.next.addEventListener("click", () => this.step());
    this.guess = h("button", { type: "button", class: "button outline mistakesPlay" });
    this.guess.addEventListener("click", () => this.choose(this.game));
    this.groups = h("div", { class: "mistakesGroups" });
    this.list = h("nav", { class: "mistakes" }, this.guess, this.groups);
    this.node = h("div", { class: "stage mistakesStage" }, h("div", { class: "mistakesPick" }, this.place, h("div", {}, this.more, this.next)), this.list);
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
      say(this.next, texts.next);
      say(this.guess, game.title);
      this.guess.title = game.about;
      this.list.setAttribute("aria-label", texts.label);
      this.groups.replaceChildren(...groups.map((group) => h("section", {}, h("h3", {}, group.title), h("ul", {}, ...group.rows.map((row) => this.makeRow(row, group.title))))));
      this.open(opened);
    }
    if (chosen === this.chosen) return;
    this.chosen = chosen;
    for (const [id, { item, button }] of this.rows) {
      item.classList.toggle("chosen", id === chosen);
      if (id === chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    const at = [...this.rows.keys()].indexOf(chosen);
    say(this.place, at < texts.last ? fill(texts.place, { n: at + 1 }) : (this.rows.get(chosen)?.group ?? ""));
    this.open(opened);
  }

  /** Choose the next of the list, after its end its beginning. */
  step() {
    const ids = [...this.rows.keys()];
    this.choose(ids[(ids.indexOf(this.chosen) + 1) % ids.length]);
  }

  makeRow({ id, title, where, label }, group) {
    const button = h("button", { type: "button" }, title);
    button.addEventListener("click", () => (id === this.chosen ? this.open(false) : this.choose(id)));
    const item = h("li", {}, button, h("span", { class: "found" }, label), h("p", { class: "where" }, where));
    this.rows.set(id, { item, button, group });
    return item;
  }

  open(on) {
    this.isOpen = on;
    this.list.classList.toggle("off", !on);
    say(this.more, `${this.texts.more} ${on ? "▴" : "▾"}`);
    this.more.setAttribute("aria-expanded", String(on));
  }

  resize() {}

  close() {}
}
