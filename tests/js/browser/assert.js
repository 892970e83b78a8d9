// Stands in for node:assert/strict in a browser: the few of its functions that the tests use, as strict as there.

const written = (value) => (typeof value === "number" || value === undefined ? String(value) : JSON.stringify(value));

function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

function need(yes, message) {
  if (!yes) throw new Error(message);
}

const assert = {
  ok: (value, message = "not true") => need(Boolean(value), message),
  equal: (a, b, message = "") => need(Object.is(a, b), `${message} ${written(a)} is not ${written(b)}`),
  deepEqual: (a, b, message = "") => need(same(a, b), `${message} ${written(a)} is not ${written(b)}`),
  match: (text, pattern, message = "") => need(pattern.test(text), `${message} ${text} does not match ${pattern}`),
};

export default assert;
