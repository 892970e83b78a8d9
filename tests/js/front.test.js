// The race's clock, the day's game, what a browser keeps of it, and the draft that wanders.

import assert from "node:assert/strict";
import test from "node:test";

import { formatDay, countDays, chooseGame, readKept, recordAnswer } from "../../assets/components/front/daily.js";
import { MOST_SAMPLES, countCells, findAxisEnd, findBands, listShareTicks } from "../../assets/components/lib/samples.js";
import { computeOpeningDraft, countPerPass } from "../../assets/components/front/overlap.js";
import { findDraftTime, listMoments, findNextMoment, countEvents } from "../../assets/components/front/playback.js";
import { computeAccount } from "../../assets/components/lib/arithmetic.js";

const ROUND = { begin: 1, end: 3, drafts: [{}, {}, {}], tokens: [{}, {}] };
const LANE = { rounds: [{ begin: 0, end: 1, drafts: [], tokens: [{}] }, ROUND] };

test("a pass counts from the measured end of its round on, and draft tokens before it are spaced evenly", () => {
  assert.deepEqual([0, 1, 2].map((i) => findDraftTime(ROUND, i)), [1.5, 2, 2.5]);
  assert.deepEqual([0, 0.99, 1, 1.6, 2.99, 3].map((now) => countEvents(LANE, now)), [
    { passes: 0, tokens: 0, drafts: 0 }, { passes: 0, tokens: 0, drafts: 0 }, { passes: 1, tokens: 1, drafts: 0 }, { passes: 1, tokens: 1, drafts: 1 },
    { passes: 1, tokens: 1, drafts: 3 }, { passes: 2, tokens: 3, drafts: 0 }]);
});

test("keys step through every moment of both clocks in order, and back", () => {
  const other = { rounds: [{ begin: 0, end: 1.7, drafts: [], tokens: [{}] }] };
  const seen = [];
  for (let now = 0; now !== null; now = findNextMoment([LANE, other], now)) seen.push(now);
  assert.deepEqual(seen, [0, 1, 1.5, 1.7, 2, 2.5, 3]);
  assert.equal(findNextMoment([LANE, other], 1.7, true), 1.5);
  assert.equal(findNextMoment([LANE], 3), null);
  assert.equal(listMoments(LANE).length, 5);
});

const games = Array.from({ length: 11 }, (_, i) => ({ wrong: "0".repeat(1800 + i) }));

test("every game comes once in as many days as there are games, from a day of UTC alone", () => {
  const turn = 11 * 1800;
  const first = Array.from({ length: 11 }, (_, i) => chooseGame(turn + i, games).place);
  assert.deepEqual([...first].sort((a, b) => a - b), games.map((_, i) => i));
  const second = Array.from({ length: 11 }, (_, i) => chooseGame(turn + 11 + i, games).place);
  assert.equal(String(first) === String(second), false, "another order in the next turn");
  assert.equal(countDays(new Date("2026-11-27T23:59:59Z")), countDays(new Date("2026-11-27T00:00:00Z")));
  assert.equal(formatDay(countDays(new Date("2026-11-27T12:00:00Z"))), "2026-11-27");
});

test("over four hundred days both sides are wrong about as often, and no game asks for samples that were not recorded", () => {
  const days = Array.from({ length: 400 }, (_, i) => chooseGame(20000 + i, games));
  const left = days.filter(({ wrong }) => wrong === 0).length;
  assert.ok(left > 150 && left < 250, `${left} of 400`); // five standard errors
  assert.ok(days.every(({ place, first }) => first >= 0 && first + MOST_SAMPLES <= games[place].wrong.length));
  assert.ok(new Set(days.map(({ first }) => first)).size > 100, "a game that comes again has other samples");
});

