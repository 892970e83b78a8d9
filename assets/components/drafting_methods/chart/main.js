// The drafting methods as one chart: a line for each with its speed on every machine. A line is chosen with a click.

import { h, s, say, show, setSize } from "../../lib/dom.js";
import { mounted } from "../../lib/mount.js";

const NARROW = 920; // px: the columns of two machines need more
const MOVE = 420; // ms that a line takes to its new place

class MethodsView {
  constructor() {
    this.presented = false; // the round below is what the presenter view shows
    this.whole = false;
    this.answer = h("p", { class: "answer", "aria-live": "polite" });
    this.why = h("p", { class: "why" });
    this.head = h("div", { class: "heads", "aria-hidden": "true" });
    this.list = h("ul", { class: "lines" });
    this.more = h("button", { type: "button", class: "button" });
    this.more.addEventListener("click", () => { this.whole = !this.whole; this.draw(); });
    this.key = h("p", { class: "note" });
    this.node = h("section", { class: "stage methods", "aria-label": "The drafting methods" }, this.answer, this.head,
      h("div", { class: "rows", role: "group", "aria-label": "Methods" }, this.list), h("div", { class: "foot" }, this.more, this.why), this.key);
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
    const { rows, views, ticks, setting, shapes, why } = this.payload;
    say(this.why, why);
    show(this.why, Boolean(why));
    this.rows = new Map(rows.map((row) => [row.key, makeRow(row, this.payload, () => this.choose(row.key))]));
    this.groups = new Map([...new Set(rows.map(({ group }) => group))].filter(Boolean).map((group) => [group, h("li", { class: "group" }, group)]));
    this.list.replaceChildren();
    this.node.style.setProperty("--machines", String(views.length));
    const labels = views.map(({ label }, i) => h("span", { class: i ? "computed" : "measured" }, label));
    const drawn = shapes.map(([kind, name]) => h("span", { class: kind }, name));
    this.head.replaceChildren(h("span", { class: "who" }, setting, h("span", { class: "shapes" }, ...drawn)), ...views.map(({ label, from }, i) => h("span", { class: "machine" },
      h("b", {}, label), h("span", { class: "from" }, from), h("span", { class: "both" }, ...(i ? [] : labels)),
      h("span", { class: "fast" }, ...ticks.map(({ at, said }) => placeAt(h("span", { class: said === "1×" ? "one" : "" }, said), at))))));
    for (const { key } of views[0].speeds) fillRow(this.rows.get(key), views.map(({ speeds }) => speeds.find((one) => one.key === key)), this.payload);
    say(this.key, views.map(({ note }) => note).join(" "));
  }

  choose(key) {
    this.chosen = key;
    this.draw();
    this.send("row", key);
  }

  draw() {
    if (!this.rows) return;
    const { answer: [count, words], speeds } = this.payload.views[0];
    this.node.classList.toggle("whole", this.whole);
    this.answer.replaceChildren(...(count ? [h("b", {}, count), ` ${words}`] : []));
    show(this.answer, Boolean(count));
    const shown = new Set();
    for (const { key } of speeds) {
      const made = this.rows.get(key), is = key === this.chosen;
      const seen = (this.whole && !this.room) || made.row.inSight || is;
      show(made.node, seen);
      if (seen) shown.add(made.row.group);
      made.face.setAttribute("aria-pressed", String(is));
    }
    for (const [group, node] of this.groups) show(node, shown.has(group));
    this.order(speeds.map(({ key }) => this.rows.get(key)));
    const exact = this.payload.views[0].speeds.filter(({ key, speed }) => speed && key !== "target" && !this.rows.get(key).row.group).length;
    this.more.setAttribute("aria-expanded", String(this.whole));
    say(this.more, this.whole ? "Fewer methods" : exact ? `Show all ${exact} exact methods` : "Show every method");
  }

