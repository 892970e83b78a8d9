// One lane: what its text is and its clock, and the text, token by token. Its name stands over its track.

import { h, say } from "../lib/dom.js";
import { glyphSpans } from "../lib/glyphs.js";

export const DIVERGENCE = "specviz-divergence"; // a place that both views of the page are told of

export function makeLane(key) {
  const title = h("h3", {}), colors = h("span", { class: "colors" }, key === "speculative" ? ", same colors" : "");
  const clock = h("p", { class: "clock" });
  const text = h("div", { class: "text", tabindex: "0", role: "group", "aria-label": "the text" }); // keys scroll it
  const node = h("article", { class: `lane ${key}` }, h("header", {}, h("p", { class: "of" }, title, colors), clock), text);
  text.addEventListener("scroll", () => fadeText(text), { passive: true });
  return { key, node, title, clock, text, made: [], drawn: "", there: 0 };
}

/** Tokens that were not there yet; those that stand stay as they are. */
export function fillLane(lane, data, view) {
  say(lane.title, data.text);
  const stands = lane.made.every(({ one }, n) => one.name === data.tokens[n]?.name && one.is === data.tokens[n].is);
  if (lane.drawn !== view.payload.id || !stands) {
    lane.text.replaceChildren(h("span", { class: "given" }, view.payload.prompt || "(the start of a text) "));
    lane.made = [];
    lane.there = 0;
    lane.drawn = view.payload.id;
  }
  for (const one of data.tokens.slice(lane.made.length)) {
    const item = makeToken(one, lane.made.length, data.key, view);
    if (one.lead) lane.text.append(" ");
    lane.text.append(item.face);
    if (one.makes) join(lane, item);
    item.breaks = Array.from({ length: one.breaks }, () => h("br", { class: "later" }));
    lane.text.append(...item.breaks);
    lane.made.push(item);
  }
  data.tokens.forEach((one, place) => {
    lane.made[place].one = one; // measured again, it may stand at another time
    markDivergence(lane.made[place], one.divergence);
  });
  noteEnd(lane, data, view.payload.done);
  const reachable = lane.made.filter(({ face, divergence }) => divergence || face.href);
  const first = reachable.find(({ face }) => face.tabIndex === 0) ?? reachable[0];
  for (const item of reachable) item.face.tabIndex = item === first ? 0 : -1;
  lane.reachable = reachable;
  lane.data = data;
}

/** Why the last token of the second text has no color: the text was complete with it, so nothing was drafted. */
function noteEnd(lane, { key, tokens }, done) {
  const item = lane.made.at(-1);
  if (key !== "speculative" || !done || !item || item.note || tokens.at(-1).is !== "target" || tokens.at(-2)?.is === "target") return;
  item.note = h("span", { class: item.face.classList.contains("later") ? "note later" : "note" }, " last token: nothing drafted");
  item.face.after(item.note);
  item.breaks.push(item.note);
}

/** The tokens whose bytes make one character get a common outline, and the character behind them. */
function join(lane, item) {
  const { makes, since } = item.one;
  const faces = [...lane.made.slice(since).map(({ face }) => face), item.face];
  const old = faces[0].closest(".made");
  const box = old ?? h("span", { class: "made", role: "group" });
  if (!old) faces[0].before(box);
  box.querySelector(".makes")?.remove(); // a longer character goes on from one that stood
  box.append(...faces.filter((face) => face.parentNode !== box), h("span", { class: "makes" }, `= ${makes}`));
  box.setAttribute("aria-label", `${faces.length} tokens that together make ${makes}`);
}

function makeToken(one, place, key, view) {
  const link = one.href !== undefined;
  const face = link ? h("a", { href: one.href, target: "_blank", rel: "noopener" }) : h("span", {});
  const item = { face, one, place, divergence: false };
  face.className = "token later"; // until a moment of the clock shows it
  face.dataset.is = one.is;
  face.append(...glyphSpans(one.glyphs));
  if (link) {
    const said = `${view.payload.origins[one.is]}, round ${one.round + 1}`;
    face.setAttribute("aria-label", `${one.name}: ${said}; opens the round in a new tab`);
    face.title = `${said}: opens in a new tab`;
  }
  for (const [event, round] of [["pointerenter", one.round], ["focus", one.round], ["pointerleave", null], ["blur", null]]) {
    face.addEventListener(event, () => view.mark(key, round));
  }
  face.addEventListener("keydown", (event) => view.walk(event, key, item));
  face.addEventListener("click", () => item.divergence && tell(place));
  return item;
}

/** A place where the models differ is a button that opens it below. */
function markDivergence(item, divergence) {
  if (item.divergence === divergence) return;
  item.divergence = divergence;
  item.face.classList.toggle("divergence", divergence);
  item.face.title = divergence ? "the models differ most here: see both distributions below" : "";
  if (divergence) item.face.setAttribute("role", "button");
  else item.face.removeAttribute("role");
}

export function tell(place) {
  window.dispatchEvent(new CustomEvent(DIVERGENCE, { detail: place }));
}

/** What stands at a moment of both clocks; null: everything there is, and ``rests`` once no more comes. Only what differs from the last picture is touched. */
export function drawLane(lane, now, rests) {
  const { data, made } = lane;
  const passes = now === null ? data.rounds.length : data.rounds.filter((round) => round.at <= now).length;
  const there = now === null ? made.length : made.filter(({ one }) => one.at <= now).length;
  for (let n = Math.min(there, lane.there); n < Math.max(there, lane.there); n += 1) for (const node of [made[n].face, ...made[n].breaks]) node.classList.toggle("later", n >= there);
  const rest = now === null && rests;
  if (there !== lane.there || rest !== lane.rest) scrollText(lane.text, rest ? null : made[there - 1]?.face);
  Object.assign(lane, { there, passes, rest });
  const counted = `${there} token${there === 1 ? "" : "s"} in ${passes} pass${passes === 1 ? "" : "es"}`;
  say(lane.clock, rest && data.hint && !lane.narrow ? `${counted} · ${data.hint}` : counted);
}

/** Where there is no room for all of a text: the lines that end with ``last``, and at rest, without it, its beginning. */
function scrollText(text, last) {
  if (text.scrollHeight <= text.clientHeight) return;
  text.scrollTop = last ? last.offsetTop + last.offsetHeight - text.clientHeight : 0;
  fadeText(text);
}

/** An edge that fades says that the text goes on there. */
function fadeText(text) {
  text.classList.toggle("before", text.scrollTop > 2);
  text.classList.toggle("after", text.scrollTop + text.clientHeight < text.scrollHeight - 2 && !text.querySelector(".token.later"));
}