test("the room for chance holds all cells of an exact decoder at least 99 times in 100, and no end of it is too far out", () => {
  const probs = [0.5, 0.3, 0.2], n = 12, factorial = (k) => (k < 2 ? 1 : k * factorial(k - 1));
  const binomial = (k, p) => (factorial(n) / factorial(k) / factorial(n - k)) * p ** k * (1 - p) ** (n - k);
  const bands = findBands(probs, n).map((band) => band.map((share) => Math.round(share * n)));
  let inside = 0;
  for (let a = 0; a <= n; a += 1) for (let b = 0; a + b <= n; b += 1) {
    const counts = [a, b, n - a - b];
    if (counts.every((count, i) => count >= bands[i][0] && count <= bands[i][1])) inside += (factorial(n) / counts.map(factorial).reduce((x, y) => x * y)) * probs.reduce((all, p, i) => all * p ** counts[i], 1);
  }
  assert.ok(inside >= 0.99 && inside < 1);
  probs.forEach((p, i) => {
    const outside = [0, ...Array.from({ length: n }, (_, k) => k + 1)].filter((k) => k >= bands[i][1]).reduce((sum, k) => sum + binomial(k, p), 0);
    assert.ok(outside > 0.01 / 6, "with its upper end outside, the room would be too small");
  });
  const [[low, high]] = findBands([0.6, 0.4], 1000); // (1 - p)^n is no number of 64 bits there
  assert.ok(low > 0.54 && low < 0.6 && high > 0.6 && high < 0.66);
});

test("a bar has room beyond the widest room for chance, and ticks keep within the axis", () => {
  const probs = [0.31, 0.22, 0.11, 0.36], even = [[9, 7, 3, 11], [9, 7, 3, 11]];
  for (const n of [30, 100, 500]) {
    const widest = Math.max(...findBands(probs, n).map(([, high]) => high)), end = findAxisEnd(probs, n, even);
    assert.ok(Math.abs(end - Math.min(1, 1.3 * widest)) < 1e-12);
  }
  assert.ok(findAxisEnd(probs, 100, [[90, 4, 3, 3], [30, 20, 15, 35]]) > 0.9, "the longest bar ends within the axis");
  assert.equal(findAxisEnd([0.9, 0.1], 30, [[27, 3], [27, 3]]), 1);
  for (const end of [0.13, 0.31, 0.5, 0.72, 1]) {
    const ticks = listShareTicks(end);
    assert.ok(ticks[0] === 0 && ticks.length >= 3 && ticks.length <= 5 && ticks.at(-1) <= 0.95 * end, `${end}: ${ticks}`);
  }
});

test("samples are counted by cell", () => {
  assert.deepEqual(countCells("0120012", 1, 5, 3), [2, 2, 1]);
});

test("a right answer on the day after makes the streak longer, a wrong one or a day without ends it", () => {
  const one = recordAnswer(null, 10, 20, true), two = recordAnswer(one, 11, 10, true);
  assert.deepEqual([one.streak, two.streak, two.best], [1, 2, 2]);
  assert.deepEqual([recordAnswer(two, 13, 10, true).streak, recordAnswer(two, 12, 10, false).streak, recordAnswer(two, 12, 10, false).best], [1, 0, 2]);
});

test("what a browser kept is believed only if it is such a record", () => {
  const kept = recordAnswer(null, 10, 20, true);
  assert.deepEqual(readKept(JSON.stringify(kept), 10), kept);
  for (const bad of [null, "", "{", "[]", "null", '{"day":10}', JSON.stringify({ ...kept, n: "<b>" }), JSON.stringify({ ...kept, right: 1 }), JSON.stringify({ ...kept, streak: 9 }), JSON.stringify({ ...kept, day: 11 }), JSON.stringify({ ...kept, n: 1e9 })]) {
    assert.equal(readKept(bad, 10), null, String(bad));
  }
});

test("the opening begins with the first draft, ends with the last, and what comes out of each is p", () => {
  const p = [0.5, 0.3, 0.2], drafts = [[0.4, 0.4, 0.2], [0, 0, 1], [0.9, 0.1, 0]];
  assert.deepEqual([0, 1, 60].map((at) => computeOpeningDraft(drafts, at)), [drafts[0], drafts[0], drafts[2]]);
  for (let at = 0; at < 12; at += 0.37) {
    const q = computeOpeningDraft(drafts, at);
    assert.ok(Math.abs(q.reduce((a, b) => a + b) - 1) < 1e-12 && q.every((x) => x >= 0));
    const { rows, beta } = computeAccount(p.map((x, i) => ({ p: x, q: q[i] })));
    assert.ok(rows.every(({ sum, p: wanted }) => Math.abs(sum - wanted) < 1e-12));
    assert.ok(Math.abs(beta - (1 - p.reduce((all, x, i) => all + Math.abs(x - q[i]), 0) / 2)) < 1e-12, "the share is 1 - TV");
  }
});

test("tokens in a pass: a geometric series, from 1 with nothing accepted to 4 with everything", () => {
  assert.deepEqual([0, 0.5, 1].map(countPerPass), [1, 1.875, 4]);
});
