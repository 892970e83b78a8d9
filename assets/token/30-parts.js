// Words with numbers in them, cards with a title and one sentence, and where things stand inside a card.

/** A sentence of the payload with its {places} filled in. */
function fill(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

/** For words and heights alone: a sum that misses 0 or 1 by rounding. The table shows such a miss as it is. */
function settled(x) {
  return Math.abs(x) < 1e-12 ? 0 : Math.abs(1 - x) < 1e-12 ? 1 : x;
}

/** A share as whole draft tokens of a hundred; never 0 or 100 where it is not. */
function ofHundred(x) {
  if (x <= 0 || x >= 1) return x.toFixed(0) === "0" ? "0" : "100";
  if (x < 0.005) return "fewer than 1";
  if (x > 0.995) return "more than 99";
  return (100 * x).toFixed(0);
}

/** A token in a sentence. */
function wordOf(slot) {
  return slot.glyphs === null ? "the rest" : `“${glyphLine(slot.glyphs, 24).replace(/^·/, "")}”`;
}

/** A figure: title, what it shows, the picture, one sentence of meaning. */
function makeCard(name, title, ...inside) {
  const parts = {
    title: h("h3", {}, title),
    sub: h("p", { class: "sub" }),
    foot: h("figcaption", { class: "foot" }),
  };
  const node = h("figure", { class: `card ${name}` }, parts.title, parts.sub, ...inside, parts.foot);
  return { node, ...parts };
}

/** Hatches are for refusal and for what both distributions share, so that no colour stands alone. */
function makeHatches() {
  const line = (id, size, width) =>
    s("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("rect", { class: `paper ${id}`, width: size, height: size }),
      s("line", { class: `stripe ${id}`, x1: 0, y1: 0, x2: 0, y2: size, "stroke-width": width }));
  return s("defs", {}, line("shared", 6, 3.2), line("bad", 8, 2.4));
}

/** Bars stand on ``base``; a probability of ``top`` reaches up to ``head``. */
function planPlot(width, height, count, top) {
  const left = 30;
  const base = height - 26;
  const head = 24;
  const step = (width - left - 6) / count;
  const wide = Math.min(step * 0.8, 92);
  return { left, base, head, step, wide, width, top, unit: (base - head) / top, middle: (i) => left + step * (i + 0.5) };
}

/** A round number above every bar, so that the axis stays while a bar is dragged below it. */
function topOf(slots) {
  const most = Math.max(...slots.flatMap(({ p, q }) => [p, q]));
  return [0.25, 0.5, 0.75, 1].find((top) => most <= top) ?? 1;
}

function standRect(node, x, wide, from, to, plot) {
  const high = Math.max(0, to - from) * plot.unit;
  place(node, { x, width: Math.max(0, wide), y: plot.base - Math.max(from, to) * plot.unit, height: high });
}

const TICKS = { 0.25: [0, 0.1, 0.2], 0.5: [0, 0.25, 0.5], 0.75: [0, 0.25, 0.5, 0.75], 1: [0, 0.5, 1] };

/** Thin lines at round numbers, which stand beside them. */
function makeAxis() {
  const lines = Array.from({ length: 4 }, () => ({ line: s("line", { class: "grid", x2: 1 }), text: s("text", { class: "tick" }) }));
  return { node: s("g", { class: "axes" }, ...lines.flatMap(({ line, text }) => [line, text])), lines };
}

function drawAxis({ lines }, plot) {
  for (const [i, { line, text }] of lines.entries()) {
    const value = TICKS[plot.top][i];
    show(line, value !== undefined);
    show(text, value !== undefined);
    if (value === undefined) continue;
    const y = plot.base - value * plot.unit;
    place(line, { transform: `translate(${plot.left - 4}px, ${y}px) scaleX(${plot.width - plot.left})` });
    move(text, plot.left - 9, y + 4);
    say(text, value === 0 ? "0" : value === 1 ? "1" : String(value).replace(/^0/, ""));
  }
}

function nameUnder(node, slot, x, plot) {
  const size = plot.step < 48 ? 6.2 : 6.6;
  say(node, glyphLine(slot.glyphs, Math.max(3, Math.floor((plot.step - 2) / size))));
  node.classList.toggle("rest", slot.glyphs === null);
  move(node, x, plot.base + 18);
}

function sized(svg, width, height) {
  place(svg, { width, height });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}
