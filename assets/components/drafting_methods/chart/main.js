// The drafting methods as one chart: a line for each with its drawing and its speed. A line is chosen with a click.

import { h, s, say, show, setSize } from "../../lib/dom.js";
import { mounted } from "../../lib/mount.js";

const NARROW = 720;

class MethodsView {
  constructor() {
    this.presented = false; // the round below is what the presenter view shows
    this.whole = false;
    this.ticks = h("div", { class: "ticks" });
    this.head = h("div", { class: "heads", "aria-hidden": "true" }, h("span", { class: "who" }, "Choose a row to see one of its rounds"), h("span", { class: "fast" }, h("span", {}, "times as fast as no draft"), this.ticks), this.reads = h("span", { class: "reads" }));
    this.list = h("ul", { class: "lines" });
    this.more = h("button", { type: "button", class: "button" });
    this.more.addEventListener("click", () => { this.whole = !this.whole; this.draw(); });
    this.key = h("p", { class: "note" });
    this.node = h("section", { class: "stage methods", "aria-label": "The drafting methods" }, this.key, this.head, this.list, h("div", { class: "foot" }, this.more));
  }

  update({ data: { payload, chosen }, setTriggerValue }) {
    this.send = setTriggerValue;
    this.chosen = chosen;
    const said = JSON.stringify(payload);
    if (said !== this.said) {
      this.said = said;
      this.payload = payload;
      this.fill();
    }
    this.draw();
  }

  fill() {
    const { rows, ticks, unit, marks, heads } = this.payload;
    const groups = new Set([""]);
    this.rows = [];
    this.groups = new Map();
    this.list.replaceChildren(...rows.flatMap((row) => {
      const made = makeRow(row, this.payload, () => this.choose(row.key));
      this.rows.push(made);
      if (groups.has(row.group)) return [made.node];
      groups.add(row.group);
      this.groups.set(row.group, h("li", { class: "group" }, row.group));
      return [this.groups.get(row.group), made.node];
    }));
    this.exact = rows.filter((row) => !row.group && row.speed && row.key !== "target").length; // those that the answer above counts
    this.ticks.replaceChildren(...ticks.map(({ at, said }) => placeAt(h("span", { class: at === unit ? "one" : "" }, said), at)));
    this.reads.replaceChildren(...heads.map((said) => h("span", {}, said)));
    say(this.key, marks);
  }

  choose(key) {
    this.chosen = key;
    this.draw();
    this.send("row", key);
  }

  draw() {
    if (!this.rows) return;
    this.node.classList.toggle("whole", this.whole);
    const narrow = this.node.classList.contains("narrow");
    const shown = new Set();
    for (const { row, node, face } of this.rows) {
      const is = row.key === this.chosen;
      const seen = (this.whole && !this.room) || (narrow ? row.lead : row.inSight) || is;
      show(node, seen);
      if (seen) shown.add(row.group);
      face.setAttribute("aria-pressed", String(is));
    }
    for (const [group, node] of this.groups) show(node, shown.has(group));
    this.more.setAttribute("aria-expanded", String(this.whole));
    say(this.more, this.whole ? "Fewer methods" : this.exact ? `Show all ${this.exact} exact methods` : "Show every method");
  }

  resize() {
    const narrow = this.node.clientWidth < NARROW;
    this.node.classList.toggle("narrow", narrow);
    if (this.room !== this.drawn || narrow !== this.drawnNarrow) this.draw(); // neither a projector nor a phone has place for all
    this.drawn = this.room;
    this.drawnNarrow = narrow;
  }

  close() {}
}

function placeAt(node, share) {
  node.style.left = `${(100 * share).toFixed(2)}%`;
  return node;
}

function makeRow(row, { unit, size, ticks }, choose) {
  const svg = s("svg", { class: "drawing", "aria-hidden": "true" }, ...row.drawing.map(([tag, attributes]) => s(tag, attributes)));
  setSize(svg, ...size);
  const name = h("span", { class: "name" }, h("b", {}, row.name), ...(row.tag ? [" ", h("span", { class: "tag" }, row.tag)] : []));
  const plot = h("span", { class: "fast" }, ...ticks.map(({ at }) => placeAt(h("i", { class: at === unit ? "one" : "tick" }), at)));
  const reads = h("span", { class: "reads" });
  if (!row.speed) reads.append(h("span", { class: "told" }, row.tag || !row.pass ? "" : "not computed"));
  if (row.speed) {
    const { at, low, high, told, unsure, computed, said, span } = row.speed;
    const range = placeAt(h("i", { class: "range" }), low);
    range.style.width = `${(100 * Math.max(0, high - low)).toFixed(2)}%`;
    if (span) plot.append(range);
    if (row.other) plot.append(placeAt(h("i", { class: row.other.bound ? "bound" : "other" }), row.other.at));
    plot.append(placeAt(h("i", { class: computed ? `${told ? "bound" : "other"} first` : unsure ? "dot unsure" : "dot" }), at));
    reads.append(h("span", { class: "value" }, `${said}×`, " ", h("span", { class: "told" }, told), ...(span ? [h("span", { class: "span" }, span)] : [])));
    if (row.other) reads.append(row.other.bound ? h("span", { class: "there bound" }, "◁ ", h("span", { class: "told" }, "at most "), `${row.other.said}×`) : h("span", { class: "there" }, `◇ ${row.other.said}×`));
  }
  const face = h("button", { type: "button", class: "method", "aria-label": describeRow(row) }, svg, h("span", { class: "titles" }, name, h("span", { class: "about" }, row.line)), plot, reads);
  face.addEventListener("click", choose);
  return { row, face, node: h("li", { "data-row": row.key }, face) };
}

function describeRow({ name, tag, line, pass, cost, speed, other }) {
  const said = [tag ? `${name}, ${tag}` : name, line.replace(/\.$/, "")];
  if (pass) said.push(`${pass.said} tokens per target pass`);
  if (cost) said.push(`a round takes the time of ${cost} passes`);
  if (speed?.span) said.push(`${speed.said} (${speed.span}) times as fast as target only, ${speed.told}`);
  else if (speed?.computed) said.push(`${speed.told ? `${speed.told} ` : ""}${speed.said} times as fast as target only, computed`);
  if (other) said.push(`${other.bound ? "at most " : ""}${other.said} computed for another machine`);
  return `${said.join(". ")}.`;
}

export default mounted(() => new MethodsView());
