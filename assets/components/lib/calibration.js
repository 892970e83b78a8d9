// Forecasts and what became of them: the Brier score (Brier 1950) and the calibration curve. Pure functions.
// A forecast is {said, happened, truth}: the stated probability, 1 or 0, and the probability that the rule had.

/** Mean squared difference between what was said and what happened, from 0 to 1; null without forecasts. Saying one half always gives 0.25. */
export function computeBrier(forecasts) {
  return computeMean(forecasts.map(({ said, happened }) => (said - happened) ** 2));
}

/** The Brier score to expect of somebody who always says the rule's own probability a: the mean of a (1 - a). Nobody does better in the long run. */
export function computeExpectedBrier(forecasts) {
  return computeMean(forecasts.map(({ truth }) => truth * (1 - truth)));
}

/** Groups of equal width by the stated probability: [{said, happened, truth, count}], means of each; empty groups are left out. 1 belongs to the last. */
export function groupForecasts(forecasts, groups = 5) {
  const found = Array.from({ length: groups }, () => []);
  for (const one of forecasts) found[Math.min(groups - 1, Math.floor(one.said * groups))].push(one);
  return found.filter((group) => group.length > 0).map((group) => ({
    said: computeMean(group.map(({ said }) => said)),
    happened: computeMean(group.map(({ happened }) => happened)),
    truth: computeMean(group.map(({ truth }) => truth)),
    count: group.length,
  }));
}

/** Forecasts as a browser kept them; whatever is no forecast is left out, and the latest ``most`` stay. */
export function readForecasts(text, most = 500) {
  let kept;
  try { kept = JSON.parse(text); } catch { return []; }
  if (!Array.isArray(kept)) return [];
  const share = (x) => typeof x === "number" && x >= 0 && x <= 1;
  return kept.filter((one) => one !== null && typeof one === "object" && share(one.said) && share(one.truth) && (one.happened === 0 || one.happened === 1))
    .slice(-most).map(({ said, happened, truth }) => ({ said, happened, truth }));
}

function computeMean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}
