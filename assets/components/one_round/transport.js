// The head of the page, the sentence, and the transport: step, back, play, scrub, rounds.

import { button, h, say, show } from "../lib/dom.js";
import { markTerms } from "../lib/terms.js";

export function makeHead(view) {
  const headline = h("h2", { class: "headline" });
  const opening = h("p", { class: "opening" });
  const parts = h("span", { class: "timeParts", title: "the time of this round, to scale" }), about = h("span", {});
  const [said, lab] = [h("span", {}), h("span", { class: "lab off" }, parts, about)]; // times and settings are for whoever asks
  const info = button("i", "times and settings of this round", () => info.setAttribute("aria-expanded", String(!lab.classList.toggle("off"))), "info");
  info.setAttribute("aria-expanded", "false");
  info.setAttribute("aria-label", info.title);
  const status = h("p", { class: "status" }, said, " ", info, lab);
  const busy = h("p", { class: "busy", role: "status" });
  const notices = h("div", { class: "notices over", role: "status" });
  const live = button("Run it now", "run both models on this machine, with a new seed", () => view.ask({ kind: "live" }), "plain live");
  const undo = button("Undo my numbers", "put back every random number that was drawn", () => view.ask({ kind: "undo" }), "plain undo");
  const state = h("div", { class: "state" }, status, busy, undo);
  const node = h("header", { class: "roundHead" }, headline, state, opening, view.tour.card);
  return { node, headline, state, opening, status, said, parts, about, info, busy, notices, live, undo };
}

export function drawHead(head, view) {
  const { payload, data } = view;
  const round = payload ? view.round() : null;
  say(head.headline, data.headline);
  if (head.opening.dataset.text !== data.opening) {
    head.opening.dataset.text = data.opening;
    head.opening.replaceChildren(...markTerms(data.opening ?? "", data.meanings));
  }
  const edits = payload?.edits ?? [];
  say(head.said, payload ? [(data.origin ?? "").replace("{n}", view.at.round + 1), ...edits].join(" · ") : "");
  say(head.about, payload ? [...round.times, ...(data.alone ? [payload.pair] : []), ...payload.status].join(" · ") : "");
  drawTimeParts(head, round?.parts ?? []);
  show(head.info, Boolean(payload));
  head.status.classList.toggle("isLive", data.mode === "live");
  show(head.status, !data.busy);
  show(head.busy, Boolean(data.busy));
  say(head.busy, data.busy ?? "");
  show(head.live, !data.alone);
  say(head.live, data.mode === "live" && payload ? "Run it again, with a new seed" : "Run it now");
  head.live.disabled = Boolean(data.busy);
  show(head.undo, edits.length > 0);
  head.undo.disabled = Boolean(data.busy);
  const wanted = (data.notices ?? []).join("\n");
  if (head.noticed === wanted) return;
  head.noticed = wanted;
  const close = button("×", "close these notes", () => head.notices.replaceChildren(), "small");
  head.notices.replaceChildren(...(wanted ? [close, ...data.notices.map((sentence) => h("p", {}, sentence))] : []));
}

/** What drafting and the pass took, as a bar to scale with both numbers. */
function drawTimeParts(head, parts) {
  if (head.timed === parts) return;
  head.timed = parts;
  const whole = parts.reduce((sum, { seconds }) => sum + seconds, 0);
  const bar = h("span", { class: "timeBar", "aria-hidden": "true" }, ...parts.map(({ is, seconds }) => {
    const part = h("i", { class: is });
    part.style.width = `${((100 * seconds) / whole).toFixed(1)}%`;
    return part;
  }));
  head.parts.replaceChildren(...(parts.length ? [bar, parts.map(({ name, seconds }) => `${name} ${milliseconds(seconds)}`).join(", ")] : []));
}

function milliseconds(seconds) {
  const ms = 1000 * seconds;
  return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

/** What is needed now and then, behind one word. It closes when something in it is chosen, and when the focus leaves it. */
export function makeMore(parts) {
  const list = h("div", { class: "moreList" }, ...parts);
  const more = h("details", { class: "moreMenu" }, h("summary", { class: "button plain" }, "Options"), list);
  const close = () => { more.open = false; };
  list.addEventListener("click", ({ target }) => target.closest("button") && close());
  list.addEventListener("change", close);
  more.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !more.contains(relatedTarget) && close());
  more.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !more.open) return;
    event.stopPropagation();
    close();
    more.firstChild.focus();
  });
  return more;
}

