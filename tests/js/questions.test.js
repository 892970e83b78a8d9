// What a browser keeps of the answers to the eight questions: nothing in it is trusted.

import assert from "node:assert/strict";
import test from "node:test";

import { readAnswers, readQuestion, getStanding, addAnswer } from "../../assets/components/questions/answers.js";

const QUESTIONS = [
  { key: "a", options: [{ right: false }, { right: true }, { right: false }] },
  { key: "b", options: [{ right: true }, { right: false }] },
];

test("answers that were kept come back, and what fits no question does not", () => {
  assert.deepEqual(readAnswers('{"a": [0, 1], "b": [1]}', QUESTIONS), { a: [0, 1], b: [1] });
  for (const text of ["", "null", "7", "[]", '"a"', "{", '{"a": 1}', '{"a": [3]}', '{"a": [-1, 0.5, "1", null]}', '{"c": [0]}', '{"__proto__": [0]}']) {
    assert.deepEqual(readAnswers(text, QUESTIONS), {}, text);
  }
  assert.deepEqual(readAnswers('{"a": [2, 2, 9, 0]}', QUESTIONS), { a: [2, 0] });
});

test("a right answer after a wrong one is told from one at the first try, and each is kept once", () => {
  let answers = {};
  assert.equal(getStanding(QUESTIONS[0], answers), "open");
  answers = addAnswer(answers, "a", 2);
  assert.equal(getStanding(QUESTIONS[0], answers), "wrong");
  answers = addAnswer(addAnswer(answers, "a", 1), "a", 1);
  assert.deepEqual(answers, { a: [2, 1] });
  assert.equal(getStanding(QUESTIONS[0], answers), "later");
  assert.equal(getStanding(QUESTIONS[1], addAnswer(answers, "b", 0)), "right");
});

test("an address asks for a question by its number from 1, and for anything else there is a sentence", () => {
  assert.deepEqual(readQuestion(null, 8), { at: 0, said: [] });
  assert.deepEqual(readQuestion("1", 8), { at: 0, said: [] });
  assert.deepEqual(readQuestion("8", 8), { at: 7, said: [] });
  for (const text of ["0", "9", "", "-1", "1.5", "1e0", "x".repeat(500)]) {
    const { at, said } = readQuestion(text, 8);
    assert.equal(at, 0);
    assert.equal(said.length, 1);
    assert.ok(said[0].length < 140);
  }
});
