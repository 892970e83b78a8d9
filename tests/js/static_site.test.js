// What the static edition reads from an address, held to what the app reads from it.

import assert from "node:assert/strict";
import test from "node:test";

import { readCursor, readState } from "../../assets/components/static_site/links.js";
import { explainLeftOut } from "../../assets/components/static_site/frame.js";
import cases from "../helpers/written_cases.json" with { type: "json" };

const PLACES = ["1.1", "1.2", "2.1"];
const PRESETS = cases.presets.map(([id, p, q]) => ({ id, p, q }));

test("a place in a round is read as the app reads it", () => {
  for (const [text, at] of cases["read cursors"]) assert.deepEqual(readCursor(text), at, JSON.stringify(text));
});

test("bars, preset and position are read as the app reads them, and what is left out is said in the same words", () => {
  for (const [query, state, said] of cases.links) assert.deepEqual(readState(query, PRESETS, PLACES), { state, said }, JSON.stringify(query));
});

test("parameters of another run and unknown ones are named, those of the recorded run are not", () => {
  const settings = ["prompt", "seed", "gamma"];
  assert.deepEqual(explainLeftOut({ at: "1.1", seed: "16" }, ["at"], settings, { seed: "16" }), []);
  const [runs, unknown, ...more] = explainLeftOut({ at: "1.1", seed: "7", toString: "x" }, ["at"], settings, { seed: "16" });
  assert.deepEqual(more, []);
  assert.equal(runs.startsWith("The link's 'seed' was left out"), true);
  assert.equal(unknown.startsWith("The link's 'toString' was left out"), true);
});
