// One round: where it stands, where things stand in its picture, and what a moved u changes.

import assert from "node:assert/strict";
import test from "node:test";

import { arrangeNames, shareRoom } from "../../assets/components/one_round/panel.js";
import { listLegend, uniformBars } from "../../assets/components/one_round/bars.js";
import { nudged } from "../../assets/components/one_round/uniform.js";
import { listSeenCells } from "../../assets/components/one_round/mask.js";
import { describeChance } from "../../assets/components/one_round/board.js";
import { listWrittenTokens } from "../../assets/components/one_round/chain.js";
import { changeSpeed, clampCursor, computeOpeningTime, computeStepTime, findStep, formatCursor, moveCursor } from "../../assets/components/one_round/cursor.js";
import { describeFrame, getChipState, isAccepted, compareMoved } from "../../assets/components/one_round/decisions.js";
import { NARROW, choosePanelBeside, planRuler, planScene, plotIn, slot } from "../../assets/components/one_round/layout.js";
import written from "../helpers/written_cases.json" with { type: "json" };

const RUN = [3, 1, 4].map((count) => ({ steps: Array.from({ length: count }, (_, i) => ({ kind: i ? "look" : "pass", node: i ? i - 1 : null })) }));

test("a cursor outside the run stands at the nearest place", () => {
  assert.deepEqual(clampCursor(RUN, 9, 0), { round: 2, step: 0 });
  assert.deepEqual(clampCursor(RUN, -2, -5), { round: 0, step: 0 });
  assert.deepEqual(clampCursor(RUN, 0, Infinity), { round: 0, step: 2 });
  assert.deepEqual(clampCursor(RUN, 2, 99), { round: 2, step: 3 });
  assert.deepEqual(clampCursor(RUN, "1", undefined), { round: 1, step: 0 });
});

test("steps visit every step of the run in order, and back", () => {
  const there = [{ round: 0, step: 0 }];
  for (let at = there[0]; (at = moveCursor(RUN, at, 1)); ) there.push(at);
  assert.deepEqual(there.map(({ round, step }) => `${round}.${step}`), ["0.0", "0.1", "0.2", "1.0", "2.0", "2.1", "2.2", "2.3"]);
  const back = [there.at(-1)];
  for (let at = back[0]; (at = moveCursor(RUN, at, -1)); ) back.push(at);
  assert.deepEqual(back.reverse(), there);
});

test("the address of a cursor is the one that Python reads", () => {
  for (const [at, text] of written.cursors) assert.equal(formatCursor(at), text);
});

test("a step is found by its kind and token", () => {
  assert.equal(findStep(RUN[2], "look", 1), 2);
  assert.equal(findStep(RUN[2], "look", 9), undefined);
});

test("the speed of playing doubles and halves, within a factor of four", () => {
  assert.deepEqual([changeSpeed(1, 1), changeSpeed(1, -1), changeSpeed(4, 1), changeSpeed(0.25, -1)], [2, 0.5, 4, 0.25]);
});

test("a step stays for as long as its sentence takes to read, within limits, and the speed divides it", () => {
  const words = (n) => Array(n).fill("word").join(" ");
  const [few, some, many] = [2, 12, 90].map((n) => computeStepTime(words(n)));
  assert.ok(few < some && some < many && many === computeStepTime(words(200)));
  assert.equal(computeStepTime(words(12), 2), some / 2);
  assert.equal(4 * computeOpeningTime("draft"), 2400);
  assert.equal(computeOpeningTime("look"), computeStepTime(words(1)));
});

test("the legend names what is drawn: no draft where the draft's bars are gone, the residual where it stands", () => {
  const at = (kind) => listLegend(describeFrame(kind, { kind: "residual" }, 4));
  assert.deepEqual(at("draft"), ["q"]);
  assert.deepEqual(at("look"), ["p", "q", "both"]);
  for (const kind of ["residual", "draw"]) assert.deepEqual(at(kind), ["kept", "add"]);
  assert.deepEqual(at("lift"), ["add", "rejected"]);
});

