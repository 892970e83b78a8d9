// The end of the front page: where a student, a teacher and an engineer go on.

import { h, say } from "../lib/dom.js";
import { seconds } from "../lib/numbers.js";
import { copyText } from "./clipboard.js";
import { MOST_SAMPLES, countCells } from "../lib/samples.js";

const WORDS = 5; // whose bars the picture of a check has
const ROUNDS = 20; // that the picture of a text has, if there is room

/** ``doors``: addresses by name, those that this edition has; ``race`` and ``games``: what the pictures are made of. First the tour, then its parts. */
export function makeDoors(texts, { doors, race, games }) {
  const pictures = [race && drawRounds(race.lanes[1].rounds), games && drawSamples(games.games[0]), race && drawTimes(race.lanes, texts.lanes)];
  const keys = [[], [], ["drafting", "pass", "rest"].map((kind, i) => h("span", {}, h("span", { class: `swatch ${kind}` }), texts.parts[i]))];
  const link = ({ to, words: name, says }) => h("a", { href: doors[to] }, h("b", {}, name), h("span", {}, says));
  const made = texts.list.map(({ title, reader, links }, i) => h("article", { class: "door" }, h("h3", {}, title, " ", h("span", {}, reader)), h("div", { class: "sight", "aria-hidden": "true" }, pictures[i] ?? ""),
    h("p", { class: "shows" }, ...(pictures[i] ? [texts.shows[i], ...keys[i]] : [])), h("nav", { "aria-label": title }, ...links.filter(({ to }) => doors[to]).map(link))));
  const [first] = texts.list.flatMap(({ links }) => links);
  const start = h("p", { class: "way" }, h("a", { class: "start", href: doors[first.to] }, `${texts.start} →`));
  return { node: h("div", { class: "doors" }, start, h("div", { class: "three" }, ...made), makeCommand(texts)) };
}

/** A command to copy. */
function makeCommand(texts) {
  const copy = h("button", { type: "button", class: "copy" }, texts.copy);
  copy.addEventListener("click", async () => say(copy, (await copyText(texts.command)) ? texts.copied : texts.refused));
  return h("div", { class: "own-server" }, h("p", {}, texts.server), h("pre", { class: "command" }, h("code", {}, ...breakOptions(texts.command))), copy);
}

/** Each option of a command on a line of its own, where there is no room for all of them. */
function breakOptions(command) {
  return command.split(/(?= --)/).flatMap((part, i) => (i ? [h("span", { class: "cut", "aria-hidden": "true" }, " \\\n "), part] : [part]));
}

/** The beginning of a text. */
function drawRounds(rounds) {
  const shown = rounds.slice(0, ROUNDS).flatMap(({ tokens }) => tokens);
  return h("p", { class: "round" }, ...shown.flatMap(({ t, is }) => [/^\s/.test(t) ? " " : "", h("span", { class: "token", "data-is": is }, t.trim())]));
}

/** Samples of a right decoder as bars, and the exact probabilities as marks. */
function drawSamples({ labels, probs, right }) {
  const cells = labels.map((label, i) => i).filter((i) => labels[i]).slice(0, WORDS);
  const counts = countCells(right, 0, MOST_SAMPLES, labels.length), top = Math.max(...cells.map((i) => Math.max(probs[i], counts[i] / MOST_SAMPLES)));
  return h("div", { class: "samples" }, ...cells.map((i) => {
    const bar = h("i", { class: "bar" }), mark = h("i", { class: "mark" });
    bar.style.height = `${(100 * counts[i]) / MOST_SAMPLES / top}%`;
    mark.style.bottom = `${(100 * probs[i]) / top}%`;
    return h("span", {}, h("span", { class: "column" }, bar, mark), h("span", { class: "word" }, labels[i]));
  }));
}

/** The time of both texts: drafting, passes of the target, and the rest. */
function drawTimes(lanes, names) {
  const longest = Math.max(...lanes.map((lane) => lane.seconds));
  return h("div", { class: "times" }, ...lanes.map(({ rounds, seconds: all }, i) => {
    const [drafting, passing] = ["drafting", "passing"].map((part) => rounds.reduce((sum, one) => sum + (one[part] ?? 0), 0));
    const parts = passing ? { drafting, pass: passing, rest: all - drafting - passing } : { pass: all };
    const run = h("span", { class: "run" }, ...Object.entries(parts).map(([kind, time]) => {
      const part = h("i", { class: kind });
      part.style.width = `${(100 * time) / longest}%`;
      return part;
    }));
    return h("span", { class: "lane" }, h("span", { class: "name" }, names[i], " ", h("b", {}, seconds(all))), run);
  }));
}
