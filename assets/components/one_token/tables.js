// Numbers to the last digit: the sum for every token, and four exact rules on the same distributions.

import { h, say, show } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { glyphLine } from "../lib/glyphs.js";
import { difference, digits, number } from "../lib/numbers.js";
import { MOST } from "./bars.js";
import { makeFold } from "./cards.js";
import { compareRules } from "./rules.js";

const COLUMNS = [
  ["token", "token", "name"],
  ["q", "draft q", "q"],
  ["keep", "min(1, p/q)", "wide"],
  ["accepted", "accepted", "accepted"],
  ["share", "residual", "wide"],
  ["replaced", "replaced", "left"],
  ["sum", "sum of both", "sum"],
  ["p", "target p", "p"],
  ["difference", "difference", "difference"],
];

export function makeSums(view) {
  const head = h("tr", {}, ...COLUMNS.map(([, title, kind]) => h("th", { scope: "col", class: kind }, title)));
  const body = h("tbody");
  const rows = Array.from({ length: MOST }, () => {
    const cells = COLUMNS.map(([key, , kind]) => (key === "token" ? h("th", { scope: "row", class: kind }) : h("td", { class: kind })));
    const node = h("tr", {}, ...cells);
    body.append(node);
    return { node, cells };
  });
  const table = h("table", {}, h("thead", {}, head), body);
  return { ...makeFold("sums", view.texts.sums, table), rows };
}

export function drawSums(card, view) {
  const { slots, sums, texts } = view;
  say(card.sub, texts.sumsSub);
  for (const [i, { node, cells }] of card.rows.entries()) {
    show(node, i < slots.length);
    node.classList.toggle("now", view.touched?.index === i);
    if (i >= slots.length) continue;
    const row = sums.rows[i];
    const keep = slots[i].glyphs === null && slots[i].overlap !== undefined ? "each its own" : row.q > 0 ? digits(Math.min(1, row.p / row.q)) : "–";
    const written = {
      token: glyphLine(slots[i].glyphs, 14), q: digits(row.q), keep, accepted: digits(row.accepted), share: digits(row.share),
      replaced: digits(row.replaced), sum: digits(row.sum), p: digits(row.p), difference: difference(row.difference),
    };
    for (const [j, [key]] of COLUMNS.entries()) say(cells[j], written[key]);
  }
  say(card.foot, texts.sumsFoot);
}

export function makeRules(view) {
  const rows = {};
  const list = h("div", { class: "ruleRows" });
  for (const [key, { title, how }] of Object.entries(view.payload.rules)) {
    const parts = { first: h("span", { class: "run first" }), both: h("span", { class: "run both" }), accepted: h("b"), error: h("span", { class: "error" }) };
    const words = h("div", { class: "ruleName" }, h("b", {}, title), h("span", {}, how));
    list.append(h("div", { class: "rule" }, words, h("div", { class: "lane" }, parts.first, parts.both),
      h("div", { class: "ruleSum" }, parts.accepted, h("span", {}, " of 2 accepted")), parts.error));
    rows[key] = parts;
  }
  return { ...makeFold("rules", view.texts.rules, list), rows, list };
}

export function drawRules(card, view) {
  const { texts, slots } = view;
  const known = slots.every(({ overlap }) => overlap === undefined);
  show(card.list, known);
  show(card.sub, known);
  say(card.sub, texts.rulesSub);
  if (!known) return say(card.foot, texts.rulesRest);
  const found = compareRules(view.probs("p"), view.probs("q"));
  for (const { rule, first, both, accepted, error } of found) {
    const row = card.rows[rule];
    drawLane(row.first, first, "first", view.lane);
    drawLane(row.both, both, "both", view.lane);
    say(row.accepted, accepted.toFixed(2));
    say(row.error, `off by ${difference(error)}`);
  }
  const { title } = view.payload.rules[found[0].rule];
  const least = found.reduce((a, b) => (b.accepted < a.accepted ? b : a));
  const values = { best: title.toLowerCase(), most: found[0].accepted.toFixed(2), worst: view.payload.rules[least.rule].title.toLowerCase(), least: least.accepted.toFixed(2) };
  const same = found[0].accepted - least.accepted < 0.005;
  say(card.foot, fill(same ? texts.rulesFootSame : texts.rulesFoot, values));
}

/** A part of the lane, with as many words as fit into it. */
function drawLane(node, share, word, whole) {
  node.style.width = `${(50 * share).toFixed(3)}%`;
  const wide = (whole * share) / 2;
  say(node, wide > 66 ? `${word} ${number(share)}` : wide > 38 ? number(share) : "");
}
