// A histogram that fills: how far the samples are from the exact distribution after 10, 20, 50, .. of them, and the answer once all are there.

import { fill } from "./fill.js";
import { h, say, show } from "./dom.js";

const STEP = 260; // ms between two numbers of samples; the bars take as long to get there (histogram.css)
const LIVE = 900; // ms, at most, for all of them where a visitor has waited for the samples
const REST = 1e-12;
const FALLING = 40; // dots that fall into the rows between two numbers of samples
const AIR = 1.15; // of the axis, beyond the farthest room or dot
const EVEN = 0.05; // of a room: its ends differ by less
const NARROW = 600; // px: below it the payload's ``few`` rows stand for all
const WIDE = 940; // px from which the answer stands beside the bars
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

/** Shares as differences in percentage points, with their sign: +0.12, −39. fine: digits after the point. */
export function pointsText(x, fine) {
  const text = Math.abs(100 * x).toFixed(fine);
  return `${Number(text) === 0 ? "" : x < 0 ? "−" : "+"}${text}`;
}

/** The room that chance leaves, as differences in percentage points: −0.8 to +5.2, or the wider side of one that is even but for counting, ±0.37. */
export function roomText(low, high, fine) {
  const [from, to] = [low, high].map((x) => pointsText(x, fine));
  return isEven(low, high) ? `±${pointsText(Math.max(-low, high), fine).slice(1)}` : `${from} to ${to}`;
}

function isEven(low, high) {
  return high > 0 && Math.abs(low + high) < EVEN * high;
}

/** Digits after the point of differences of n samples: one more than a sample is worth. */
export function countDigits(n) {
  return n > 10_000 ? 2 : 1;
}

/** How far the axis goes to each side of the exact probability: beyond each room and each share of these frames. */
export function findReach(frames, exact) {
  const far = frames.flatMap((frame) => exact.flatMap((p, row) => [frame.shares[row], ...roomEnds(frame, row)].map((x) => Math.abs(x - p))));
  return AIR * Math.max(REST, ...far);
}

/** Ticks of an axis from −reach to reach, at round numbers of points, with 0: three or five of them. */
export function listPointTicks(reach) {
  const most = reach / 1.15, power = 10 ** Math.floor(Math.log10(most)), step = [5, 2, 1].find((one) => one * power <= most) * power;
  return most / step >= 2 ? [-2, -1, 0, 1, 2].map((one) => one * step) : [-step, 0, step];
}

/** Whether a share is outside its room. */
export function isOutside({ n, shares, low, high }, row) {
  return n > 0 && !(shares[row] >= low[row] - REST && shares[row] <= high[row] + REST);
}

