// A histogram that fills: the samples after 10, 20, 50, .. of them over the exact distribution, and the answer once all are there.

import { fill } from "./fill.js";
import { h, say, show } from "./dom.js";

const STEP = 260; // ms between two numbers of samples; the bars take as long to get there (histogram.css)
const LIVE = 900; // ms, at most, for all of them where a visitor has waited for the samples
const REST = 1e-12;
const BOX = 0.5; // of a strip: the width of its box after all samples
const WHOLE = 0.86; // and at most, after few of them
const FALLING = 40; // dots that fall into the rows between two numbers of samples
const CLEAR = 0.06; // of the strip, between a dot and an edge of the box
const EDGE = 0.07; // of the strip, at each end: a dot that would stand there is off the scale
const NARROW = 600; // px: below it the payload's ``few`` rows stand for all
const WIDE = 940; // px from which the answer stands beside the bars
const FINE = 0.03; // of a rail: a miss that whole bars do not show
const THIN = 0.05; // of a rail: so is a box
const SIGNS = { consistent: "✓", rejected: "✕", exact: "✓", untold: "–", unshown: "–", waiting: "" };

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

/** A share of n samples: up to 100 of them give no decimals. */
export function sampleText(x, n) {
  return n > 100 ? shareText(x) : `${Math.round(100 * x)}%`;
}

/** Whether whole bars are too coarse: all that end outside their boxes are near their marks, or where none does, all boxes are thin. end: the share at the right edge. */
export function needsMagnifier(frame, exact, end) {
  const rows = frame.shares.map((_, row) => row);
  const misses = rows.filter((row) => isOutside(frame, row)).map((row) => Math.abs(frame.shares[row] - exact[row]) / end);
  if (misses.length) return Math.max(...misses) < FINE;
  return frame.n > 0 && Math.max(...rows.map((row) => (frame.high[row] - frame.low[row]) / end)) < THIN;
}

/** Whether a bar ends outside the band of sampling noise. */
export function isOutside({ n, shares, low, high }, row) {
  return n > 0 && !(shares[row] >= low[row] - REST && shares[row] <= high[row] + REST);
}

/** Ends of a box as it is drawn: half a sample beyond its outermost numbers, so that a bar that ends on one of them ends inside. */
export function boxEnds({ n, low, high }, row) {
  const half = n ? 0.5 / n : 0;
  return [Math.max(0, low[row] - half), Math.min(1, high[row] + half)];
}

/** Where a share stands in a strip, from 0 to 1: the middle ``BOX`` is its box, with the exact probability in the middle. Null: off the scale.

It keeps clear of the box's edges, on its own side of them. box: the width of the box.
*/
export function placeInBox(x, exact, low, high, box = BOX) {
  const side = x < exact ? -1 : 1, far = Math.abs(x - exact), reach = Math.max(REST, side * ((x < exact ? low : high) - exact));
  const inside = x >= low - REST && x <= high + REST;
  const from = (far / reach) * (box / 2), at = inside ? Math.min(box / 2 - CLEAR, from) : Math.max(box / 2 + CLEAR, from);
  return at > 0.5 - EDGE ? null : 0.5 + side * at;
}

/** Width of the box of a strip after n of all samples: it narrows as they come in, by less than the room for chance does. */
export function boxWidth(n, all) {
  return n ? Math.min(WHOLE, BOX * (all / n) ** 0.125) : WHOLE;
}

/** How many of ``most`` dots fall into each row between two frames: as its part of the samples that come in. */
export function countFalling(before, after, most = FALLING) {
  const came = after.n - before.n;
  return after.shares.map((share, row) => Math.max(0, Math.round((most * (share * after.n - before.shares[row] * before.n)) / came)));
}

/** The frames, after one without samples. */
export function startEmpty(frames) {
  const none = frames[0].shares.map(() => 0);
  return frames[0].n ? [{ n: 0, shares: none, low: none, high: none }, ...frames] : frames;
}

/** A bar of samples and the mark of the exact probability, over the box of sampling noise. ``end``: the probability at the right edge. */
export class Track {
  constructor(exact, end) {
    this.end = end;
    const [bar, band, mark] = ["share", "band", "exact"].map((name) => h("i", { class: name }));
    Object.assign(this, { band, bar, node: h("span", { class: "rail" }, bar, band, mark) });
    mark.style.setProperty("--at", this.place(exact));
  }

  place(x) {
    return `${(100 * Math.min(1, Math.max(0, x / this.end))).toFixed(2)}%`;
  }

  show(frame, row) {
    const [low, high] = boxEnds(frame, row).map((x) => this.place(x));
    this.bar.style.setProperty("--bar", frame.n ? this.place(frame.shares[row]) : "0%");
    this.band.style.setProperty("--at", low);
    this.band.style.setProperty("--bar", frame.n ? `${(parseFloat(high) - parseFloat(low)).toFixed(2)}%` : "0%");
    show(this.band, frame.n > 0);
    this.bar.classList.toggle("outside", isOutside(frame, row));
  }
}

