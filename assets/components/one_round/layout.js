// Where things stand in the picture, in pixels. Pure functions of the size.

export const NARROW = 900; // px: below it the words of three panels side by side run into each other

/** Panels side by side on a wide page; on a narrow one they take turns in the same place. */
export function planScene(width, height) {
  const gap = 16;
  if (width < NARROW) {
    const whole = { x: 0, y: 0, w: width, h: height };
    return { narrow: true, tight: true, width, height, bars: whole, uniform: whole, last: whole };
  }
  const uniform = Math.max(224, Math.round(width * 0.18));
  const bars = Math.round((width - uniform - 2 * gap) * 0.58);
  return {
    narrow: false,
    tight: width < 1120, // longer words beside and under the bars do not fit
    width,
    height,
    bars: { x: 0, y: 0, w: bars, h: height },
    uniform: { x: bars + gap, y: 0, w: uniform, h: height },
    last: { x: bars + uniform + 2 * gap, y: 0, w: width - bars - uniform - 2 * gap, h: height },
  };
}

/** The part of a panel that bars stand in: below the titles, above names and footnote. */
export function plotIn(panel, narrow, foot) {
  const pad = narrow ? 12 : 20;
  const top = panel.y + (narrow ? 92 : 84);
  const base = panel.y + panel.h - foot;
  return { left: panel.x + pad, width: panel.w - 2 * pad, top, base, high: base - top };
}

/** Center and width of slot i of n; the rest bar stands a little apart. */
export function slot(plot, i, n, rest) {
  const step = plot.width / (Math.max(n, 4) + (rest ? 0.25 : 0));
  const middle = plot.left + step * (i + 0.5 + (rest && i === n - 1 ? 0.25 : 0));
  return { middle, step, wide: Math.min(step * 0.74, 60) };
}

/** The ruler of u: y(u) is where a number in [0, 1] stands on it, u(y) the number at a height, in thousandths and below 1. */
export function planRuler(panel, narrow) {
  const top = panel.y + (narrow ? 78 : 92);
  const base = panel.y + panel.h - (narrow ? 20 : 84);
  const left = panel.x + Math.round(panel.w * 0.5) - 26;
  return { left, wide: 44, top, base, high: base - top, y: (u) => base - u * (base - top), u: (y) => Math.min(0.999, Math.max(0, Math.round(((base - y) / (base - top)) * 1000) / 1000)) };
}
