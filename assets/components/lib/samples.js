// Samples of a game: what each decoder wrote, the room that chance leaves to it, and the axis of the picture. Pure functions.

export const MOST_SAMPLES = 1000; // samples of each decoder that a game may take
const LEVEL = 0.99; // how often all bars of an exact decoder end in their boxes, at least

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
export function listShareTicks(end) {
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
