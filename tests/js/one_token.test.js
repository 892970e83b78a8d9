// The arithmetic of One token, held to the production rule's numbers, and what dragged bars leave in the address.

import assert from "node:assert/strict";
import test from "node:test";

import { GRID, computeAccount, findMost, roundToGrid, computeOutcomes, replaceEntry } from "../../assets/components/lib/arithmetic.js";
import { formatBars } from "../../assets/components/one_token/controls.js";
import { formatAddition, fitNumber, planPlot, chooseTop } from "../../assets/components/one_token/cards.js";
import { computeEdge, compareRules, computeThreshold } from "../../assets/components/one_token/rules.js";
import { describeHundred } from "../../assets/components/one_token/words.js";
import cases from "../helpers/token_cases.json" with { type: "json" };
import written from "../helpers/written_cases.json" with { type: "json" };

const ROUNDING = 1e-15; // both sides are float64 sums of at most eight numbers

function near(a, b, by, about) {
  assert.ok(Math.abs(a - b) <= by, `${about}: ${a} is not ${b}`);
}

const slotsOf = ({ p, q }) => p.map((x, i) => ({ p: x, q: q[i] }));

test("overlap, residual and what replaces a rejected token are the production rule's", () => {
  assert.ok(cases.length > 30);
  for (const one of cases) {
    const { rows, beta } = computeAccount(slotsOf(one));
    near(beta, one.beta, ROUNDING, "beta");
    for (const key of ["accepted", "share", "replaced"]) rows.forEach((row, i) => near(row[key], one[key][i], ROUNDING, key));
  }
});

test("accepted and replaced make p, whatever q is", () => {
  for (const one of cases) {
    const { rows, error } = computeAccount(slotsOf(one));
    rows.forEach((row, i) => near(row.sum, one.p[i], ROUNDING, "sum"));
    assert.ok(error <= 4.5e-16, String(error));
    assert.equal(error, Math.max(...rows.map(({ difference }) => Math.abs(difference))));
  }
});

test("four exact rules accept what Python enumerates, and all write p", () => {
  for (const one of cases) {
    const found = compareRules(one.p, one.q);
    assert.deepEqual(found.map(({ rule }) => rule).sort(), Object.keys(one.rules).sort());
    for (const { rule, first, both, accepted, error } of found) {
      near(first, one.rules[rule][0], ROUNDING, rule);
      near(both, one.rules[rule][1], ROUNDING, rule);
      near(accepted, first + both, ROUNDING, rule);
      assert.ok(error < ROUNDING, `${rule}: ${error}`);
    }
  }
});

test("acceptance bounds of the token and the block rule are those of verification/", () => {
  let compared = 0;
  for (const { p, q, bounds } of cases) {
    q.forEach((qa, a) => {
      if (qa === 0) return;
      const w1 = computeThreshold(p[a], qa);
      near(w1, bounds.w1[a], ROUNDING, "w1");
      near(computeEdge(w1, p.reduce((sum, x, i) => sum + Math.max(0, w1 * x - q[i]), 0)), bounds.h1[a], 1e-12, "h1"); // two sums that nearly cancel
      q.forEach((qb, b) => {
        if (qb === 0) return;
        near(computeThreshold(w1 * p[b], qb), bounds.h2[a][b], ROUNDING, "h2");
        compared += 1;
      });
    });
  }
  assert.ok(compared > 500, String(compared));
});

test("a recorded rest brings the overlap and the residual of its own tokens", () => {
  const { rows, beta } = computeAccount([{ p: 0.5, q: 0.7 }, { p: 0.5, q: 0.3, overlap: 0.2, residual: 0.3 }]);
  near(beta, 0.7, ROUNDING, "beta");
  near(rows[1].replaced, 0.3, ROUNDING, "replaced");
});

test("probabilities are shared out in whole ten-thousandths as in Python", () => {
  for (const [parts, whole, text] of written.shares) {
    const probs = roundToGrid(parts);
    assert.deepEqual(probs.map((x) => Math.round(x * GRID)), whole);
    assert.equal(formatBars({ preset: "usual", from: null, p: probs, q: probs }, { first: "usual", shared: true }).p, text);
  }
});

test("a moved bar leaves a distribution on the grid, the others in proportion", () => {
  for (const { p } of cases.filter((_, i) => i % 3 === 0)) {
    for (let i = 0; i < p.length; i += 1) {
      for (const wanted of [0, 0.013, 0.5, 0.9999, 1, 1.7, -1]) {
        const after = replaceEntry(p, i, wanted);
        const whole = after.map((x) => Math.round(x * GRID));
        assert.equal(whole.reduce((a, b) => a + b), GRID);
        assert.deepEqual(whole.map((n) => n / GRID), after);
        near(after[i], Math.min(1, Math.max(0, wanted)), 5e-5, "the moved entry");
        const others = p.reduce((a, b) => a + b) - p[i];
        p.forEach((x, j) => j !== i && others > 0 && near(after[j], ((1 - after[i]) * x) / others, 1.01 / GRID, "another entry"));
      }
    }
  }
});

