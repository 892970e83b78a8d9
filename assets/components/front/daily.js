// Which game is today's, the same for everybody, and what a browser keeps of it. Pure functions of a day and the recorded games.

export const MOST = 1000; // samples of each decoder that a game may take
export const FIRST = 30; // samples that a game opens with
export const STEPS = [10, 100]; // samples of a draw
export const LEVEL = 0.99; // how often all bars of an exact decoder end in their boxes, at least
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
  const spare = games[place].wrong.length - MOST;
  return { place, wrong: hashBelow(day, 101, 2), first: spare > 0 ? hashBelow(day, 102, spare + 1) : 0 };
}

/** How often each cell occurs among the first n samples of a side. */
export function countCells(digits, first, n, cells) {
  const counts = Array(cells).fill(0);
  for (let i = first; i < first + n; i += 1) counts[Number(digits[i])] += 1;
  return counts;
}

/** The room that chance leaves to n samples of each cell: shares [low, high], in which all cells of an exact decoder lie together LEVEL of the time or more (Bonferroni). */
export function findBands(probs, n) {
  const tail = (1 - LEVEL) / 2 / probs.length;
  return probs.map((p) => {
    const pmf = listBinomial(n, p);
    let low = 0, high = n, below = 0, above = 0;
    while ((below += pmf[low]) < tail) low += 1;
    while (high > 0 && (above += pmf[high]) <= tail) high -= 1;
    return [low / n, high / n];
  });
}

/** The end of the axis of a picture of n samples, a share: 1.3 times the widest room, so that a bar may leave it, and beyond each bar. ``counts``: of each side and cell. */
export function findAxisEnd(probs, n, counts) {
  const widest = Math.max(...findBands(probs, n).map(([, high]) => high)), longest = Math.max(...counts.flat()) / n;
  return Math.min(1, Math.max(1.3 * widest, 1.05 * longest));
}

/** Ticks of an axis from 0 to ``end``, at most five, and none whose label would stand beyond the axis. */
export function listTicks(end) {
  const step = [0.05, 0.1, 0.2, 0.25].find((one) => end / one < 5);
  return Array.from({ length: Math.floor((0.95 * end) / step) + 1 }, (_, i) => i * step);
}

/** Probabilities of 0 to n successes. */
function listBinomial(n, p) {
  if (p <= 0 || p >= 1) return Array.from({ length: n + 1 }, (_, k) => Number(k === (p >= 1 ? n : 0)));
  const odds = Math.log(p) - Math.log1p(-p), found = [n * Math.log1p(-p)];
  for (let k = 0; k < n; k += 1) found.push(found[k] + Math.log((n - k) / (k + 1)) + odds);
  return found.map(Math.exp);
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
    return whole && typeof kept.right === "boolean" && kept.day <= today && kept.n <= MOST && kept.streak <= kept.best ? kept : null;
  } catch {
    return null;
  }
}
