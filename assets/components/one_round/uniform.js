// The random number as a bar that grows to u, from the left; a person can drag its end or type the number.

import { h, move, place, s, say, show } from "../lib/dom.js";
import { uniformText, number, readUniform, typedUniform } from "../lib/numbers.js";
import { makePanel, placePanel } from "./panel.js";
import { planRuler } from "./layout.js";

const HALF = 38; // px: half of the name of the ratio, or of u
const NAMED = 112; // px of a part that has room for its name beside that
const BESIDE_TITLE = 300; // px of a panel in which the field has room beside the title

export function makeUniform(view) {
  const panel = makePanel("uniform");
  const parts = {
    rim: s("rect", { class: "rim" }),
    accepted: s("rect", { class: "zone accepted" }),
    bad: s("rect", { class: "zone bad" }),
    edge: s("line", { class: "edge", x2: 0 }),
    one: s("text", { class: "end one" }, "1"),
    zero: s("text", { class: "end" }, "0"),
    acceptedText: s("text", { class: "zoneName accepted" }),
    rejectedText: s("text", { class: "zoneName bad" }),
    bar: s("text", { class: "threshold" }),
    level: s("rect", { class: "level" }),
    shows: s("text", { class: "shows" }),
  };
  const grip = s("g", { class: "grip", role: "slider", tabindex: "0", "aria-orientation": "horizontal", "aria-valuemin": "0", "aria-valuemax": "1" },
    s("rect", { x: -22, y: -36, width: 44, height: 72, class: "reach" }), s("rect", { x: -4.5, width: 9, rx: 4.5, class: "pill" }));
  panel.node.append(...Object.values(parts), grip);
  const uniform = { ...panel, ...parts, grip, ...makeUniformForm(view) };
  listenToUniform(uniform, view);
  return uniform;
}

/** A field for a typed random number, in HTML over the picture. */
export function makeField(kind, word, name, onChange) {
  const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": `${name}: at least 0 and below 1` });
  const hint = h("div", { class: "hint" });
  const form = h("form", { class: kind }, h("label", { class: "typed" }, h("span", {}, word), input), hint);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    input.blur(); // which makes it a change, if it is one
  });
  input.addEventListener("change", onChange);
  return { form, input, hint };
}

function makeUniformForm(view) {
  const field = makeField("uniformForm", "or type it", "the random number u", () => typeUniform(field.input, view));
  field.input.addEventListener("input", () => {
    const u = readUniform(field.input.value);
    if (u !== null) view.dragTo(u);
  });
  return field;
}

function typeUniform(input, view) {
  const u = readUniform(input.value);
  if (u === null) {
    view.problem = `u must be at least 0 and below 1, got ${input.value.slice(0, 20) || "nothing"}.`;
    view.dropDrag();
  } else {
    view.problem = "";
    if (input.value === input.dataset.own) view.dropDrag();
    else view.release(u);
  }
}

function listenToUniform(uniform, view) {
  const { grip } = uniform;
  const at = (event) => {
    const box = view.svg.getBoundingClientRect();
    return planRuler(view.plan.uniform, view.plan.narrow).u((event.clientX - box.left) * (view.plan.width / box.width));
  };
  grip.addEventListener("pointerdown", (event) => {
    if (!view.canDrag()) return;
    event.preventDefault();
    grip.focus();
    grip.setPointerCapture(event.pointerId);
    uniform.held = true;
  });
  grip.addEventListener("pointermove", (event) => uniform.held && view.dragTo(at(event)));
  grip.addEventListener("pointerup", (event) => {
    if (!uniform.held) return;
    uniform.held = false;
    if (view.drag) view.release(at(event));
  });
  grip.addEventListener("pointercancel", () => {
    uniform.held = false;
    view.dropDrag();
  });
  grip.addEventListener("keydown", (event) => nudge(event, view));
  grip.addEventListener("blur", () => !uniform.held && view.drag?.byKey && view.release(view.drag.u));
}

const NUDGES = { ArrowUp: 0.01, ArrowDown: -0.01 };

/** Where a key moves u, ten times as far with Shift; null for all other keys: they step the view, as everywhere on it. */
export function nudged(u, key, far = false) {
  return Object.hasOwn(NUDGES, key) ? Math.min(0.999, Math.max(0, Number((u + NUDGES[key] * (far ? 10 : 1)).toFixed(3)))) : null;
}

