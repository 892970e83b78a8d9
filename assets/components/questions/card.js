// One question, its situation and answers, and an explanation for each answer. All of it is made at once, and a class says what is seen: so the
// room of a question's longest explanation is kept from the first answer on, and paper has every question.

import { button, h, say } from "../lib/dom.js";
import { makePicture } from "./picture.js";

export class Card {
  /** at: its index among ``count``; choose: words above the answers; ending: of addresses of other pages; answer: what a chosen option calls with its index. */
  constructor(question, at, count, choose, ending, answer) {
    this.question = question;
    const { term, ahead, situation, asks, options, pictures, page } = question;
    this.right = options.findIndex((option) => option.right);
    this.options = options.map(({ text }, i) => optionOf(text, i, options.length, () => answer(i)));
    this.before = h("div", { class: "before" }, ...pictures.map(makePicture));
    const reveal = () => { answer(this.right); this.options[this.right].focus(); };
    this.explained = options.map((option) => explanationOf(option, page, ending, reveal));
    const left = h("div", { class: "left", "data-n": `Question ${at + 1}` }, ...(ahead ? [h("p", { class: "ahead" }, ahead)] : []), h("h3", { class: "question", id: `question-${at}` }, asks),
      h("p", { class: "situation" }, situation), ...(term ? [h("p", { class: "meaning" }, term)] : []), h("p", { class: "choose" }, choose),
      h("ol", { class: "options", "aria-labelledby": `question-${at}` }, ...this.options.map((option) => h("li", {}, option))));
    const right = h("div", { class: "right" }, this.before, ...this.explained);
    this.node = h("article", { class: "card", "aria-label": `Question ${at + 1} of ${count}` }, left, right);
  }

  /** tried: indices of the options that were chosen; shown: the one that is explained, null for none. */
  draw(tried, shown, now) {
    this.node.classList.toggle("now", now);
    this.before.classList.toggle("now", shown === null);
    this.explained.forEach((node, i) => node.classList.toggle("now", i === shown));
    this.node.classList.toggle("solved", tried.includes(this.right));
    this.options.forEach((node, i) => {
      const right = i === this.right, known = tried.includes(i);
      node.dataset.is = known ? (right ? "accepted" : "rejected") : "";
      node.setAttribute("aria-pressed", String(i === shown));
      say(node.querySelector(".sign"), known ? (right ? "✓" : "✕") : "");
      say(node.lastChild, known ? (right ? " Right." : " Not right.") : "");
    });
  }

  /** On a phone the explanation is below the answers. */
  showExplanation(option) {
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.explained[option].querySelector(".told").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  }

  /** What is to be heard after an answer. */
  said(option) {
    const { options } = this.question;
    return `Answer ${option + 1} of ${options.length}: ${options[option].right ? "right" : "not right"}. ${options[option].explanation}`;
  }
}

function optionOf(text, i, count, choose) {
  const node = button("", `key ${i + 1}`, choose, "option");
  node.append(h("span", { class: "aloud" }, `Answer ${i + 1} of ${count}: `), h("span", { class: "n", "aria-hidden": "true" }, "ABCD"[i]), h("span", { class: "reply" }, text),
    h("span", { class: "sign", "aria-hidden": "true" }), h("span", { class: "aloud" }));
  return node;
}

function explanationOf({ explanation, picture, right }, { name, query, words }, ending, reveal) {
  const shows = h("button", { type: "button", class: "quiet again" }, "Show the right answer");
  shows.addEventListener("click", reveal);
  const link = h("a", { href: `${name}${ending}?${new URLSearchParams(query)}`.replace(/\?$/, "") }, `${words} →`);
  const verdict = h("p", { class: "verdict", "data-is": right ? "accepted" : "rejected" }, right ? "✓ Right" : "✕ Not quite");
  const told = h("div", { class: "told" }, verdict, h("p", { class: "explanation" }, explanation));
  return h("section", { class: "explained", "aria-label": "Explanation" }, makePicture(picture), told, h("p", { class: "more" }, ...(right ? [] : [shows]), link));
}
