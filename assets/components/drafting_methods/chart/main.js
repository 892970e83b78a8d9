// The drafting methods as one chart: a line for each with its speed on one machine at a time. A line is chosen with a click.

import { h, s, say, show, setSize } from "../../lib/dom.js";
import { mounted } from "../../lib/mount.js";

const NARROW = 720;
const MOVE = 420; // ms that a line takes to its new place

class MethodsView {
  constructor() {
    this.presented = false; // the round below is what the presenter view shows
    this.whole = false;
    this.machines = h("div", { class: "machines", role: "group", "aria-label": "Machine" });
    this.choice = h("div", { class: "choice" }, h("span", { class: "of", "aria-hidden": "true" }, "Machine"), this.machines);
    this.answer = h("p", { class: "answer", "aria-live": "polite" });
    this.unit = h("span", { class: "one" }, "no draft");
    this.head = h("div", { class: "heads", "aria-hidden": "true" }, h("span", { class: "who" }, "Choose a row to see one of its rounds"), h("span", { class: "fast" }, h("span", { class: "slower" }, "← slower"), this.unit, h("span", { class: "faster" }, "faster →")));
    this.list = h("ul", { class: "lines" });
    this.more = h("button", { type: "button", class: "button" });
    this.more.addEventListener("click", () => { this.whole = !this.whole; this.draw(); });
    this.key = h("p", { class: "note" });
    this.node = h("section", { class: "stage methods", "aria-label": "The drafting methods" }, this.choice, this.answer, this.head, this.list, h("div", { class: "foot" }, this.more, this.key));
  }

  /** names: what links call the machine of each view; costs: the chosen one. Both are absent where there is one machine. */
  update({ data: { payload, chosen, names = [""], costs = "" }, setTriggerValue }) {
    this.send = setTriggerValue;
    this.chosen = chosen;
    this.names = names;
    const said = JSON.stringify([payload, names]);
    if (said !== this.said) {
      this.said = said;
      this.payload = payload;
      this.fill();
    }
    if (costs !== this.given) this.costs = this.given = costs; // a click is ahead of the server
    this.draw();
  }

  get view() { return this.payload.views[Math.max(0, this.names.indexOf(this.costs))]; }

  fill() {
    const { rows, views, unit } = this.payload;
    this.rows = new Map(rows.map((row) => [row.key, makeRow(row, this.payload, () => this.choose(row.key))]));
    this.groups = new Map([...new Set(rows.map(({ group }) => group))].filter(Boolean).map((group) => [group, h("li", { class: "group" }, group)]));
    this.list.replaceChildren();
    placeAt(this.unit, unit);
    this.head.style.setProperty("--at", this.unit.style.left);
    this.faces = views.map(({ label }, i) => {
      const face = h("button", { type: "button" }, label);
      face.addEventListener("click", () => this.switchTo(this.names[i]));
      return face;
    });
    this.machines.replaceChildren(...this.faces);
    show(this.choice, views.length > 1);
  }

  choose(key) {
    this.chosen = key;
    this.draw();
    this.send("row", key);
  }

  switchTo(costs) {
    if (costs === this.costs) return;
    this.costs = this.given = costs;
    this.draw();
    this.send("costs", costs);
  }

  draw() {
    if (!this.rows) return;
    const { answer: [count, words], note, speeds } = this.view;
    this.node.classList.toggle("whole", this.whole);
    for (const [i, face] of this.faces.entries()) face.setAttribute("aria-pressed", String(this.names[i] === this.costs));
    this.answer.replaceChildren(...(count ? [h("b", {}, count), ` ${words}`] : []));
    show(this.answer, Boolean(count));
    say(this.key, note);
    const shown = new Set();
    for (const { key, ...numbers } of speeds) {
      const made = this.rows.get(key), is = key === this.chosen;
      const seen = (this.whole && !this.room) || made.row.inSight || is;
      fillRow(made, numbers, this.payload.unit);
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

function makeRow(row, { unit, size }, choose) {
  const svg = s("svg", { class: "drawing", "aria-hidden": "true" }, ...row.drawing.map(([tag, attributes]) => s(tag, attributes)));
  setSize(svg, ...size);
  const name = h("span", { class: "name" }, h("b", {}, row.name), ...(row.tag ? [" ", h("span", { class: "tag" }, row.tag)] : []), h("span", { class: "gloss" }, row.line));
  const bar = h("i", { class: "bar" }), range = h("i", { class: "range" });
  const plot = h("span", { class: "fast" }, bar, range, placeAt(h("i", { class: "one" }), unit));
  const value = h("span", { class: "value" }), told = h("span", { class: "told" });
  const face = h("button", { type: "button", class: "method" }, svg, name, plot, h("span", { class: "reads" }, value, told));
  face.addEventListener("click", choose);
  return { row, bar, range, value, told, face, node: h("li", { "data-row": row.key }, face) };
}

/** The numbers of a row on one machine: a bar from the speed without a draft to its own. */
function fillRow({ row, bar, range, value, told, face, node }, { pass, cost, speed }, unit) {
  face.setAttribute("aria-label", describeRow(row, pass, cost, speed));
  const { at, low, high, unsure, computed, bound, span } = speed ?? { at: unit };
  placeBetween(bar, Math.min(at, unit), Math.max(at, unit));
  bar.className = ["bar", computed ? "computed" : "", bound ? "bound" : "", at < unit ? "left" : ""].filter(Boolean).join(" ");
  show(range, Boolean(span));
  if (span) placeBetween(range, low, high);
  node.classList.toggle("unsure", Boolean(unsure));
  say(value, speed ? `${bound ? "≤ " : ""}${speed.said}×` : "");
  say(told, speed ? (row.key === "target" ? "no draft" : speed.told) : row.tag || (pass ? "not computed" : ""));
}

function placeBetween(node, low, high) {
  placeAt(node, low).style.width = `${(100 * Math.max(0, high - low)).toFixed(2)}%`;
}

function describeRow({ name, tag, line }, pass, cost, speed) {
  const said = [tag ? `${name}, ${tag}` : name, line.replace(/\.$/, "")];
  if (pass) said.push(`${pass} tokens per target pass`);
  if (cost) said.push(`a round takes the time of ${cost} passes`);
  if (speed?.span) said.push(`${speed.said} (${speed.span}) times as fast as target only, ${speed.told}`);
  else if (speed?.computed) said.push(`${speed.bound ? "at most " : ""}${speed.said} times as fast as target only, computed`);
  return `${said.join(". ")}.`;
}

export default mounted(() => new MethodsView());
