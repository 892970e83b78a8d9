// A page as screens: nothing is cut, and names stand with what they name.

import assert from "node:assert/strict";
import test from "node:test";

import { paginate } from "../../assets/components/frame/screens.js";

const stack = (...rows) => {
  let top = 0;
  return rows.map(([height, kind = ""]) => {
    const block = { top, bottom: top + height, heading: kind.startsWith("#") ? kind.slice(1) : "", figure: kind === "figure" };
    top += height + 10;
    return block;
  });
};
const heights = (blocks, height = 500) => paginate(blocks, height).map(({ top, bottom }) => bottom - top);

test("what fits one screen is one, and a page without anything has none", () => {
  assert.deepEqual(heights(stack([80, "#a"], [200, "figure"], [40, "#b"], [100])), [450]);
  assert.deepEqual(paginate([], 500), []);
});

test("a heading takes what follows it to the next screen", () => {
  const found = paginate(stack([80, "#a"], [300, "figure"], [40, "#b"], [300, "figure"]), 500);
  assert.deepEqual(found.map(({ top, heading }) => [top, heading]), [[0, "a"], [400, "b"]]);
});

test("a figure takes along its name but not the sentence of the figure before it", () => {
  assert.deepEqual(heights(stack([80, "#a"], [200], [30], [440, "figure"])), [290, 480]);
  assert.deepEqual(heights(stack([30, "#a"], [400, "figure"], [30], [400, "figure"])), [480, 400]);
});

test("a section that fits no screen begins where the one before ends", () => {
  assert.deepEqual(heights(stack([80, "#a"], [60, "#b"], [100], [400, "figure"])), [260, 400]);
});

test("a heading is no screen of its own: where the figure and the words before it fill one, it only names it", () => {
  const blocks = [{ top: 0, bottom: 60, heading: "Is it exact?" }, { top: 60, bottom: 120, heading: "" }, { top: 130, bottom: 520, heading: "", figure: true }];
  assert.deepEqual(paginate(blocks, 500).map(({ top, bottom, heading }) => [top, bottom, heading]), [[60, 520, "Is it exact?"]]);
});

test("what is taller than a screen gets several, and blocks beside each other are one row", () => {
  assert.deepEqual(heights([{ top: 0, bottom: 1100, heading: "", figure: true }]), [500, 500, 100]);
  assert.deepEqual(heights([{ top: 0, bottom: 100, heading: "a" }, { top: 10, bottom: 300, heading: "" }]), [300]);
});
