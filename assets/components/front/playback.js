// What stands on a lane of the race at a moment of its clock. Pure functions of the recorded rounds.

/** The moment at which draft token ``i`` of a round appears: evenly spaced within the round, the target's check being the last part. */
export function findDraftTime({ begin, end, drafts }, i) {
  return begin + ((end - begin) * (i + 1)) / (drafts.length + 1);
}

/** All moments of a lane at which something changes, in order. */
export function listMoments({ rounds }) {
  return rounds.flatMap((round) => [...round.drafts.map((_, i) => findDraftTime(round, i)), round.end]);
}

/** Rounds that have ended by ``now`` (seconds), the tokens that they wrote, and draft tokens of the one under way that are there. */
export function countEvents({ rounds }, now) {
  const passes = rounds.filter(({ end }) => end <= now).length;
  const open = rounds[passes];
  const tokens = rounds.slice(0, passes).reduce((sum, round) => sum + round.tokens.length, 0);
  return { passes, tokens, drafts: open ? open.drafts.filter((_, i) => findDraftTime(open, i) <= now).length : 0 };
}

/** The next moment after ``now``, or the one before it with ``back``; null where there is none. */
export function findNextMoment(lanes, now, back = false) {
  const moments = lanes.flatMap(listMoments).filter((at) => (back ? at < now - 1e-9 : at > now + 1e-9));
  if (!moments.length) return null;
  return back ? Math.max(...moments) : Math.min(...moments);
}
