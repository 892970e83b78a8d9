// Bars under each other on one scale, with their numbers, as the payload gives them.

import { h } from "../lib/dom.js";

const ROOM = 0.2; // of the width, for a number

/** A figure of one picture; nothing in it moves. */
export function makePicture({ title, groups, legend, mark, line, interval, most }) {
  const at = (value) => `${((100 * value) / most).toFixed(2)}%`;
  const rows = groups.map(({ name, highlighted, bars }) => h("div", { class: highlighted ? "bar mine" : "bar" },
    h("span", { class: "barName", title: name }, name),
    h("span", { class: "lanes" }, ...bars.map((bar) => makeBar(bar, line, interval, at, most)))));
  const items = legend.map(([role, words]) => h("span", {}, h("i", { class: `swatch ${role}` }), words));
  if (mark) items.push(h("span", {}, h("i", { class: "swatch tick" }), mark));
  if (interval) items.push(h("span", {}, h("i", { class: "swatch range" }), interval));
  if (line) items.push(h("span", {}, h("i", { class: "swatch across" }), line[1]));
  return h("figure", { class: groups.length > 4 ? "picture" : "picture few" }, h("figcaption", {}, ...titleOf(title)), ...(items.length ? [h("p", { class: "key" }, ...items)] : []), h("div", { class: "bars" }, ...rows));
}

/** What a picture was measured under stands in parentheses at the end, in lighter type. */
function titleOf(title) {
  const [, what, under] = /^(.*)( \([^()]*\))$/.exec(title) ?? [null, title, ""];
  return under ? [what, h("span", { class: "under" }, under)] : [what];
}

function makeBar({ parts, label, mark, interval }, line, words, at, most) {
  const run = h("span", { class: "run" }, ...parts.map(([role, value]) => {
    const part = h("i", { class: `fill ${role}` });
    part.style.width = at(value);
    if (value === 0) part.style.minWidth = "0";
    return part;
  }));
  for (const [kind, value] of [["tick", mark], ["across", line?.[0]]]) {
    if (value === null || value === undefined) continue;
    const node = h("i", { class: kind });
    node.style.left = at(value);
    run.append(node);
  }
  const number = h("b", {}, label);
  if (interval) {
    const [low, high] = interval, range = h("i", { class: "range" });
    range.style.left = at(low);
    range.style.width = at(high - low);
    run.append(range);
    number.append(h("span", { class: "aloud" }, `, ${words} ${low.toFixed(2)} to ${high.toFixed(2)}`));
  }
  const end = Math.max(parts.reduce((sum, [, value]) => sum + value, 0), mark ?? 0, interval?.[1] ?? 0), across = line?.[0] ?? 0;
  number.style.left = at(across > end && across - end < ROOM * most ? across : end); // beside its bar, and not on the line
  run.append(number);
  const open = label === "?"; // the answer draws it
  if (open) run.prepend(h("i", { class: "unknown" }));
  return h("span", { class: open ? "lane open" : "lane" }, run);
}
