// Whole text without a server: the recorded passage under the temperature that the address names, replayed by its own clock.

import lanes from "../whole_text/main.js";
import { h, say, show } from "../lib/dom.js";
import { drawComponent, explainLeftOut, showNotices, readData, prepare, readQuery } from "./frame.js";

const { css, passages, settings } = readData();
const asked = readQuery();
const wanted = Number(asked.temperature ?? passages[0].temperature);
const one = passages.find(({ temperature }) => temperature === wanted) ?? passages[0];
const said = explainLeftOut(asked, ["temperature"], settings, one.own);
if (one.temperature !== wanted) said.push("The link's temperature was left out: no text was recorded under it.");
drawComponent("whole_text", lanes, css, { payload: one.lanes, plays: true });
show(document.getElementById("parting"), one.divergences !== null);
if (one.divergences) drawComponent("divergences", lanes, css, { payload: one.divergences });
say(document.getElementById("from"), one.from);
document.getElementById("conclusion").replaceChildren(...one.conclusion.map((sentence) => h("p", {}, sentence)));
for (const link of document.querySelectorAll("a[data-temperature]")) {
  if (Number(link.dataset.temperature) === one.temperature) link.setAttribute("aria-current", "true");
}
showNotices(said);
prepare();

export default null;
