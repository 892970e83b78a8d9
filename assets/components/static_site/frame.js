// What every page of the static edition does: read its data, mount components, say what a link cannot have here, lead to the live app.

import { h } from "../lib/dom.js";

/** What the page was built with. */
export function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/** The parameters of this page's address. */
export function readQuery() {
  return Object.fromEntries(new URL(window.location.href).searchParams);
}

/** Draws a component into the element of this id; in a shadow tree, so that its styles are its own. Data may be given anew. ``heard`` is told what it asks for. */
export function drawComponent(id, component, css, data, heard = () => {}) {
  const place = document.getElementById(id);
  if (!place.shadowRoot) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    place.attachShadow({ mode: "open" }).adoptedStyleSheets = [sheet];
  }
  component({ parentElement: place.shadowRoot, data, setStateValue() {}, setTriggerValue: heard });
}

/** The frame: bare inside another page, the page's own name in sight. Links to this page elsewhere take the address's parameters along: whoever follows one finds what stands here. */
export function prepare() {
  document.documentElement.classList.toggle("framed", window.self !== window.top);
  const nav = document.querySelector(".top nav"); // it scrolls on a phone
  nav.scrollLeft = (nav.querySelector("[aria-current]")?.offsetLeft ?? 0) - nav.offsetLeft;
  for (const link of document.querySelectorAll("a[data-carry]")) {
    const bare = link.href;
    const renew = () => { link.href = bare + window.location.search; };
    for (const event of ["pointerdown", "focus", "click"]) link.addEventListener(event, renew);
  }
}

/** Sentences for parameters that this page has no use for: they are about a run, and runs need models, or they are unknown. ``own``: of what is shown. */
export function explainLeftOut(asked, known, settings, own = {}) {
  const others = Object.keys(asked).filter((key) => key !== "present" && !known.includes(key) && !(Object.hasOwn(own, key) && own[key] === asked[key]));
  const runs = others.filter((key) => settings.includes(key)).map(quoteKey);
  const unknown = others.filter((key) => !settings.includes(key)).map(quoteKey);
  const said = [];
  if (runs.length) said.push(`The link's ${runs.join(", ")} was left out: this edition shows recorded runs, and the app computes others.`);
  if (unknown.length) said.push(`The link's ${unknown.slice(0, 5).join(", ")} was left out: this page has no setting of this name.`);
  return said;
}

/** Sentences above what is shown; text, never markup. */
export function showNotices(sentences) {
  document.getElementById("notices").replaceChildren(...sentences.map((sentence) => h("p", {}, sentence)));
}

function quoteKey(key) {
  return `'${[...key].slice(0, 40).join("")}'`;
}