test("the bars keep their place through a whole round on a wide page, and take turns with a panel on a narrow one", () => {
  assert.equal(new Set(["draft", "pass", "look", "uniform", "lift", "residual", "draw", "bonus", "tally"].map((kind) => JSON.stringify(planScene(1206, 400, kind).bars))).size, 1);
  for (const kind of ["draft", "pass", "look", "uniform", "lift", "residual", "draw", "bonus"]) {
    const beside = choosePanelBeside(kind);
    for (const width of [NARROW, 1206, 1640]) {
      const plan = planScene(width, 400, kind);
      assert.equal(plan.narrow, false);
      const last = plan[beside];
      assert.equal(last.x + last.w, width, kind);
      assert.ok(plan.bars.x + plan.bars.w < last.x);
    }
    const narrow = planScene(NARROW - 1, 300, kind), phone = planScene(390, 300, kind);
    assert.equal(narrow.narrow && phone.narrow, true);
    if (beside !== "uniform") assert.deepEqual([narrow.last, phone.last], [narrow.bars, phone.bars], kind);
    else {
      assert.ok(narrow.bars.x + narrow.bars.w < narrow.uniform.x, "beside the bars that it is about");
      assert.ok(phone.uniform.y === 0 && phone.uniform.h < phone.bars.y && phone.bars.y + phone.bars.h === 300, "over them, right under the tokens");
    }
  }
});

test("a row reads the text and the draft tokens before its own, and nothing that follows", () => {
  assert.deepEqual(listSeenCells(2), [[true, false, false], [true, true, false], [true, true, true]]);
});

test("the board says what the target's probability means for a draft token", () => {
  assert.equal(describeChance(1, 0, false), "always accepted");
  assert.equal(describeChance(0.29, 0, false), "accepted 29% of the time");
  assert.equal(describeChance(0.29, 1, false), "if reached, accepted 29% of the time");
  assert.deepEqual([describeChance(0.29, 1, true), describeChance(1, 1, true)], ["29%", "always"]);
});

test("a round wrote its accepted tokens and the one that the rule added, each with the target's probability", () => {
  const chip = (status, p) => ({ status, p, glyphs: [] });
  const round = { chips: [chip("accepted", 0.5), chip("rejected", 0.1), chip("unchecked", 0.9)], ending: { kind: "residual", p: 0.25, glyphs: [] } };
  assert.deepEqual(listWrittenTokens(round).map(({ p, is }) => [p, is]), [[0.5, "accepted"], [0.25, "residual"]]);
  assert.deepEqual(listWrittenTokens({ chips: [], ending: { kind: "bonus", glyphs: [] } }).map(({ p }) => p), [null]);
  assert.deepEqual(listWrittenTokens({ chips: [chip("accepted", 0.5)], ending: null }).length, 1);
});

test("bars stay inside their plot and apart from each other, the rest a little further off", () => {
  const plot = plotIn({ x: 0, y: 0, w: 500, h: 300 }, false, 54);
  for (const count of [1, 4, 9, 16]) {
    const places = Array.from({ length: count }, (_, i) => slot(plot, i, count, true));
    places.forEach(({ middle, wide }, i) => {
      assert.ok(middle - wide / 2 >= plot.left && middle + wide / 2 <= plot.left + plot.width + 1e-9);
      if (i) assert.ok(middle - wide / 2 > places[i - 1].middle + wide / 2);
    });
  }
  assert.ok(plot.top < plot.base && plot.base < 300);
});

test("a long name takes the room that a short neighbor leaves, and neighbors never meet", () => {
  assert.deepEqual(shareRoom([20, 60, 20], [0, 50, 100]), [20, 60, 20]);
  assert.deepEqual(shareRoom([20, 90, 20], [0, 50, 100]), [20, 70, 20]);
  const wanted = [80, 10, 95, 60, 60, 12], middles = [0, 50, 100, 150, 200, 250], rooms = shareRoom(wanted, middles);
  for (let i = 0; i + 1 < rooms.length; i += 1) assert.ok((rooms[i] + rooms[i + 1]) / 2 < middles[i + 1] - middles[i], String(rooms));
  rooms.forEach((room, i) => assert.ok(room > 0 && room <= wanted[i]));
});

test("names that would meet in one row stand in two, whole", () => {
  assert.deepEqual(arrangeNames([20, 60, 20], [0, 50, 100]).map(({ row }) => row), [0, 0, 0]);
  const wanted = [70, 80, 75, 60], placed = arrangeNames(wanted, [0, 50, 100, 150]);
  assert.deepEqual(placed.map(({ row }) => row), [0, 1, 0, 1]);
  placed.forEach(({ room }, i) => assert.equal(room, wanted[i], "nothing is cut"));
});

