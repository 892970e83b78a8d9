// What a phone knows and decides without a page: which room, when to ask again, what may be drawn next. Pure functions.

const LONGEST = 15; // s between two tries

/** The room's code in an address such as /room/CODE; empty where codes are typed. */
export function readCode(path) {
  const parts = path.split("/");
  return parts[parts.length - 1] ?? "";
}

/** Seconds before try number ``attempt``, from 0: 1, 2, 4, ... up to LONGEST, or what the server asks for; and up to half as much again, so that a class does not come at once. */
export function computeDelay(attempt, asked = 0, luck = Math.random()) {
  const base = Math.max(asked, Math.min(LONGEST, 2 ** attempt));
  return base * (1 + 0.5 * luck);
}

/** Whether an answer of this status may be better the next time: the server is gone, starts again, or has much to do. 0: there was none. */
export function mayHelp(status) {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

/** Which of the sizes may still be drawn by who has n of most samples. The first sample is always a single one, to be stepped through. */
export function listAllowedSizes(n, sizes, most) {
  return sizes.filter((size) => n + size <= most && (n > 0 || size === 1));
}

/** What a phone keeps of a room, from the text that was stored; a new ticket where there is none, or it is damaged. */
export function parseMemory(text, makeTicket) {
  try {
    const found = JSON.parse(text);
    if (typeof found.ticket === "string" && /^[A-Za-z0-9_-]{16,64}$/.test(found.ticket)) {
      const known = Number.isInteger(found.number) && typeof found.token === "string";
      return { ticket: found.ticket, number: known ? found.number : null, token: known ? found.token : null, unsent: found.unsent ?? null };
    }
  } catch { /* not JSON, or nothing */ }
  return { ticket: makeTicket(), number: null, token: null, unsent: null };
}

/** The moments of a sample's rounds, one after the other: each draft token until the first rejection, then how the round ends. */
export function listMoments(walk) {
  return walk.flatMap((round, place) => [
    ...round.drafts.filter((draft) => draft.accepted !== null).map((draft) => ({ kind: "draft", round: place, draft })),
    { kind: "end", round: place, ending: round.ending, unchecked: round.drafts.filter((draft) => draft.accepted === null).length, drafted: round.drafts.length },
  ]);
}

/** Whether "accepted" or "rejected" and a chance of acceptance contradict each other. */
export function disagree(accepted, chance) {
  return accepted ? chance < 0.5 : chance > 0.5;
}

/** What became of a student's choice in a race. takes: whether the race goes on. */
export function describeRace(own, takes) {
  if (own.passes) return `Your text: ${own.tokens} tokens in ${own.passes} target passes, ${(own.tokens / own.passes).toFixed(2)} tokens per pass.`;
  if (own.reason) return own.reason;
  return takes ? "Your text is being written." : "The race was closed before your text was written.";
}
