// Two ways on one axis of time: a column for each round, as wide as it lasted and as tall as the tokens that it gave; below it the strip of its time, and the draft tokens that were not kept.

import { h, place, s, setSize } from "../lib/dom.js";
import { seconds } from "../lib/numbers.js";

export const NARROW = 640; // px: below it the page is a phone's
const UNIT = 20, UNIT_NARROW = 17, UNIT_TALL = 36; // height of a token, on a phone, and on a large screen
const DROPPED = 0.4; // of the height of a token: how tall one is that was not kept
const NAME = 26; // the line of a name, over its columns
const LEGEND = 24; // the line of the legend, which has its own on a phone
const STRIP = 14; // height of a strip of time
const GAP = 10; // between the two ways
const ROOMY = 1000; // px: from there the legend says what its entries come of
const TOOK = 64; // px: width of a duration behind its columns
const LABELS = 6.9; // width of what stands before the columns, in sizes of its type; on a phone it stands in the key below
const TICK = 22; // px: half of a number at the axis, which is whole or not there
const NOW = 40; // px: what the word at the line of the moment takes
const LONG = 1.4; // times the median of the others: a first round that also reads the prompt
const PROMPT = 74; // px: width of its label
const APART = 6; // px: narrower columns have no gap between them
const WINDOW = 0.3; // share of the whole time that a phone shows while the texts are written: a column is as wide there as on a large screen
const AHEAD = 0.8; // of that window: the latest moment stays there once it has come so far
const ZOOMS = [0.25, 0.35, 0.5, 0.7, 1]; // shares of the whole time that the axis has while the texts are written: two thirds of it are filled, but for the beginning

export function makeTracks() {
  const svg = s("svg", { class: "tracks", role: "img" });
  const now = s("path", { class: "now" }), nowName = s("text", { class: "nowName" }, "now");
  const moves = s("g", {}); // what slides along where the axis has less than the time that passed
  const legend = h("div", { class: "reads" });
  const alone = h("div", { class: "reads" }, h("ul", { class: "legend" }, h("li", { "data-kind": "target" }, "without a draft")));
  const parts = h("figcaption", { class: "parts" });
  return { node: h("figure", { class: "time" }, svg, alone, legend, parts), svg, moves, now, nowName, legend, alone, parts, width: 0, zoom: 1 };
}

/** The share of the whole time that the axis has at a moment, and on a phone the window that moves along; null: all of it. */
export function chooseZoom(now, end, narrow = false) {
  if (now === null) return 1;
  return narrow ? WINDOW : ZOOMS.find((zoom) => now <= zoom * end) ?? 1;
}

/** The moment at the left end of an axis that slides and has so many seconds. */
export function chooseStart(now, span) {
  return Math.max(0, now - AHEAD * span);
}