test("the random number stands at its u, and a hand at that place gives the same u", () => {
  for (const narrow of [false, true]) {
    const ruler = planRuler({ x: 10, y: 20, w: 420, h: 240 }, narrow);
    assert.equal(ruler.x(0), ruler.left);
    assert.equal(ruler.x(1), ruler.right);
    for (const u of [0, 0.001, 0.25, 0.5, 0.731, 0.999]) assert.equal(ruler.u(ruler.x(u)), u);
    assert.equal(ruler.u(ruler.right + 50), 0.999); // u stays below 1
    assert.equal(ruler.u(ruler.left - 50), 0);
  }
});

test("keys move u in hundredths and tenths, from 0 to below 1", () => {
  assert.equal(nudged(0.5, "ArrowUp"), 0.51);
  assert.equal(nudged(0.5, "ArrowDown"), 0.49);
  assert.equal(nudged(0.5, "ArrowUp", true), 0.6);
  assert.equal(nudged(0.995, "ArrowUp"), 0.999);
  assert.equal(nudged(0.005, "ArrowDown", true), 0);
  for (const key of ["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End", " ", "x", "toString"]) assert.equal(nudged(0.4, key), null, key);
});

const CHIP = { status: "accepted", threshold: 0.6, ifAccepted: "accepted", ifRejected: "rejected", appears: 1, decided: 4 };

test("without a hand on it the rule's word stands; with one, the side of the threshold, strictly below it", () => {
  assert.equal(isAccepted(CHIP, null), true);
  assert.equal(isAccepted({ ...CHIP, status: "rejected" }, null), false);
  assert.equal(isAccepted(null, null), false);
  assert.equal(isAccepted(CHIP, { u: 0.599 }), true);
  assert.equal(isAccepted(CHIP, { u: 0.6 }), false);
  assert.equal(isAccepted({ ...CHIP, ifRejected: null }, { u: 0.999 }), true); // p >= q: accepted by every u
  assert.equal(isAccepted({ ...CHIP, ifAccepted: null }, { u: 0 }), false); // p = 0: rejected by every u
});

test("a moved u that changes the status changes what comes after it, and nothing before", () => {
  const same = compareMoved(CHIP, { u: 0.1, node: 1 });
  const other = compareMoved(CHIP, { u: 0.9, node: 1 });
  assert.deepEqual([same, other], [{ node: 1, accepted: true, changed: false }, { node: 1, accepted: false, changed: true }]);
  assert.equal(compareMoved(CHIP, null), null);
  assert.deepEqual([0, 1, 2].map((i) => getChipState(CHIP, i, 9, other)), ["accepted", "rejected", "unchecked"]);
  assert.deepEqual([0, 1, 2].map((i) => getChipState({ ...CHIP, status: "rejected" }, i, 9, { node: 1, accepted: true, changed: true })), ["rejected", "accepted", "pending"]);
  assert.deepEqual([0, 1, 2].map((i) => getChipState(CHIP, i, 9, same)), ["accepted", "accepted", "accepted"]);
});

test("a chip comes, waits and is decided", () => {
  assert.deepEqual([0, 1, 3, 4, 9].map((step) => getChipState(CHIP, 0, step, null)), ["ghost", "draft", "draft", "accepted", "accepted"]);
});

test("the end of a round shows the picture of how it ended", () => {
  const { kind, chain, p, ...others } = describeFrame("tally", { kind: "residual" });
  assert.deepEqual([kind, chain, p], ["tally", true, true]);
  assert.ok(Object.values(others).every((one) => one === false), "a class that is toggled by undefined would flicker");
  assert.equal(describeFrame("stop", { kind: "bonus" }).kind, "bonus");
  assert.equal(describeFrame("stop", null).kind, "uniform");
  assert.deepEqual([describeFrame("pass", null, 3).mask, describeFrame("pass", null, 0).mask], [true, false]);
  assert.deepEqual([describeFrame("draft").p, describeFrame("look").slab, describeFrame("lift").lifted, describeFrame("residual").landed, describeFrame("draw").drawn], [false, true, true, true, true]);
});

test("before a bonus each bar is a threshold with its u, numbered where names have no room", () => {
  const chips = (n) => Array.from({ length: n }, () => ({ glyphs: [{ t: "cat", k: "text" }], threshold: 0.8, u: 0.3 }));
  assert.deepEqual(uniformBars(chips(2))[1], { glyphs: [{ t: "cat", k: "text" }], p: 0.8, q: null, overlap: null, drafted: true, fell: 0.3 });
  assert.equal(uniformBars(chips(11))[10].glyphs[0].t, "11");
});
