// Two lanes of real time: a column for each round, at the moment when it ended, as tall as the tokens that it gave.

import { h, s, setSize } from "../lib/dom.js";
import { seconds } from "../lib/numbers.js";

export const NARROW = 640; // px: below it the page is a phone's
const HEIGHT = 88; // of a track with the tallest column
const HEIGHT_NARROW = 76;
export const LEFT = 176; // its name stands before it
const LEAST = 26; // of any track: its name stands there
const ROUND = 7; // width of a column, less where they stand close

export function makeTracks() {
  const svg = s("svg", { class: "tracks", role: "img" });
  const now = s("path", { class: "now" });
  const key = h("figcaption", {}, "A column: one pass of the target. A box: one token.");
  return { node: h("figure", { class: "time" }, key, svg), svg, now };
}

export function drawTracks(tracks, payload, width) {
  const narrow = width < NARROW;
  const height = narrow ? HEIGHT_NARROW : HEIGHT;
  const left = narrow ? 0 : LEFT;
  const right = width - (narrow ? 62 : 96); // the time at the end of a run stands beside it
  const x = (at) => left + ((right - left) * at) / (payload.end || 1);
  const most = Math.max(1, ...payload.lanes.flatMap(({ rounds }) => rounds.map(({ count }) => count)));
  const unit = (height - 16) / most;
  const dense = Math.max(1, ...payload.lanes.map(({ rounds, seconds: took }) => (rounds.length * payload.end) / (took || 1)));
  const wide = Math.max(1, Math.min(ROUND, (0.55 * (right - left)) / dense));
  let foot = 0;
  tracks.spans = [];
  const parts = payload.lanes.flatMap((lane) => {
    const tall = Math.max(narrow ? 14 : LEAST, height - unit * (most - Math.max(1, ...lane.rounds.map(({ count }) => count))));
    foot += tall + (narrow ? 18 : 0);
    const base = foot - 6;
    tracks.spans.push([base - tall + (narrow ? 4 : 6), foot]); // not over a name
    const name = s("text", { class: "trackName", x: 0, y: narrow ? base - tall : base - 6 }, lane.title);
    const floor = s("line", { class: "floor", x1: left, x2: right, y1: base, y2: base });
    const run = s("rect", { class: `run ${lane.key}`, x: left, y: base - 1.5, width: Math.max(0, x(lane.seconds) - left), height: 3 });
    const columns = lane.rounds.map(({ at, count }, i) => {
      const made = lane.tokens.filter(({ round }) => round === i);
      return s("g", { class: "column", "data-round": i, "data-lane": lane.key, "data-at": at }, ...made.map((one, k) =>
        s("rect", { class: `slice ${one.is}`, x: x(at) - wide / 2, y: base - (k + 1) * unit, width: wide, height: Math.max(1.2, unit - 1) })));
    });
    const took = s("text", { class: "took", "data-at": lane.seconds, x: x(lane.seconds) + 10, y: base - 4 }, seconds(lane.seconds));
    return [name, floor, run, ...columns, took];
  });
  parts.push(...listTicks(payload.end).map((at) => s("text", { class: at === 0 && narrow ? "tick first" : "tick", x: x(at), y: foot + 14 }, `${Number(at.toPrecision(3))} s`)));
  tracks.x = x;
  tracks.svg.replaceChildren(...parts, tracks.now);
  setSize(tracks.svg, width, foot + 20);
  const said = payload.lanes.map(({ title, rounds, tokens, seconds: took }) => `${title}: ${tokens.length} tokens in ${rounds.length} rounds, ${seconds(took)}`);
  tracks.svg.setAttribute("aria-label", `Time of both ways, with a column for each round. ${said.join("; ")}.`);
}

/** Round numbers of seconds, three to six of them. */
export function listTicks(end) {
  const rough = end / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, n) => n * step);
}

export function drawNow(tracks, now) {
  tracks.now.style.display = now === null ? "none" : "";
  for (const node of tracks.svg.querySelectorAll("[data-at]")) node.classList.toggle("later", now !== null && Number(node.dataset.at) > now + 1e-9);
  if (now === null) return;
  const x = tracks.x(now).toFixed(1);
  tracks.now.setAttribute("d", tracks.spans.map(([top, end]) => `M${x} ${top.toFixed(1)}V${end.toFixed(1)}`).join(""));
}
