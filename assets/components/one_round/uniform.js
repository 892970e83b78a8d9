// The random number as a bar that grows to u; a person can drag its end or type the number.

import { h, move, place, s, say, show } from "../lib/dom.js";
import { uniformText, number, readUniform, typedUniform } from "../lib/numbers.js";
import { makePanel, placeLine, placePanel } from "./panel.js";
import { planRuler } from "./layout.js";

export function makeUniform(view) {
  const panel = makePanel("uniform");
  const parts = {
    ratio: s("text", { class: "sub" }),
    rim: s("rect", { class: "rim" }),
    accepted: s("rect", { class: "zone accepted" }),
    bad: s("rect", { class: "zone bad" }),
    edge: s("line", { class: "edge", x2: 1 }),
    one: s("text", { class: "end" }, "1"),
    zero: s("text", { class: "end" }, "0"),
    acceptedText: s("text", { class: "zoneName accepted" }),
    rejectedText: s("text", { class: "zoneName bad" }),
    bar: s("text", { class: "threshold" }),
    level: s("rect", { class: "level" }),
    shows: s("text", { class: "shows" }),
  };
  const grip = s("g", { class: "grip", role: "slider", tabindex: "0", "aria-orientation": "vertical", "aria-valuemin": "0", "aria-valuemax": "1" },
    s("rect", { x: -34, y: -22, width: 68, height: 44, class: "reach" }), s("rect", { x: -20, y: -4.5, width: 40, height: 9, rx: 4.5, class: "pill" }));
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
    return planRuler(view.plan.uniform, view.plan.narrow).u((event.clientY - box.top) * (view.plan.height / box.height));
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
  const hidden = plan.beside !== "uniform" || (plan.narrow && frame.kind !== "uniform");
  show(uniform.node, !hidden);
  placePanel(uniform, plan.uniform, plan.narrow);
  say(uniform.title, view.asker.asking ? "What do you expect?" : "The random number u");
  uniform.node.classList.toggle("asking", view.asker.asking);
  move(uniform.ratio, plan.uniform.x + (plan.narrow ? 12 : 20), plan.uniform.y + (plan.narrow ? 59 : 68));
  const sure = there && chip.threshold >= 1;
  say(uniform.ratio, there ? `p/q = ${chip.ratio.p} / ${chip.ratio.q}${sure ? ", at least 1" : ` = ${number(chip.threshold)}`}` : "");
  say(uniform.sub, !there ? "drawn when the target checks a token" : sure ? "accepted whatever u is" : "accepted if u is below p/q");
  uniform.node.classList.toggle("idle", !there);
  const ruler = planRuler(plan.uniform, plan.narrow);
  drawRuler(uniform, ruler, there ? chip : null, view);
  drawGrip(uniform, ruler, there ? chip : null, view);
  drawUniformForm(uniform, plan, there && !hidden ? chip : null, view);
}

function drawRuler(uniform, ruler, chip, view) {
  const t = chip ? chip.threshold : 0;
  const edge = ruler.y(t);
  place(uniform.rim, { x: ruler.left, y: ruler.top, width: ruler.wide, height: ruler.high });
  place(uniform.accepted, { x: ruler.left, y: edge, width: ruler.wide, height: ruler.base - edge });
  place(uniform.bad, { x: ruler.left, y: ruler.top, width: ruler.wide, height: edge - ruler.top });
  for (const zone of [uniform.accepted, uniform.bad, uniform.edge, uniform.bar, uniform.acceptedText, uniform.rejectedText]) zone.style.opacity = chip ? 1 : 0;
  placeLine(uniform.edge, ruler.left - 8, edge, ruler.wide + 16);
  move(uniform.one, ruler.left - 14, ruler.top + 5);
  move(uniform.zero, ruler.left - 14, ruler.base + 4);
  const right = ruler.left + ruler.wide + 14;
  const low = Math.max(ruler.top + 14, Math.min(ruler.base - 4, edge + 4));
  move(uniform.bar, right, low);
  if (chip) say(uniform.bar, t >= 1 ? "p/q ≥ 1" : `p/q = ${number(t)}`);
  const verdict = chip && view.frame.kind !== "look" ? (view.verdict() ? "accepted" : "rejected") : null; // before u is drawn a part only says what it does
  nameZone(uniform.acceptedText, "accepted", verdict);
  nameZone(uniform.rejectedText, "rejected", verdict);
  drawZoneName(uniform.acceptedText, right, (edge + ruler.base) / 2 + 4, chip && (verdict === "accepted" || ruler.base - edge > 62), low);
  drawZoneName(uniform.rejectedText, right, (ruler.top + edge) / 2 + 4, chip && (verdict === "rejected" || edge - ruler.top > 62), low);
}

function nameZone(node, is, verdict) {
  say(node, verdict === is ? { accepted: "✓ accepted", rejected: "✕ rejected" }[is] : { accepted: "accepts", rejected: "rejects" }[is]);
  node.classList.toggle("verdict", verdict === is);
}

function drawZoneName(node, x, y, fits, threshold) {
  const clear = Math.abs(y - threshold) < 20 ? y + Math.sign(y - threshold || 1) * 14 : y;
  move(node, x, clear);
  node.style.opacity = fits ? 1 : 0;
}

/** The bar grows from 0 to the number; while a person holds its end, it follows without delay. */
function drawGrip(uniform, ruler, chip, view) {
  const fallen = chip !== null && view.frame.kind !== "look";
  const u = view.drag ? view.drag.u : chip ? chip.u : 1;
  const accepted = chip && view.verdict();
  uniform.grip.classList.toggle("held", Boolean(view.drag));
  uniform.grip.classList.toggle("up", !fallen);
  uniform.grip.dataset.status = fallen ? (accepted ? "accepted" : "rejected") : "";
  const end = fallen ? ruler.y(u) : ruler.base;
  move(uniform.grip, ruler.left + ruler.wide / 2, end);
  place(uniform.level, { x: ruler.left + ruler.wide / 2 - 15, y: end, width: 30, height: ruler.base - end });
  uniform.level.style.opacity = fallen ? 1 : 0;
  uniform.level.classList.toggle("held", Boolean(view.drag));
  uniform.level.dataset.is = accepted ? "accepted" : "rejected";
  uniform.grip.setAttribute("tabindex", fallen && view.canDrag() ? "0" : "-1");
  uniform.grip.setAttribute("aria-valuenow", u.toFixed(3));
  uniform.grip.setAttribute("aria-label", "the random number u: move it to choose another");
  if (fallen) uniform.grip.setAttribute("aria-valuetext", `${uniformText(u, chip.threshold)}: ${accepted ? "accepted" : "rejected"}`);
  move(uniform.shows, ruler.left - 12, end + 5);
  uniform.shows.style.opacity = fallen ? 1 : 0;
  uniform.shows.dataset.status = accepted ? "accepted" : "rejected";
  if (fallen) say(uniform.shows, `u = ${uniformText(u, chip.threshold)}`);
  uniform.one.style.opacity = fallen && ruler.y(u) - ruler.top < 16 ? 0 : 1;
  uniform.zero.style.opacity = fallen && ruler.base - ruler.y(u) < 16 ? 0 : 1;
}

function drawUniformForm(uniform, plan, chip, view) {
  const { x, y, w, h: high } = plan.uniform;
  const fallen = chip !== null && view.frame.kind !== "look";
  show(uniform.form, fallen);
  place(uniform.form, plan.narrow ? { left: x + w - 168, top: y + 8, width: 160 } : { left: x + 8, top: y + high - 54, width: w - 16 });
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
