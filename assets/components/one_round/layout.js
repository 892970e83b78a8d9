// Where things stand in the picture, in pixels. Pure functions of the size and of what a step shows.

export const NARROW = 900; // px: below it the words of two panels side by side run into each other
const GAP = 16;
const PASSES = 132; // px high: the passes under what they give, on a phone
const CHECK = 100; // px high: the random number over the bars that it is about, on a phone
const BESIDE = 640; // px of a narrow page, from which on the passes stand beside what they give, and the random number beside its bars
const SHARE = 0.62; // of the width that the bars take on a wide page: the same at every step, so that no bar leaves its axis

/** The panel that stands beside the bars at a step: none at the end of a round. */
export function choosePanelBeside(kind) {
  if (["draft", "pass"].includes(kind)) return "mask";
  if (["look", "uniform"].includes(kind)) return "uniform";
  return ["lift", "residual", "draw", "bonus"].includes(kind) ? "last" : null;
}

/** The panels of a step side by side on a wide page; on a narrow one a single panel has the whole place. */
export function planScene(width, height, kind) {
  const narrow = width < NARROW, beside = narrow && ["draft", "lift"].includes(kind) ? null : choosePanelBeside(kind), whole = { x: 0, y: 0, w: width, h: height };
  const plan = { narrow, tight: width < 1000, width, height, beside, bars: whole, board: whole, mask: whole, uniform: whole, last: whole };
  const left = Math.round((width - GAP) * SHARE), right = { x: left + GAP, y: 0, w: width - left - GAP, h: height };
  const checks = beside === "uniform";
  if (narrow && width >= BESIDE) return { ...plan, board: { ...whole, w: left }, mask: right, ...(checks ? { bars: { ...whole, w: left }, uniform: right } : {}) };
  const under = CHECK + GAP / 2;
  if (narrow) return { ...plan, compact: checks, board: { ...whole, h: height - PASSES - GAP / 2 }, mask: { ...whole, y: height - PASSES, h: PASSES }, ...(checks ? { uniform: { ...whole, h: CHECK }, bars: { ...whole, y: under, h: height - under } } : {}) };
  return { ...plan, bars: { ...whole, w: left }, board: { ...whole, w: left }, mask: right, uniform: right, last: right };
}

/** The part of a panel that bars stand in: below the titles, above names and footnote. */
export function plotIn(panel, narrow, foot) {
  const pad = narrow ? 12 : 20;
  const top = panel.y + (narrow ? 84 : 76);
  const base = panel.y + panel.h - foot;
  return { left: panel.x + pad, width: panel.w - 2 * pad, top, base, high: base - top };
}

/** Center and width of slot i of n; the rest bar stands a little apart. */
export function slot(plot, i, n, rest) {
  const step = plot.width / (Math.max(n, 4) + (rest ? 0.25 : 0));
  const middle = plot.left + step * (i + 0.5 + (rest && i === n - 1 ? 0.25 : 0));
  return { middle, step, wide: Math.min(step * 0.74, 104) };
}

/** The ruler of u: x(u) is where a number in [0, 1] stands on it, u(x) the number at a place, in thousandths and below 1. */
export function planRuler(panel, narrow) {
  const pad = narrow ? 12 : 20, left = panel.x + pad, wide = panel.w - 2 * pad, high = narrow ? 22 : Math.round(Math.min(112, 0.2 * panel.h));
  const top = panel.y + (narrow ? 54 : Math.round(66 + Math.max(0, panel.h - 120 - high) / 2)); // in the middle between its titles and the field
  return { left, right: left + wide, wide, top, base: top + high, high, x: (u) => left + u * wide, u: (x) => Math.min(0.999, Math.max(0, Math.round(((x - left) / wide) * 1000) / 1000)) };
}
