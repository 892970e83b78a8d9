// A long page as screens: what begins where, so that nothing is cut and names stand with what they name.

/** The screens of a page, {top, bottom, heading}, from its blocks {top, bottom, heading, figure}. What is taller than a screen gets several.

A section, which is a heading and what follows it, is parted only where it fits no screen; and a figure takes along the words before it as far as they fit.
*/
export function paginate(blocks, height) {
  const screens = [];
  const fits = (all) => all.at(-1).bottom - all[0].top <= height;
  for (const section of groupSections(groupRows(blocks))) {
    const last = screens.at(-1) ?? [];
    const joins = last.length && (fits([...last, ...section]) || (!fits(section) && fits([...last, ...section.slice(0, 2)])));
    if (!joins) screens.push([]);
    for (const row of section) {
      const here = screens.at(-1);
      const tall = row.figure && row.bottom - row.top > height; // begins below its words, so that the first screen is no empty one
      if (fits([...here, row]) || (tall && here.length && fits(here))) {
        here.push(row);
        continue;
      }
      const fresh = [row];
      const follows = () => !here.at(-1).figure && !here.at(-2).figure; // else they are the words after another figure
      while (row.figure && here.length > 1 && follows() && fits([here.at(-1), ...fresh])) fresh.unshift(here.pop());
      if (row.figure && here.length && here.every((one) => one.heading && !one.figure)) { // a heading alone is no screen: it names the figure's
        fresh[0].heading ||= here[0].heading;
        screens.pop();
      }
      if (here.length) screens.push(fresh);
      else here.push(...fresh);
    }
  }
  let heading = "";
  return screens.flatMap((all) => {
    heading = all.find((row) => row.heading)?.heading ?? heading;
    const [{ top }, { bottom }] = [all[0], all.at(-1)];
    return Array.from({ length: Math.max(1, Math.ceil((bottom - top) / height)) }, (_, n) =>
      ({ top: top + n * height, bottom: Math.min(bottom, top + (n + 1) * height), heading }));
  });
}

/** Blocks beside each other are one row. */
function groupRows(blocks) {
  const found = [];
  for (const block of [...blocks].sort((one, other) => one.top - other.top)) {
    const last = found.at(-1);
    if (last && block.top < last.bottom - 1) {
      last.bottom = Math.max(last.bottom, block.bottom);
      last.heading ||= block.heading;
      last.figure ||= block.figure;
    } else {
      found.push({ ...block });
    }
  }
  return found;
}

function groupSections(all) {
  const found = [];
  for (const row of all) {
    if (row.heading || !found.length) found.push([]);
    found.at(-1).push(row);
  }
  return found;
}