/** ``tracks.zoom``: how much of the time the axis has. */
export function drawTracks(tracks, payload) {
  const { width, zoom } = tracks, narrow = width < NARROW;
  const unit = narrow ? UNIT_NARROW : width >= 1200 && window.innerHeight >= 900 ? UNIT_TALL : UNIT, small = DROPPED * unit;
  const left = narrow ? 0 : Math.round(LABELS * parseFloat(getComputedStyle(tracks.svg).fontSize));
  const x = (at) => left + ((width - left) * at) / (zoom * payload.end || 1);
  tracks.spans = [];
  const times = [];
  let foot = 0;
  const still = [];
  const parts = payload.lanes.flatMap((lane, n) => {
    foot += n ? GAP : 0;
    const top = foot, tall = unit * Math.max(1, ...lane.rounds.map(({ count }) => count));
    const head = NAME + (n && narrow ? LEGEND : 0), base = top + head + tall;
    foot = base + STRIP + 2 + small * Math.max(0, ...lane.rounds.map(({ dropped }) => dropped));
    tracks.spans.push([top + head - 4, foot]); // not over a name
    const columns = lane.rounds.map((round, i) => drawColumn(lane, round, i, { x, base, unit, small }));
    const end = x(lane.seconds), behind = !narrow && end + TOOK <= width; // else there is room at the end of the line of the name
    times.push(s("text", { class: behind ? "took behind" : "took", x: behind ? end + 8 : narrow ? width : Math.min(width, end), y: behind ? base + STRIP - 2 : top + 16, "data-at": lane.seconds }, seconds(lane.seconds)));
    still.push(...(narrow ? [] : labelRows(lane, base, tall, small)), s("text", { class: "trackName", x: 0, y: top + 16 }, lane.title, s("tspan", { class: "gives" }, narrow ? "" : n ? `: up to ${payload.drafted + 1} tokens a pass` : ": 1 token a pass")));
    return [s("line", { class: "floor", x1: left, x2: Math.max(width, x(payload.end)), y1: base + STRIP / 2, y2: base + STRIP / 2 }), ...columns, ...labelFirst(lane, { x, base, unit, tall })];
  });
  const span = zoom * payload.end, slides = narrow && zoom < 1, shown = slides ? payload.end : span; // all that slides along has its numbers
  const ticks = listTicks(shown, Math.round((narrow ? 4 : 6) * (shown / span))).filter((at) => slides || x(at) <= width - TICK).map((at) => s("text", { class: at === 0 ? "tick first" : "tick", x: x(at), y: foot + 16 }, `${Number(at.toPrecision(3))} s`));
  Object.assign(tracks, { x, span, slides, ticks });
  tracks.moves.replaceChildren(...parts, ...ticks);
  tracks.svg.replaceChildren(tracks.moves, ...still, tracks.now, tracks.nowName, ...times); // no line through a number
  setSize(tracks.svg, width, foot + 20);
  const names = [...tracks.svg.querySelectorAll(".trackName")].map((one) => one.getComputedTextLength());
  const top = tracks.spans.at(-1)[0] + 4 - NAME - (narrow ? LEGEND : 0);
  place(tracks.alone, { left: names[0] + (narrow ? 14 : 28), top: -1 });
  place(tracks.legend, narrow ? { left: 0, top: top + NAME - 3 } : { left: names[1] + 28, top: top - 1 });
  tracks.legend.classList.toggle("roomy", width >= ROOMY);
  tracks.svg.classList.toggle("dense", narrow && !slides);
  tracks.parts.replaceChildren(...(narrow ? listParts(payload.lanes).map(([kind, words]) => h("span", {}, h("i", { class: kind }), words)) : []));
  const said = payload.lanes.map(({ title, rounds, tokens, seconds: took }) => `${title}: ${tokens.length} tokens in ${rounds.length} rounds, ${countDropped(rounds)} draft tokens not kept, ${seconds(took)}`);
  tracks.svg.setAttribute("aria-label", `Time of both ways, with a column for each round. ${said.join("; ")}.`);
}

/** Over a first round that is long: it also reads the prompt. Nothing where columns leave no room. */
function labelFirst({ key, rounds }, { x, base, unit, tall }) {
  const lasted = rounds.map(({ at }, i) => at - (rounds[i - 1]?.at ?? 0)), others = lasted.slice(1).sort((one, other) => one - other);
  if (key !== "speculative" || !others.length || lasted[0] < LONG * others[others.length >> 1]) return [];
  const left = x(0), above = Math.max(...rounds.filter((_, i) => x(i ? rounds[i - 1].at : 0) < left + PROMPT).map(({ count }) => count));
  if ((above + 1) * unit > tall) return [];
  return [s("text", { class: "first", x: left, y: base - above * unit - 5, "data-at": rounds[0].at }, "with prompt", s("title", {}, "The first round also reads the prompt."))];
}

/** What stands above, on and below the line of time. */
function labelRows({ rounds }, base, tall, small) {
  const label = (y, words, kind = "") => s("text", { class: `row ${kind}`, x: 0, y }, words);
  const drafts = rounds.some(({ drafting }) => drafting), parted = rounds.some(({ passing }) => passing !== undefined);
  const middle = base - tall / 2 + 4;
  return [label(Math.min(middle, base - 5), "tokens", "kept"),
    ...(drafts ? [s("text", { class: "row", x: 0, y: base + STRIP - 2 }, s("tspan", { class: "drafting" }, "draft"), ", ", s("tspan", { class: "pass" }, "pass"))] : [label(base + STRIP - 2, parted ? "pass" : "time", "pass")]),
    ...(rounds.some(({ dropped }) => dropped) ? [label(base + STRIP + 3 + 2 * small, "thrown away", "vain")] : [])];
}

