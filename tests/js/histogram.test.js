// The histogram that fills: where playing begins, which dots are beyond sampling noise, and the axis.

import assert from "node:assert/strict";
import test from "node:test";

globalThis.document ??= { createElement: () => ({}), addEventListener() {} };
const { countDigits, countFalling, findReach, findStart, isOutside, listPointTicks, pointsText, roomEnds, roomText, shareText, startEmpty } = await import("../../assets/components/lib/histogram.js");

const frame = (n, ...shares) => ({ n, shares, low: shares.map(() => 0.2), high: shares.map(() => 0.6) });

test("a histogram that only grew goes on from where it stands, any other begins anew", () => {
  const before = [frame(10, 0.5, 0.5), frame(100, 0.4, 0.6)];
  assert.equal(findStart(before, [...before, frame(1000, 0.45, 0.55)], 1), 1);
  assert.equal(findStart(before, [frame(10, 0.4, 0.6), frame(100, 0.5, 0.5)], 1), 0);
  assert.equal(findStart([], before, 0), 0);
});

test("a dot is outside only beyond its room, and not before there are samples", () => {
  assert.equal(isOutside(frame(100, 0.6), 0), false);
  assert.equal(isOutside(frame(100, 0.61), 0), true);
  assert.equal(isOutside(frame(100, 0.19), 0), true);
  assert.equal(isOutside(frame(0, 0), 0), false);
});

test("a room is drawn half a sample beyond its outermost numbers, so that a dot on its edge is inside", () => {
  const [low, high] = roomEnds(frame(100, 0.2), 0);
  assert.ok(Math.abs(low - 0.195) < 1e-12 && Math.abs(high - 0.605) < 1e-12);
});

test("the axis has one scale for all rows, and holds every room and every dot with some air", () => {
  const one = { n: 100, shares: [0.9, 0.1], low: [0.2, 0], high: [0.6, 0.2] };
  const reach = findReach([one], [0.4, 0.1]);
  assert.ok(reach > 0.5 && reach < 0.6, "the dot of the first row is 50 points off");
  assert.ok(findReach([{ ...one, shares: [0.4, 0.1] }], [0.4, 0.1]) < 0.25, "or else the widest room");
  assert.ok(findReach([{ n: 0, shares: [0], low: [0], high: [0] }], [0]) > 0);
});

test("ticks are round numbers on both sides of 0, within the axis", () => {
  assert.deepEqual(listPointTicks(0.53).map((x) => Math.round(100 * x)), [-40, -20, 0, 20, 40]);
  assert.deepEqual(listPointTicks(0.0062).map((x) => Math.round(1000 * x)), [-5, 0, 5]);
  for (const reach of [0.0011, 0.013, 0.07, 0.24, 0.9]) assert.ok(listPointTicks(reach).every((x) => Math.abs(x) < reach) && listPointTicks(reach).length >= 3);
});

test("differences are in percentage points with their sign, a room that is even is one number", () => {
  assert.deepEqual([0.0012, -0.391, 0.00001].map((x, at) => pointsText(x, [2, 1, 2][at])), ["+0.12", "−39.1", "0.00"]);
  assert.equal(roomText(-0.0041, 0.00418, 2), "±0.42", "the wider side: no dot inside is beyond it");
  assert.equal(roomText(-0.008, 0.052, 1), "−0.8 to +5.2");
  assert.deepEqual([100, 10_000, 100_000].map(countDigits), [1, 1, 2]);
});

test("shares have three digits at most, as in the charts", () => {
  assert.deepEqual([0.342, 0.01, 0.0052].map(shareText), ["34.2%", "1.0%", "0.52%"]);
});

test("a histogram begins without samples, once", () => {
  const frames = startEmpty([frame(10, 0.5, 0.5)]);
  assert.deepEqual(frames.map(({ n }) => n), [0, 10]);
  assert.deepEqual(frames[0].shares, [0, 0]);
  assert.equal(startEmpty(frames).length, 2);
});

test("dots fall into the rows as the samples do", () => {
  assert.deepEqual(countFalling(frame(100, 0.5, 0.5), frame(200, 0.6, 0.4), 10), [7, 3]);
  assert.deepEqual(countFalling(frame(0, 0, 0), frame(10, 1, 0), 10), [10, 0]);
});
