// The end of a round: why exact tokens make an exact text. The chain rule, with the probabilities that the target gave to the tokens of the round.

import { h, show } from "../lib/dom.js";
import { glyphSpans } from "../lib/glyphs.js";
import { makeFormula } from "../lib/math.js";
import { number } from "../lib/numbers.js";

/** The tokens that a round wrote with the target's probability of each, null where it was not recorded: {glyphs, p, is}. */
export function listWrittenTokens({ chips, ending }) {
  const kept = chips.filter(({ status }) => status === "accepted").map(({ glyphs, p }) => ({ glyphs, p, is: "accepted" }));
  return ending ? [...kept, { glyphs: ending.glyphs, p: ending.p ?? null, is: ending.kind }] : kept;
}

export function makeChain() {
  const title = h("h3", {}), factors = h("div", { class: "factors" }), says = h("p", {}), rule = h("div", { class: "rule" });
  const node = h("section", { class: "chain" }, title, factors, says, rule);
  return { node, title, factors, says, rule };
}

export function drawChain(chain, there, round, texts) {
  show(chain.node, there);
  if (!there || (chain.of === round && chain.texts === texts)) return;
  Object.assign(chain, { of: round, texts });
  const tokens = listWrittenTokens(round), known = tokens.every(({ p }) => p !== null);
  chain.title.textContent = texts.title;
  chain.says.textContent = texts.says;
  chain.rule.replaceChildren(makeFormula(texts.rule, true));
  const sign = (text) => h("span", { class: "sign", "aria-hidden": "true" }, text);
  const parts = tokens.flatMap(({ glyphs, p, is }, i) => [
    ...(i ? [sign("×")] : []),
    h("span", { class: "factor", "data-is": is }, h("b", {}, p === null ? "p" : number(p)), h("span", { class: "face" }, ...glyphSpans(glyphs))),
  ]);
  const whole = known && tokens.length > 1 ? [h("span", { class: "product" }, sign("="), h("span", { class: "factor" }, h("b", {}, number(tokens.reduce((product, { p }) => product * p, 1))), h("span", { class: "caption" }, texts.whole)))] : [];
  chain.factors.replaceChildren(...parts, ...whole);
}
