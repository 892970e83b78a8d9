// The head of the page, the sentence, and the transport: step, back, play, scrub, rounds.

import { button, h, say, show } from "../lib/dom.js";

export function makeHead(view) {
  const headline = h("h2", { class: "headline" }, h("span", {}), h("span", { class: "claim" }));
  const opening = h("p", { class: "opening" });
  const status = h("p", { class: "status" });
  const busy = h("p", { class: "busy", role: "status" });
  const notices = h("div", { class: "notices over", role: "status" });
  const live = button("Go live", "run both models on this machine, with a new seed", () => view.ask({ kind: "live" }), "plain live");
  const undo = button("Undo my numbers", "put back every random number that was drawn", () => view.ask({ kind: "undo" }), "plain undo");
  const node = h("header", { class: "roundHead" }, headline, opening, view.tour.card);
  const state = h("div", { class: "state" }, status, busy);
  return { node, state, headline, opening, status, busy, notices, live, undo };
}

export function drawHead(head, view) {
  const { payload, data } = view;
  const round = payload ? view.round() : null;
  const [subject, further] = data.headline;
  say(head.headline.firstChild, subject);
  say(head.headline.lastChild, `: ${further}`);
  say(head.opening, data.opening ?? "");
  const edits = payload?.edits ?? [];
  say(head.status, payload ? [`${data.mode} round`, ...edits, ...round.times, ...(data.alone ? [payload.pair] : []), ...payload.status].join(" · ") : "");
  head.status.title = head.status.textContent; // its end is cut where it is long, so that nothing below moves
  head.status.classList.toggle("isLive", data.mode === "live");
  show(head.status, !data.busy);
  show(head.busy, Boolean(data.busy));
  say(head.busy, data.busy ?? "");
  show(head.live, !data.alone);
  say(head.live, data.mode === "live" && payload ? "New seed" : "Go live");
  head.live.disabled = Boolean(data.busy);
  show(head.undo, edits.length > 0);
  head.undo.disabled = Boolean(data.busy);
  const wanted = (data.notices ?? []).join("\n");
  if (head.noticed === wanted) return;
  head.noticed = wanted;
  const close = button("×", "close these notes", () => head.notices.replaceChildren(), "small");
  head.notices.replaceChildren(...(wanted ? [close, ...data.notices.map((sentence) => h("p", {}, sentence))] : []));
}

export function makeTransport(view) {
  const forward = button("", "next step (→)", () => view.forward(), "primary");
  const back = button("← Back", "one step back (←)", () => view.stepBy(-1));
  const play = button("", "play or pause (P); faster and slower: + and −", () => view.play(!view.playing), "play");
  const range = h("input", { type: "range", min: "0", step: "1", "aria-label": "step of this round" });
  const stops = h("div", { class: "stops", "aria-hidden": "true" });
  const rounds = h("select", { "aria-label": "round" });
  range.addEventListener("input", () => view.stepTo(view.at.round, Number(range.value)));
  rounds.addEventListener("change", () => view.stepTo(Number(rounds.value), 0));
  const keys = h("span", { class: "keys" });
  keys.append(...[["←", " "], ["→", " step  "], ["P", " play  "], ["+", " "], ["−", " speed  "], ["F", " presenter view  "], ["S", " notes"]]
    .flatMap(([key, what]) => [h("kbd", {}, key), what]));
  const keysNote = h("details", { class: "keysNote" }, h("summary", { class: "button plain" }, "Keys"), keys);
  const node = h("div", { class: "transport" }, h("div", { class: "buttons" }, back, play, forward), h("div", { class: "track" }, stops, range));
  return { node, forward, back, play, range, stops, rounds, keysNote };
}

/** Stops for the steps of a round, and the list of rounds. */
export function fillTransport(bar, view) {
  const { steps } = view.round();
  bar.range.max = String(steps.length - 1);
  bar.marks = steps.map((step, i) => {
    const label = h("span", { class: "label" }, step.label);
    const mark = h("span", { class: step.label ? "stop big" : "stop" }, label);
    mark.style.left = `${(100 * i) / Math.max(1, steps.length - 1)}%`;
    return { mark, label, text: step.label };
  });
  bar.stops.replaceChildren(h("span", { class: "done" }), ...bar.marks.map(({ mark }) => mark));
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
  bar.stops.firstChild.style.transform = `scaleX(${count > 1 ? at.step / (count - 1) : 0})`;
  for (const [i, { mark }] of bar.marks.entries()) {
    mark.classList.toggle("past", i <= at.step);
    mark.classList.toggle("now", i === at.step);
  }
  spaceLabels(bar, at.step, view.track);
  const over = lastRound && !payload.more;
  bar.forward.disabled = end && (over || (lastRound && Boolean(data.busy)));
  say(bar.forward, !end ? "Step →" : !over ? "Next round →" : data.alone ? "End of recording" : "End of text");
  bar.back.disabled = at.step === 0 && at.round === 0;
  say(bar.play, view.playing ? "❚❚ Pause" : "▶ Play");
  bar.play.setAttribute("aria-pressed", String(Boolean(view.playing)));
}

/** Labels that would touch are left out; the one that is current always shows, or its group's. */
function spaceLabels(bar, now, width) {
  let group = now;
  while (group > 0 && !bar.marks[group].text) group -= 1;
  const middle = (i) => (width * i) / Math.max(1, bar.marks.length - 1);
  const size = (i) => bar.marks[i].text.length * 6.4 + 6;
  const taken = [group];
  const clear = (i) => taken.every((j) => i === j || Math.abs(middle(i) - middle(j)) > (size(i) + size(j)) / 2);
  for (const [i, { text }] of bar.marks.entries()) if (text && clear(i)) taken.push(i);
  for (const [i, { label, mark }] of bar.marks.entries()) {
    show(label, taken.includes(i));
    mark.classList.toggle("group", i === group);
  }
}
