// Tokens as people can read them: a payload gives each as glyphs {t: text, k: kind}.

import { h } from "./dom.js";

/** Spans for the glyphs of one token; bytes are boxes, whitespace is a mark. */
export function glyphSpans(glyphs) {
  return glyphs.map(({ t, k }) => h("span", { class: `glyph ${k}` }, t));
}

/** The glyphs of a token as a word: without the space before it; a word's later part begins with a hyphen. */
export function spellWord(glyphs) {
  const [first, ...others] = glyphs;
  if (first.k === "space" && others.length) return others;
  return first.k === "text" && /^\p{Ll}/u.test(first.t) ? [{ t: "-", k: "text" }, ...glyphs] : glyphs;
}

/** One line of plain text for the glyphs, cut to a width in characters; null stands for all other tokens. */
export function glyphLine(glyphs, most) {
  const line = glyphs === null ? "rest" : glyphs.map(({ t, k }) => (k === "byte" ? `${t} ` : t)).join("").trim();
  const letters = [...line];
  return letters.length > most ? `${letters.slice(0, Math.max(1, most - 1)).join("")}…` : line;
}
