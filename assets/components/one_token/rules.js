// Four exact rules on the same pair of distributions over a block of two draft tokens: the same enumeration as
// specviz/evidence/analytic/four_rules.py. tests/js/one_token.test.js compares it, and the acceptance bounds, with specviz/verification/.

import { add } from "../lib/arithmetic.js";

function buildOneHot(token, size) {
  return Array.from({ length: size }, (_, i) => (i === token ? 1 : 0));
}

/** How likely a token drawn from q is accepted; q > 0, since it was drawn. */
export function computeThreshold(p, q) {
  return Math.min(1, p / q);
}

/** Block verification's threshold h of a draft token that is not the last: its weight w, and the mass m of max(0, w p - q) after it. */
export function computeEdge(w, m) {
  return m + 1 - w > 0 ? m / (m + 1 - w) : 1;
}

/** max(0, p - q), rescaled; where p equals q nothing is ever rejected, and any distribution will do. */
function computeResidual(p, q) {
  const left = p.map((x, i) => Math.max(0, x - q[i]));
  const total = left.reduce(add, 0);
  return total > 0 ? left.map((x) => x / total) : p;
}

function listOutcomes(a, b) {
  return [1 - a, a * (1 - b), a * b];
}

/** Each draft token by itself (Leviathan et al. 2023, Algorithm 1). */
function buildTokenRule(p, q) {
  const left = computeResidual(p, q);
  return (a, b) => ({ accepts: listOutcomes(computeThreshold(p[a], q[a]), computeThreshold(p[b], q[b])), none: left, one: left });
}

/** Both draft tokens together (Sun et al. 2024, Block Verification, Algorithm 2). */
function buildBlockRule(p, q) {
  const none = computeResidual(p, q);
  return (a, b) => {
    const w1 = computeThreshold(p[a], q[a]);
    const w2 = computeThreshold(w1 * p[b], q[b]);
    const left = p.map((x, i) => Math.max(0, w1 * x - q[i]));
    const m = left.reduce(add, 0);
    const h1 = computeEdge(w1, m);
    return { accepts: [(1 - w2) * (1 - h1), (1 - w2) * h1, w2], none, one: m > 0 ? left.map((x) => x / m) : p };
  };
}

/** The target draws its own token; the draft token is accepted where both agree. */
function buildCompareRule(p) {
  const without = p.map((_, token) => computeResidual(p, buildOneHot(token, p.length)));
  return (a, b) => ({ accepts: listOutcomes(p[a], p[b]), none: without[a], one: without[b] });
}

export function compareRules(p, q) {
  const sure = buildOneHot(q.indexOf(Math.max(...q)), q.length);
  return [
    { rule: "block", ...walk(buildBlockRule(p, q), p, q) },
    { rule: "token", ...walk(buildTokenRule(p, q), p, q) },
    { rule: "greedy", ...walk(buildTokenRule(p, sure), p, sure) },
    { rule: "compare", ...walk(buildCompareRule(p), p, q) },
  ];
}

/** Every pair of draft tokens, one by one: how often one and both are accepted, and how far the distribution of two tokens is from p times p. */
function walk(way, p, q) {
  const probs = p.map(() => p.map(() => 0));
  let first = 0;
  let both = 0;
  q.forEach((qa, a) => q.forEach((qb, b) => {
    if (qa * qb === 0) return;
    const { accepts, none, one } = way(a, b);
    const [zero, once, twice] = accepts.map((x) => qa * qb * x);
    first += once + twice;
    both += twice;
    probs[a][b] += twice;
    p.forEach((_, y) => {
      probs[a][y] += once * one[y];
      p.forEach((pz, z) => { probs[y][z] += zero * none[y] * pz; });
    });
  }));
  const error = Math.max(...probs.flatMap((row, a) => row.map((x, b) => Math.abs(x - p[a] * p[b]))));
  return { first, both, accepted: first + both, error };
}