/** Ends of a room as it is drawn: half a sample beyond its outermost numbers, so that a dot on one of them is inside. */
export function roomEnds({ n, low, high }, row) {
  const half = n ? 0.5 / n : 0;
  return [Math.max(0, low[row] - half), Math.min(1, high[row] + half)];
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

/** A row: its room around the exact probability, a bar from there to a dot for the samples, and a ring for the control's. */
export class Strip {
  constructor(exact, control) {
    this.exact = exact;
    this.control = control;
    this.dot = h("i", { class: "dot" });
    this.ring = h("i", { class: "without" });
    this.bar = h("i", { class: "off-by" });
    this.node = h("span", { class: "strip" }, h("i", { class: "band" }), this.bar, h("i", { class: "exact" }), this.ring, this.dot);
  }

  /** reach: share at the right end of the axis, from the exact probability on. */
  show(frame, row, reach) {
    this.node.classList.toggle("none", !frame.n);
    const hasControl = frame.n > 0 && this.control?.n === frame.n, place = (x) => 50 + (50 * (x - this.exact)) / reach;
    show(this.ring, hasControl);
    if (!frame.n) return;
    const [low, high] = roomEnds(frame, row).map(place), at = place(frame.shares[row]);
    for (const [name, value] of [["--low", low], ["--high", high], ["--at", at], ["--from", Math.min(50, at)], ["--bar", Math.abs(at - 50)]]) this.node.style.setProperty(name, `${value.toFixed(2)}%`);
    for (const one of [this.dot, this.bar]) one.classList.toggle("outside", isOutside(frame, row));
    if (!hasControl) return;
    this.ring.style.setProperty("--at", `${place(this.control.shares[row]).toFixed(2)}%`);
    this.ring.classList.toggle("outside", isOutside(this.control, row));
  }

  /** Let dots fall from the first row to where this one's dot stands. top: px to fall; time: ms until the last is there. */
  drop(count, top, time) {
    for (let nth = 0; nth < count; nth += 1) {
      const one = h("i", { class: "falling" }), delay = (time / 2) * ((nth + 0.5) / count);
      one.style.setProperty("--aside", `${((nth * 7) % 13) - 6}px`);
      one.style.setProperty("--at", this.node.style.getPropertyValue("--at") || "50%");
      this.node.append(one);
      one.animate([{ transform: `translateY(${-top}px)`, opacity: 0 }, { opacity: 0.8, offset: 0.15 }, { transform: "none", opacity: 0.8 }],
        { duration: time / 2, delay, easing: "ease-in", fill: "backwards" }).onfinish = () => one.remove();
    }
  }
}

/** Swatches with what they mean. */
export function makeKey(texts, names = ["exact", "band", "outside", "without"]) {
  return h("ul", { class: "key" }, ...names.filter((name) => texts[name]).map((name) => h("li", { class: `of-${name}` }, h("i", { class: name }), h("span", {}, texts[name]))),
    ...(texts.signs ?? []).map(([sign, words]) => h("li", { class: "of-signs" }, h("b", {}, sign), h("span", {}, words))),
    ...(texts.more ? [h("li", { class: "of-more" }, h("b", {}, "+"), h("span", {}, texts.more))] : []));
}

export class Histogram {
  constructor() {
    this.frames = [];
    this.at = 0;
    this.name = h("h3", {});
    this.count = h("b", {});
    this.of = h("span", {});
    this.again = h("button", { type: "button", class: "button again" });
    this.again.addEventListener("click", () => this.play(0, STEP));
    this.names = h("div", { class: "cell names" });
    this.rows = h("div", { class: "cells", role: "img" });
    this.axis = h("span", { class: "ticks" });
    this.unit = h("span", { class: "unit" });
    this.points = h("span", { class: "value diff" });
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
      h("div", { class: "bars" }, h("div", { class: "top" }, this.name, this.line), h("div", {}, this.names, this.rows, h("div", { class: "cell axis", "aria-hidden": "true" }, this.unit, h("span", { class: "value exactly" }), this.axis, this.points))),
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
    this.fill();
    this.arrange();
    this.play(start);
  }

  /** Draw the rows. */
  fill() {
    const { labels, exact, conclusion, heading, texts, answer, control } = this.payload;
    this.node.classList.toggle("roomy", Boolean(texts.roomy)); // few rows
    say(this.name, heading);
    say(this.again, texts.again);
    say(this.unit, texts.unit);
    say(this.points, texts.points);
    this.rows.setAttribute("aria-label", conclusion);
    this.parts = labels.map((label, row) => {
      const [value, room] = ["diff", "room"].map((name) => h("span", { class: `value ${name}` })), strip = new Strip(exact[row], control);
      const node = h("div", { class: "cell" }, h("span", { class: "cellName" }, label), h("span", { class: "value exactly" }, shareText(exact[row])), strip.node, value, room);
      return { node, strip, value, room };
    });
    const last = this.frames.at(-1);
    this.node.classList.toggle("even", exact.every((p, row) => isEven(last.low[row] - p, last.high[row] - p)));
    const sides = h("span", { class: "sides", "aria-hidden": "true" }, ...texts.sides.map((words) => h("span", {}, words)));
    const column = (sign, words, name) => h("span", { class: `value ${name}` }, sign ? h("i", { class: sign }) : "", words);
    const ending = labels.some((label) => label.includes("…")) ? texts.ending : "";
    this.names.replaceChildren(h("span", { class: "value ending" }, ending), column("", texts.exactly, "exactly"), sides, column("dot", texts.samples, "diff"), column("band", texts.room, "room"));
    this.rows.replaceChildren(...this.parts.map((one) => one.node));
    const key = makeKey({ ...texts, signs: (texts.signs ?? []).filter(([sign]) => labels.some((label) => label.includes(sign))) });
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
    say(this.because, answer.details);
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
    this.parts.forEach(({ strip }, row) => strip.drop(counts[row], strip.node.offsetTop + strip.node.offsetHeight, time));
  }

  show(at) {
    this.at = at;
    const frame = this.frames[at], { n } = frame, { answer, texts } = this.payload;
    const all = this.frames.at(-1).n, there = at === this.frames.length - 1;
    const number = (x) => x.toLocaleString("en-US");
    say(this.count, number(n));
    say(this.of, fill(n < all ? texts.of : texts.all, { n: number(all) }));
    this.again.classList.toggle("off", !there || this.frames.length < 3);
    const { exact, control, reach } = this.payload, fine = countDigits(n);
    const end = Math.max(reach ?? 0, findReach([frame, ...(control?.n === n ? [control] : [])], exact));
    this.parts.forEach(({ strip, value, room }, row) => {
      strip.show(frame, row, end);
      value.classList.toggle("outside", isOutside(frame, row));
      say(value, n ? pointsText(frame.shares[row] - exact[row], fine) : "");
      say(room, n ? roomText(frame.low[row] - exact[row], frame.high[row] - exact[row], fine) : "");
    });
    this.axis.replaceChildren(...(n ? listPointTicks(end) : []).map((at) => {
      const tick = h("span", {}, pointsText(at, 4).replace(/\.?0+$/, ""));
      tick.style.setProperty("--at", `${50 + (50 * at) / end}%`);
      return tick;
    }));
    const outside = this.key.querySelector(".of-outside");
    if (outside) outside.classList.toggle("unseen", !this.parts.some((_, row) => isOutside(frame, row)));
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
