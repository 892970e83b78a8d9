// The question of Why it is exact: from what is a rejected draft token replaced? Each answer is worked out on the bars, and judged beside what comes out.

import { button, h, say } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { number, ofHundred, settled } from "../lib/numbers.js";
import { findMost } from "../lib/arithmetic.js";
import { formatAddition, formatWord } from "./cards.js";

/** How the sentence may end. */
function listEnds(texts) {
  return { p: texts.completeP, residual: texts.completeResidual, q: texts.completeQ };
}

/** What is rejected, of a hundred draft tokens. */
function describeRejected({ texts, sums }) {
  const rejected = settled(1 - sums.beta);
  return rejected === 0 ? texts.completeNone : fill(texts.complete, { rejected: ofHundred(rejected) });
}

export function formatQuestion(view) {
  return `${describeRejected(view)} ${view.texts.completeAsk}`;
}

export function makeComplete(view) {
  const { texts } = view;
  const exact = h("b");
  const told = h("span");
  const ends = Object.entries(listEnds(texts)).map(([end, words]) => ({ end, node: makeEnd(words, () => view.endWith(end)) }));
  const fact = h("p", { class: "fact" });
  const node = h("section", { class: "complete", "aria-label": "a question" }, fact, h("p", { class: "stem" }, texts.completeAsk), h("div", { class: "ends" }, ...ends.map((one) => one.node)));
  const answer = h("p", { class: "told sentence", role: "status" }, exact, " ", told);
  return { node, answer, fact, exact, told, ends };
}

/** A formula, and what it means on a line of its own. */
function makeEnd([formula, means], choose) {
  const node = button("", `${formula}, ${means}`, choose);
  node.append(h("b", {}, formula), " ", h("span", {}, means));
  return node;
}

/** What was chosen, on the bars of now; before that, what to do. */
export function drawComplete(parts, view) {
  for (const { end, node } of parts.ends) node.setAttribute("aria-pressed", String(end === view.end));
  const wrong = view.out.some(({ difference }) => settled(Math.abs(difference)) !== 0);
  say(parts.fact, describeRejected(view));
  say(parts.exact, view.end ? (wrong ? view.texts.completeNot : view.texts.completeExact) : "");
  parts.answer.classList.toggle("wrong", Boolean(view.end) && wrong);
  say(parts.told, describeAnswer(view));
}

function describeAnswer({ sums, out, slots, texts, end }) {
  if (!end) return texts.completeOpen;
  if (settled(1 - sums.beta) === 0) return end === "residual" ? texts.completeAlways : texts.completeNothing;
  if (end === "residual") {
    const index = findMost(out, ({ replaced }) => replaced);
    const { accepted, replaced, p } = out[index];
    return `${fill(texts.completeRight, { word: formatWord(slots[index]), sum: formatAddition(accepted, replaced, p) })} ${fill(texts.completeWhy, { excess: number(settled(1 - sums.beta)) })}`;
  }
  const index = findMost(out, ({ difference }) => Math.abs(difference));
  const { sum, p, difference } = out[index];
  if (settled(Math.abs(difference)) === 0) return texts.completeSame;
  return `${fill(texts.completeWrong, { word: formatWord(slots[index]), got: number(sum), p: number(p) })} ${end === "p" ? texts.completeWhyP : texts.completeWhyQ}`;
}
