// The presenter view: how large it is drawn, and its clock.

import assert from "node:assert/strict";
import test from "node:test";

import { asksToPresent, formatLapse, planPresentation } from "../../assets/components/lib/present.js";

test("the smallest type of 13 px stands as 24 on a projector of 1920 by 1080, and fills the window", () => {
  const { scale, width, height } = planPresentation(1920, 1080);
  assert.ok(13 * scale >= 24, String(13 * scale));
  assert.ok(Math.abs((width + 40) * scale - 1920) < 1e-9);
  assert.ok(Math.abs((height + 40) * scale - 1080) < 1e-9);
});

test("a page of charts is laid out for type of 12 px", () => {
  const { scale, left, width } = planPresentation(1920, 1080, { width: 960, height: 540, edge: 10 });
  assert.deepEqual([scale, left, width], [2, 20, 940]);
});

test("a window of another shape is filled in the shorter direction, a small one is not shrunk", () => {
  assert.equal(planPresentation(1038, 2000).scale, 1);
  assert.equal(planPresentation(390, 844).scale, 1);
  assert.ok(planPresentation(1280, 1024).scale > 1.2);
  assert.ok(planPresentation(3840, 2160).scale > 3.6);
});

test("a clock counts minutes and seconds", () => {
  assert.deepEqual([-5, 0, 999, 61_000, 3_725_000].map(formatLapse), ["0:00", "0:00", "0:00", "1:01", "62:05"]);
});

test("only present=1 asks for the view", () => {
  assert.ok(asksToPresent("https://a.test/?seed=1&present=1"));
  for (const query of ["", "?present=0", "?present=", "?present=true", "?presents=1"]) assert.ok(!asksToPresent(`https://a.test/${query}`), query);
});
