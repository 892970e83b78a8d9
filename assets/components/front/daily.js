// Which game is today's, the same for everybody, and what a browser keeps of it. Pure functions of a day and the recorded games.

import { MOST_SAMPLES } from "../lib/samples.js";

const DAY = 86_400_000; // ms

/** Days since 1 January 1970 in UTC. */
export function countDays(date) {
  return Math.floor(date.getTime() / DAY);
}

/** A day as 2026-11-27. */
export function formatDay(day) {
  return new Date(day * DAY).toISOString().slice(0, 10);
}

/** A whole number that looks random, below ``size``, from two whole numbers. */
export function hashBelow(a, b, size) {
  let x = (Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 1, 0xc2b2ae35)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b) >>> 0;
  return ((x ^ (x >>> 16)) >>> 0) % size;
}

/** The game of a day: its place in the list, which side (0, 1) is wrong, and the first sample. In ``count`` days each game comes once. */
export function chooseGame(day, games) {
  const count = games.length, turn = Math.floor(day / count);
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i -= 1) {
    const j = hashBelow(turn, i, i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  const place = order[day - turn * count];
  const spare = games[place].wrong.length - MOST_SAMPLES;
  return { place, wrong: hashBelow(day, 101, 2), first: spare > 0 ? hashBelow(day, 102, spare + 1) : 0 };
}

/** What is kept after an answer: a right one the day after the last right one makes the streak longer. */
export function recordAnswer(kept, day, n, right) {
  const before = kept?.day === day - 1 ? kept.streak : 0;
  return { day, n, right, streak: right ? before + 1 : 0, best: Math.max(kept?.best ?? 0, right ? before + 1 : 0) };
}

/** What a browser kept, if that is such a record; a record from a day to come is not believed. */
export function readKept(text, today) {
  try {
    const kept = JSON.parse(text);
    const whole = ["day", "n", "streak", "best"].every((key) => Number.isInteger(kept[key]) && kept[key] >= 0);
    return whole && typeof kept.right === "boolean" && kept.day <= today && kept.n <= MOST_SAMPLES && kept.streak <= kept.best ? kept : null;
  } catch {
    return null;
  }
}
