// The end of the front page: where a student, a teacher and an engineer go on.

import { h, say } from "../lib/dom.js";
import { copyText } from "./clipboard.js";

/** ``data.ending``: of addresses of other pages; ``data.doors``: addresses by name, those that this edition has. */
export function makeDoors(texts, { doors }) {
  const made = texts.list.map(({ title, words, command, links }) => {
    const there = links.filter(({ to }) => doors[to]);
    const parts = [h("h3", {}, title), h("p", {}, words), h("nav", { "aria-label": title }, ...there.map(({ to, words: name }) => h("a", { href: doors[to] }, `${name} →`)))];
    if (command) {
      const copy = h("button", { type: "button", class: "copy" }, texts.copy);
      copy.addEventListener("click", async () => say(copy, (await copyText(command.join(" "))) ? texts.copied : texts.refused));
      parts.push(h("pre", { class: "command" }, h("code", {}, command.join(" \\\n  "))), copy);
    }
    return h("article", { class: "door" }, ...parts);
  });
  return { node: h("div", { class: "doors" }, ...made) };
}
