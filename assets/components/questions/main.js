// Eight questions: one at a time, an explanation for every answer. Nothing is sent anywhere.

import { makeMirror } from "../lib/address.js";
import { button, h, say, show } from "../lib/dom.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { keep, load, readQuestion, standing, withAnswer } from "./answers.js";
import { pictureOf } from "./picture.js";

const SIGNS = { open: "", right: "✓", wrong: "✗" };
const SAID = { open: "not answered", right: "right at the first try", wrong: "wrong at the first try" };

class QuestionsView {
  constructor() {
    this.at = 0;
    this.answers = {};
    this.mirror = makeMirror();
    this.headline = h("h2", { class: "headline" });
    this.lede = h("p", { class: "answer" });
    this.places = h("nav", { class: "places", "aria-label": "Questions" });
    this.notices = h("div", { class: "notices", role: "status" });
    this.situation = h("p", { class: "situation" });
    this.asks = h("h3", { class: "asks" });
    this.before = h("div", { class: "before" });
    this.options = h("ol", { class: "options" });
    this.verdict = h("p", { class: "verdict" });
    this.why = h("p", { class: "why" });
    this.after = h("div", { class: "after" });
    this.link = h("a", {});
    this.explained = h("section", { class: "explained", "aria-label": "Explanation", "aria-live": "polite" }, this.verdict, this.why);
    this.back = button("← Back", "the question before (←)", () => this.goTo(this.at - 1));
    this.next = button("Next →", "the next question (→)", () => this.goTo(this.at + 1), "primary");
    this.anew = button("Start again", "forget all answers in this browser", () => this.startAgain(), "next");
    this.tally = h("p", { class: "tally" });
    const left = h("div", { class: "left" }, this.situation, this.asks, this.options);
    const right = h("div", { class: "right" }, this.before, this.explained, this.after, h("p", { class: "more" }, this.link));
    this.node = h("section", { class: "stage questions", "aria-label": "Eight questions" },
      h("header", {}, h("div", { class: "words" }, this.headline, this.lede)), this.notices, this.places, h("div", { class: "card" }, left, right),
      h("div", { class: "steps" }, this.next, this.back, this.tally, this.anew));
    this.forgetKeys = listenToKeys(this.keys(), { ready: () => Boolean(this.questions) });
  }

  /** question: as the address has it, null for none; ending: of the addresses of other pages. */
  update({ data: { payload, question, notices, ending } }) {
    if (this.questions) return;
    this.questions = payload.questions;
    this.ending = ending;
    const asked = readQuestion(question, this.questions.length);
    this.notices.append(...[...asked.said, ...notices].map((sentence) => h("p", {}, sentence)));
    this.answers = load(this.questions);
    say(this.headline, payload.headline);
    say(this.lede, payload.lede);
    this.buttons = this.questions.map((_, i) => button("", "", () => this.goTo(i), "place"));
    this.places.append(...this.buttons);
    this.at = asked.at;
    this.draw();
  }

  get question() { return this.questions[this.at]; }

  keys() {
    const choose = Object.fromEntries([1, 2, 3, 4].map((n) => [String(n), () => this.answer(n - 1)]));
    const forth = () => this.goTo(this.at + 1), back = () => this.goTo(this.at - 1);
    return { ...choose, ArrowRight: forth, PageDown: forth, ArrowLeft: back, PageUp: back };
  }

  goTo(at) {
    const to = Math.min(this.questions.length - 1, Math.max(0, at));
    if (to === this.at) return;
    this.at = to;
    this.chosen = null;
    this.mirror.write({ question: String(to + 1) });
    this.draw();
  }

  answer(option) {
    if (option >= this.question.options.length) return;
    this.answers = withAnswer(this.answers, this.question.key, option);
    this.chosen = option;
    keep(this.answers);
    this.draw();
  }

  startAgain() {
    this.answers = {};
    this.chosen = null;
    this.at = 0;
    keep(this.answers);
    this.mirror.write({ question: null });
    this.draw();
    this.buttons[0].focus();
  }

  /** The option that is explained: the one just chosen, else the one that was chosen last. */
  get shown() {
    return this.chosen ?? (this.answers[this.question.key] ?? []).at(-1) ?? null;
  }

  draw() {
    const { question, shown } = this;
    say(this.situation, question.situation);
    say(this.asks, question.asks);
    this.drawPlaces();
    this.drawOptions();
    const option = shown === null ? null : question.options[shown];
    show(this.before, question.picture !== null && option === null);
    this.before.replaceChildren(...(question.picture && option === null ? [pictureOf(question.picture)] : []));
    say(this.verdict, option === null ? "" : option.right ? "✓ Right" : "✗ Not quite");
    this.verdict.dataset.is = option?.right ? "accepted" : "rejected";
    say(this.why, option?.why ?? "");
    show(this.explained, option !== null);
    this.after.replaceChildren(...(option === null ? [] : [pictureOf(option.picture)]));
    const { name, query, words } = question.page;
    show(this.link.parentElement, option !== null);
    this.link.href = `${name}${this.ending}?${new URLSearchParams(query)}`.replace(/\?$/, "");
    say(this.link, `${words} →`);
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at === this.questions.length - 1;
    const stands = this.questions.map((one) => standing(one, this.answers));
    const done = stands.filter((one) => one !== "open").length;
    say(this.tally, done === 0 ? "" : `${done} of ${stands.length} answered, ${stands.filter((one) => one === "right").length} right at the first try.`);
    show(this.anew, done > 0);
  }

  drawPlaces() {
    this.buttons.forEach((node, i) => {
      const stands = standing(this.questions[i], this.answers);
      say(node, `${i + 1}${SIGNS[stands] && ` ${SIGNS[stands]}`}`);
      node.title = `question ${i + 1}: ${SAID[stands]}`;
      node.setAttribute("aria-label", node.title);
      node.classList.toggle("now", i === this.at);
      if (i === this.at) node.setAttribute("aria-current", "step"); else node.removeAttribute("aria-current");
    });
  }

  /** Made anew for another question only: a button that is pressed keeps the focus. */
  drawOptions() {
    const { question, shown } = this;
    if (this.drawn !== question.key) {
      this.drawn = question.key;
      this.options.replaceChildren(...question.options.map(({ text }, i) => h("li", {}, button("", `answer ${i + 1} (key ${i + 1})`, () => this.answer(i), "option"))));
      question.options.forEach(({ text }, i) => this.options.children[i].firstChild.append(h("span", { class: "n" }, String(i + 1)), h("span", { class: "said" }, text), h("span", { class: "sign" })));
    }
    const tried = this.answers[question.key] ?? [];
    question.options.forEach(({ right }, i) => {
      const node = this.options.children[i].firstChild;
      const is = tried.includes(i) ? (right ? "accepted" : "rejected") : "";
      node.dataset.is = is;
      node.setAttribute("aria-pressed", String(i === shown));
      say(node.lastChild, is && (right ? "✓" : "✗"));
    });
  }

  /** What the presenter's second window says. */
  notes() {
    const { question, at, questions } = this;
    const right = question.options.find((option) => option.right);
    return {
      place: `Question ${at + 1} of ${questions.length}`,
      now: question.asks,
      ask: `Let the class vote first. Right: ${right.text} ${right.why}`,
      next: questions[at + 1]?.asks ?? "This is the last question.",
    };
  }

  resize() {
    this.node.classList.toggle("narrow", this.node.clientWidth < 800);
  }

  close() {
    this.mirror.close();
    this.forgetKeys();
  }
}

export default mounted(() => new QuestionsView());
