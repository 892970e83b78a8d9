// The arithmetic of One token, held to the production rule's numbers, and what dragged bars leave in the address.

import assert from "node:assert/strict";
import test from "node:test";

import { GRID, account, onGrid, withEntry } from "../../assets/components/token/account.js";
import { barParameters } from "../../assets/components/token/controls.js";
import { fitting, planPlot, topOf } from "../../assets/components/token/parts.js";
import { furthest, redrawn } from "../../assets/components/token/complete.js";
import { edge, fourRules, threshold } from "../../assets/components/token/rules.js";
import cases from "../token_cases.json" with { type: "json" };
import written from "../written_cases.json" with { type: "json" };

const ROUNDING = 1e-15; // both sides are float64 sums of at most eight numbers

function near(a, b, by, about) {
  assert.ok(Math.abs(a - b) <= by, `${about}: ${a} is not ${b}`);
}

const slotsOf = ({ p, q }) => p.map((x, i) => ({ p: x, q: q[i] }));

test("overlap, residual and what replaces a rejected token are the production rule's", () => {
  assert.ok(cases.length > 30);
  for (const one of cases) {
    const { rows, beta } = account(slotsOf(one));
    near(beta, one.beta, ROUNDING, "beta");
    for (const key of ["accepted", "share", "replaced"]) rows.forEach((row, i) => near(row[key], one[key][i], ROUNDING, key));
  }
});

test("accepted and replaced make p, whatever q is", () => {
  for (const one of cases) {
    const { rows, error } = account(slotsOf(one));
    rows.forEach((row, i) => near(row.sum, one.p[i], ROUNDING, "sum"));
    assert.ok(error <= 4.5e-16, String(error));
    assert.equal(error, Math.max(...rows.map(({ difference }) => Math.abs(difference))));
  }
});

test("four exact rules accept what Python enumerates, and all write p", () => {
  for (const one of cases) {
    const found = fourRules(one.p, one.q);
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
      const w1 = threshold(p[a], qa);
      near(w1, bounds.w1[a], ROUNDING, "w1");
      near(edge(w1, p.reduce((sum, x, i) => sum + Math.max(0, w1 * x - q[i]), 0)), bounds.h1[a], 1e-12, "h1"); // two sums that nearly cancel
      q.forEach((qb, b) => {
        if (qb === 0) return;
        near(threshold(w1 * p[b], qb), bounds.h2[a][b], ROUNDING, "h2");
        compared += 1;
      });
    });
  }
  assert.ok(compared > 500, String(compared));
});

test("a recorded rest brings the overlap and the residual of its own tokens", () => {
  const { rows, beta } = account([{ p: 0.5, q: 0.7 }, { p: 0.5, q: 0.3, overlap: 0.2, residual: 0.3 }]);
  near(beta, 0.7, ROUNDING, "beta");
  near(rows[1].replaced, 0.3, ROUNDING, "replaced");
});

test("probabilities are shared out in whole ten-thousandths as in Python", () => {
  for (const [parts, whole, text] of written.shares) {
    const probs = onGrid(parts);
    assert.deepEqual(probs.map((x) => Math.round(x * GRID)), whole);
    assert.equal(barParameters({ preset: "usual", from: null, p: probs, q: probs }, { first: "usual", shared: true }).p, text);
  }
});

test("a moved bar leaves a distribution on the grid, the others in proportion", () => {
  for (const { p } of cases.filter((_, i) => i % 3 === 0)) {
    for (let i = 0; i < p.length; i += 1) {
      for (const wanted of [0, 0.013, 0.5, 0.9999, 1, 1.7, -1]) {
        const after = withEntry(p, i, wanted);
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
  assert.deepEqual(barParameters({ preset: "usual", from: null, p: null, q: null }, page), nothing);
  assert.deepEqual(barParameters({ preset: "equal", from: null, p: null, q: null }, page), { ...nothing, preset: "equal" });
  assert.deepEqual(barParameters({ preset: "equal", from: "1.3", p: null, q: null }, page), { ...nothing, from: "1.3" });
  assert.deepEqual(barParameters({ preset: "equal", from: "1.3", p: null, q: null }, { ...page, shared: false }), nothing);
  assert.equal(barParameters({ preset: "usual", from: null, p: [0.4, 0.6], q: [0.125, 0.875] }, page).q, "12.5-87.5");
});

test("bars reach from the base to below the numbers over them, and the axis stays while one is lowered", () => {
  const plot = planPlot(400, 232, 5, 0.5);
  assert.ok(Math.abs(plot.base - 0.5 * plot.unit - plot.head) < 1e-9);
  assert.ok(plot.middle(4) + plot.wide / 2 < 400);
  assert.deepEqual([[0.2, 0.25], [0.2, 0.26], [0.51, 0], [0.751, 0], [1, 0]].map(([p, q]) => topOf([{ p, q }])), [0.25, 0.5, 0.75, 1, 1]);
});

test("a replacement drawn from p or q is wrong wherever something is rejected, and the residual never is", () => {
  let told = 0;
  for (const one of cases) {
    const { rows, beta } = account(slotsOf(one));
    for (const from of ["p", "q"]) {
      const out = redrawn(rows, beta, from);
      near(out.reduce((a, b) => a + b, 0), 1, 8 * ROUNDING, "it is a distribution");
      const { index, got, p } = furthest(rows, beta, from);
      out.forEach((x, i) => assert.ok(Math.abs(x - one.p[i]) <= Math.abs(got - p) + ROUNDING));
      near(got, out[index], 0, "the token that moves most");
      if (from === "q" && beta < 0.999) assert.ok(Math.abs(got - p) > 1e-6, "redrawing from q is not exact"), (told += 1);
    }
    near(Math.max(...rows.map((row) => Math.abs(row.accepted + (1 - beta) * row.share - row.p))), 0, 4.5e-16, "from the residual");
  }
  assert.ok(told > 10);
});

test("numbers over neighboring bars never meet: a long one is said to be small, or left to the table", () => {
  assert.equal(fitting(0.0027, 60), "0.0027");
  assert.equal(fitting(0.0027, 39), "<0.01");
  assert.equal(fitting(0.0027, 20), "");
  assert.equal(fitting(0.49, 39), "0.49");
  assert.equal(fitting(0.052, 30), "", "no number is cut");
  assert.equal(fitting(0, 8), "0");
});
