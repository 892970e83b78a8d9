// What a student does for each kind of task. A view is built once for a task in a phase and then updated; ``act`` sends something.

import { button, h, say, show } from "../lib/dom.js";
import { number, percent } from "../lib/numbers.js";
import { makeHistogram, makeTwoBars } from "./bars.js";
import { listAllowedSizes, disagree, listMoments, describeRace } from "./state.js";

/** node, update(said) and, where something can be sent, what was sent is in said.mine. */
export const VIEWS = { predict, sample, vote, race };

/** What was sent, told to a screen reader. */
const status = () => h("p", { class: "sent", role: "status", tabindex: "-1" });

/** A form that is sent goes away; who was in it goes on at what was said of it. */
function leave(form, open, sent) {
  const inside = form.contains(document.activeElement);
  show(form, open);
  if (inside && !open) sent.focus();
}

const key = () => h("p", { class: "key" }, h("i", { class: "share" }), "share ", h("i", { class: "exact" }), "exact ", h("i", { class: "band" }), "sampling noise, 99%");

function choice(name, legend, options, checked = null) {
  const inputs = options.map(({ value, label, more }, place) => {
    const input = h("input", { type: "radio", name, value, id: `${name}-${place}` });
    if (String(value) === String(checked)) input.checked = true;
    return [input, h("div", { class: "option" }, input, h("label", { for: `${name}-${place}` }, h("b", {}, label), ...(more ? [h("span", {}, more)] : [])))];
  });
  const node = h("fieldset", {}, h("legend", {}, legend), ...inputs.map(([, row]) => row));
  return { node, value: () => inputs.find(([input]) => input.checked)?.[0].value ?? null, fix: () => { node.disabled = true; } };
}

function range(id, words, low, high, value, written) {
  const input = h("input", { type: "range", id, min: low, max: high, step: 1, value });
  const output = h("output", { for: id }, written(value));
  const renew = () => { say(output, written(Number(input.value))); input.setAttribute("aria-valuetext", written(Number(input.value))); };
  input.addEventListener("input", renew);
  renew();
  return { node: h("div", { class: "range" }, h("label", { for: id }, words), output, input), value: () => Number(input.value), fix: () => { input.disabled = true; } };
}

function predict(said, act) {
  const { task } = said;
  const text = h("p", { class: "text" }, h("span", {}, task.text), h("mark", {}, task.token));
  const verdict = choice("verdict", "The target checks this draft token. What happens?", [{ value: "yes", label: "Accepted" }, { value: "no", label: "Rejected" }]);
  const chance = range("chance", "How probable is it that it is accepted?", 0, 100, 50, (x) => `accepted: ${x}%`);
  let asked = null;
  const send = button("Send", "Send your prediction", () => {
    const said = [verdict.value(), chance.value()], again = String(said) === String(asked);
    asked = said;
    if (said[0] === null) say(missing, "Choose accepted or rejected first.");
    else if (disagree(said[0] === "yes", said[1] / 100) && !again) say(missing, `You chose ${said[0] === "yes" ? "accepted" : "rejected"}, but ${said[1]}% for accepted. Change one of them, or send it as it is.`);
    else act("answer", { phase: task.phase, sent: { accepted: verdict.value() === "yes", chance: chance.value() / 100 } });
  }, "main");
  const missing = h("p", { class: "missing", role: "alert" }), sent = status(), came = h("div", { class: "came" });
  const form = h("form", { class: "form" }, verdict.node, chance.node, send, missing);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => say(missing, ""));
  const node = h("div", {}, text, h("p", { class: "key" }, h("i", { class: "target" }), "target p ", h("i", { class: "draft" }), "draft q"), makeTwoBars(task.bars, task.token), form, sent, came);
  return {
    node,
    update({ mine }) {
      say(sent, mine.sent ? `You said: ${mine.sent.accepted ? "accepted" : "rejected"}, ${percent(mine.sent.chance)} for accepted.${task.takes ? " Look at the wall." : ""}` : "");
      leave(form, task.takes && !mine.sent, sent);
      if (mine.chance === undefined || came.childElementCount) return;
      const lines = [`min(1, p/q) = min(1, ${number(mine.p)} / ${number(mine.q)}) = ${number(mine.chance)}.`];
      if (mine.u !== undefined) {
        lines.push(`You said ${percent(mine.sent.chance)}. Expected Brier score: ${number(mine.expected)}; of ${percent(mine.chance)} itself: ${number(mine.best)}. Smaller is better.`,
          `Your random number: u = ${number(mine.u)}. Your token was ${mine.accepted ? "accepted" : "rejected"}, so this time your score is ${number(mine.brier)}.`);
      }
      came.replaceChildren(...lines.map((line) => h("p", {}, line)));
    },
  };
}

