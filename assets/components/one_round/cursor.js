// Where the stage stands: a round and a motion of it, both from 0. Pure functions of a run's rounds.

/** The nearest place that exists; a motion of Infinity is the last of its round. */
export function within(rounds, round, motion) {
  const r = Math.max(0, Math.min(Number(round) || 0, rounds.length - 1));
  const count = rounds[r].motions.length;
  return { round: r, motion: Math.max(0, Math.min(motion === Infinity ? count : Number(motion) || 0, count - 1)) };
}

/** One motion on (+1) or back (-1), over the border of a round; null at either end of the run. */
export function stepped(rounds, at, by) {
  const motion = at.motion + by;
  if (motion >= rounds[at.round].motions.length) return at.round + 1 < rounds.length ? { round: at.round + 1, motion: 0 } : null;
  if (motion < 0) return at.round > 0 ? within(rounds, at.round - 1, Infinity) : null;
  return { round: at.round, motion };
}

/** Index of the first motion of a kind about a node; undefined where there is none. */
export function motionOf(round, kind, node) {
  const found = round.motions.findIndex((motion) => motion.kind === kind && motion.node === node);
  return found < 0 ? undefined : found;
}

/** The cursor as an address holds it, both counted from 1; web/one_round/payload.py reads it. */
export function cursorParameter({ round, motion }) {
  return `${round + 1}.${motion + 1}`;
}

/** How long a motion stays while playing, in ms: time to read its sentence. */
export function patience(sentence) {
  return Math.min(10000, 1100 + 38 * sentence.length);
}
