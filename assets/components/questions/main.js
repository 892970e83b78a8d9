// Eight questions: one at a time, an explanation for every answer. Nothing is sent anywhere.

import { makeMirror } from "../lib/address.js";
import { button, h, say, show } from "../lib/dom.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { keep, load, readQuestion, getStanding, addAnswer } from "./answers.js";
import { Card } from "./card.js";
import { Summary } from "./summary.js";

const SIGNS = { open: "", right: "✓", wrong: "✕", later: "✓" };
const SAID = { open: "not answered", right: "right at the first try", wrong: "wrong at the first try", later: "wrong at the first try, the right answer seen since" };

class QuestionsView {
  constructor() {
    this.at = 0;
    this.answers = {};
    this.chosen = null;
    this.mirror = makeMirror();
    this.headline = h("h2", { class: "headline" });
    this.purpose = h("p", { class: "purpose" });
    this.count = h("b", {});
    this.dots = h("span", { class: "dots", role: "img" });
    this.progress = h("p", { class: "progress" }, this.count, this.dots);
    this.notices = h("div", { class: "notices", role: "status" });
    this.stack = h("div", { class: "cards" });
    this.heard = h("p", { class: "heard aloud", role: "status" });
    this.back = button("← Back", "the question before (←)", () => this.goTo(this.at - 1));
    this.next = button("", "the next question (→)", () => this.goTo(this.at + 1), "further primary");
    this.onward = h("a", { class: "button further primary" });
    this.anew = button("Start again", "forget all answers in this browser", () => this.startAgain(), "next");
    this.tally = h("p", { class: "tally" });
    this.kept = h("p", { class: "kept" });
    this.node = h("section", { class: "stage questions", "aria-label": "Eight questions" },
      h("header", {}, h("div", { class: "title" }, this.headline, this.purpose), this.progress), this.notices, this.stack, this.heard,
      h("div", { class: "steps" }, this.next, this.onward, this.kept, this.tally, this.anew, this.back));
    const forgetKeys = listenToKeys(this.keys(), { ready: () => Boolean(this.questions) });
    const forgetSpace = listenToKeys({ " ": () => this.goTo(this.at + 1) }, { ready: () => Boolean(this.room) }); // a clicker's
    this.forgetKeys = () => { forgetKeys(); forgetSpace(); };
  }

  /** question: as the address has it, null for none; ending: of the addresses of other pages. */
  update({ data: { payload, question, notices, ending } }) {
    if (this.questions) return;
    this.questions = payload.questions;
    const asked = readQuestion(question, this.questions.length);
    this.notices.append(...[...asked.said, ...notices].map((sentence) => h("p", {}, sentence)));
    this.answers = load(this.questions);
    say(this.headline, payload.headline);
    say(this.purpose, payload.purpose);
    say(this.kept, payload.kept);
    say(this.onward, `Next: ${payload.onward.title} →`);
    this.onward.title = "the next page";
    this.onward.href = `${payload.onward.name}${ending}`;
    this.dots.append(...this.questions.map(() => h("i", { class: "dot" })));
    this.cards = this.questions.map((one, i) => new Card(one, i, this.questions.length, payload.choose, ending, (option) => this.answer(option)));
    this.summary = new Summary(this.questions, (i) => this.goTo(i));
    this.stack.append(...this.cards.map((card) => card.node), this.summary.node);
    this.at = asked.at;
    this.draw();
  }

  /** The question in sight; the last one where the summary is. */
  get question() { return this.questions[Math.min(this.at, this.questions.length - 1)]; }

  get isSummary() { return this.at === this.questions.length; }

  keys() {
    const choose = Object.fromEntries([1, 2, 3, 4].map((n) => [String(n), () => this.answer(n - 1)]));
    const forth = () => this.goTo(this.at + 1), back = () => this.goTo(this.at - 1);
    return { ...choose, ArrowRight: forth, PageDown: forth, ArrowLeft: back, PageUp: back };
  }

