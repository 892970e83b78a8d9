// Mistakes as rows, in groups. A row says what goes wrong, where it was found, and after how many samples; a click chooses it.

import { h } from "../lib/dom.js";

export class List {
  constructor() {
    this.node = h("nav", { class: "stage mistakes" });
    this.rows = new Map();
  }

  update(component) {
    this.choose = (id) => component.setTriggerValue("chosen", id);
    const { groups, chosen, label } = component.data;
    const said = JSON.stringify(groups);
    if (said !== this.said) {
      this.said = said;
      this.rows.clear();
      this.node.setAttribute("aria-label", label);
      this.node.replaceChildren(...groups.map((group) => h("section", {}, ...(group.title ? [h("h3", {}, group.title)] : []), h("ul", {}, ...group.rows.map((row) => this.makeRow(row))))));
    }
    if (chosen === this.chosen) return;
    this.chosen = chosen;
    for (const [id, { item, button }] of this.rows) {
      item.classList.toggle("chosen", id === chosen);
      if (id === chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    const item = this.rows.get(chosen)?.item;
    if (item && this.node.scrollHeight > this.node.clientHeight) this.node.scrollTop = Math.min(this.node.scrollTop, Math.max(0, item.offsetTop - 60)) || Math.max(0, item.offsetTop + item.offsetHeight - this.node.clientHeight + 60);
  }

  makeRow({ id, title, where, found }) {
    const button = h("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      this.choose(id);
      if (window.innerWidth <= 640) document.querySelector(".stMain")?.scrollTo({ top: 0 }); // the picture is above the cards
    });
    const links = where.flatMap(({ words, href }, i) => [i ? ", " : "", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]);
    const item = h("li", {}, button, h("p", {}, h("span", { class: "where" }, ...links), h("span", { class: "found" }, found)));
    this.rows.set(id, { item, button });
    return item;
  }

  resize() {}

  close() {}
}
