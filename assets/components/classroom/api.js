// Talking to the server so that nothing is lost: every request may be sent again, and is, until it is answered.

import { computeDelay, mayHelp, parseMemory } from "./state.js";

/** What the server said no to, in its own sentence. */
export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

function makeTicket() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The browser's memory of a room; without one, as in a private window, a reload is a new student. */
export function makeMemory(code) {
  const key = `specviz-room-${code}`;
  let text = null;
  try { text = localStorage.getItem(key); } catch { /* no memory here */ }
  const state = parseMemory(text, makeTicket);
  return {
    state,
    keep(changes) {
      Object.assign(state, changes);
      try { localStorage.setItem(key, JSON.stringify(state)); } catch { /* kept as long as the page is open */ }
    },
  };
}

const SILENT = "The server does not answer.", AGAIN = "This page tries again by itself; nothing is lost.";

/** ask(what, sent) -> answer. ``line`` gets the reason while there is none, and then "". Raises Refused where trying again cannot help. */
export function makeApi(code, memory, line) {
  const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

  async function once(what, sent, method) {
    const headers = { "Content-Type": "application/json" };
    if (memory.state.token !== null && what !== "join") headers.Authorization = `Bearer ${memory.state.number}.${memory.state.token}`;
    let answer;
    try {
      answer = await fetch(`${code}/${what}`, { method, headers, body: method === "POST" ? JSON.stringify(sent) : undefined, cache: "no-store" });
    } catch {
      return { status: 0, found: {} };
    }
    let found = {};
    try { found = await answer.json(); } catch { return { status: answer.ok ? 0 : answer.status, found }; }
    return { status: answer.status, found };
  }

  async function join() {
    const { number, token } = await tried("join", { ticket: memory.state.ticket }, "POST");
    memory.keep({ number, token });
  }

  async function tried(what, sent, method) {
    let rejoined = false;
    for (let attempt = 0; ; attempt += 1) {
      const { status, found } = await once(what, sent, method);
      if (status >= 200 && status < 300) {
        line("");
        return found;
      }
      if (status === 401 && what !== "join" && !rejoined) {
        rejoined = true;
        await join();
      } else if (mayHelp(status)) {
        line(`${found.error ?? SILENT} ${AGAIN}`);
        await wait(computeDelay(attempt, found.again ?? 0));
      } else {
        line("");
        throw new Refused(found.error ?? "The server did not understand this page. Load it again.", status);
      }
    }
  }

  return {
    join,
    now: (mark) => tried(`now?mark=${encodeURIComponent(mark)}`, null, "GET"),
    post: (what, sent) => tried(what, sent, "POST"),
  };
}
