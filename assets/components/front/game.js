// Scene 3: the game of the day, the same for everybody.

import { h, say, show } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { Game } from "../lib/game.js";
import { copyText } from "./clipboard.js";
import { chooseGame, countDays, formatDay, readKept, recordAnswer } from "./daily.js";

const KEY = "specviz-daily";
const STEPS = [10, 100]; // samples of a draw

export class DailyGame extends Game {
  constructor(view, texts, recorded, today = countDays(new Date())) {
    const about = h("details", { class: "about" }, h("summary", {}, texts.about), h("p", { class: "small" }, recorded.note));
    super(view, texts, STEPS.map((size) => () => size), [about]);
    Object.assign(this, { recorded, today });
    this.kept = readKept(loadKept(), today);
    this.date = h("p", { class: "date" });
    this.node.prepend(this.date);
    this.open(today);
  }

  /** The game of a day. Only today's is remembered and counts for the days in a row. */
  open(day) {
    const { place, wrong, first } = chooseGame(day, this.recorded.games);
    this.day = day;
    this.deal(this.recorded.games[place], wrong, first);
    say(this.date, fill(this.texts.date, { date: nameDay(day) }));
    show(this.date, !this.isToday);
    if (this.isToday && this.kept?.day === day) this.reveal(this.kept.n, this.kept.right);
    this.paint();
  }

  get isToday() { return this.day === this.today; }

  keep(right) {
    if (!this.isToday) return;
    this.kept = recordAnswer(this.kept, this.today, this.n, right);
    try { localStorage.setItem(KEY, JSON.stringify(this.kept)); } catch { /* a browser that keeps nothing */ }
  }

  describeNext() {
    const { texts, kept } = this;
    if (!this.isToday) return "";
    return fill(kept.streak > 1 ? texts.streak : texts.tomorrow, { streak: kept.streak });
  }

  makeNext() {
    const { texts } = this;
    const copy = h("button", { type: "button", class: "copying" }, texts.share);
    copy.addEventListener("click", async () => {
      say(copy, (await copyText(this.shared())) ? texts.copied : texts.refused);
    });
    const older = h("button", { type: "button", class: "older" }, fill(texts.older, { date: nameDay(this.day - 1) }));
    older.addEventListener("click", () => { this.open(this.day - 1); this.more[0].button.focus({ preventScroll: true }); });
    return [copy, older];
  }

  /** The result as text, which does not say which decoder it was. */
  shared() {
    const { texts, answer, n, game } = this;
    const line = fill(answer.right ? texts.sharedRight : texts.sharedWrong, { n, needed: game.needed });
    return `${fill(texts.sharedTitle, { date: formatDay(this.day) })}\n${line}\n${window.location.origin}${window.location.pathname}`;
  }
}

/** A day in words: 27 November 2026. */
function nameDay(day) {
  return new Date(`${formatDay(day)}T00:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
}

function loadKept() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}
