// What was answered: for each question the options in the order in which they were chosen. It stays in this browser.

const KEPT = "specviz-questions";

/** The index of the question that an address asks for, and a sentence where there is none such. text: as it stands there, null for none. */
export function readQuestion(text, count) {
  if (text === null) return { at: 0, said: [] };
  const n = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (n >= 1 && n <= count) return { at: n - 1, said: [] };
  return { at: 0, said: [`The link's question was left out: '${[...text].slice(0, 40).join("")}' is not one of 1 to ${count}.`] };
}

/** Answers as they were kept, {key of a question: [index of an option, ...]}; what does not fit the questions is left out. */
export function readAnswers(text, questions) {
  let kept;
  try { kept = JSON.parse(text); } catch { return {}; }
  if (kept === null || typeof kept !== "object") return {};
  const found = {};
  for (const { key, options } of questions) {
    const chosen = Object.hasOwn(kept, key) && Array.isArray(kept[key]) ? kept[key] : [];
    const known = [...new Set(chosen)].filter((one) => Number.isInteger(one) && one >= 0 && one < options.length);
    if (known.length) found[key] = known;
  }
  return found;
}

/** The answers with one more; an option that was chosen before is not counted again. */
export function addAnswer(answers, key, option) {
  const before = answers[key] ?? [];
  return before.includes(option) ? answers : { ...answers, [key]: [...before, option] };
}

/** How a question stands: "open", "right" at the first answer, "wrong" so far, or "later": the right answer came after a wrong one. */
export function getStanding({ key, options }, answers) {
  const tried = answers[key] ?? [];
  if (!tried.length) return "open";
  if (options[tried[0]].right) return "right";
  return tried.some((one) => options[one].right) ? "later" : "wrong";
}

/** The answers that this browser keeps; none where it keeps nothing. */
export function load(questions) {
  try { return readAnswers(window.localStorage.getItem(KEPT) ?? "{}", questions); } catch { return {}; }
}

export function keep(answers) {
  try { window.localStorage.setItem(KEPT, JSON.stringify(answers)); } catch { /* a browser that keeps nothing: they last as long as the page */ }
}
