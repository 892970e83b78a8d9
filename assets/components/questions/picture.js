// Bars under each other on one scale, with their numbers, as the payload gives them.

import { h } from "../lib/dom.js";

/** A figure of one picture; nothing in it moves. */
export function pictureOf({ title, rows, key, mark, line, most }) {
  const at = (value) => `${((100 * value) / most).toFixed(2)}%`;
  const bars = rows.map(({ name, now, lanes }) => h("div", { class: now ? "bar mine" : "bar" },
    h("span", { class: "barName", title: name }, name),
    h("span", { class: "lanes" }, ...lanes.map((lane) => laneOf(lane, line, at)))));
  const legend = key.map(([role, words]) => h("span", {}, h("i", { class: `swatch ${role}` }), words));
  if (mark) legend.push(h("span", {}, h("i", { class: "swatch tick" }), mark));
  if (line) legend.push(h("span", {}, h("i", { class: "swatch across" }), line[1]));
  return h("figure", { class: "picture" }, h("figcaption", {}, title), ...(legend.length ? [h("p", { class: "key" }, ...legend)] : []), h("div", { class: "bars" }, ...bars));
}

function laneOf({ parts, said, mark }, line, at) {
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
  return h("span", { class: "lane" }, run, h("b", {}, said));
}