  /** The lines in this order, each group under its heading; what stood elsewhere moves. */
  order(rows) {
    const nodes = rows.flatMap(({ row, node }, i) => (row.group && row.group !== rows[i - 1]?.row.group ? [this.groups.get(row.group), node] : [node]));
    if (nodes.every((node, i) => node === this.list.children[i])) return;
    const before = new Map(rows.map(({ node }) => [node, node.isConnected && node.offsetParent ? node.offsetTop : null]));
    const focus = rows.find(({ face }) => face.matches(":focus"))?.face;
    this.list.replaceChildren(...nodes);
    focus?.focus({ preventScroll: true }); // a node that is put elsewhere loses it
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [node, top] of before) {
      if (top !== null && top !== node.offsetTop) node.animate([{ transform: `translateY(${top - node.offsetTop}px)` }, { transform: "none" }], { duration: MOVE, easing: "ease-in-out" });
    }
  }

  resize() {
    this.node.classList.toggle("narrow", this.node.clientWidth < NARROW);
    if (this.room !== this.drawn && this.payload) this.draw(); // a projector has no place for all
    this.drawn = this.room;
  }

  close() {}
}

function placeAt(node, share) {
  node.style.left = `${(100 * share).toFixed(2)}%`;
  return node;
}

function makeRow(row, { unit, size, views }, choose) {
  const svg = s("svg", { class: "drawing", "aria-hidden": "true" }, ...row.drawing.map(([tag, attributes]) => s(tag, attributes)));
  setSize(svg, ...size);
  const name = h("span", { class: "name" }, h("b", {}, row.name), ...(row.tag ? [" ", h("span", { class: "tag" }, row.tag)] : []), h("span", { class: "gloss" }, row.line));
  const machines = views.map(() => {
    const bar = h("i", { class: "bar" }), range = h("i", { class: "range" }), value = h("span", { class: "value" }), verdict = h("span", { class: "verdict" });
    const plot = h("span", { class: "fast" }, bar, range, placeAt(h("i", { class: "one" }), unit));
    const node = h("span", { class: "machine" }, plot, h("span", { class: "reads" }, value, verdict));
    return { node, bar, range, value, verdict };
  });
  const face = h("button", { type: "button", class: "method" }, svg, name, ...machines.map(({ node }) => node));
  face.addEventListener("click", choose);
  return { row, machines, face, node: h("li", { "data-row": row.key }, face) };
}

/** The numbers of a row on every machine: a bar from the speed without a draft to its own. */
function fillRow({ row, machines, face }, numbers, { unit, views }) {
  face.setAttribute("aria-label", describeRow(row, numbers, views));
  for (const [i, { node, bar, range, value, verdict }] of machines.entries()) {
    const { pass, speed } = numbers[i];
    const { at, low, high, unsure, computed, bound, span } = speed ?? { at: unit };
    placeBetween(bar, Math.min(at, unit), Math.max(at, unit));
    bar.className = ["bar", computed ? "computed" : "", bound ? "bound" : "", at < unit ? "left" : ""].filter(Boolean).join(" ");
    show(range, Boolean(span));
    if (span) placeBetween(range, low, high);
    node.classList.toggle("unsure", Boolean(unsure));
    say(value, speed ? `${speed.said}×` : "");
    say(verdict, speed ? speed.verdict : row.tag || (pass ? "not computed" : ""));
  }
}

function placeBetween(node, low, high) {
  placeAt(node, low).style.width = `${(100 * Math.max(0, high - low)).toFixed(2)}%`;
}

function describeRow({ name, tag, line }, numbers, views) {
  const said = [tag ? `${name}, ${tag}` : name, line.replace(/\.$/, "")];
  for (const [i, { pass, cost, speed }] of numbers.entries()) {
    if (pass && i === 0) said.push(`${pass} tokens per target pass`);
    if (cost && i === 0) said.push(`a round takes the time of ${cost} tokens without a draft`);
    if (speed?.span) said.push(`${views[i].label}: ${speed.said} (${speed.span}) times as fast as target only, ${speed.verdict}`);
    else if (speed?.computed) said.push(`${views[i].label}: ${speed.bound ? "at most " : ""}${speed.said} times as fast as target only`);
  }
  return `${said.join(". ")}.`;
}

export default mounted(() => new MethodsView());
