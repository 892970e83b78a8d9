// Mistakes as rows, in groups. A row says what goes wrong, where it was found, and after how many samples; a click chooses it.
// A phone has a menu of them instead, with how many there are and the way to the game above it, so that the picture stays in sight.

import { h, say } from "../lib/dom.js";
import { fill } from "../lib/fill.js";

export class List {
  constructor() {
    this.list = h("nav", { class: "mistakes" });
    this.menu = h("select", { class: "mistakesMenu" });
    this.menu.addEventListener("change", () => this.choose(this.menu.value));
    this.pick = h("span", {});
    this.guess = h("button", { type: "button", class: "button" });
    this.guess.addEventListener("click", () => this.choose(this.game));
    this.more = h("button", { type: "button", class: "button plain mistakesMore" });
    this.more.addEventListener("click", () => this.list.scrollBy({ top: this.list.clientHeight - 60 }));
    this.list.addEventListener("scroll", () => this.countBelow());
    this.node = h("div", { class: "stage" }, h("p", { class: "mistakesPick" }, this.pick, this.guess), this.menu, this.list, this.more);
    this.rows = new Map();
  }

  update(component) {
    this.choose = (id) => component.setTriggerValue("chosen", id);
    const { groups, chosen, label, pick, more } = component.data;
    this.below = more;
    const said = JSON.stringify(groups);
    if (said !== this.said) {
      this.said = said;
      this.rows.clear();
      const [{ id, title }] = groups[0].rows;
      this.game = id;
      say(this.pick, pick);
      say(this.guess, title);
      for (const node of [this.menu, this.list]) node.setAttribute("aria-label", label);
      const makeOptions = ({ rows }) => rows.map(({ id, title }) => h("option", { value: id }, title));
      this.menu.replaceChildren(...groups.flatMap((group) => (group.title ? [h("optgroup", { label: group.title }, ...makeOptions(group))] : makeOptions(group))));
      this.menu.value = chosen;
      this.list.replaceChildren(...groups.map((group) => h("section", {}, ...(group.title ? [h("h3", {}, group.title)] : []), h("ul", {}, ...group.rows.map((row) => this.makeRow(row, group.bugs))))));
    }
    if (chosen === this.chosen) return;
    this.chosen = this.menu.value = chosen;
    for (const [id, { item, button }] of this.rows) {
      item.classList.toggle("chosen", id === chosen);
      if (id === chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    const item = this.rows.get(chosen)?.item;
    const { list } = this;
    if (item && list.scrollHeight > list.clientHeight) list.scrollTop = Math.min(list.scrollTop, Math.max(0, item.offsetTop - 60)) || Math.max(0, item.offsetTop + item.offsetHeight - list.clientHeight + 60);
  }

  makeRow({ id, title, where, found }, counted) {
    const button = h("button", { type: "button" }, title);
    button.addEventListener("click", () => this.choose(id));
    const links = where.flatMap(({ words, href }, i) => [i ? ", " : "", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]);
    const item = h("li", {}, button, h("p", {}, h("span", { class: "where" }, ...links), h("span", { class: "found" }, found)));
    this.rows.set(id, { item, button, counted });
    return item;
  }

  /** How many bugs the list has below its lower edge; one that is cut counts as seen if its middle is. */
  countBelow() {
    const { list } = this, end = list.scrollTop + list.clientHeight;
    const n = [...this.rows.values()].filter(({ item, counted }) => counted && item.offsetTop + item.offsetHeight / 2 > end).length;
    say(this.more, n ? `${fill(this.below, { n })} ↓` : "");
    this.more.classList.toggle("none", !n);
  }

  resize() {
    this.countBelow();
  }

  close() {}
}
