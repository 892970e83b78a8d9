// A token's bars under each other, one for each distribution, with their numbers.

import { h } from "./dom.js";
import { number } from "./numbers.js";

/** A row of bars. values: {class of the bar: probability}; most: the probability of a bar over the whole width. */
export function makeBarRow(kind, name, values, most) {
  const lanes = Object.entries(values).map(([probs, value]) => {
    const fill = h("i", { class: `fill ${probs}` });
    fill.style.width = `${((100 * value) / most).toFixed(2)}%`;
    if (value === 0) fill.style.minWidth = "0";
    return h("span", { class: "lane" }, h("span", { class: "run" }, fill), h("b", {}, number(value)));
  });
  return h("div", { class: `bar ${kind}` }, h("span", { class: "barName" }, ...name), h("span", { class: "lanes" }, ...lanes));
}
