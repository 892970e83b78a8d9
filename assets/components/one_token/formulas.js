// The maths with the current numbers in it, for the token that was touched last.

import { h } from "../lib/dom.js";
import { withFormulas } from "../lib/math.js";
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
    ["The overlap β: how often a draft token is accepted", `β = Σ min(p, q) = ${addUp(sums.rows.map(({ accepted }) => accepted))} = ${short(beta)}`],
    ["How often it is rejected: p and q both sum to 1, so the excess of q is what it gives too little elsewhere", `1 − β = Σ max(0, p − q) = ${addUp(sums.rows.map(({ left }) => left))} = ${short(sums.total)}`],
    ...(slots[at].glyphs === null ? [] : describeSum(slots[at], sums.rows[at], beta)),
    ["For every token", "$q · min(1, p/q)$ $= min(q, p)$, and $(1 − β) · {max(0, p − q)}/{1 − β}$ $= max(0, p − q)$. The smaller of two numbers plus what the larger one has more: $min(q, p)$ $+ max(0, p − q)$ $= p$."],
    ["So the draft cannot change what comes out", "q has canceled. A bad draft makes β small, so fewer draft tokens are accepted. That costs time, nothing else."],
    ["Two draft tokens", "token rule: both accepted with probability " + (view.isRecorded() ? "β², where the next distributions are the same." : `β · β = ${short(beta * beta)}; block verification: $Σ min(min(p_1, q_1) p_2, q_1 q_2)$ = ${short(compareRules(view.probs("p"), view.probs("q"))[0].both)}, at least as much.`)],
    ["Sources", "Leviathan, Kalman, Matias 2023, Algorithm 1 and appendix A.1; Chen et al. 2023 (where p and q are swapped); Sun et al. 2024, Algorithm 2."],
  ];
  maths.lines.replaceChildren(...lines.flatMap(([what, line]) => [h("p", { class: "what" }, what), h("p", { class: "line1" }, ...withFormulas(line))]));
}

function describeSum(slot, row, beta) {
  const { p, q } = row;
  const keep = q > 0 ? `${short(q)} · min(1, ${short(p)}/${short(q)})` : "0";
  const rest = row.left > 0 ? `${short(1 - beta)} · ${short(row.left)}/${short(1 - beta)}` : "0";
  return [[`For ${formatWord(slot)}`, `$q · min(1, p/q)$ + (1 − β) · residual = $${keep}$ + $${rest}$ = ${short(row.accepted)} + ${short(row.replaced)} = ${short(row.sum)}, and p = ${short(p)}`]];
}

function addUp(numbers) {
  return numbers.map(short).join(" + ");
}

/** Two places where they say all there is, else four. */
function short(x) {
  return digits(x).replace(/(\.\d\d)00$/, "$1");
}
