// Where the stops of the tour are in a run, and which one a motion belongs to.

import assert from "node:assert/strict";
import test from "node:test";

import { placeCard, stopAt, tourPlaces } from "../../assets/components/stage/tour.js";

const motion = (kind, node = null) => ({ kind, node });
const PLAIN = { motions: [motion("draft", 0), motion("pass"), motion("look", 0), motion("uniform", 0), motion("bonus"), motion("tally")] };
const REJECTED = { motions: [motion("draft", 0), motion("draft", 1), motion("pass"), motion("look", 0), motion("uniform", 0), motion("look", 1), motion("uniform", 1),
  motion("lift", 1), motion("residual", 1), motion("draw", 1), motion("tally")] };
const STOPS = ["draft", "pass", "look", "uniform", "lift", "residual", "draw", "tally"].map((kind) => ({ kind }));

test("the tour stands on the first round with a replacement, at the token that was rejected", () => {
  assert.deepEqual(tourPlaces([PLAIN, REJECTED], STOPS), { round: 1, places: [0, 2, 5, 6, 7, 8, 9, 10] });
});

test("a run without such a round has no tour", () => {
  assert.equal(tourPlaces([PLAIN], STOPS), null);
  assert.equal(tourPlaces([], STOPS), null);
});

test("a motion belongs to the last stop before it", () => {
  const places = [0, 2, 5, 6];
  assert.deepEqual([0, 1, 2, 4, 5, 6, 9].map((at) => stopAt(places, at)), [0, 0, 1, 1, 2, 3, 3]);
});

const WHOLE = { w: 1000, h: 700 }, CARD = { w: 400, h: 150 }, STEP = { x: 0, y: 600, w: 90, h: 40 };

test("the card stands below what is meant, and beside it where it would cover the button that steps", () => {
  assert.deepEqual(placeCard(CARD, { x: 100, y: 50, w: 300, h: 100 }, STEP, WHOLE), { x: 100, y: 164 });
  assert.deepEqual(placeCard(CARD, { x: 0, y: 200, w: 300, h: 250 }, STEP, WHOLE), { x: 314, y: 200 });
});

test("beside what fills the width the card stands above, and where nothing fits it stays in the whole", () => {
  assert.deepEqual(placeCard(CARD, { x: 0, y: 300, w: 1000, h: 280 }, STEP, WHOLE), { x: 0, y: 136 });
  assert.deepEqual(placeCard(CARD, { x: 0, y: 20, w: 1000, h: 660 }, STEP, WHOLE), { x: 0, y: 0 });
});
