// What a token is or became, in words: the legend of a running text, whose entries have the look that they explain (tokens.css).

import { h, say } from "./dom.js";

const KINDS = { // its name, what is added to it where there is room, and what it comes of
  draft: ["draft", " token", ""],
  accepted: ["accepted", "", ""],
  rejected: ["rejected", "", ""],
  residual: ["replacement", "", " of a rejected one"],
  bonus: ["bonus", " token", " if none is rejected"],
  target: ["target", " token", ""],
};

/** A legend of these kinds. Behind each name is room for a count of at most ``most``; 0: nothing is counted. */
export function makeTokenLegend(kinds, most = 0) {
  const entries = kinds.map((is) => {
    const [name, noun, meant] = KINDS[is];
    const n = h("span", { class: "n" });
    n.style.minWidth = most ? `${String(most).length}ch` : "";
    return { is, n, node: h("li", { "data-kind": is }, h("span", { class: "token", "data-is": is }, name, h("span", { class: "wide" }, noun)), most ? n : "", h("span", { class: "wide" }, meant)) };
  });
  return { node: h("ul", { class: "legend" }, ...entries.map(({ node }) => node)), entries };
}

/** How many there are of each kind, by kind. What there is none of is not named. */
export function countTokens({ entries }, counts) {
  for (const { is, n, node } of entries) {
    say(n, String(counts[is] ?? 0));
    node.classList.toggle("none", !counts[is]);
  }
}
