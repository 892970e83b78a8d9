// Brier score and calibration, against numbers worked out by hand, and what a browser may have kept.

import assert from "node:assert/strict";
import test from "node:test";

import { computeBrier, groupForecasts, computeExpectedBrier, readForecasts } from "../../assets/components/lib/calibration.js";

const FOUR = [
  { said: 1, happened: 1, truth: 1 },
  { said: 0.5, happened: 0, truth: 0.4 },
  { said: 0.8, happened: 1, truth: 0.5 },
  { said: 0.1, happened: 1, truth: 0.25 },
];
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);

test("the Brier score is the mean squared distance, and one half gives a quarter whatever happens", () => {
  near(computeBrier(FOUR), (0 + 0.25 + 0.04 + 0.81) / 4);
  for (const happened of [0, 1]) near(computeBrier([{ said: 0.5, happened, truth: 0.9 }]), 0.25);
  assert.equal(computeBrier([]), null);
});

test("the least to expect is the rule's own variance, and saying the rule's probability reaches it on average", () => {
  near(computeExpectedBrier(FOUR), (0 + 0.24 + 0.25 + 0.1875) / 4);
  for (const a of [0, 0.2, 0.5, 0.93, 1]) {
    const expected = (said) => a * (said - 1) ** 2 + (1 - a) * said ** 2;
    near(expected(a), a * (1 - a));
    for (const other of [0, 0.3, 0.77, 1]) assert.ok(expected(other) >= expected(a) - 1e-15);
  }
});

test("groups are of equal width, 1 belongs to the last, empty ones are left out", () => {
  const found = groupForecasts(FOUR, 5);
  assert.deepEqual(found.map(({ count }) => count), [1, 1, 2]);
  near(found[2].said, 0.9);
  near(found[2].happened, 1);
  near(found[2].truth, 0.75);
  assert.deepEqual(groupForecasts([], 5), []);
});

test("what a browser kept comes back, the latest stay, and what is no forecast does not", () => {
  assert.deepEqual(readForecasts(JSON.stringify(FOUR)), FOUR);
  assert.deepEqual(readForecasts(JSON.stringify(FOUR), 2), FOUR.slice(2));
  const bad = [null, 7, {}, { said: 2, happened: 1, truth: 0.5 }, { said: 0.5, happened: 0.5, truth: 0.5 }, { said: "0.5", happened: 1, truth: 0.5 }, { said: 0.5, happened: 1 }];
  for (const text of ["", "{", "null", "{}", '"x"', JSON.stringify(bad)]) assert.deepEqual(readForecasts(text), [], text);
});
