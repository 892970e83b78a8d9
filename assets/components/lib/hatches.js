// Hatches say in shape what color says too: what both distributions share, and what is rejected.

import { s } from "./dom.js";

const HATCHES = { shared: [6, 3.2], both: [8, 8], bad: [8, 2.4] }; // px: size of the pattern, width of its stripe

/** The named patterns, to be filled in with url(#name). */
export function makeHatches(...names) {
  return s("defs", {}, ...names.map((id) => {
    const [size, width] = HATCHES[id];
    return s("pattern", { id, width: size, height: size, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("rect", { class: `paper ${id}`, width: size, height: size }),
      s("line", { class: `stripe ${id}`, x1: 0, y1: 0, x2: 0, y2: size, "stroke-width": width }));
  }));
}
