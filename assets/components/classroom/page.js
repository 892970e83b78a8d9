// The students' page of a room: it joins, asks what is on, draws it, and sends what the student does. Nothing else runs here.

import { button, h, say, show } from "../lib/dom.js";
import { makeApi, makeMemory, Refused } from "./api.js";
import { readCode } from "./state.js";
import { VIEWS } from "./views.js";

const HIDDEN = 4; // times as long between two looks while nobody sees the page

const stand = document.getElementById("place"), title = document.getElementById("title"), who = document.getElementById("who");
const line = document.getElementById("line"), notice = document.getElementById("notice"), seen = document.getElementById("class");

function makeRoom(code) {
  const memory = makeMemory(code), api = makeApi(code, memory, (why) => say(line, why));
  let said = null, view = null, shown = "", timer, busy = false, over = false;

  function draw(walk = undefined) {
    say(who, `You are number ${said.number}.`);
    const { task } = said;
    say(title, task === null ? (said.ended ? "The room has ended" : "You are in") : task.title);
    const key = task === null ? "none" : `${task.number} ${task.phase}`;
    if (key !== shown) {
      shown = key;
      say(notice, "");
      const inside = stand.contains(document.activeElement);
      view = task === null ? { node: h("p", {}, said.ended ? "Thank you." : "Look at the wall: the first task comes when your teacher begins it."), update() {} } : VIEWS[task.kind](said, act);
      stand.replaceChildren(view.node);
      if (inside) title.focus();
    }
    view.update({ ...said, walk });
    say(seen, task === null ? "" : [said.class.sentence, said.class.seen].filter(Boolean).join(" "));
  }

  /** Something that the student did. It is remembered until the server has it, and may be sent twice. */
  async function act(what, sent) {
    if (busy) return;
    busy = true;
    stand.setAttribute("aria-busy", "true");
    const unsent = { what, sent: { task: said.task.number, ...sent } };
    memory.keep({ unsent });
    try {
      await deliver(unsent);
    } finally {
      busy = false;
      stand.removeAttribute("aria-busy");
    }
  }

  async function deliver(unsent) {
    try {
      const { walk, ...found } = await api.post(unsent.what, unsent.sent);
      said = found;
      say(notice, "");
      draw(walk);
    } catch (error) {
      refuse(error);
    }
    memory.keep({ unsent: null });
  }

  function refuse(error) {
    if (!(error instanceof Refused)) throw error;
    say(notice, error.message);
    if (error.status === 404) {
      over = true;
      say(title, "No room here");
      stand.replaceChildren();
    }
  }

  async function look() {
    clearTimeout(timer);
    try {
      const found = await api.now(said?.mark ?? "");
      if (!found.same) {
        said = found;
        draw();
      }
      said.again = found.again;
    } catch (error) {
      refuse(error);
    } finally { // whatever went wrong, the next look may go well
      if (!over) timer = setTimeout(look, 1000 * (said?.again ?? 2) * (0.85 + 0.3 * Math.random()) * (document.hidden ? HIDDEN : 1));
    }
  }

  return async function begin() {
    document.addEventListener("visibilitychange", () => { if (!document.hidden && !over && said) look(); });
    try {
      if (memory.state.token === null) await api.join();
    } catch (error) {
      refuse(error);
      return;
    }
    const { unsent } = memory.state;
    await look();
    if (unsent && said?.task?.number === unsent.sent.task) await deliver(unsent);
    else memory.keep({ unsent: null });
  };
}

/** A field for the short code that the teacher shows. */
function makeDoor() {
  say(title, "Join");
  const field = h("input", { id: "code", autocomplete: "off", autocapitalize: "characters", spellcheck: "false", maxlength: 12, "aria-describedby": "notice" });
  const open = button("Join", "Open the room of this code", () => {}, "main");
  open.type = "submit";
  const form = h("form", { class: "form" }, h("label", { for: "code" }, "The code on the projector"), field, open);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const typed = field.value.replace(/[^0-9a-z]/gi, "").toUpperCase();
    if (!typed) return;
    try {
      const { code } = await makeApi(typed, { state: { token: null } }, (why) => say(line, why)).post("enter", {});
      window.location.assign(code);
    } catch (error) {
      say(notice, error.message);
      field.select();
    }
  });
  stand.replaceChildren(form);
  field.value = new URLSearchParams(window.location.search).get("code") ?? "";
  if (field.value) form.requestSubmit(); // typed on the page Classroom
  else field.focus();
}

const code = readCode(window.location.pathname);
show(who, Boolean(code));
if (code) makeRoom(code)();
else makeDoor();

export default null;
