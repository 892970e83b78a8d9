// How numbers are written. Pure functions; the tests hold number() to the Python that writes the sentences.

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A probability, written as figures/numbers.py writes it in Python: 0.62, 0.016, 0.00054, 5.4×10⁻⁵, >0.999. */
export function number(x, places = 2) {
  if (x <= 0 || x >= 1) return x.toFixed(0);
  if (x < 0.0001) {
    const [head, exponent] = x.toExponential(1).split("e");
    return `${head}×10${[...exponent].map((sign) => RAISED[sign]).join("")}`;
  }
  if (Number(x.toFixed(places)) === 1) places = Math.max(3, places);
  if (Number(x.toFixed(places)) === 1) return `>0.${"9".repeat(places)}`;
  while (x * 10 ** places < 10) places += 1;
  return x.toFixed(places);
}

/** A share in per cent; never 0% or 100% where it is not. */
export function percent(x) {
  const short = (100 * x).toFixed(0);
  if (x > 0 && x < 1 && (short === "0" || short === "100")) return short === "0" ? "less than 1%" : "more than 99%";
  return `${short}%`;
}

/** A share as whole draft tokens of a hundred; never 0 or 100 where it is not. */
export function ofHundred(x) {
  if (x <= 0 || x >= 1) return x.toFixed(0) === "0" ? "0" : "100";
  if (x < 0.005) return "fewer than 1";
  if (x > 0.995) return "more than 99";
  return (100 * x).toFixed(0);
}

/** Four digits, as in a table. */
export function digits(x) {
  return x === 0 ? "0" : x === 1 ? "1" : x < 0.00005 ? "<0.0001" : x.toFixed(4);
}

/** A difference that is never rounded away. */
export function difference(x) {
  return x === 0 ? "0" : x.toExponential(1).replace("e-", "e−").replace(/^-/, "−");
}

/** For words and heights alone: a sum that misses 0 or 1 by rounding. The table shows such a miss as it is. */
export function settled(x) {
  return Math.abs(x) < 1e-12 ? 0 : Math.abs(1 - x) < 1e-12 ? 1 : x;
}

/** A moment of a clock. */
export function seconds(at) {
  return `${at < 10 ? at.toFixed(3) : at.toFixed(1)} s`; // so many digits that two of them give the ratio that is written beside them
}

/** The random number u, with as many digits as it takes to tell it from its threshold. */
export function uniformText(u, threshold) {
  for (const places of [2, 3, 4, 6, 9]) {
    if (number(u, places) !== number(threshold ?? 2, places) || u === threshold) return number(u, places);
  }
  return number(u, 9);
}

/** A number that somebody typed, with a point or a comma; null where it is no u: at least 0 and below 1. */
export function readUniform(text) {
  const clean = text.trim().replace(",", ".");
  const u = /^\d*\.?\d+$|^\d+\.$/.test(clean) ? Number(clean) : NaN;
  return u >= 0 && u < 1 ? u : null;
}

/** u as a person would type it. */
export function typedUniform(u, threshold) {
  const text = uniformText(u, threshold);
  return readUniform(text) === null ? u.toFixed(9) : text;
}
