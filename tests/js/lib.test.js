// Parts that every component shares: keys, addresses, tokens as text; and the round numbers of a clock.

import assert from "node:assert/strict";
import test from "node:test";

import { readFormula } from "../../assets/components/lib/math.js";
import { listTicks } from "../../assets/components/whole_text/tracks.js";
import { withParameters } from "../../assets/components/lib/address.js";
import { glyphLine } from "../../assets/components/lib/glyphs.js";
import { isElsewhere } from "../../assets/components/lib/keys.js";
import { splitAtTerms } from "../../assets/components/lib/terms.js";

/** A key press on a node inside the nodes that these selectors name. */
function press(key, around = [], more = {}) {
  const target = { closest: (selectors) => (selectors.split(", ").some((one) => around.includes(one)) ? {} : null) };
  return { key, target, composedPath: () => [target], ...more };
}

test("a key on the page itself is ours", () => {
  assert.equal(isElsewhere(press("ArrowRight")), false);
  assert.equal(isElsewhere({ key: "Home", composedPath: () => [{}] }), false); // the document
});

test("a key in a field, on a widget or on a grid is not ours", () => {
  for (const around of ["input", "textarea", "select", "[contenteditable='true']", "[role=slider]", "[role=tab]", "[role=grid]", "[role=menu]"]) {
    assert.equal(isElsewhere(press("ArrowRight", [around])), true, around);
  }
});

test("our own widgets leave us our keys", () => {
  const event = press("ArrowRight", ["input"]);
  assert.equal(isElsewhere(event, [{}, event.target]), false);
  assert.equal(isElsewhere(event, [{}]), true);
});

test("a clicker's keys are ours on a chosen radio or tab, which leave them alone, and arrows are not", () => {
  for (const role of ["[role=radio]", "[role=tab]"]) {
    assert.equal(isElsewhere(press("PageDown", [role])), false);
    assert.equal(isElsewhere(press("ArrowRight", [role])), true);
  }
  assert.equal(isElsewhere(press("PageDown", ["[role=slider]"])), true);
});

test("a browser's shortcut, a key that was used, and a half-typed character are not ours", () => {
  for (const more of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { defaultPrevented: true }, { isComposing: true }]) {
    assert.equal(isElsewhere(press("p", [], more)), true, JSON.stringify(more));
  }
});

test("Enter presses a focused button; arrows on it are ours", () => {
  assert.equal(isElsewhere(press("Enter", ["button"])), true);
  assert.equal(isElsewhere(press("Enter", ["a"])), true);
  assert.equal(isElsewhere(press(" ", ["button"])), true);
  assert.equal(isElsewhere(press("Enter")), false);
  assert.equal(isElsewhere(press("ArrowRight", ["button"])), false);
});

test("an address keeps what is not about us, sets what is, and drops what is null", () => {
  const address = withParameters("http://host/base/token?seed=7&p=1-2&prompt=a%20b#top", { p: null, at: "2.3", q: null });
  assert.equal(address.pathname, "/base/token");
  assert.deepEqual([...address.searchParams], [["seed", "7"], ["prompt", "a b"], ["at", "2.3"]]);
  assert.equal(address.hash, "#top");
  assert.equal(withParameters(address.href, { at: "1.1" }).searchParams.get("at"), "1.1");
});

test("a token is one line of text, cut by characters and never through one", () => {
  const text = (t) => [{ t, k: "text" }];
  assert.equal(glyphLine(text("·cat"), 10), "·cat");
  assert.equal(glyphLine(text("elephants"), 5), "elep…");
  assert.equal(glyphLine(text("🐘🐘🐘"), 2), "🐘…");
  assert.equal(glyphLine([{ t: "E2", k: "byte" }, { t: "80", k: "byte" }], 9), "E2 80");
  assert.equal(glyphLine(null, 9), "rest");
});

test("a clock has three to six round moments, from 0 to at most its end", () => {
  for (const end of [0.013, 0.4, 1, 3.7, 12, 61, 5000]) {
    const found = listTicks(end);
    assert.ok(found.length >= 3 && found.length <= 6, `${end}: ${found}`);
    assert.ok(found[0] === 0 && found.at(-1) <= end * (1 + 1e-9));
    const many = listTicks(end, 12);
    assert.ok(many.length >= 6 && many.length <= 13 && many[1] < found[1], `${end}: ${many}`);
    assert.match((found[1] / 10 ** Math.floor(Math.log10(found[1]) + 1e-9)).toFixed(6), /^(1|2|5)\.0+$|^10\.0+$/);
  }
});

test("a formula is read as names, numbers, signs, fractions and indices", () => {
  const texts = ({ kind, text, parts, over, under, base, below }) => (kind === "row" ? parts.map(texts).join(" ") : kind === "fraction" ? `[${texts(over)} over ${texts(under)}]` : kind === "sub" ? `${texts(base)}↓${texts(below)}` : text);
  assert.equal(texts(readFormula("min(1, p/q)")), "min ( 1 , [p over q] )");
  assert.equal(texts(readFormula("p(x_n | x_1, …, x_{n−1})")), "p ( x↓n | x↓1 , … , x↓n − 1 )");
});

test("a text is split at the first place of each term, in any spelling, the longest one first", () => {
  const meanings = { draft: "D", "draft token": "DT", "draft tokens": "DT", pass: "P" };
  assert.deepEqual(splitAtTerms("Draft tokens of a draft pass. A draft token, a passage.", meanings), [
    { words: "Draft tokens", means: "DT" }, { words: " of a ", means: "" }, { words: "draft", means: "D" }, { words: " ", means: "" }, { words: "pass", means: "P" }, { words: ". A draft token, a passage.", means: "" }]);
  assert.deepEqual(splitAtTerms("Nothing.", {}), [{ words: "Nothing.", means: "" }]);
});