  goTo(at) {
    const to = Math.min(this.questions.length - (this.room ? 1 : 0), Math.max(0, at)); // a class sees no summary
    if (to === this.at) return;
    this.at = to;
    this.chosen = null;
    this.mirror.write({ question: String(Math.min(to + 1, this.questions.length)) });
    const focused = this.node.getRootNode().activeElement;
    this.draw();
    if (this.node.getBoundingClientRect().top < 0) this.node.scrollIntoView({ block: "start" }); // on a phone the button is below the question
    if (focused === this.next && this.isSummary) this.onward.focus(); // the button it stands in for is gone
    if (focused === this.back && !this.at) this.next.focus();
    say(this.heard, this.isSummary ? this.summary.head.textContent : `Question ${to + 1} of ${this.questions.length}. ${this.question.asks}`);
  }

  answer(option) {
    if (this.isSummary || option >= this.question.options.length) return;
    this.answers = addAnswer(this.answers, this.question.key, option);
    this.chosen = option;
    keep(this.answers);
    this.draw();
    say(this.heard, this.cards[this.at].said(option));
    if (this.node.classList.contains("narrow")) this.cards[this.at].showExplanation(option);
  }

  startAgain() {
    this.answers = {};
    this.chosen = null;
    this.at = 0;
    keep(this.answers);
    this.mirror.write({ question: null });
    this.draw();
    this.cards[0].options[0].focus(); // Start again is gone
  }

  draw() {
    this.cards.forEach((card, i) => {
      const tried = this.answers[card.question.key] ?? [];
      card.draw(tried, (i === this.at ? this.chosen : null) ?? tried.at(-1) ?? null, i === this.at);
    });
    const stands = this.questions.map((one) => getStanding(one, this.answers));
    this.drawProgress(stands);
    show(this.back, this.at > 0);
    this.summary.draw(this.answers, this.isSummary);
    show(this.purpose, this.at === 0);
    show(this.kept, this.at === 0 && stands.every((one) => one === "open"));
    show(this.next, !this.isSummary && stands[this.at] !== "open"); // first an answer; the keys go on without one
    show(this.onward, this.isSummary);
    say(this.next, this.at === this.questions.length - 1 ? "See the summary →" : "Next question →");
    const done = stands.filter((one) => one !== "open").length;
    say(this.tally, this.isSummary || !done ? "" : `${done} of ${stands.length} answered, ${stands.filter((one) => one === "right").length} right at the first try.`);
    show(this.anew, this.isSummary && done > 0);
  }

  drawProgress(stands) {
    say(this.count, this.isSummary ? "Summary" : `${this.at + 1} of ${stands.length}`);
    [...this.dots.children].forEach((node, i) => {
      say(node, SIGNS[stands[i]]);
      node.dataset.is = { right: "accepted", wrong: "rejected", later: "accepted", open: "" }[stands[i]];
      node.title = `${i + 1}, ${this.questions[i].topic}: ${SAID[stands[i]]}`;
      node.classList.toggle("now", i === this.at);
    });
    this.dots.setAttribute("aria-label", [...this.dots.children].map((node) => node.title).join("; "));
  }

  /** What the presenter's second window says. */
  notes() {
    const { question, questions } = this, at = Math.min(this.at, questions.length - 1);
    const right = question.options.find((option) => option.right);
    return {
      place: `Question ${at + 1} of ${questions.length}`,
      now: question.asks,
      ask: `Let the class vote first. Right: ${right.text} ${right.explanation}`,
      next: questions[at + 1]?.asks ?? "This is the last question.",
    };
  }

  resize() {
    this.node.classList.toggle("narrow", this.node.clientWidth < 800);
    this.node.classList.toggle("grand", !this.room && this.node.clientWidth >= 1400 && window.innerHeight >= 900);
  }

  close() {
    this.mirror.close();
    this.forgetKeys();
  }
}

export default mounted(() => new QuestionsView());
