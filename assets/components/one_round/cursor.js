// Where the view stands: a round and a step of it, both from 0. Pure functions of a run's rounds.

/** The nearest place that exists; a step of Infinity is the last of its round. */
export function clampCursor(rounds, round, step) {
  const r = Math.max(0, Math.min(Number(round) || 0, rounds.length - 1));
  const count = rounds[r].steps.length;
  return { round: r, step: Math.max(0, Math.min(step === Infinity ? count : Number(step) || 0, count - 1)) };
}

/** One step on (+1) or back (-1), over the border of a round; null at either end of the run. */
export function moveCursor(rounds, at, by) {
  const step = at.step + by;
  if (step >= rounds[at.round].steps.length) return at.round + 1 < rounds.length ? { round: at.round + 1, step: 0 } : null;
  if (step < 0) return at.round > 0 ? clampCursor(rounds, at.round - 1, Infinity) : null;
  return { round: at.round, step };
}

/** Index of the first step of a kind about a node; undefined where there is none. */
export function findStep(round, kind, node) {
  const found = round.steps.findIndex((step) => step.kind === kind && step.node === node);
  return found < 0 ? undefined : found;
}

/** The cursor as an address holds it, both counted from 1; web/one_round/payload.py reads it. */
export function formatCursor({ round, step }) {
  return `${round + 1}.${step + 1}`;
}

export const REST = 1000; // ms before the first step of a page that plays by itself
const STEP_TIME = 1200; // ms that a step stays at least while playing, at speed 1
const DRAFT_TIME = 600; // ms of a draft token in a page that opens
const WORD_TIME = 230; // ms to read a word of its sentence
const LONGEST = 6000; // ms

/** How long a step with this sentence stays while playing, in ms. */
export function computeStepTime(sentence, speed = 1) {
  return Math.min(LONGEST, Math.max(STEP_TIME, WORD_TIME * sentence.split(/\s+/).length)) / speed;
}

/** How long a step stays while the page that opens plays a whole round: draft tokens follow each other quickly, the pass has twice the least time of a step, every other one has that. */
export function computeOpeningTime(kind) {
  return kind === "draft" ? DRAFT_TIME : kind === "pass" ? 2 * STEP_TIME : STEP_TIME;
}

const SPEEDS = [0.25, 0.5, 1, 2, 4];

/** The next speed up (+1) or down (-1). */
export function changeSpeed(speed, by) {
  return SPEEDS[Math.max(0, Math.min(SPEEDS.indexOf(speed) + by, SPEEDS.length - 1))];
}
