// What an address asks for, read as the app reads it (web/one_round/payload.py, web/one_token/state.py). One table of cases,
// tests/helpers/written_cases.json, holds both to the same answers.

import { GRID } from "../lib/arithmetic.js";

const FEWEST = 5;
const MOST = 8;
const PERCENT = /^(\d{1,3})(?:\.(\d{1,2}))?$/;
const LONG = 40; // characters of a wrong value that a sentence repeats
const CURSOR = /^(\d{1,4})\.(\d{1,3})$/;

/** at=ROUND.STEP, both from 1, as the cursor of One round, both from 0; null where it cannot be read. */
export function readCursor(text) {
  const match = CURSOR.exec(text ?? "");
  if (!match || match[1] === "0" || match[2] === "0") return null;
  return { round: Number(match[1]) - 1, step: Number(match[2]) - 1 };
}

/** What Why it is exact shows first: {preset, from, p, q}, and a sentence for each value that was left out. */
export function readState(query, presets, known) {
  const said = [];
  let preset = query.preset ?? presets[0].id;
  if (!presets.some(({ id }) => id === preset)) {
    said.push(`The link's preset was left out: ${quote(preset)} is not one of ${presets.map(({ id }) => id).join(", ")}.`);
    preset = presets[0].id;
  }
  let from = query.from ?? null;
  if (from !== null && !known.includes(from)) {
    const there = known.length ? `the recorded run has draft tokens ${known[0]} to ${known.at(-1)}` : "no run was recorded";
    said.push(`The link's position was left out: there is no draft token ${quote(from)} (${there}).`);
    from = null;
  }
  const found = {};
  for (const key of ["p", "q"]) {
    if (query[key] === undefined) continue;
    const read = readDistribution(query[key]);
    if (typeof read === "string") said.push(`The link's ${key} was left out: ${quote(query[key])}; ${read}.`);
    else found[key] = read;
  }
  const start = from === null ? presets.find(({ id }) => id === preset) : null;
  const { p, q } = matchBars(found.p ?? null, found.q ?? null, start, said);
  return { state: { preset, from, p, q }, said };
}

/** 40-30-20-7-3 as ten-thousandths, or what is wrong with it. */
export function readDistribution(text) {
  const matches = text.split("-").map((part) => PERCENT.exec(part));
  if (matches.includes(null)) return "it is not written in percents with at most two decimals, such as 40-30-20-7-3";
  const probs = matches.map(([, whole, part]) => 100 * Number(whole) + Number((part ?? "").padEnd(2, "0")));
  if (probs.length < FEWEST || probs.length > MOST) return `it has ${probs.length} numbers, and ${FEWEST} to ${MOST} are allowed`;
  const sum = probs.reduce((a, b) => a + b);
  return sum === GRID ? probs : `its percents sum to ${Number((sum / 100).toPrecision(6))}, not 100`;
}

/** Both of one length, as probabilities; what a link leaves out comes from the preset, widened with zeros. */
function matchBars(p, q, preset, said) {
  const nothing = { p: null, q: null };
  if (p === null && q === null) return nothing;
  if (preset === null && (p === null || q === null)) {
    said.push("The link's bars were left out: bars that were dragged from a recorded text need both p and q.");
    return nothing;
  }
  const filled = (own, key, size) => own ?? widen(preset[key].map((x) => Math.round(x * GRID)), size);
  const [left, right] = [filled(p, "p", q?.length ?? 0), filled(q, "q", p?.length ?? 0)];
  if (left.length !== right.length) {
    said.push(`The link's bars were left out: p has ${left.length} numbers and q has ${right.length}.`);
    return nothing;
  }
  return { p: left.map((n) => n / GRID), q: right.map((n) => n / GRID) };
}

function widen(probs, size) {
  return [...probs, ...Array(Math.max(0, size - probs.length)).fill(0)];
}

/** A wrong value as a sentence repeats it. */
function quote(text) {
  const letters = [...text];
  const cut = letters.length > LONG ? `${letters.slice(0, LONG - 1).join("")}…` : text;
  return cut.includes("'") && !cut.includes('"') ? `"${cut}"` : `'${cut}'`;
}
