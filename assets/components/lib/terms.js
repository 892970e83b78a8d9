// Terms in a text of our own: a dotted line under the first place of each, and its definition as a tip (styles/terms.css).

import { h } from "./dom.js";

let made = 0; // of ids, which name a tip to screen readers

/** A text in parts, {words, means}; ``means`` is empty between terms. ``meanings``: any spelling in lower case -> definition (figures/pages_and_glossary.py). */
export function splitAtTerms(text, meanings) {
  const names = Object.keys(meanings).sort((a, b) => b.length - a.length).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = [], known = new Set();
  let end = 0;
  for (const hit of names.length ? text.matchAll(new RegExp(`\\b(${names.join("|")})\\b`, "gi")) : []) {
    const means = meanings[hit[0].toLowerCase()];
    if (known.has(means)) continue;
    known.add(means);
    parts.push({ words: text.slice(end, hit.index), means: "" }, { words: hit[0], means });
    end = hit.index + hit[0].length;
  }
  return [...parts, { words: text.slice(end), means: "" }].filter(({ words }) => words);
}

/** The text as nodes, with its terms marked. */
export function markTerms(text, meanings) {
  return splitAtTerms(text, meanings).map(({ words, means }) => (means ? makeTerm(words, means) : words));
}

function makeTerm(words, means) {
  const id = `term-${made += 1}`;
  return h("span", { class: "term", tabindex: "0", role: "term", "aria-describedby": id }, words, h("span", { class: "tip", role: "tooltip", id }, means));
}
