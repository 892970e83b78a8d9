// The head of the page, the sentence, and the transport: step, back, play, scrub, rounds.

import { button, h, say, show } from "../lib/dom.js";

export function makeHead(view) {
  const headline = h("h2", { class: "headline" });
  const opening = h("p", { class: "opening" });
  const status = h("p", { class: "status" });
  const busy = h("p", { class: "busy", role: "status" });
  const notices = h("div", { class: "notices over", role: "status" });
  const live = button("Run it now", "run both models on this machine, with a new seed", () => view.ask({ kind: "live" }), "plain live");
  const undo = button("Undo my numbers", "put back every random number that was drawn", () => view.ask({ kind: "undo" }), "plain undo");
  const node = h("header", { class: "roundHead" }, headline, opening, view.tour.card);
  const state = h("div", { class: "state" }, status, busy);
  return { node, state, headline, opening, status, busy, notices, live, undo };
}

export function drawHead(head, view) {
  const { payload, data } = view;
  const round = payload ? view.round() : null;
  say(head.headline, data.headline);
  say(head.opening, data.opening ?? "");
  const edits = payload?.edits ?? [];
  say(head.status, payload ? [`${data.mode} round`, ...edits, ...round.times, ...(data.alone ? [payload.pair] : []), ...payload.status].join(" · ") : "");
  head.status.title = head.status.textContent; // its end is cut where it is long, so that nothing below moves
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

/** What is needed now and then, behind one word. It closes when something in it is chosen, and when the focus leaves it. */
export function makeMore(parts) {
  const list = h("div", { class: "moreList" }, ...parts);
  const more = h("details", { class: "moreMenu" }, h("summary", { class: "button plain" }, "More"), list);
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
  const node = h("div", { class: "transport" }, h("div", { class: "buttons" }, back, play, forward), h("div", { class: "track" }, stops, range));
  return { node, forward, back, play, playing, pulse, range, stops, rounds, keys };
}

/** Stops for the steps of a round, and the list of rounds. */
export function fillTransport(bar, view) {
  const { steps } = view.round();
  bar.range.max = String(steps.length - 1);
  bar.marks = steps.map((step, i) => {
    const label = h("span", { class: "label" }, step.label);
    const mark = h("span", { class: "stop" }, label);
    mark.style.left = `${(100 * i) / Math.max(1, steps.length - 1)}%`;
    return { mark, label, text: step.label };
  });
  bar.spaced = null;
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
  say(bar.playing, view.playing ? "❚❚ Pause" : "▶ Play");
  bar.play.setAttribute("aria-pressed", String(Boolean(view.playing)));
}

/** The stops that have a name have a dot, where their names have room beside each other: the same ones at every step of a round. */
function spaceLabels(bar, now, width) {
  let group = now;
  while (group > 0 && !bar.marks[group].text) group -= 1;
  if (bar.spaced !== width) {
    bar.spaced = width;
    chooseStops(bar, width);
  }
  for (const [i, { mark }] of bar.marks.entries()) mark.classList.toggle("group", i === group);
}

function chooseStops(bar, width) {
  const shorten = bar.marks.filter(({ text }) => text).length * 76 > width; // of check 1, check 2 the numbers alone
  const texts = bar.marks.map(({ text }) => (shorten ? text.replace(/^check (?!1$)/, "").replace("draft tokens", "draft") : text));
  const middle = (i) => (width * i) / Math.max(1, bar.marks.length - 1);
  const size = (i) => texts[i].length * 6 + 8;
  const taken = [];
  const named = bar.marks.map((_, i) => i).filter((i) => bar.marks[i].text);
  const isDigit = (i) => /^\d/.test(texts[i]), first = named.find((i) => texts[i].startsWith("check"));
  for (const i of [named[0], named.at(-1), first, ...named.filter((i) => !isDigit(i)), ...named.filter(isDigit)]) {
    if (i !== undefined && !taken.includes(i) && taken.every((j) => i === j || Math.abs(middle(i) - middle(j)) > (size(i) + size(j)) / 2)) taken.push(i);
  }
  for (const [i, { label, mark }] of bar.marks.entries()) {
    say(label, texts[i]);
    show(label, taken.includes(i));
    mark.classList.toggle("big", taken.includes(i));
  }
}