export function makeTransport(view) {
  const forward = button("", "next step (→)", () => view.forward(), "primary");
  const back = button("← Back", "one step back (←)", () => view.stepBy(-1));
  const play = button("", "play or pause (P); faster and slower: + and −", () => view.play(!view.playing), "play");
  const playing = h("span", {}), pulse = h("span", { class: "pulse", "aria-hidden": "true" }); // the time of a step runs along the button
  play.append(playing, pulse);
  const range = h("input", { type: "range", min: "0", step: "1", "aria-label": "step of this round" });
  const stops = h("div", { class: "stops", "aria-hidden": "true" });
  const rounds = h("select", { "aria-label": "round" });
  range.addEventListener("input", () => view.stepTo(view.at.round, Number(range.value)));
  rounds.addEventListener("change", () => view.stepTo(Number(rounds.value), 0));
  const keys = h("span", { class: "keys" });
  keys.append(...[["←", " "], ["→", " step  "], ["P", " play  "], ["+", " "], ["−", " speed  "], ["F", " presenter view  "], ["S", " notes"]]
    .flatMap(([key, what]) => [h("kbd", {}, key), what]));
  const track = h("div", { class: "track" }, stops, range);
  const node = h("div", { class: "transport" }, h("div", { class: "buttons" }, back, play, forward), track);
  const bar = { node, forward, back, play, playing, pulse, range, stops, rounds, keys };
  const seek = ({ clientX }) => view.stepTo(view.at.round, findStepAt(bar, clientX));
  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    track.setPointerCapture(event.pointerId);
    range.focus({ preventScroll: true });
    seek(event);
  });
  track.addEventListener("pointermove", (event) => track.hasPointerCapture(event.pointerId) && seek(event));
  return bar;
}

/** The parts of a round in a row, each with its name and as long as it has steps; and the list of rounds. */
export function fillTransport(bar, view) {
  const { steps } = view.round();
  bar.range.max = String(steps.length - 1);
  bar.parts = groupSteps(steps).map((part) => {
    const fill = h("i", {}), label = h("span", { class: "label" });
    const node = h("span", { class: "part" }, h("span", { class: "partLine" }, fill), label);
    node.style.flexGrow = String(part.count);
    return { ...part, node, fill, label };
  });
  bar.spaced = null;
  bar.stops.replaceChildren(...bar.parts.map(({ node }) => node));
  if (bar.listed !== view.payload.id) {
    bar.listed = view.payload.id;
    const total = view.payload.more ? "" : ` of ${view.payload.rounds.length}`; // not while the number can still grow
    bar.rounds.replaceChildren(...view.payload.rounds.map((_, i) => h("option", { value: String(i) }, `Round ${i + 1}${total}`)));
  }
}

export function drawTransport(bar, view) {
  const { at, payload, data } = view;
  const count = view.round().steps.length;
  const end = at.step === count - 1;
  const lastRound = at.round === payload.rounds.length - 1;
  bar.range.value = String(at.step);
  bar.range.setAttribute("aria-valuetext", `step ${at.step + 1} of ${count}`);
  bar.rounds.value = String(at.round);
  nameParts(bar, view.track);
  for (const { node, fill, first, count } of bar.parts) {
    fill.style.transform = `scaleX(${Math.min(1, Math.max(0, at.step + 1 - first) / count)})`;
    node.classList.toggle("now", first <= at.step && at.step < first + count);
  }
  const over = lastRound && !payload.more;
  bar.forward.disabled = end && (over || (lastRound && Boolean(data.busy)));
  say(bar.forward, !end ? "Step →" : !over ? "Next round →" : data.alone ? "End of recording" : "End of text");
  bar.back.disabled = at.step === 0 && at.round === 0;
  say(bar.playing, view.playing ? "❚❚ Pause" : "▶ Play");
  bar.play.setAttribute("aria-pressed", String(Boolean(view.playing)));
}

/** Steps with the name that they have in common: {name, first, count}. */
export function groupSteps(steps) {
  const parts = [];
  for (const [i, { label }] of steps.entries()) {
    if (label || !parts.length) parts.push({ name: label, first: i, count: 1 });
    else parts.at(-1).count += 1;
  }
  return parts;
}

const LETTER = 6.6; // px of a letter of a name
const APART = 12; // px between two names
const NAMINGS = [(name) => name, (name) => name.replace("draft tokens", "draft").replace("last token", "last")];

/** The longest names that have room beside each other. */
function nameParts(bar, width) {
  if (bar.spaced === width) return;
  bar.spaced = width;
  const naming = NAMINGS.find((shorten) => bar.parts.reduce((sum, { name }) => sum + LETTER * shorten(name).length + APART, 0) <= width) ?? NAMINGS.at(-1);
  for (const { label, name } of bar.parts) say(label, naming(name));
}

/** The step of a round at a place of the window. */
function findStepAt({ parts }, x) {
  const part = parts.findLast(({ node }) => node.getBoundingClientRect().left <= x) ?? parts[0];
  const { left, width } = part.node.getBoundingClientRect();
  return part.first + Math.min(part.count - 1, Math.max(0, Math.floor((part.count * (x - left)) / width)));
}