/** What the colors on and below the line of time say, where nothing stands before them. */
function listParts(lanes) {
  const rounds = lanes.flatMap((lane) => lane.rounds), has = (key) => rounds.some((round) => round[key]);
  return [...(has("drafting") ? [["drafting", "draft"]] : []), ["pass", has("passing") ? "target pass" : "time"], ...(has("dropped") ? [["dropped", "draft tokens thrown away"]] : [])];
}

/** A round: its tokens, its time by parts where they were recorded, and what it drafted in vain. */
function drawColumn(lane, { at, count, dropped, drafting, passing }, i, { x, base, unit, small }) {
  const begin = lane.rounds[i - 1]?.at ?? 0, left = x(begin), wide = Math.max(1, x(at) - left - (x(at) - left > APART ? 1 : 0));
  const box = (kind, y, height) => s("rect", { class: `slice ${kind}`, x: left, y, width: wide, height: Math.max(1.2, height - 1) });
  const made = lane.tokens.filter(({ round }) => round === i);
  const drafted = begin + (drafting ?? 0), passed = passing === undefined ? at : drafted + passing;
  const spent = [["drafting", begin, drafted], ["pass", drafted, passed], ["rest", passed, at]].filter(([, from, to]) => to > from);
  return s("g", { class: "column", "data-round": i, "data-lane": lane.key, "data-at": at }, ...made.slice(0, count).map((one, k) => box(one.is, base - (k + 1) * unit, unit)),
    ...(made.some((one) => lane.key === "speculative" && one.is === "target") ? [s("title", {}, "The text was complete with this token: nothing was drafted.")] : []),
    ...spent.map(([kind, from, to]) => s("rect", { class: `spent ${kind}`, x: x(from), y: base, width: Math.max(0, Math.min(x(to), left + wide) - x(from)), height: STRIP })),
    ...Array.from({ length: dropped }, (_, k) => box("dropped", base + STRIP + 2 + k * small, small)));
}

/** Draft tokens of these rounds that were not kept: rejected, or behind a rejected one. */
export function countDropped(rounds) {
  return rounds.reduce((sum, { dropped }) => sum + dropped, 0);
}

/** Round numbers of seconds, with about this many parts between them. */
export function listTicks(end, parts = 4) {
  const rough = end / parts || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, n) => n * step);
}

export function drawNow(tracks, now) {
  for (const node of [tracks.now, tracks.nowName]) node.style.display = now === null ? "none" : "";
  for (const node of tracks.svg.querySelectorAll("[data-at]")) node.classList.toggle("later", now !== null && Number(node.dataset.at) > now + 1e-9);
  const from = tracks.slides ? tracks.x(chooseStart(now, tracks.span)) : 0;
  tracks.moves.setAttribute("transform", `translate(${(-from).toFixed(1)} 0)`);
  for (const tick of tracks.slides ? tracks.ticks : []) {
    const at = Number(tick.getAttribute("x")) - from;
    tick.classList.toggle("later", at < (tick.classList.contains("first") ? 0 : TICK) || at > tracks.width - TICK); // whole, or not there
  }
  if (now === null) return;
  const x = (tracks.x(now) - from).toFixed(1), [top] = tracks.spans[0];
  tracks.nowName.setAttribute("x", String(Number(x) + 5));
  tracks.nowName.setAttribute("y", String(top + 12));
  if (Number(x) + NOW > tracks.width) tracks.nowName.style.display = "none"; // the race is nearly over
  tracks.now.setAttribute("d", tracks.spans.map(([top, end]) => `M${x} ${top.toFixed(1)}V${end.toFixed(1)}`).join(""));
}
