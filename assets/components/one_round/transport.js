// The head of the page, the sentence, and the transport: step, back, play, scrub, rounds.

import { button, h, say, show } from "../lib/dom.js";

export function makeHead(view) {
  const headline = h("h2", { class: "headline" }, h("span", {}), h("span", { class: "claim" }));
  const opening = h("dl", { class: "opening" });
  const status = h("p", { class: "status" });
  const busy = h("p", { class: "busy", role: "status" });
  const notices = h("div", { class: "notices over", role: "status" });
  const live = button("Go live", "run both models on this machine", () => view.ask({ kind: "live" }), "outline live");
  const undo = button("Undo my numbers", "put back every random number that was drawn", () => view.ask({ kind: "undo" }), "outline undo");
  const node = h("header", { class: "roundHead" }, headline, h("div", { class: "asks" }, undo, view.asker.toggle, live), opening, view.tour.card);
  const state = h("div", { class: "state" }, status, busy);
  return { node, state, headline, opening, status, busy, notices, live, undo };
}

export function drawHead(head, view) {
  const { payload, data } = view;
  const round = payload ? view.round() : null;
  const [subject, further] = data.headline;
  say(head.headline.firstChild, subject);
  say(head.headline.lastChild, `: ${further}`);
  if (!head.opening.childElementCount) head.opening.append(...(data.opening ?? []).map(([word, sentence]) => h("div", {}, h("dt", {}, word), h("dd", {}, sentence))));
  if (!view.tour.start.isConnected) head.opening.lastChild?.lastChild.append(" ", view.tour.start);
  const edits = payload?.edits ?? [];
  say(head.status, payload ? [`${data.mode} round`, ...edits, ...round.times, ...(data.alone ? [payload.pair] : []), ...payload.status].join(" · ") : "");
  head.status.title = head.status.textContent; // its end is cut where it is long, so that nothing below moves
  head.status.classList.toggle("isLive", data.mode === "live");
  show(head.status, !data.busy);
  show(head.busy, Boolean(data.busy));
  say(head.busy, data.busy ?? "");
  show(head.live, !data.alone && (data.mode !== "live" || !payload));
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
  const forward = button("Step →", "next step (→)", () => view.stepBy(1), "primary");
  const back = button("← Back", "one step back (←)", () => view.stepBy(-1));
  const play = button("", "play or pause (P)", () => view.play(!view.playing), "play");
  const first = button("⇤", "first step (Home)", () => view.goTo(view.at.round, 0), "small");
  const last = button("⇥", "last step (End)", () => view.goTo(view.at.round, Infinity), "small");
  const next = button("Next round ↵", "next round (Enter)", () => view.nextRound(), "next");
  const range = h("input", { type: "range", min: "0", step: "1", "aria-label": "step of this round" });
  const stops = h("div", { class: "stops", "aria-hidden": "true" });
  const rounds = h("select", { "aria-label": "round" });
  range.addEventListener("input", () => view.goTo(view.at.round, Number(range.value)));
  rounds.addEventListener("change", () => view.goTo(Number(rounds.value), 0));
  const count = h("div", { class: "count" });
  const total = h("div", { class: "total" });
  const keys = h("p", { class: "keys" });
  keys.append("keys: ", ...[["←", " "], ["→", " step  "], ["F", " presenter view  "], ["S", " notes"]]
    .flatMap(([key, what]) => [h("kbd", {}, key), what]));
  const scrub = h("div", { class: "scrub" }, first, h("div", { class: "track" }, stops, range), last);
  const node = h("div", { class: "transport" },
    h("div", { class: "buttons" }, forward, back, play), scrub,
    h("div", { class: "close" }, h("div", { class: "tallies" }, count, total), h("div", { class: "onward" }, rounds, next)));
  return { node, forward, back, play, first, last, next, range, stops, rounds, count, total, keys };
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
  bar.forward.disabled = end && lastRound;
  bar.back.disabled = bar.first.disabled = at.step === 0 && at.round === 0;
  bar.last.disabled = end;
  bar.next.disabled = Boolean(data.busy) || (lastRound && !payload.more);
  const over = data.alone ? "The recording ends here" : "The text is complete";
  say(bar.next, lastRound && !payload.more ? over : "Next round ↵");
  bar.next.classList.toggle("ready", end && !bar.next.disabled);
  say(bar.play, view.playing ? "❚❚ Pause" : "▶ Play");
  bar.play.setAttribute("aria-pressed", String(Boolean(view.playing)));
  say(bar.count, end ? view.round().tally.line : "");
  say(bar.total, end ? view.round().tally.total : "");
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
