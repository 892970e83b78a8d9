// A histogram that fills: the samples after 10, 20, 50, .. of them, over the exact distribution.

import { h, say } from "../lib/dom.js";
import { mounted } from "../lib/mount.js";

const STEP = 260; // ms between two numbers of samples; the bars take as long to get there (exactness.css)
const REST = 1e-12;

/** Where playing begins: a histogram that only grew goes on from where it stands, any other begins anew. */
export function findStart(before, frames, at) {
  const stands = before[at];
  const same = stands && frames.findIndex((one) => one.n === stands.n && one.shares.every((share, row) => share === stands.shares[row]));
  return stands && same >= 0 ? same : 0;
}

/** A share with three digits at most, as figures/cell_shares.py writes it: 34.2%, 0.52%. */
export function shareText(x) {
  return x >= 0.01 ? `${(100 * x).toFixed(1)}%` : `${(100 * x).toFixed(2)}%`;
}

/** Whether a bar ends outside the band of sampling noise. */
export function isOutside({ n, shares, low, high }, row) {
  return n > 0 && !(shares[row] >= low[row] - REST && shares[row] <= high[row] + REST);
}

class Histogram {
  constructor() {
    this.frames = [];
    this.at = 0;
    this.count = h("b", {});
    this.of = h("span", {});
    this.again = h("button", { type: "button", class: "button" }, "Watch it fill again");
    this.again.addEventListener("click", () => this.play(0));
    this.rows = h("div", { class: "cells" });
    this.node = h("section", { class: "stage filling" },
      h("p", { class: "count" }, h("span", { "aria-hidden": "true" }, this.count, " ", this.of), this.again),
      this.rows,
      h("p", { class: "key", "aria-hidden": "true" }, ...[["share", "share of the samples"], ["exact", "exact distribution"], ["band", "sampling noise, 99%"]].map(([name, words]) =>
        h("span", {}, h("i", { class: name }), words))));
  }

  update({ data: { payload } }) {
    const said = JSON.stringify(payload);
    if (said === this.said) return;
    this.said = said;
    const start = this.payload && this.payload.labels.join() === payload.labels.join() ? findStart(this.frames, payload.frames, this.at) : 0;
    this.payload = payload;
    this.frames = payload.frames;
    this.fill();
    this.play(start);
  }

  fill() {
    const { labels, exact, conclusion } = this.payload;
    this.rows.setAttribute("role", "img");
    this.rows.setAttribute("aria-label", conclusion);
    this.parts = labels.map((label, row) => {
      const [band, bar, mark, out] = ["band", "share", "exact", "outside"].map((name) => h("i", { class: name }));
      const value = h("span", { class: "value" });
      const node = h("div", { class: "cell" }, h("span", { class: "cellName" }, label), h("span", { class: "track" }, band, bar, mark, out), value,
        h("span", { class: "value exactly" }, shareText(exact[row])));
      mark.style.left = this.width(exact[row]);
      return { node, band, bar, out, value };
    });
    this.rows.replaceChildren(h("div", { class: "cell names" }, h("span", {}), h("span", {}), h("span", { class: "value" }, "samples"), h("span", { class: "value exactly" }, "exact")),
      ...this.parts.map((one) => one.node));
  }

  width(x) {
    return `${(100 * Math.min(1, Math.max(0, x / this.payload.end))).toFixed(2)}%`;
  }

  play(at) {
    clearTimeout(this.later);
    const last = this.frames.length - 1;
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.show(still ? last : Math.min(at, last));
    const forth = () => {
      if (this.at >= last) return;
      this.show(this.at + 1);
      this.later = setTimeout(forth, STEP);
    };
    this.later = setTimeout(forth, STEP);
  }

  show(at) {
    this.at = at;
    const frame = this.frames[at], { n, shares, low, high } = frame;
    const all = this.frames.at(-1).n;
    say(this.count, n.toLocaleString("en-US"));
    say(this.of, n < all ? `of ${all.toLocaleString("en-US")} samples` : "samples"); // the verdict beside it is of all
    this.again.classList.toggle("off", at < this.frames.length - 1 || this.frames.length < 2);
    this.parts.forEach(({ band, bar, out, value }, row) => {
      bar.style.width = n ? this.width(shares[row]) : "0";
      band.style.left = this.width(low[row]);
      band.style.width = n ? `${(parseFloat(this.width(high[row])) - parseFloat(this.width(low[row]))).toFixed(2)}%` : "0";
      out.style.left = this.width(shares[row]);
      out.classList.toggle("off", !isOutside(frame, row));
      say(value, n ? shareText(shares[row]) : "");
    });
  }

  resize() {}

  close() {
    clearTimeout(this.later);
  }
}

export default mounted(() => new Histogram());
