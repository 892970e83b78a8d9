// Drafting methods without a server: the recorded comparison under the distribution that the address names, and a round of one row.

import { withParameters } from "../lib/address.js";
import { say, show } from "../lib/dom.js";
import chart from "../drafting_methods/chart/main.js";
import picture from "../drafting_methods/picture/main.js";
import tree from "../drafting_methods/tree/main.js";
import { drawComponent, explainLeftOut, showNotices, readData, prepare, readQuery } from "./frame.js";

const { comparisons, css, styles, first, settings } = readData();
const asked = readQuery();
const said = explainLeftOut(asked, ["distribution", "row"], settings);
const choice = Object.hasOwn(comparisons, asked.distribution ?? "") ? asked.distribution : first.distribution;
const { picture: one, overview, rows } = comparisons[choice];
let row = Object.hasOwn(rows, asked.row ?? "") ? asked.row : first.row;
for (const [key, taken] of Object.entries({ distribution: choice, row })) {
  if (asked[key] !== undefined && asked[key] !== taken) said.push(`The link's ${key} was left out: nothing of this name was recorded.`);
}
for (const section of document.querySelectorAll("[data-distribution]")) show(section, section.dataset.distribution === choice);
for (const link of document.querySelectorAll("a[data-choice]")) {
  if (link.dataset.choice === choice) link.setAttribute("aria-current", "true");
}
showMethod();
showNotices(said);
prepare();

/** Everything of the chosen method. */
function showMethod() {
  drawComponent("picture", picture, styles.picture, { payload: one, chosen: row }, choose);
  drawComponent("chart", chart, styles.chart, { payload: overview, chosen: row }, choose);
  showRound();
}

function choose(event, key) {
  row = key;
  window.history.replaceState(null, "", withParameters(window.location.href, { distribution: choice, row }));
  showMethod();
  if (event === "round") document.getElementById("row-name").scrollIntoView();
}

/** A round of the chosen method. */
function showRound() {
  const { name, about, payload } = rows[row];
  say(document.getElementById("row-name"), `${name}: one round`);
  say(document.getElementById("row-about"), about);
  show(document.getElementById("tree"), payload !== null);
  if (payload) drawComponent("tree", tree, css, { payload });
}

export default null;