/** A row without its bar, magnified: the box equally wide in every row, the exact probability in its middle, a dot for the samples, a ring for the control's. */
export class Strip {
  constructor(exact, all, control) {
    this.exact = exact;
    this.all = all;
    this.control = control;
    this.dot = h("i", { class: "dot" });
    this.ring = h("i", { class: "without" });
    this.node = h("span", { class: "inBox" }, h("i", { class: "band" }), h("i", { class: "exact" }), this.ring, this.dot);
  }

  show(frame, row) {
    this.node.classList.toggle("none", !frame.n);
    const hasControl = frame.n > 0 && this.control?.n === frame.n;
    show(this.ring, hasControl);
    if (!frame.n) return;
    this.node.style.setProperty("--box", `${(100 * boxWidth(frame.n, this.all)).toFixed(2)}%`);
    this.put(this.dot, frame, row);
    if (hasControl) this.put(this.ring, this.control, row);
  }

  put(dot, frame, row) {
    const share = frame.shares[row], at = placeInBox(share, this.exact, frame.low[row], frame.high[row], boxWidth(frame.n, this.all));
    dot.classList.toggle("beyond", at === null);
    dot.classList.toggle("left", at === null && share < this.exact);
    dot.classList.toggle("outside", isOutside(frame, row));
    dot.style.setProperty("--at", `${(100 * (at ?? (share < this.exact ? EDGE : 1 - EDGE))).toFixed(2)}%`);
  }

  /** Let dots fall from the first row to where this one's dot stands. top: px to fall; time: ms until the last is there. */
  drop(count, top, time) {
    for (let nth = 0; nth < count; nth += 1) {
      const one = h("i", { class: "falling" }), delay = (time / 2) * ((nth + 0.5) / count);
      one.style.setProperty("--aside", `${((nth * 7) % 13) - 6}px`);
      one.style.setProperty("--at", this.dot.style.getPropertyValue("--at") || "50%");
      this.node.append(one);
      one.animate([{ transform: `translateY(${-top}px)`, opacity: 0 }, { opacity: 0.8, offset: 0.15 }, { transform: "none", opacity: 0.8 }],
        { duration: time / 2, delay, easing: "ease-in", fill: "backwards" }).onfinish = () => one.remove();
    }
  }
}

/** Swatches with what they mean. */
export function makeKey(texts, names = ["band", "without", "outside"]) {
  return h("ul", { class: "key" }, ...names.filter((name) => texts[name]).map((name) => h("li", { class: `of-${name}` }, h("i", { class: name }), h("span", {}, texts[name]))),
    ...(texts.signs ?? []).map(([sign, words]) => h("li", { class: "of-signs" }, h("b", {}, sign), h("span", {}, words))));
}

export class Histogram {
  constructor() {
    this.frames = [];
    this.at = 0;
    this.name = h("h3", {});
    this.count = h("b", {});
    this.of = h("span", {});
    this.again = h("button", { type: "button", class: "button plain" });
    this.again.addEventListener("click", () => this.play(0, STEP));
    this.names = h("div", { class: "cell names" });
    this.rows = h("div", { class: "cells", role: "img" });
    this.key = h("div", {});
    this.aloud = h("p", { class: "aloud", role: "status" });
    this.sign = h("b", { class: "sign" });
    this.word = h("span", {});
    this.number = h("p", { class: "number" });
    this.because = h("p", { class: "because" });
    this.soFar = h("p", { class: "soFar" });
    this.told = h("div", { class: "told" }, this.number, h("p", { class: "word" }, this.sign, " ", this.word), this.because);
    this.answer = h("div", { class: "answer" }, this.told, this.soFar);
    this.line = h("p", { class: "count" }, h("span", { "aria-hidden": "true" }, this.count, " ", this.of), this.again);
    this.node = h("section", { class: "stage filling" },
      h("div", { class: "bars" }, h("div", { class: "top" }, this.name, this.line), h("div", {}, this.names, this.rows)),
      h("div", { class: "aside" }, this.answer, this.key, this.aloud));
  }

  update({ data: { payload } }) {
    const said = JSON.stringify(payload);
    if (said === this.said) return;
    this.said = said;
    this.given = payload;
    this.take();
  }

  /** Draw the rows that there is room for. */
  take() {
    this.isNarrow = this.node.clientWidth > 0 && this.node.clientWidth < NARROW;
    const payload = this.isNarrow && this.given.few ? { ...this.given, ...this.given.few } : this.given;
    this.node.classList.toggle("few", payload !== this.given);
    const frames = startEmpty(payload.frames);
    const start = this.payload && this.payload.labels.join() === payload.labels.join() && this.payload.heading === payload.heading ? findStart(this.frames, frames, this.at) : 0;
    this.payload = payload;
    this.frames = frames;
    this.fill(needsMagnifier(frames.at(-1), payload.exact, payload.end));
    this.arrange();
    this.play(start);
  }

