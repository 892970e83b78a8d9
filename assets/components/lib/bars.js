// A token's bars under each other, one for each distribution, with their numbers.

import { h } from "./dom.js";
import { number } from "./numbers.js";

/** A row of bars. values: {class of the bar: probability}; most: the probability of a bar over the whole width; format: how a value is written. */
export function makeBarRow(kind, name, values, most, format = number) {
  const lanes = Object.entries(values).map(([probs, value]) => {
    const fill = h("i", { class: `fill ${probs}` });
    fill.style.width = `${((100 * value) / most).toFixed(2)}%`;
    if (value === 0) fill.style.minWidth = "0";
    const lane = h("span", { class: "lane" }, h("span", { class: "run" }, fill), h("b", {}, format(value)));
    lane.style.setProperty("--end", (value / most).toFixed(4)); // for a number beside its bar
    return lane;
  });
  return h("div", { class: `bar ${kind}` }, h("span", { class: "barName" }, ...name), h("span", { class: "lanes" }, ...lanes));
}
