// After the last question: which were right at the first try, and the right answer of each.

import { h, say } from "../lib/dom.js";
import { getStanding } from "./answers.js";

export class Summary {
  /** open: called with the index of a question. */
  constructor(questions, open) {
    this.questions = questions;
    this.head = h("h3", { class: "question" });
    this.rows = questions.map((question, i) => {
      const link = h("button", { type: "button", class: "quiet" }, question.topic);
      link.addEventListener("click", () => open(i));
      return { sign: h("b", { class: "sign" }), text: h("span", {}), link };
    });
    this.marks = questions.map((_, i) => {
      const mark = h("span", { class: "mark" });
      mark.style.setProperty("--nth", String(i));
      return mark;
    });
    this.node = h("article", { class: "card summary", "aria-label": "Summary" },
      h("div", { class: "score" }, this.head, h("div", { class: "marks", "aria-hidden": "true" }, ...this.marks)),
      h("ol", {}, ...this.rows.map(({ sign, link, text }) => h("li", {}, sign, link, text))));
  }

  draw(answers, now) {
    this.node.classList.toggle("now", now);
    const stands = this.questions.map((one) => getStanding(one, answers));
    say(this.head, `${stands.filter((one) => one === "right").length} of ${stands.length} right at the first try`);
    this.marks.forEach((mark, i) => {
      mark.dataset.is = { right: "accepted", later: "accepted", wrong: "rejected", open: "" }[stands[i]];
      say(mark, { right: "✓", later: "✕✓", wrong: "✕", open: String(i + 1) }[stands[i]]);
    });
    this.rows.forEach(({ sign, text }, i) => {
      const isKnown = stands[i] === "right" || stands[i] === "later";
      sign.dataset.is = isKnown ? "accepted" : stands[i] === "wrong" ? "rejected" : "";
      say(sign, { right: "✓ Right", later: "✓ Later", wrong: "✕ Not yet", open: "– Open" }[stands[i]]);
      say(text, isKnown ? this.questions[i].options.find((one) => one.right).text : this.questions[i].asks);
    });
  }
}
