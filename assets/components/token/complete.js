// The sentence to complete at the top of Why it is exact: from what is a rejected draft token replaced? A wrong end is worked out on the bars that stand there.

import { button, h, say, show } from "../lib/dom.js";
import { number, settled } from "../lib/numbers.js";
import { fill, wordOf } from "./parts.js";

/** How the sentence may end. */
function endsOf(texts) {
  return { p: texts.completeP, q: texts.completeQ, residual: texts.completeResidual };
}

/** How often each token comes out if a rejected draft token is redrawn from p or from q: what was accepted, and its part of the rejected rest. */
export function redrawn(rows, beta, from) {
  return rows.map((row) => row.accepted + (1 - beta) * row[from]);
}

/** The token that a wrong end moves furthest from its p: {index, got, p}. */
export function furthest(rows, beta, from) {
  const moved = redrawn(rows, beta, from).map((got, index) => ({ index, got, p: rows[index].p }));
  return moved.reduce((most, one) => (Math.abs(one.got - one.p) > Math.abs(most.got - most.p) ? one : most));
}

export function makeComplete(view) {
  const { texts } = view;
  const gap = h("b", { class: "gap" }, "…");
  const told = h("p", { class: "told", role: "status" });
  const ends = Object.entries(endsOf(texts)).map(([end, words]) => ({ end, node: button(words, words, () => choose(end)) }));
  const node = h("section", { class: "complete", "aria-label": "a sentence to complete" },
    h("p", { class: "stem" }, texts.complete, " ", gap), h("div", { class: "ends" }, ...ends.map((one) => one.node)), told);
  const parts = { node, gap, told, ends, chosen: null };

  function choose(end) {
    parts.chosen = end;
    view.resize(); // what it says takes room
    if (end === "residual") node.focus();
  }

  node.tabIndex = -1;
  return parts;
}

/** What was chosen, on the bars of now; nothing until somebody has. */
export function drawComplete(parts, view) {
  const { chosen, ends } = parts;
  parts.node.dataset.chosen = chosen ?? "";
  for (const { end, node } of ends) {
    node.setAttribute("aria-pressed", String(end === chosen));
    show(node, chosen !== "residual");
  }
  show(view.head.answer, chosen === "residual");
  say(parts.gap, chosen ? endsOf(view.texts)[chosen] : "…");
  say(parts.told, chosen ? verdict(view, chosen) : "");
}

function verdict({ sums, slots, texts }, chosen) {
  if (settled(1 - sums.beta) === 0) return texts.completeNothing;
  const { rows, beta } = sums;
  if (chosen === "residual") {
    const most = rows.reduce((best, row, index) => (row.replaced > rows[best].replaced ? index : best), 0);
    const { accepted, replaced, p } = rows[most];
    return fill(texts.completeRight, { word: wordOf(slots[most]), accepted: number(accepted), replaced: number(replaced), p: number(p) });
  }
  const { index, got, p } = furthest(rows, beta, chosen);
  if (settled(Math.abs(got - p)) === 0) return texts.completeSame;
  return `${fill(texts.completeWrong, { word: wordOf(slots[index]), got: number(got), p: number(p) })} ${chosen === "p" ? texts.completeWhyP : texts.completeWhyQ}`;
}
