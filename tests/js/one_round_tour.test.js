// Where the stops of the tour are in a run, and which one a step belongs to.

import assert from "node:assert/strict";
import test from "node:test";

import { fillStop, stopAt, findTourPlaces } from "../../assets/components/one_round/tour.js";

const step = (kind, node = null) => ({ kind, node });
const PLAIN = { steps: [step("draft", 0), step("pass"), step("look", 0), step("uniform", 0), step("bonus"), step("tally")] };
const REJECTED = { steps: [step("draft", 0), step("draft", 1), step("pass"), step("look", 0), step("uniform", 0), step("look", 1), step("uniform", 1),
  step("lift", 1), step("residual", 1), step("draw", 1), step("tally")] };
const STOPS = ["draft", "pass", "look", "uniform", "lift", "residual", "draw", "tally"].map((kind) => ({ kind }));

test("the tour stands on the first round with a replacement, at the token that was rejected", () => {
  assert.deepEqual(findTourPlaces([PLAIN, REJECTED], STOPS), { round: 1, node: 1, places: [0, 2, 5, 6, 7, 8, 9, 10] });
});

test("a run without such a round, or a page without stops, has no tour", () => {
  assert.equal(findTourPlaces([REJECTED, PLAIN, REJECTED], STOPS, 2).round, 2, "the round that is shown, if it is one");
  assert.equal(findTourPlaces([REJECTED, PLAIN, REJECTED], STOPS, 1).round, 0);
  assert.equal(findTourPlaces([PLAIN], STOPS), null);
  assert.equal(findTourPlaces([], STOPS), null);
  assert.equal(findTourPlaces([REJECTED], []), null);
});

test("a step belongs to the last stop before it", () => {
  const places = [0, 2, 5, 6];
  assert.deepEqual([0, 1, 2, 4, 5, 6, 9].map((at) => stopAt(places, at)), [0, 0, 1, 1, 2, 3, 3]);
});

test("a stop speaks of the rejected token in the round's own numbers", () => {
  const round = { chips: [{}, { name: "“was”", ratio: { p: "0.24", q: "0.40", rate: "0.60" } }], distributions: [{}, { left: 0.337 }] };
  assert.equal(fillStop("{token}: {q} × {rate} makes {p}; {left} are rejected.", round, 1), "“was”: 0.40 × 0.60 makes 0.24; 0.34 are rejected.");
});
