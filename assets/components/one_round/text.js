// The text so far, and the chips of this round.

import { h, place, say, show } from "../lib/dom.js";
import { glyphSpans } from "../lib/glyphs.js";
import { getChipState } from "./decisions.js";

const CAPTIONS = {
  accepted: "✓ accepted",
  rejected: "✕ rejected",
  unchecked: "not checked",
  behind: "after the end",
  pending: "? open",
  residual: "◆ replacement",
  bonus: "+ bonus",
};

const MANY = 8; // draft tokens; more of them stand in one row that scrolls
const EDGE = 40; // px at the end of the row that fade

/** All nodes of one round's text line; made once per round, then only updated. */
export function makeText(view) {
  const text = h("span", { class: "sofar" });
  const more = h("button", { class: "quiet more", type: "button", "aria-expanded": "false" }, "…");
  const chips = h("span", { class: "chips" });
  chips.addEventListener("scroll", () => fadeChips(chips), { passive: true });
  const aside = [-1, 1].map((way) => makeAside(chips, way));
  const line = h("div", { class: "line", lang: "" }, more, text, chips, ...aside);
  more.addEventListener("click", () => {
    view.wholeText = !view.wholeText;
    view.draw();
  });
  return { line, text, more, chips, aside, list: [], braces: [] };
}

/** A sign over the edge of a strip that goes on there; a tap brings it into sight. Keys have the steps for that. */
function makeAside(chips, way) {
  const node = h("button", { class: `aside ${way < 0 ? "less" : "further"}`, type: "button", tabindex: "-1", "aria-hidden": "true" }, way < 0 ? "‹" : "›");
  node.addEventListener("click", () => chips.scrollBy({ left: way * chips.clientWidth * 0.7 }));
  return node;
}

function makeChip(chip, index, view) {
  const face = h("span", { class: "face" }, ...glyphSpans(chip.glyphs));
  const caption = h("span", { class: "caption" });
  const edited = h("span", { class: "edited", title: "you chose the random number here" }, "✎");
  const node = h("span", { class: "chip" }, edited, face, h("span", { class: "sweep" }), caption);
  node.style.setProperty("--nth", index);
  if (index !== null && chip.threshold !== undefined) {
    node.addEventListener("click", () => view.stepTo(view.at.round, view.stepIndex("look", index) ?? chip.appears));
  }
  return { node, face, caption, edited, chip, standing: null };
}

/** New nodes for the chips of a round. */
export function fillText(parts, round, view) {
  parts.list = round.chips.map((chip, i) => makeChip(chip, i, view));
  const blank = { glyphs: [{ t: "…", k: "text" }], kind: null };
  parts.last = makeChip(round.ending ?? blank, round.chips.length, view);
  parts.last.node.classList.add("last");
  for (const [i, { node }] of parts.list.entries()) node.style.order = 2 * i;
  parts.list.at(-1)?.node.classList.add("checked");
  parts.braces = round.braces.map((brace) => ({ node: h("span", { class: "brace" }, h("span", { class: "letter" }, brace.text)), ...brace }));
  parts.all = [...parts.list, parts.last];
  const pass = h("span", { class: "onePass" }, "1 target pass"); // stands under the line of the pass without a place of its own, so that nothing moves for it
  parts.chips.classList.toggle("many", round.chips.length > MANY);
  parts.chips.scrollLeft = parts.tallest = 0;
  parts.chips.style.minHeight = "";
  parts.chips.replaceChildren(...[...parts.all, ...parts.braces].map(({ node }) => node), pass);
  parts.pass = pass;
  parts.chips.classList.toggle("braced", parts.braces.length > 0);
  parts.sofar = (view.payload.prompt + round.text).replace(/\r\n?/g, "\n");
}

/** The end of the text that fits beside the chips; the dots show all of it. */
export function drawSoFar(parts, view) {
  const most = 64;
  const letters = [...parts.sofar];
  const long = letters.length > most;
  show(parts.more, long);
  parts.line.classList.toggle("open", view.wholeText);
  parts.more.setAttribute("aria-expanded", String(view.wholeText));
  parts.more.title = view.wholeText ? "show the end of the text only" : "show the whole text";
  parts.text.classList.toggle("whole", view.wholeText);
  const tail = long && !view.wholeText ? letters.slice(-most).join("").replace(/^\S{0,12}\s/, "") : parts.sofar;
  say(parts.text, view.wholeText ? tail : tail.replace(/\n+/g, " ↵ ") || "(an empty text)");
  parts.text.classList.toggle("none", parts.sofar === "");
}

