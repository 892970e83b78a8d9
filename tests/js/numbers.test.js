// How numbers are written, held to the Python that writes the sentences.

import assert from "node:assert/strict";
import test from "node:test";

import { uniformText, difference, digits, number, ofHundred, percent, readUniform, seconds, settled, typedUniform } from "../../assets/components/lib/numbers.js";
import cases from "../helpers/written_cases.json" with { type: "json" };

test("a probability is written as Python writes it", () => {
  for (const [x, places, written] of cases.numbers) assert.equal(number(x, places), written, `${x} to ${places} places`);
});

test("u is written with the places that tell it from its threshold, as in Python", () => {
  for (const [u, threshold, written] of cases.apart) assert.equal(uniformText(u, threshold), written, `${u} against ${threshold}`);
});

test("u without a threshold is written with two places", () => {
  assert.equal(uniformText(0.6449, undefined), number(0.6449));
  assert.equal(uniformText(0.6449, null), number(0.6449));
});

test("a share is never written as none or all where it is not", () => {
  assert.deepEqual([0, 0.0001, 0.004, 0.5, 0.996, 1].map(percent), ["0%", "less than 1%", "less than 1%", "50%", "more than 99%", "100%"]);
  assert.deepEqual([0, 0.0001, 0.42, 0.9999, 1].map(ofHundred), ["0", "fewer than 1", "42", "more than 99", "100"]);
});

test("a sum that misses 0 or 1 by rounding counts as 0 or 1 in words, and stands as it is in the table", () => {
  assert.deepEqual([1e-16, 1 - 1e-16, 1e-9, 0.3].map(settled), [0, 1, 1e-9, 0.3]);
  assert.deepEqual([0, 5.6e-17, -5.6e-17, 1.2e-3].map(difference), ["0", "5.6e−17", "−5.6e−17", "1.2e−3"]);
});

test("table cells have four places", () => {
  assert.equal(digits(0).length, 1);
  assert.match(digits(0.27), /^0\.2700$/);
  assert.match(digits(1e-6), /^<0\.0001$/);
  assert.equal(digits(1), "1");
});

test("a typed number is a u from 0 to below 1, with a point or a comma; anything else is none", () => {
  assert.deepEqual(["0", "0.5", ".5", "0,5", " 0.25 ", "0."].map(readUniform), [0, 0.5, 0.5, 0.5, 0.25, 0]);
  assert.deepEqual(["1", "1.0", "-0.1", "", ".", "0.5.1", "1e-3", "0x1", "half", "Infinity"].map(readUniform), Array(10).fill(null));
});

test("u stands in its field so that it reads back as a u", () => {
  for (const [u, threshold] of cases.apart) {
    if (u < 1) assert.ok(Math.abs(readUniform(typedUniform(u, threshold)) - u) < 0.006, typedUniform(u, threshold));
  }
  assert.equal(typedUniform(0.25, 1), "0.25");
});

test("clocks have thousandths below ten seconds and tenths from there", () => {
  assert.deepEqual([0.123, 9.999, 10, 61.26].map(seconds), ["0.123 s", "9.999 s", "10.0 s", "61.3 s"]);
});
