// The pictures in words: what becomes of one draft token, and what comes out of a hundred.

import { fill } from "../lib/fill.js";
import { number, ofHundred, settled } from "../lib/numbers.js";
import { findMost, shareOut } from "../lib/arithmetic.js";
import { formatAddition, formatWord } from "./cards.js";

const NAMED = 4; // tokens that a sentence names

/** The token that a sentence is about: the one that was dragged; before any drag the one that the draft gives most in excess, null where there is none. */
export function findExample({ sums, slots, touched }) {
  if (touched) return touched.index;
  return settled(sums.beta) === 1 ? null : findMost(sums.rows, ({ rejected }, i) => (slots[i].glyphs === null ? -1 : rejected));
}

/** How the example is accepted. */
export function describeToken(view) {
  const { sums, slots, texts, touched, end } = view, index = findExample(view);
  if (index === null) return texts.fateEqual;
  const row = sums.rows[index];
  const values = { word: formatWord(slots[index]), p: number(row.p), q: number(row.q), replaced: number(row.replaced), sum: formatAddition(row.accepted, row.replaced, row.p) };
  const how = fill(row.q === 0 ? texts.fateNever : row.q > row.p ? texts.fateCut : texts.fateAlways, values);
  const added = end === "residual" && row.left > 0 ? fill(texts.fateAdded, values) : "";
  return [touched || settled(sums.beta) > 0 ? "" : texts.overlapNone, how, added].filter(Boolean).join(" ");
}

/** Which part of the draft's bars is accepted. */
export function describeOverlap({ sums, texts }) {
  return settled(sums.beta) === 0 ? texts.overlapNone : texts.overlap;
}

/** A hundred draft tokens: how many are accepted, and what the others become. */
export function describeHundred({ sums, out, slots, texts, end }) {
  const rejected = settled(1 - sums.beta);
  if (rejected === 0) return texts.twinAll;
  const counts = fill(texts.twinCounts, { accepted: ofHundred(settled(sums.beta)), rejected: ofHundred(rejected) });
  if (!end) return counts;
  const become = describeReplaced(out.map(({ replaced }) => replaced), Math.round(100 * rejected), slots, end === "residual" ? texts.twinBecome : texts.twinRedrawn, end);
  const wrong = out.some(({ difference }) => settled(Math.abs(difference)) !== 0);
  return [counts, become, wrong ? texts.twinWrong : ""].filter(Boolean).join(" ");
}

/** The rejected ones of a hundred shared out among the tokens; nothing where they are fewer than one. */
function describeReplaced(replaced, size, slots, sentence, end) {
  if (size === 0) return "";
  const counted = shareOut(replaced, size).map((count, i) => [count, slots[i]]).filter(([count, { glyphs }]) => count > 0 && glyphs !== null).sort((a, b) => b[0] - a[0]);
  const named = counted.slice(0, counted.length > NAMED + 1 ? NAMED : counted.length);
  const others = size - named.reduce((sum, [count]) => sum + count, 0);
  const shares = named.map(([count, slot]) => `${count}\u00a0${formatWord(slot)}`);
  return fill(sentence, { end, shares: [...shares, ...(others ? [`${others} ${others === 1 ? "other" : "others"}`] : [])].join(", ") });
}