  /** Draw the rows. magnified: whether dots in boxes of one width stand for the bars. */
  fill(magnified) {
    const { labels, exact, end, conclusion, heading, texts, answer, control } = this.payload;
    this.node.classList.toggle("magnified", magnified);
    this.node.classList.toggle("roomy", Boolean(texts.roomy)); // few rows
    say(this.name, heading);
    say(this.again, texts.again);
    this.rows.setAttribute("aria-label", conclusion);
    this.strips = [];
    this.parts = labels.map((label, row) => {
      const track = magnified ? new Strip(exact[row], this.frames.at(-1).n, control) : new Track(exact[row], end), value = h("span", { class: "value" });
      if (magnified) this.strips.push(track);
      const node = h("div", { class: "cell" }, h("span", { class: "cellName" }, label), track.node, value, h("span", { class: "value exactly" }, shareText(exact[row])));
      return { node, track, value };
    });
    const sides = h("span", { class: "sides", "aria-hidden": "true" }, ...(texts.sides ?? []).map((words) => h("span", {}, words)));
    const column = (sign, words, more = "") => h("span", { class: `value ${more}` }, h("i", { class: sign }), words);
    this.names.replaceChildren(h("span", {}), magnified ? sides : h("span", {}), column(magnified ? "dot" : "share", texts.samples), column("exact", texts.exactly, "exactly"));
    this.rows.replaceChildren(...this.parts.map((one) => one.node));
    const signs = (texts.signs ?? []).filter(([sign]) => labels.some((label) => label.includes(sign)));
    const key = makeKey(magnified ? { ...texts, signs, band: texts.lane || texts.band, outside: "" } : { ...texts, signs, without: "" });
    this.key.replaceWith(key);
    this.key = key;
    this.offerControl(key.querySelector(".of-without"));
    show(this.answer, Boolean(answer));
    if (!answer) return;
    this.answer.className = `answer ${answer.mark}`;
    say(this.sign, answer.number && answer.mark === "untold" ? "" : (SIGNS[answer.mark] ?? "")); // the number is followed by its noun
    say(this.word, answer.words);
    say(this.number, answer.number);
    show(this.number, Boolean(answer.number));
    this.because.replaceChildren(answer.details, ...answer.links.flatMap(({ words, href }, i) => [i ? ", " : " ", href ? h("a", { href, target: "_blank", rel: "noopener" }, words) : words]), answer.links.length ? "." : "");
  }

  /** Make the key's line of the control a box to tick. item: the line, null where there is no control. */
  offerControl(item) {
    if (!item) return;
    const box = h("input", { type: "checkbox" });
    box.checked = this.node.classList.contains("compared");
    box.addEventListener("change", () => this.node.classList.toggle("compared", box.checked));
    item.replaceChildren(h("label", {}, box, ...item.childNodes));
  }

  play(at, pace = 0) {
    clearTimeout(this.later);
    const last = this.frames.length - 1, step = pace || (this.payload.live ? Math.min(LIVE, Math.max(LIVE / (last - at), LIVE / 10)) : STEP);
    const still = window.matchMedia("(prefers-reduced-motion: reduce), print").matches;
    this.show(still ? last : Math.min(at, last));
    const forth = () => {
      if (this.at >= last) return;
      this.fall(step);
      this.later = setTimeout(() => {
        this.show(this.at + 1);
        forth();
      }, step);
    };
    forth();
  }

  /** Let the samples that come next fall into their rows. */
  fall(time) {
    const counts = countFalling(this.frames[this.at], this.frames[this.at + 1]);
    this.strips.forEach((strip, row) => strip.drop(counts[row], strip.node.offsetTop + strip.node.offsetHeight, time));
  }

  show(at) {
    this.at = at;
    const frame = this.frames[at], { n } = frame, { answer, texts } = this.payload;
    const all = this.frames.at(-1).n, there = at === this.frames.length - 1;
    const number = (x) => x.toLocaleString("en-US");
    say(this.count, number(n));
    say(this.of, fill(n < all ? texts.of : texts.all, { n: number(all) }));
    this.again.classList.toggle("off", !there || this.frames.length < 3);
    this.parts.forEach(({ track, value }, row) => {
      track.show(frame, row);
      value.classList.toggle("outside", isOutside(frame, row));
      say(value, n ? sampleText(frame.shares[row], n) : "");
    });
    const outside = this.key.querySelector(".of-outside");
    if (outside) show(outside, this.parts.some((_, row) => isOutside(frame, row)));
    this.node.classList.toggle("underway", !there); // the answer keeps its place until the bars have arrived
    say(this.soFar, there ? "" : fill(texts.soFar, { n: number(n) }));
    if (there && answer) say(this.aloud, `${answer.words} ${answer.number} ${answer.details}`);
  }

  resize() {
    const { clientWidth } = this.node;
    if (this.given?.few && clientWidth > 0 && clientWidth < NARROW !== this.isNarrow) this.take();
    else this.arrange();
  }

  arrange() {
    const isWide = this.node.clientWidth >= WIDE, first = this.payload?.texts.answerFirst;
    this.node.classList.toggle("wide", isWide);
    this.node.classList.toggle("answerFirst", Boolean(first) && !isWide);
    this.node.classList.toggle("answerTop", first === "top" && !isWide); // before the heading
    this.node.classList.toggle("countTop", first === "top"); // beside the page's button that draws more
  }

  close() {
    clearTimeout(this.later);
  }
}
