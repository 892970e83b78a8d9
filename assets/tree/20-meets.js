// What a coin meets: the coin on its ruler, and the bars of the law it was compared under.

function makeCoin() {
  const kept = s("rect", { class: "zone kept" });
  const bad = s("rect", { class: "zone bad" });
  const edge = s("line", { class: "edge", y1: 0, y2: 30 });
  const disc = s("g", { class: "coin" }, s("circle", { r: 9, class: "face" }));
  const words = { zero: s("text", {}, "0"), one: s("text", { class: "end" }, "1"), edge: s("text", { class: "said" }), coin: s("text", { class: "said strong" }) };
  const hatch = s("pattern", { id: "bad", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { class: "paper bad", width: 8, height: 8 }), s("line", { class: "stripe bad", x1: 0, y1: 0, x2: 0, y2: 8, "stroke-width": 2.4 }));
  const svg = s("svg", { class: "ruler", role: "img" }, s("defs", {}, hatch), kept, bad, edge, disc, ...Object.values(words));
  const title = h("h3", {});
  return { node: h("figure", { class: "coinCard" }, title, svg), title, svg, kept, bad, edge, disc, words };
}

function drawCoin(card, room, width) {
  const one = room.step.node === null ? null : room.payload.nodes[room.step.node];
  const there = Boolean(one) && one.threshold !== null;
  card.node.classList.toggle("idle", !there);
  say(card.title, there ? "The coin against the threshold" : "No coin at this step");
  sized(card.svg, width, 74);
  const [threshold, u] = there ? [one.threshold, one.u] : [0.5, 0];
  const x = threshold * width;
  const top = 22;
  place(card.kept, { x: 0, y: top, width: x, height: 30 });
  place(card.bad, { x, y: top, width: Math.max(0, width - x), height: 30 });
  move(card.edge, x, top);
  move(card.disc, Math.min(width - 9, Math.max(9, u * width)), top + 15);
  move(card.words.zero, 0, top + 46);
  move(card.words.one, width, top + 46);
  for (const node of [card.kept, card.bad, card.edge, card.disc, card.words.edge, card.words.coin]) node.style.visibility = there ? "visible" : "hidden";
  if (!there) return;
  aside(card.words.edge, `kept below ${number(threshold)}`, x, top - 8, width);
  aside(card.words.coin, `coin ${coinText(u, threshold)}`, u * width, top + 46, width, 26);
  card.svg.setAttribute("aria-label", `Coin ${coinText(u, threshold)}, threshold ${number(threshold)}: ${one.fate}.`);
}

/** A text whose middle is at x, kept off the edges and off what stands there. */
function aside(node, text, x, y, width, edge = 0) {
  say(node, text);
  const half = 3.3 * text.length;
  move(node, Math.min(width - half - edge, Math.max(half + edge, x)), y);
}

const LAWS = { p: "target p", met: "left by refused siblings", q: "guesser’s q", residual: "left over now" };

function makeLaws() {
  const title = h("h3", {});
  const key = h("p", { class: "key" });
  const list = h("div", { class: "bars", role: "img" });
  return { node: h("figure", { class: "lawCard" }, title, key, list), title, key, list };
}

/** Bars of the step's law: the target's and the guesser's at a coin, what is left after a refusal, one law for the ending. */
function drawLaws(card, room) {
  const { step, payload } = room;
  const ending = step.kind === "end" || step.kind === "tally";
  const about = ending ? payload.ending : payload.nodes[step.node ?? 0]; // before the first coin: the laws after the text
  const bars = about?.bars ?? [];
  const met = about?.met === "left" ? "met" : "p";
  const laws = ending ? [payload.ending?.kind === "residual" ? "residual" : "p"] : step.kind === "residual" ? [met, "q", "residual"] : [met, "q"];
  say(card.title, bars.length ? { end: "The law it is drawn from", tally: "The law the last token was drawn from", tree: "The laws after the text", residual: "What the refusal leaves" }[step.kind] ?? "What the coin decides between" : "No law at this step");
  card.key.replaceChildren(...(bars.length ? laws : []).map((law) => h("span", {}, h("i", { class: `swatch ${law}` }), LAWS[law])));
  const values = (bar) => laws.map((law) => bar[law === "met" ? "p" : law] ?? 0);
  const most = Math.max(1e-12, ...bars.filter((bar) => bar.glyphs !== null).flatMap(values));
  card.list.replaceChildren(...bars.map((bar) => barRow(bar, laws, values(bar), most)));
  card.list.setAttribute("aria-label", bars.map((bar) => `${bar.glyphs === null ? "the rest" : glyphLine(bar.glyphs, 20)}: ${values(bar).map((x, i) => `${LAWS[laws[i]]} ${number(x)}`).join(", ")}`).join("; "));
}

/** A token's lanes. The rest has numbers alone: as a bar it would dwarf the tokens. */
function barRow(bar, laws, values, most) {
  const word = h("span", { class: "barName" });
  say(word, bar.glyphs === null ? "the rest" : glyphLine(bar.glyphs, 14));
  const lanes = laws.map((law, i) => {
    const fill = h("i", { class: `fill ${law}` });
    fill.style.width = bar.glyphs === null ? "0" : `${((100 * values[i]) / most).toFixed(2)}%`;
    fill.style.minWidth = values[i] > 0 ? "1px" : "0";
    const value = h("b", {});
    say(value, number(values[i]));
    return h("span", { class: "lane" }, h("span", { class: "run" }, fill), value);
  });
  return h("div", { class: bar.mine ? "bar mine" : bar.glyphs === null ? "bar rest" : "bar" }, word, h("span", { class: "lanes" }, ...lanes));
}
