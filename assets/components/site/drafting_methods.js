// Drafting methods without a server: the recorded comparison under the distribution that the address names, and a round of one row.

import { say, show } from "../lib/dom.js";
import tree from "../tree/main.js";
import { drawn, leftOut, notice, pageData, prepare, query } from "./frame.js";

const { comparisons, css, first, settings } = pageData();
const asked = query();
const said = leftOut(asked, ["distribution", "row"], settings);
const choice = Object.hasOwn(comparisons, asked.distribution ?? "") ? asked.distribution : first.distribution;
const rows = comparisons[choice];
const row = Object.hasOwn(rows, asked.row ?? "") ? asked.row : first.row;
for (const [key, taken] of Object.entries({ distribution: choice, row })) {
  if (asked[key] !== undefined && asked[key] !== taken) said.push(`The link's ${key} was left out: nothing of this name was recorded.`);
}
for (const section of document.querySelectorAll("[data-distribution]")) show(section, section.dataset.distribution === choice);
for (const link of document.querySelectorAll("a[data-choice]")) {
  if (link.dataset.choice === choice) link.setAttribute("aria-current", "true");
}
for (const line of document.querySelectorAll("tr[data-row]")) line.classList.toggle("chosen", line.dataset.row === row);
const { name, about, payload } = rows[row];
say(document.getElementById("row-name"), `${name}: one round`);
say(document.getElementById("row-about"), about);
show(document.getElementById("tree"), payload !== null);
if (payload) drawn("tree", tree, css, { payload });
notice(said);
prepare();
if (window.location.hash === "#row-name") document.getElementById("row-name").scrollIntoView(); // tables above it were hidden

export default null;