test("an address holds what differs from the first preset, and a place only of a run that others have too", () => {
  const page = { first: "usual", shared: true };
  const nothing = { preset: null, from: null, p: null, q: null };
  assert.deepEqual(formatBars({ preset: "usual", from: null, p: null, q: null }, page), nothing);
  assert.deepEqual(formatBars({ preset: "equal", from: null, p: null, q: null }, page), { ...nothing, preset: "equal" });
  assert.deepEqual(formatBars({ preset: "equal", from: "1.3", p: null, q: null }, page), { ...nothing, from: "1.3" });
  assert.deepEqual(formatBars({ preset: "equal", from: "1.3", p: null, q: null }, { ...page, shared: false }), nothing);
  assert.equal(formatBars({ preset: "usual", from: null, p: [0.4, 0.6], q: [0.125, 0.875] }, page).q, "12.5-87.5");
});

test("bars reach from the base to below the numbers over them, and the axis stays while one is lowered", () => {
  const plot = planPlot(400, 232, 5, 0.5);
  assert.ok(Math.abs(plot.base - 0.5 * plot.unit - plot.head) < 1e-9);
  assert.ok(plot.middle(4) + plot.wide / 2 < 400);
  const long = planPlot(400, 232, 5, 0.5, 7, ["·granddaughter", "·a"]);
  assert.deepEqual([plot.rows, long.rows, long.base], [1, 2, plot.base - 14], "long names get a second row, so that none is cut");
  assert.deepEqual([[0.2, 0.25], [0.2, 0.26], [0.51, 0], [0.751, 0], [1, 0]].map(([p, q]) => chooseTop([p, q])), [0.25, 0.5, 0.75, 1, 1]);
});

test("a replacement drawn from p or q is wrong wherever something is rejected, and the residual never is", () => {
  let told = 0;
  for (const one of cases) {
    const sums = computeAccount(slotsOf(one));
    for (const end of ["p", "q"]) {
      const out = computeOutcomes(sums, end);
      near(out.reduce((sum, row) => sum + row.sum, 0), 1, 8 * ROUNDING, "it is a distribution");
      const furthest = out[findMost(out, ({ difference }) => Math.abs(difference))];
      out.forEach(({ difference }) => assert.ok(Math.abs(difference) <= Math.abs(furthest.difference)));
      if (end === "q" && sums.beta < 0.999) assert.ok(Math.abs(furthest.difference) > 1e-6, "redrawing from q is not exact"), (told += 1);
    }
    computeOutcomes(sums, "residual").forEach(({ sum }, i) => near(sum, one.p[i], ROUNDING, "from the residual"));
    computeOutcomes(sums, "").forEach(({ sum, replaced }, i) => assert.deepEqual([sum, replaced], [sums.rows[i].accepted, 0], "before an answer nothing is replaced"));
  }
  assert.ok(told > 10);
});

test("a written sum adds up in the digits that it is written with", () => {
  const written = (...three) => formatAddition(...three).replaceAll("\u00a0", " ");
  assert.equal(written(0.15, 0.25, 0.4), "0.15 + 0.25 = 0.40");
  assert.equal(written(0.1396, 0.0651, 0.2047), "0.140 + 0.065 = 0.205", "0.14 + 0.07 is not 0.20");
  assert.equal(written(0, 0.4, 0.4), "0 + 0.40 = 0.40");
  assert.equal(written(0.12344, 0.23454, 0.35798), "0.123 + 0.235 = 0.358");
  assert.equal(written(0.00001, 0.5, 0.50001), "1.0×10⁻⁵ + 0.50 ≈ 0.50");
});

test("the sentence counts draft tokens and what they become, and tells the answer only once it was chosen", () => {
  const words = ["mat", "sofa", "floor", "roof", "moon"];
  const slots = [0.4, 0.3, 0.2, 0.07, 0.03].map((p, i) => ({ p, q: [0.15, 0.45, 0.25, 0.05, 0.1][i], glyphs: [{ t: words[i], k: "text" }] }));
  const texts = { twinCounts: "{accepted} {rejected}", twinBecome: "{shares}", twinRedrawn: "{end}: {shares}", twinWrong: "no", twinAll: "all" };
  const said = (end, shown = slots) => {
    const sums = computeAccount(shown);
    return describeHundred({ sums, out: computeOutcomes(sums, end), slots: shown, texts, end }).replaceAll("\u00a0", " ");
  };
  assert.equal(said(""), "73 27");
  assert.equal(said("residual"), "73 27 25 “mat”, 2 “roof”");
  assert.equal(said("p"), "73 27 p: 11 “mat”, 8 “sofa”, 5 “floor”, 2 “roof”, 1 “moon” no");
  assert.equal(said("residual", slots.map((slot) => ({ ...slot, q: slot.p }))), "all");
  assert.equal(said("residual", [{ ...slots[0], glyphs: null }, ...slots.slice(1)]), "73 27 2 “roof”, 25 others");
});

test("numbers over bars have one notation, two places, and never meet: one without room is left to the table", () => {
  assert.deepEqual([0.4, 0.07, 0.0349, 0.0027, 0.999].map((x) => fitNumber(x, 60, 7.2)), ["0.40", "0.07", "0.03", "<0.01", ">0.99"]);
  assert.equal(fitNumber(0.0027, 20, 7.2), "");
  assert.equal(fitNumber(0.052, 27, 7.2), "", "no number is cut");
  assert.equal(fitNumber(0, 8, 7.2), "0");
});
