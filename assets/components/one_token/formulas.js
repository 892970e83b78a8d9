// The maths with the current numbers in it, for the token that was touched last.

import { h } from "../lib/dom.js";
import { digits } from "../lib/numbers.js";
import { makeFold, formatWord } from "./cards.js";
import { compareRules } from "./rules.js";

export function makeMaths(view) {
  const lines = h("div", { class: "lines" });
  const { node } = makeFold("maths", "Show the maths", lines);
  node.addEventListener("toggle", () => drawMaths({ node, lines }, view));
  return { node, lines };
}

export function drawMaths(maths, view) {
  if (!maths.node.open) return;
  const { slots, sums } = view;
  const at = Math.min(view.touched?.index ?? 0, slots.length - 1);
  const { beta } = sums;
  const lines = [
    ["The overlap β: how often a draft token is accepted", `β = Σ min(p, q) = ${sums.rows.map(({ accepted }) => digits(accepted)).join(" + ")} = ${digits(beta)}`],
    ["How often it is rejected: p and q both sum to 1, so the excess of q is what it gives too little elsewhere", `1 − β = Σ max(0, p − q) = ${sums.rows.map(({ left }) => digits(left)).join(" + ")} = ${digits(sums.total)}`],
    ...(slots[at].glyphs === null ? [] : describeSum(slots[at], sums.rows[at], beta)),
    ["For every token", "q · min(1, p/q) = min(q, p), and (1 − β) · max(0, p − q) / (1 − β) = max(0, p − q). The smaller of two numbers plus what the larger one has more: min(q, p) + max(0, p − q) = p."],
    ["So the draft cannot change what comes out", "q has canceled. A bad draft makes β small, so fewer draft tokens are accepted. That costs time, nothing else."],
    ["Two draft tokens", "token rule: both accepted with probability β² " + (view.isRecorded() ? "where the next distributions are the same." : `= ${digits(beta * beta)}; block verification: Σ min(min(p₁, q₁) p₂, q₁ q₂) = ${digits(compareRules(view.probs("p"), view.probs("q"))[0].both)}, at least as much.`)],
    ["Sources", "Leviathan, Kalman, Matias 2023, Algorithm 1 and appendix A.1; Chen et al. 2023 (where p and q are swapped); Sun et al. 2024, Algorithm 2."],
  ];
  maths.lines.replaceChildren(...lines.flatMap(([what, line]) => [h("p", { class: "what" }, what), h("p", { class: "line1" }, line)]));
}

function describeSum(slot, row, beta) {
  const { p, q } = row;
  const keep = q > 0 ? `${digits(q)} · min(1, ${digits(p)}/${digits(q)})` : "0";
  const rest = row.left > 0 ? `${digits(1 - beta)} · ${digits(row.left)}/${digits(1 - beta)}` : "0";
  return [[`For ${formatWord(slot)}`, `q · min(1, p/q) + (1 − β) · residual = ${keep} + ${rest} = ${digits(row.accepted)} + ${digits(row.replaced)} = ${digits(row.sum)}, and p = ${digits(p)}`]];
}