export function drawChips(parts, view) {
  const step = view.step();
  const passAt = view.stepIndex("pass", null);
  parts.line.classList.toggle("passed", view.at.step >= passAt);
  for (const [index, item] of parts.list.entries()) {
    const now = getChipState(item.chip, index, view.at.step, view.whatIf());
    setStanding(item, now, CAPTIONS[now] ?? "");
    item.node.classList.toggle("focus", step.node === index && ["draft", "look", "uniform"].includes(step.kind));
    show(item.edited, item.chip.edited && view.at.step >= item.chip.decided);
  }
  drawLast(parts, view);
  parts.shown = step.kind === "draw" ? parts.list.length : step.node ?? (view.at.step < passAt ? 0 : parts.last.node.dataset.is === "hidden" ? 0 : parts.list.length);
  for (const brace of parts.braces) {
    show(brace.node, parts.all.slice(brace.first, brace.last + 1).every(({ node }) => !["ghost", "hidden"].includes(node.dataset.is)));
  }
}

/** The token that the rule adds: behind the draft tokens, or in the place of the one that it replaces; those after it are dropped. */
function drawLast(parts, view) {
  const item = parts.last, { ending, chips } = view.round();
  const what = view.whatIf();
  const standIn = what && what.changed && !what.accepted ? chips[what.node].standIn : null;
  const shown = standIn ?? ending?.glyphs;
  const shape = standIn ? "standin" : "own";
  if (item.shape !== shape && shown) {
    item.face.replaceChildren(...glyphSpans(shown));
    item.shape = shape;
  }
  let now = "hidden";
  if (standIn) now = "residual";
  else if (ending && !(what && what.changed) && view.at.step >= ending.appears) now = ending.kind;
  const replaced = now === "residual" ? (standIn ? what.node : chips.findIndex(({ status }) => status === "rejected")) : -1;
  for (const [i, { node }] of parts.list.entries()) {
    show(node, i !== replaced);
    node.classList.toggle("dropped", replaced >= 0 && i > replaced && view.frame.chain);
  }
  item.node.style.order = replaced >= 0 ? 2 * replaced + 1 : 2 * chips.length;
  setStanding(item, now, replaced >= 0 ? `◆ replaces ${chips[replaced].name}` : CAPTIONS[now] ?? "");
  item.node.classList.toggle("focus", ["draw", "bonus"].includes(view.step().kind));
  show(item.edited, Boolean(ending?.edited) && now !== "hidden");
}

function setStanding(item, now, caption) {
  if (item.node.dataset.is !== now) item.node.dataset.is = now;
  say(item.caption, caption);
  item.node.title = now === "unchecked" ? "after the first rejection nothing decides about a draft token, though the target computed its distribution here too" : "";
}

/** A strip of chips shows the one that the step is about: from its beginning while that is in sight there, else around it. */
export function scrollChips(parts, view) {
  const { chips } = parts;
  const strip = parts.list.length > MANY;
  chips.classList.toggle("strip", strip);
  if (!strip) {
    parts.tallest = view.narrow ? Math.max(parts.tallest, chips.offsetHeight) : 0; // rows of a phone stay when a chip goes
    chips.style.minHeight = parts.tallest ? `${parts.tallest}px` : "";
    return chips.classList.remove("before", "after");
  }
  const about = parts.all[parts.shown ?? 0]?.node;
  if (about) {
    const fits = about.offsetLeft + about.offsetWidth < chips.clientWidth - EDGE;
    chips.scrollTo({ left: fits ? 0 : about.offsetLeft + about.offsetWidth / 2 - chips.clientWidth / 2 });
  }
  const edge = chips.offsetTop + Number.parseFloat(getComputedStyle(chips).paddingTop);
  for (const node of parts.aside) node.style.top = `${edge}px`;
  fadeChips(chips);
}

function fadeChips(chips) {
  chips.classList.toggle("before", chips.scrollLeft > 4);
  chips.classList.toggle("after", chips.scrollLeft < chips.scrollWidth - chips.clientWidth - 4);
}

/** Braces stand over the chips that they join; a run that wraps is braced on its first line. The name of the pass stands under the middle of its line. */
export function placeBraces(parts) {
  const end = parts.list.at(-1)?.node;
  parts.pass.style.width = end ? `${end.offsetLeft + end.offsetWidth}px` : "";
  for (const brace of parts.braces) {
    const first = parts.all[brace.first].node;
    const line = parts.all.slice(brace.first, brace.last + 1).filter(({ node }) => node.offsetTop === first.offsetTop);
    const end = line[line.length - 1].node;
    place(brace.node, { left: first.offsetLeft, top: first.offsetTop - 20, width: end.offsetLeft + end.offsetWidth - first.offsetLeft });
  }
}
