// Bars of a histogram as rows: a share, the exact probability as a mark, and the band that sampling noise leaves it in.

import { h, say } from "../lib/dom.js";
import { number } from "../lib/numbers.js";

const part = (x, end) => `${(100 * Math.min(1, Math.max(0, x / end))).toFixed(2)}%`;

/** A histogram that is updated in place. ``own`` counts, where a student has some. */
export function makeHistogram(title) {
  const list = h("div", { class: "histogram", role: "list", "aria-label": title });
  let rows = [];
  return {
    node: list,
    update(bars, n, own = null) {
      const names = bars.rows.map((row) => row.label).join("\n");
      if (rows.names !== names) {
        rows = bars.rows.map((row) => makeRow(row.label));
        rows.names = names;
        list.replaceChildren(...rows.map((row) => row.node));
      }
      const mine = own === null ? 0 : Object.values(own).reduce((sum, count) => sum + count, 0);
      bars.rows.forEach((row, place) => rows[place].update(row, bars.end, n, mine ? (own[row.cell] ?? 0) : null));
    },
  };
}

function makeRow(label) {
  const band = h("i", { class: "band" }), bar = h("i", { class: "share" }), mark = h("i", { class: "exact" });
  const value = h("span", { class: "value" });
  const node = h("div", { class: "row", role: "listitem" }, h("span", { class: "label" }, label), h("span", { class: "track", "aria-hidden": "true" }, band, bar, mark), value);
  return {
    node,
    update(row, end, n, mine) {
      band.style.left = part(row.low, end);
      band.style.width = n ? part(row.high - row.low, end) : "0";
      bar.style.width = n ? part(row.share, end) : "0";
      mark.style.left = part(row.p, end);
      const own = mine === null ? "" : ` · ${mine} yours`;
      say(value, n ? `${tenth(row.share)}, exact ${tenth(row.p)}${own}` : `exact ${tenth(row.p)}`);
    },
  };
}

/** Both distributions at one place: p of the target over q of the draft; the token in question is marked, with its numbers. */
export function makeTwoBars(bars, token) {
  const end = Math.max(...bars.flatMap((row) => [row.p, row.q]), 1e-9);
  const rows = bars.map((row) => {
    const q = h("i", { class: "draft" }), p = h("i", { class: "target" });
    q.style.width = part(row.q, end);
    p.style.width = part(row.p, end);
    const asked = row.token === token, words = `target ${size(row.p)}, draft ${size(row.q)}`;
    return h("div", { class: asked ? "row asked" : "row", role: "listitem" }, h("span", { class: "label" }, row.token),
      h("span", { class: "track two", role: "img", "aria-label": words }, p, q), ...(asked ? [h("span", { class: "value" }, `p = ${number(row.p)}, q = ${number(row.q)}`)] : []));
  });
  return h("div", { class: "histogram", role: "list", "aria-label": "Probabilities of the next token" }, ...rows);
}

const tenth = (x) => `${(100 * x).toFixed(1)}%`;
const size = (x) => `about ${Math.round(20 * x) * 5}%`;
