// The histogram that fills: where playing begins, and which bars are beyond sampling noise.

import assert from "node:assert/strict";
import test from "node:test";

globalThis.document ??= { createElement: () => ({}), addEventListener() {} };
const { boxEnds, boxWidth, countFalling, findStart, isOutside, needsMagnifier, placeInBox, sampleText, shareText, startEmpty } = await import("../../assets/components/lib/histogram.js");

const frame = (n, ...shares) => ({ n, shares, low: shares.map(() => 0.2), high: shares.map(() => 0.6) });

test("a histogram that only grew goes on from where it stands, any other begins anew", () => {
  const before = [frame(10, 0.5, 0.5), frame(100, 0.4, 0.6)];
  assert.equal(findStart(before, [...before, frame(1000, 0.45, 0.55)], 1), 1);
  assert.equal(findStart(before, [frame(10, 0.4, 0.6), frame(100, 0.5, 0.5)], 1), 0);
  assert.equal(findStart([], before, 0), 0);
});

test("a bar is outside only beyond its band, and not before there are samples", () => {
  assert.equal(isOutside(frame(100, 0.6), 0), false);
  assert.equal(isOutside(frame(100, 0.61), 0), true);
  assert.equal(isOutside(frame(100, 0.19), 0), true);
  assert.equal(isOutside(frame(0, 0), 0), false);
});

test("a bar on the edge of its box is drawn inside, as it is counted, and one sample beyond it outside", () => {
  const at = (share) => placeInBox(share, 0.3, 0.2, 0.6), box = [0.25, 0.75];
  for (const share of [0.2, 0.201, 0.4, 0.6]) assert.ok(at(share) > box[0] + 0.05 && at(share) < box[1] - 0.05, `${share}`);
  for (const share of [0.17, 0.19, 0.1999]) assert.ok(at(share) < box[0] - 0.05, `${share}`);
  for (const share of [0.6001, 0.61, 0.7]) assert.ok(at(share) > box[1] + 0.05, `${share}`);
  assert.equal(at(0.3), 0.5, "the exact probability is in the middle, also of a box that is not");
  assert.ok(Math.abs(at(0.25) - 0.375) < 1e-12 && Math.abs(at(0.45) - 0.625) < 1e-12);
  assert.deepEqual([0, 0.1, 0.9, 1].map(at), [null, null, null, null], "off the scale");
  assert.ok(placeInBox(0, 0, 0, 0.1) === 0.5 && placeInBox(0.01, 0, 0, 0.1) > 0.5, "nothing is left of a box that begins at 0");
  const [low, high] = boxEnds(frame(100, 0.2), 0);
  assert.ok(Math.abs(low - 0.195) < 1e-12 && Math.abs(high - 0.605) < 1e-12, "half a sample beyond the outermost numbers");
});

test("the ends of bars are magnified only where whole bars do not show what the samples say", () => {
  const open = (...shares) => needsMagnifier(frame(1000, ...shares), [0.59, 0.25], 1);
  assert.equal(open(0.61, 0.3), true, "a fiftieth of the width");
  assert.equal(open(0.59, 0.3), false, "none is outside, and the boxes are wide");
  const thin = { n: 100_000, shares: [0.59, 0.25], low: [0.58, 0.24], high: [0.6, 0.26] };
  assert.equal(needsMagnifier(thin, [0.59, 0.25], 1), true, "none is outside, and no box is wide");
  assert.equal(needsMagnifier({ ...thin, n: 0 }, [0.59, 0.25], 1), false, "no samples");
  assert.equal(open(0.61, 0.1), false, "one of them is far outside");
});

test("shares have three digits at most, as in the charts", () => {
  assert.deepEqual([0.342, 0.01, 0.0052].map(shareText), ["34.2%", "1.0%", "0.52%"]);
  assert.deepEqual([sampleText(0.23, 100), sampleText(0, 50), sampleText(0.229, 1000)], ["23%", "0%", "22.9%"], "up to 100 samples give no decimals");
});

test("a histogram begins without samples, once", () => {
  const frames = startEmpty([frame(10, 0.5, 0.5)]);
  assert.deepEqual(frames.map(({ n }) => n), [0, 10]);
  assert.deepEqual(frames[0].shares, [0, 0]);
  assert.equal(startEmpty(frames).length, 2);
});

test("the box of a strip narrows as samples come in, and a dot stays on its side of the edge", () => {
  const widths = [10, 1000, 10_000, 50_000, 100_000].map((n) => boxWidth(n, 100_000));
  assert.ok(widths.every((width, at) => !at || width <= widths[at - 1]) && widths[0] <= 0.86);
  assert.equal(widths.at(-1), 0.5);
  for (const box of widths) {
    assert.ok(placeInBox(0.2, 0.3, 0.2, 0.6, box) > 0.5 - box / 2);
    const missed = placeInBox(0.1999, 0.3, 0.2, 0.6, box);
    assert.ok(missed === null || missed < 0.5 - box / 2);
  }
});

test("dots fall into the rows as the samples do", () => {
  assert.deepEqual(countFalling(frame(100, 0.5, 0.5), frame(200, 0.6, 0.4), 10), [7, 3]);
  assert.deepEqual(countFalling(frame(0, 0, 0), frame(10, 1, 0), 10), [10, 0]);
});
