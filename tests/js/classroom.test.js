// What a phone in a room knows without a page: which room, when to ask again, what it may draw, what it keeps, the moments of a sample.

import assert from "node:assert/strict";
import test from "node:test";

import { listAllowedSizes, computeDelay, readCode, disagree, mayHelp, listMoments, describeRace, parseMemory } from "../../assets/components/classroom/state.js";

const fresh = () => "0123456789abcdef";

test("the code is what follows the last slash, under any folder", () => {
  assert.deepEqual(["/room/AbC-1_", "/under/here/room/x", "/room/", "/"].map(readCode), ["AbC-1_", "x", "", ""]);
});

test("tries come later and later, never sooner than the server asks, and not all phones at once", () => {
  const waits = [0, 1, 2, 3, 4, 10].map((attempt) => computeDelay(attempt, 0, 0));
  assert.deepEqual(waits, [1, 2, 4, 8, 15, 15]);
  assert.equal(computeDelay(0, 30, 0), 30);
  assert.equal(computeDelay(2, 0, 1), 6);
});

test("only what may be better next time is asked again", () => {
  for (const status of [0, 408, 429, 500, 502, 503]) assert.equal(mayHelp(status), true, String(status));
  for (const status of [200, 400, 401, 404, 409, 413]) assert.equal(mayHelp(status), false, String(status));
});

test("the first sample is a single one, and nobody draws more than the most", () => {
  assert.deepEqual(listAllowedSizes(0, [1, 10, 100], 1000), [1]);
  assert.deepEqual(listAllowedSizes(1, [1, 10, 100], 1000), [1, 10, 100]);
  assert.deepEqual(listAllowedSizes(985, [1, 10, 100], 1000), [1, 10]);
  assert.deepEqual(listAllowedSizes(1000, [1, 10, 100], 1000), []);
});

test("what is kept comes back as it was, and damaged memory is a new student", () => {
  const kept = { ticket: fresh(), number: 3, token: "t", unsent: { what: "draw", sent: { first: 1 } } };
  assert.deepEqual(parseMemory(JSON.stringify(kept), () => "other-ticket-0000"), kept);
  for (const text of [null, "", "{", "3", "[]", '{"ticket": "short"}', '{"ticket": 7, "number": 1}', '{"ticket": "<script>alert(1)</script>"}']) {
    assert.deepEqual(parseMemory(text, fresh), { ticket: fresh(), number: null, token: null, unsent: null }, String(text));
  }
  assert.deepEqual(parseMemory(JSON.stringify({ ...kept, number: "3" }), fresh), { ...kept, number: null, token: null }, "without a number it joins again, by its ticket");
});

test("a sample is told draft token by draft token up to the first rejection, then how the round ends", () => {
  const draft = (accepted) => ({ token: "a", accepted });
  const walk = [
    { drafts: [draft(true), draft(false), draft(null)], ending: { kind: "residual", token: "b" } },
    { drafts: [draft(true)], ending: { kind: "bonus", token: "c" } },
  ];
  assert.deepEqual(listMoments(walk).map((one) => `${one.kind} ${one.round} ${one.unchecked ?? one.draft.accepted}`), ["draft 0 true", "draft 0 false", "end 0 1", "draft 1 true", "end 1 0"]);
  assert.deepEqual(listMoments([{ drafts: [], ending: { kind: "bonus", token: "." } }]).map((one) => [one.kind, one.drafted]), [["end", 0]], "the last token may have no draft");
});

test("a race's text that is missing is being written, and once the race is closed it was not", () => {
  const own = { method: "draft", gamma: 2 };
  assert.equal(describeRace(own, true), "Your text is being written.");
  assert.equal(describeRace(own, false), "The race was closed before your text was written.");
  assert.equal(describeRace({ ...own, tokens: 24, passes: 10 }, false), "Your text: 24 tokens in 10 target passes, 2.40 tokens per pass.");
  assert.equal(describeRace({ ...own, tokens: 0, passes: 0, reason: "This pair has no early exit." }, true), "This pair has no early exit.");
});

test("a verdict and a chance that contradict each other are asked back", () => {
  assert.deepEqual([[true, 0.8], [true, 0.5], [false, 0.5], [false, 0.2]].map(([accepted, chance]) => disagree(accepted, chance)), [false, false, false, false]);
  assert.deepEqual([[true, 0.2], [false, 0.8]].map(([accepted, chance]) => disagree(accepted, chance)), [true, true]);
});
