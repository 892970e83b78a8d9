// The arithmetic of one token: overlap, residual, the sum that has to give p, and what comes out instead if a rejected draft token is redrawn
// from elsewhere. Pure functions of numbers, nothing rounded.

export const GRID = 10000; // dragged distributions are whole ten-thousandths, so that an address holds them to the last digit

/** What becomes of each slot's draft token. A slot is {p, q}; the rest of a real distribution brings the overlap that its own tokens have. */
export function computeAccount(slots) {
  const accepted = slots.map(({ p, q, overlap }) => overlap ?? (q > 0 ? q * Math.min(1, p / q) : 0));
  const left = slots.map(({ p, q, residual }) => residual ?? Math.max(0, p - q));
  const beta = accepted.reduce(add, 0);
  const total = left.reduce(add, 0);
  const rows = slots.map(({ p, q }, i) => {
    const share = total > 0 ? left[i] / total : 0;
    const replaced = (1 - beta) * share;
    const sum = accepted[i] + replaced;
    return { p, q, accepted: accepted[i], left: left[i], share, replaced, sum, difference: sum - p, rejected: q - accepted[i] };
  });
  return { rows, beta, total, error: Math.max(...rows.map(({ difference }) => Math.abs(difference))) };
}

/** What comes out of each token if a rejected draft token is redrawn from p, from q or from the residual; "" while nothing takes its place. */
export function computeOutcomes({ rows, beta }, end) {
  return rows.map((row) => {
    const replaced = end === "residual" ? row.replaced : end ? (1 - beta) * row[end] : 0;
    const sum = row.accepted + replaced;
    return { p: row.p, accepted: row.accepted, replaced, sum, difference: sum - row.p };
  });
}

/** The index of the row that stands out by this measure, the first of equals. */
export function findMost(rows, measure) {
  return rows.reduce((best, row, i) => (measure(row, i) > measure(rows[best], best) ? i : best), 0);
}

export function add(a, b) {
  return a + b;
}

/** ``size`` whole pieces shared out in proportion to parts: largest remainders first, the first of equals. */
export function shareOut(parts, size) {
  const total = parts.reduce(add, 0);
  const exact = parts.map((x) => (size * x) / total);
  const whole = exact.map((x) => Math.floor(x + 1e-9));
  const order = exact.map((x, i) => [whole[i] - x, i]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const missing = size - whole.reduce(add, 0);
  for (let n = 0; n < missing; n += 1) whole[order[n % order.length][1]] += 1;
  return whole;
}

/** The nearest distribution of whole ten-thousandths. */
export function roundToGrid(probs) {
  return shareOut(probs, GRID).map((n) => n / GRID);
}

/** A distribution with one entry moved to a value: the others keep their proportions and give or take what it needs. */
export function replaceEntry(probs, index, value) {
  const wanted = Math.round(Math.min(1, Math.max(0, value)) * GRID);
  const others = probs.filter((_, i) => i !== index);
  const parts = others.some((x) => x > 0) ? others : others.map(() => 1);
  const whole = shareOut(parts, GRID - wanted);
  whole.splice(index, 0, wanted);
  return whole.map((n) => n / GRID);
}
