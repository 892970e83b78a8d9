// Two lanes of real time: a column for each round, at the moment when it ended, as tall as the tokens that it gave; below it the draft tokens that were not kept.

import { h, s, setSize } from "../lib/dom.js";
import { seconds } from "../lib/numbers.js";

export const NARROW = 640; // px: below it the page is a phone's
const HEIGHT = 76; // of a track with the tallest column
const HEIGHT_NARROW = 58, HEIGHT_TALL = 120; // on a phone, and on a large screen
const CLOSE = 2.5; // on a phone, while a replay stands or runs: how many times as wide its columns are as in the whole race
const THUMB = 8; // px: half of the slider's, which moves from end to end of the axis
export const LEFT = 176; // its name stands before it
const NAME = 200; // on a phone: where a time at the end of its run is behind the name
const TICK = 22; // px: half of a number at the axis, which is whole or not there
const LEAST = 26; // of any track: its name stands there
const ROUND = 9, ROUND_CLOSE = 12; // width of a column, less where they stand close
const DROPPED = 0.5; // of the height of a token: how tall one is that was not kept

export function makeTracks() {
  const svg = s("svg", { class: "tracks", role: "img" });
  const now = s("path", { class: "now" });
  return { node: h("figure", { class: "time" }, svg), svg, now, width: 0, close: false };
}

/** ``tracks.close``: on a phone, columns as wide as can be read; the race moves to the left below its names, so that the play head stands over the slider's thumb. */
export function drawTracks(tracks, payload) {
  const { width } = tracks;
  const narrow = width < NARROW;
  const close = narrow && tracks.close ? CLOSE : 1;
  const height = narrow ? HEIGHT_NARROW : width >= 1200 && window.innerHeight >= 900 ? HEIGHT_TALL : HEIGHT;
  const left = narrow ? THUMB : LEFT;
  const right = width - (narrow ? THUMB : 96); // the time at the end of a run stands beside it
  const place = (at) => left + ((right - left) * at) / (payload.end || 1);
  const x = (at) => left + close * (place(at) - left);
  const most = Math.max(1, ...payload.lanes.flatMap(({ rounds }) => rounds.map(({ count }) => count)));
  const unit = (height - 16) / most;
  let foot = 0;
  tracks.spans = [];
  tracks.runs = [];
  const names = [], fixed = [], moving = [];
  const parts = payload.lanes.flatMap((lane) => {
    const tall = Math.max(narrow ? 14 : LEAST, height - unit * (most - Math.max(1, ...lane.rounds.map(({ count }) => count))));
    foot += tall + (narrow ? 22 : 0);
    const base = foot - 6, small = DROPPED * unit, below = 2 + small * Math.max(0, ...lane.rounds.map(({ dropped }) => dropped));
    foot += below;
    tracks.spans.push([base - tall + (narrow ? 4 : 6), foot]); // not over a name
    const y = narrow ? base - tall : base - 6;
    names.push(s("text", { class: "trackName", x: 0, y }, lane.title));
    const wide = Math.max(1, Math.min(close > 1 ? ROUND_CLOSE : ROUND, ((narrow ? 0.8 : 0.68) * (x(lane.seconds) - left)) / Math.max(1, lane.rounds.length)));
    const floor = s("line", { class: "floor", x1: left, x2: right, y1: base, y2: base });
    const run = s("rect", { class: `run ${lane.key}`, x: left, y: base - 1.5, height: 3 });
    const columns = lane.rounds.map(({ at, count, dropped }, i) => {
      const made = lane.tokens.filter(({ round }) => round === i);
      return s("g", { class: "column", "data-round": i, "data-lane": lane.key, "data-at": at }, ...made.map((one, k) =>
        s("rect", { class: `slice ${one.is}`, x: x(at) - wide / 2, y: base - (k + 1) * unit, width: wide, height: Math.max(1.2, unit - 1) })), ...Array.from({ length: dropped }, (_, k) =>
        s("rect", { class: "slice dropped", x: x(at) - wide / 2, y: base + 3 + k * small, width: wide, height: Math.max(1.2, small - 1) })));
    });
    const at = narrow ? { y, class: "took end" } : { y: base - 4, class: "took" };
    const took = s("text", { ...at, "data-at": lane.seconds }, seconds(lane.seconds));
    tracks.runs.push({ run, took, seconds: lane.seconds, left, aside: narrow ? 0 : 10, least: narrow ? NAME : 0 });
    moving.push(...columns);
    fixed.push(took);
    return [floor, run];
  });
  tracks.ticks = listTicks(payload.end, close > 1 ? 12 : 4).map((at) => ({ at, node: s("text", { class: at === 0 && narrow ? "tick first" : "tick", x: at === 0 && narrow ? 0 : x(at), y: foot + 14 }, `${Number(at.toPrecision(3))} s`) }));
  moving.push(...tracks.ticks.map(({ node }) => node));
  if (!narrow) names.push(s("text", { class: "tick first", x: 0, y: foot + 14 }, "time, drafting included"));
  tracks.x = x;
  tracks.place = place;
  tracks.moving = s("g", {}, ...moving);
  tracks.svg.replaceChildren(...parts, tracks.moving, ...fixed, tracks.now, ...names);
  setSize(tracks.svg, width, foot + 20);
  const said = payload.lanes.map(({ title, rounds, tokens, seconds: took }) => `${title}: ${tokens.length} tokens in ${rounds.length} rounds, ${countDropped(rounds)} draft tokens not kept, ${seconds(took)}`);
  tracks.svg.setAttribute("aria-label", `Time of both ways, with a column for each round. ${said.join("; ")}.`);
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
  const gone = now === null ? 0 : tracks.x(now) - tracks.place(now); // px of the race that have left on the left
  tracks.moving.setAttribute("transform", `translate(${(-gone).toFixed(1)} 0)`);
  for (const { at, node } of tracks.ticks) node.style.opacity = at > 0 && tracks.x(at) - gone < TICK ? 0 : 1;
  for (const { run, took, seconds: end, left, aside, least } of tracks.runs) {
    run.setAttribute("width", Math.max(0, tracks.x(Math.min(now ?? end, end)) - gone - left).toFixed(1));
    took.setAttribute("x", Math.max(least, tracks.x(end) - gone + aside).toFixed(1));
  }
  tracks.now.style.display = now === null ? "none" : "";
  for (const node of tracks.svg.querySelectorAll("[data-at]")) node.classList.toggle("later", now !== null && Number(node.dataset.at) > now + 1e-9);
  if (now === null) return;
  const x = tracks.place(now).toFixed(1);
  tracks.now.setAttribute("d", tracks.spans.map(([top, end]) => `M${x} ${top.toFixed(1)}V${end.toFixed(1)}`).join(""));
}