/** Keys on the focused random number: arrows up and down move it, Enter lets go, Escape puts it back. */
function nudge(event, view) {
  if (!view.canDrag()) return;
  const moved = nudged(view.drag ? view.drag.u : view.chip().u, event.key, event.shiftKey);
  if (moved !== null) view.dragTo(moved, true);
  else if (event.key === "Enter" && view.drag) view.release(view.drag.u);
  else if (event.key === "Escape") view.dropDrag();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

export function drawUniform(uniform, plan, view) {
  const frame = view.frame;
  const chip = view.chip();
  const there = !view.asker.asking && chip !== null && chip.threshold !== null && plan.beside === "uniform";
  const hidden = plan.beside !== "uniform";
  show(uniform.node, !hidden);
  placePanel(uniform, plan.uniform, plan.narrow);
  say(uniform.title, view.asker.asking ? "What do you expect?" : "The random number u");
  uniform.node.classList.toggle("asking", view.asker.asking);
  const sure = there && chip.threshold >= 1;
  say(uniform.sub, plan.narrow ? "" : !there ? "drawn when the target checks a token" : sure ? "uniform from 0 to 1; accepted whatever u is" : "uniform from 0 to 1; accepted if u is below p/q");
  uniform.node.classList.toggle("idle", !there);
  const ruler = planRuler(plan.uniform, plan.narrow);
  drawRuler(uniform, ruler, there ? chip : null, view);
  drawGrip(uniform, ruler, there ? chip : null, view);
  drawUniformForm(uniform, plan, there && !hidden ? chip : null, view);
}

function drawRuler(uniform, ruler, chip, view) {
  const t = chip ? chip.threshold : 0;
  const edge = ruler.x(t), { left, right, top, high, base } = ruler;
  place(uniform.rim, { x: left, y: top, width: ruler.wide, height: high });
  place(uniform.accepted, { x: left, y: top, width: edge - left, height: high });
  place(uniform.bad, { x: edge, y: top, width: right - edge, height: high });
  for (const zone of [uniform.accepted, uniform.bad, uniform.edge, uniform.bar, uniform.acceptedText, uniform.rejectedText]) zone.style.opacity = chip ? 1 : 0;
  uniform.edge.setAttribute("y2", String(high + 12));
  move(uniform.edge, edge, top - 6);
  move(uniform.zero, left, base + 16);
  move(uniform.one, right, base + 16);
  const over = top - 12, label = clamp(edge, left + HALF, right - HALF);
  move(uniform.bar, label, over);
  if (chip) say(uniform.bar, t >= 1 ? "p/q ≥ 1" : `p/q = ${number(t)}`);
  const verdict = chip && view.frame.kind !== "look" ? (view.verdict() ? "accepted" : "rejected") : null; // before u is drawn a part only says what it does
  nameZone(uniform.acceptedText, "accepted", verdict);
  nameZone(uniform.rejectedText, "rejected", verdict);
  placeZoneName(uniform.acceptedText, chip && edge - left > NAMED, left, label + HALF + 8, "start", verdict === "accepted", over);
  placeZoneName(uniform.rejectedText, chip && right - edge > NAMED, right, label - HALF - 8, "end", verdict === "rejected", over);
}

function nameZone(node, is, verdict) {
  say(node, verdict === is ? { accepted: "✓ accepted", rejected: "✕ rejected" }[is] : { accepted: "accepts", rejected: "rejects" }[is]);
  node.classList.toggle("verdict", verdict === is);
}

/** Over its own part; a verdict also where that is too narrow: then on the other side of the ratio's name. */
function placeZoneName(node, fits, own, other, side, verdict, y) {
  move(node, fits ? own : other, y);
  node.style.textAnchor = side;
  node.style.opacity = fits || verdict ? 1 : 0;
}

function clamp(x, from, to) { return Math.max(from, Math.min(to, x)); }

/** The bar grows from 0 to the number; while a person holds its end, it follows without delay. */
function drawGrip(uniform, ruler, chip, view) {
  const fallen = chip !== null && view.frame.kind !== "look";
  const u = view.drag ? view.drag.u : chip ? chip.u : 1;
  const accepted = chip && view.verdict();
  const { left, right, top, high, base } = ruler;
  uniform.grip.classList.toggle("held", Boolean(view.drag));
  uniform.grip.classList.toggle("up", !fallen);
  uniform.grip.dataset.status = fallen ? (accepted ? "accepted" : "rejected") : "";
  const end = fallen ? ruler.x(u) : left;
  move(uniform.grip, end, top + high / 2);
  place(uniform.grip.lastChild, { y: -high / 2 - 4, height: high + 8 });
  place(uniform.level, { x: left, y: top + 0.28 * high, width: end - left, height: 0.44 * high });
  uniform.level.style.opacity = fallen ? 1 : 0;
  uniform.level.classList.toggle("held", Boolean(view.drag));
  uniform.level.dataset.is = accepted ? "accepted" : "rejected";
  uniform.grip.setAttribute("tabindex", fallen && view.canDrag() ? "0" : "-1");
  uniform.grip.setAttribute("aria-valuenow", u.toFixed(3));
  uniform.grip.setAttribute("aria-label", "the random number u: move it to choose another");
  if (fallen) uniform.grip.setAttribute("aria-valuetext", `${uniformText(u, chip.threshold)}: ${accepted ? "accepted" : "rejected"}`);
  move(uniform.shows, clamp(end, left + HALF, right - HALF), base + 17);
  uniform.shows.style.opacity = fallen ? 1 : 0;
  uniform.shows.dataset.status = accepted ? "accepted" : "rejected";
  if (fallen) say(uniform.shows, `u = ${uniformText(u, chip.threshold)}`);
  uniform.zero.style.opacity = fallen && end - left < 2 * HALF ? 0 : 1;
  uniform.one.style.opacity = fallen && right - end < 2 * HALF ? 0 : 1;
}

function drawUniformForm(uniform, plan, chip, view) {
  const { x, y, w, h: high } = plan.uniform;
  const fallen = chip !== null && view.frame.kind !== "look";
  show(uniform.form, fallen);
  const below = plan.narrow && w < BESIDE_TITLE;
  place(uniform.form, below ? { left: x + 8, top: y + 104, width: w - 16 } : plan.narrow ? { left: x + w - 168, top: y + 4, width: 160 } : { left: x + 8, top: y + high - 54, width: w - 16 });
  uniform.form.classList.toggle("inline", plan.narrow && !below);
  if (!fallen) return;
  const u = view.drag ? view.drag.u : chip.u;
  if (uniform.input.getRootNode().activeElement !== uniform.input) {
    uniform.input.dataset.own = typedUniform(chip.u, chip.threshold);
    uniform.input.value = typedUniform(u, chip.threshold);
  }
  uniform.input.disabled = !view.canDrag();
  const hint = chip.edited || view.drag ? "you chose this number" : "drag u: what if?";
  say(uniform.hint, view.problem || hint);
  uniform.hint.classList.toggle("problem", Boolean(view.problem));
}
