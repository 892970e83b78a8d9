// What a page declares as one screen: it is one, and is cut between rows only where it is taller.

import assert from "node:assert/strict";
import test from "node:test";

import { paginate } from "../../assets/components/frame/screens.js";

const stack = (...rows) => {
  let top = 0;
  return rows.map(([height, heading = ""]) => {
    const block = { top, bottom: top + height, heading };
    top += height + 10;
    return block;
  });
};
const heights = (blocks, height = 500) => paginate(blocks, height).map(({ top, bottom }) => bottom - top);

test("what fits one screen is one, with its first heading, and nothing gives none", () => {
  assert.deepEqual(paginate(stack([80], [200, "a"], [40, "b"], [100]), 500), [{ top: 0, bottom: 450, heading: "a" }]);
  assert.deepEqual(paginate([], 500), []);
});

test("what is taller is cut between rows, and its parts have its heading", () => {
  const found = paginate(stack([80, "a"], [300], [300]), 500);
  assert.deepEqual(found.map(({ top, bottom, heading }) => [top, bottom, heading]), [[0, 390, "a"], [400, 700, "a"]]);
});

test("a row that is taller than a screen is cut, and blocks beside each other are one row", () => {
  assert.deepEqual(heights([{ top: 0, bottom: 1100, heading: "" }]), [500, 500, 100]);
  assert.deepEqual(heights([{ top: 0, bottom: 100, heading: "a" }, { top: 10, bottom: 300, heading: "" }]), [300]);
});