function sample(said, act) {
  const { task } = said;
  const steps = h("ol", { class: "steps", "aria-live": "polite" });
  let waiting = [], whole = "";
  const next = button("Next", "The next moment of your sample", () => step(), "main");
  const buttons = task.sizes.map((size) => [size, button("", `Draw ${size} of your own`, () => act("draw", { first: have, count: size }), "main")]);
  const class_ = makeHistogram("The class’s samples"), mine = status();
  const draws = h("div", { class: "buttons" }, ...buttons.map(([, one]) => one));
  const walk = h("div", { class: "walk" }, steps, next);
  const found = h("div", {}, draws, mine, key(), class_.node); // not before a sample was stepped through: it would tell how that ends
  const node = h("div", {}, h("p", { class: "text" }, `${said.prompt} …`), walk, found);
  let have = 0;
  const step = () => {
    const moment = waiting.shift();
    if (moment) steps.append(h("li", {}, ...told(moment)));
    show(next, waiting.length > 0);
    show(found, !waiting.length);
    if (waiting.length) return;
    if (whole) steps.append(h("li", {}, "Your sample: ", h("b", {}, whole)));
    whole = "";
    (draws.querySelector("button:not(.off)") ?? mine).focus();
  };
  return {
    node,
    update(now) {
      have = now.mine.n;
      if (now.walk) {
        waiting = listMoments(now.walk);
        whole = now.walk.flatMap((round) => round.committed).join("");
        steps.replaceChildren();
        step();
        if (waiting.length) next.focus();
      } else if (!waiting.length) show(next, false);
      const allowed = task.takes ? listAllowedSizes(have, task.sizes, task.most) : [];
      for (const [size, one] of buttons) {
        show(one, allowed.includes(size));
        say(one, size === 1 ? (have ? "1 more" : "Draw your first sample") : `${size} more`);
      }
      say(mine, have ? `You have ${have} of at most ${task.most.toLocaleString("en")} samples. The class has ${now.class.n.toLocaleString("en")}.` : "Your samples come from your own random numbers; the server draws them.");
      class_.update(now.class.bars, now.class.n, now.mine.counts);
    },
  };
}

function told({ kind, draft, ending, unchecked, drafted }) {
  if (kind === "draft") {
    const rule = `the random number ${number(draft.u)} ${draft.accepted ? "is below" : "is not below"} min(1, p/q) = ${number(draft.chance)}`;
    return ["The draft proposes ", h("mark", {}, draft.token), `: ${rule}, so it is ${draft.accepted ? "accepted" : "rejected"}.`];
  }
  const after = unchecked ? ` ${unchecked === 1 ? "One draft token" : `${unchecked} draft tokens`} after it ${unchecked === 1 ? "is" : "are"} not checked.` : "";
  if (ending.kind === "residual") return ["The target draws a replacement from the residual: ", h("b", {}, ending.token), `.${after}`];
  if (ending.kind === "bonus" && !drafted) return ["Nothing is drafted for the last token: the target draws it, ", h("b", {}, ending.token), "."];
  if (ending.kind === "bonus") return ["Everything was accepted: the target adds a bonus token, ", h("b", {}, ending.token), "."];
  return [`The sample is complete.${after}`];
}

function vote(said, act) {
  const { task } = said;
  const options = task.options.map((option, value) => ({ value, label: option.name, more: option.wrong }));
  const form = choice("vote", task.phase === "after" ? "You have talked about it. What is it now?" : "Which mistake is in this decoder?", options, said.mine.sent?.choice ?? said.mine.before?.choice ?? null);
  const missing = h("p", { class: "missing", role: "alert" }), sent = status(), counts = h("div", { class: "came" });
  const send = button("Vote", "Send your vote", () => {
    if (form.value() === null) say(missing, "Choose one first.");
    else act("answer", { phase: task.phase, sent: { choice: Number(form.value()) } });
  }, "main");
  const seen = makeHistogram("Samples of this decoder");
  seen.update(task.bars, task.n);
  const box = h("form", { class: "form" }, form.node, send, missing);
  box.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", () => say(missing, ""));
  const before = said.mine.before, first = task.phase === "after" && before ? [h("p", {}, `Before talking you said: ${task.options[before.choice].name}.`)] : [];
  const node = h("div", {}, ...first, box, sent, counts, h("p", {}, `${task.n.toLocaleString("en")} samples of this decoder, over the target’s exact distribution:`), key(), seen.node);
  return {
    node,
    update(now) {
      say(sent, now.mine.sent ? `Your vote: ${task.options[now.mine.sent.choice].name}.${task.takes ? " Look at the wall." : ""}` : "");
      leave(box, task.takes && !now.mine.sent, sent);
      if (now.class.before && !counts.childElementCount) {
        counts.replaceChildren(...task.options.map((option, place) =>
          h("p", { class: place === now.mine.answer ? "right" : "" }, `${option.name}: ${now.class.before[place]} before, ${now.class.after[place]} after${place === now.mine.answer ? " ← it is this one" : ""}`)));
      }
    },
  };
}

function race(said, act) {
  const { task } = said;
  const methods = choice("method", "Who drafts? You have one try.", task.methods, "draft");
  const gamma = range("gamma", "Draft tokens per round (gamma)", 1, task.gamma, 4, String);
  const send = button("Race", "Let the decoder write with your choice", () => act("answer", { phase: task.phase, sent: { method: methods.value(), gamma: gamma.value() } }), "main");
  const form = h("form", { class: "form" }, methods.node, gamma.node, send), sent = status(), rows = h("tbody", {});
  form.addEventListener("submit", (event) => event.preventDefault());
  const head = ["drafting method", "gamma", "students", "tokens per pass", "wasted per pass"].map((name) => h("th", { scope: "col" }, name));
  const table = h("div", { class: "table" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), rows));
  const node = h("div", {}, form, sent, table);
  return {
    node,
    update(now) {
      const own = now.mine.sent;
      if (own) say(sent, describeRace(own, task.takes));
      leave(form, task.takes && !own, sent);
      show(table, now.class.rows.length > 0);
      rows.replaceChildren(...now.class.rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, String(cell))))));
    },
  };
}
