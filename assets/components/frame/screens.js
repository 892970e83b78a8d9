// What a page shows on a screen, cut where it is taller than one.

/** The screens of what a page declares as one, {top, bottom, heading}, from its blocks {top, bottom, heading}: one, unless it is taller than a screen.

Then rows stay whole, and a row that is itself taller than a screen is cut.
*/
export function paginate(blocks, height) {
  const screens = [];
  for (const row of groupRows(blocks)) {
    const last = screens.at(-1);
    if (!last || row.bottom - last.top > height) {
      screens.push({ ...row, heading: row.heading || last?.heading || "" });
    } else {
      last.bottom = row.bottom;
      last.heading ||= row.heading;
    }
  }
  return screens.flatMap(({ top, bottom, heading }) => Array.from({ length: Math.max(1, Math.ceil((bottom - top) / height)) }, (_, n) =>
    ({ top: top + n * height, bottom: Math.min(bottom, top + (n + 1) * height), heading })));
}

/** Blocks beside each other are one row. */
function groupRows(blocks) {
  const found = [];
  for (const block of [...blocks].sort((one, other) => one.top - other.top)) {
    const last = found.at(-1);
    if (last && block.top < last.bottom - 1) {
      last.bottom = Math.max(last.bottom, block.bottom);
      last.heading ||= block.heading;
    } else {
      found.push({ ...block });
    }
  }
  return found;
}
