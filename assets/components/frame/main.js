// The presenter view of a page of charts: the whole page enlarged, one screen of it at a time. A page that has none says so.

import { h, say } from "../lib/dom.js";
import { listenToKeys } from "../lib/keys.js";
import { SCREEN, mounted } from "../lib/mount.js";
import { asksToPresent } from "../lib/present.js";
import { paginate } from "./screens.js";

const LAYOUT = { width: 960, height: 540, edge: 10 }; // px: charts label their axes in 12, which a projector of 1920 by 1080 shows as 24
const DECLARED = '[class*="st-key-screen-"]'; // web/common/elements.py: what a page shows as one screen
const HEADING = "h1, h2, h3";
const ABOVE = 44; // px of the heading over a component that fills its screen
const OPTICAL = 0.4; // share of the free height above a screen that is not as tall as the window
const TAKES_ARROWS = ".st-key-drafting_methods-arrows";
const STANDS = 8000; // ms of the sentence
const KEPT = 0.85; // of a screen, that a page without the view is scrolled by

/** A page that is not presented goes on by most of a screen, so that a clicker walks it, too. */
function scroll(screens) {
  const page = document.querySelector(".stMain"); // the component is mounted before it may stand
  page?.scrollBy({ top: screens * KEPT * page.clientHeight, behavior: "smooth" });
}

class Page {
  constructor({ instead }) {
    this.layout = LAYOUT;
    this.at = 0;
    this.starts = [];
    this.node = h("p", { class: "stage instead off", role: "status" });
    this.presented = instead ? false : document.querySelector(".stMain");
    const forth = () => this.goTo(this.at + 1), back = () => this.goTo(this.at - 1);
    const isPresented = () => Boolean(this.room), space = ({ shiftKey }) => (shiftKey ? back() : forth());
    // before the keys of a component that stands on the page, and before the page's own scrolling; a component that takes arrows keeps them
    const down = () => scroll(1), up = () => scroll(-1);
    const endings = instead ? [listenToKeys({ f: () => this.answer(), F: () => this.answer(), PageDown: down, ArrowDown: down, ArrowRight: down, PageUp: up, ArrowUp: up, ArrowLeft: up, " ": ({ shiftKey }) => scroll(shiftKey ? -1 : 1) })] : [
      listenToKeys({ PageDown: forth, PageUp: back, " ": space }, { ready: isPresented, first: true }),
      listenToKeys({ ArrowRight: forth, ArrowDown: forth, ArrowLeft: back, ArrowUp: back }, { ready: () => isPresented() && !this.hasArrowsOfItsOwn(), first: true }),
    ];
    this.forget = () => endings.forEach((end) => end());
    this.sizes = new ResizeObserver(() => this.resize());
    if (this.presented) this.sizes.observe(this.presented.firstElementChild);
  }

  update({ data }) {
    const first = !this.data;
    this.data = data;
    if (first && data.instead && asksToPresent(window.location.href)) this.answer();
  }

  /** Why this page is not presented. */
  answer() {
    say(this.node, this.data.instead);
    this.node.classList.remove("off");
    clearTimeout(this.later);
    this.later = setTimeout(() => this.node.classList.add("off"), STANDS);
  }

  /** Whether a component on this screen is stepped through with the arrows. */
  hasArrowsOfItsOwn() {
    const { top, bottom } = this.presented.getBoundingClientRect();
    return [...this.presented.querySelectorAll(TAKES_ARROWS)].some((node) => {
      const box = node.getBoundingClientRect();
      return box.height > 0 && box.top < bottom && box.bottom > top;
    });
  }

  /** What stands in a declared screen, without what is declared in it as another one, from top to bottom, in the page's own pixels. */
  blocks(screen) {
    const { top } = this.presented.getBoundingClientRect();
    const own = ({ y, height }) => ({ top: (y - top) / this.room.scale + this.presented.scrollTop, height: height / this.room.scale });
    const blocks = [...screen.querySelectorAll("[data-testid=stElementContainer]")].filter((node) => node.closest(DECLARED) === screen);
    return blocks.map((node) => {
      const box = own(node.getBoundingClientRect());
      return { top: box.top, bottom: box.top + box.height, heading: node.querySelector(HEADING)?.textContent ?? "" };
    }).filter(({ top: from, bottom }) => bottom - from > 1);
  }

  resize() {
    if (this.presented) window.dispatchEvent(new CustomEvent(SCREEN, { detail: this.room ? { ...this.room, height: this.room.height - ABOVE } : null }));
    if (!this.room) {
      this.at = 0;
      return;
    }
    let heading = this.presented.querySelector("h1")?.textContent ?? "";
    this.starts = [...this.presented.querySelectorAll(DECLARED)]
      .flatMap((node) => paginate(this.blocks(node), this.room.height).map((screen) => ({ ...screen, node })))
      .map((screen) => ({ ...screen, heading: heading = screen.heading || heading }));
    this.goTo(Math.min(this.at, this.starts.length - 1));
  }

  /** One screen: the view is as tall as what stands on it, so that nothing else is in sight. */
  goTo(at) {
    const screen = this.starts[at];
    if (!screen) return;
    this.at = at;
    const height = screen.bottom - screen.top, { scale, top } = this.room;
    this.presented.style.height = `${height}px`;
    this.presented.style.top = `${top + OPTICAL * Math.max(0, this.room.height - height) * scale}px`;
    this.presented.scrollTop = screen.top;
    this.openTab(screen.node);
  }

  /** Streamlit lets nobody click in the part of a tab that is not chosen, although it is in sight here. */
  openTab(node) {
    const part = node.closest("[data-testid=stTabPanel][inert]"), all = part?.closest("[data-testid=stTabs]");
    const list = (selector) => [...all.querySelectorAll(selector)].filter((one) => one.closest("[data-testid=stTabs]") === all); // tabs may hold tabs
    if (all) list("[role=tab]")[list("[data-testid=stTabPanel]").indexOf(part)]?.click();
  }

  /** What the presenter's second window says. */
  notes() {
    const { ask } = this.data, here = this.starts[this.at], next = this.starts[this.at + 1];
    return {
      place: here ? `Screen ${this.at + 1} of ${this.starts.length}` : "Not in the presenter view: F opens it.",
      now: here?.heading ?? "",
      ask,
      next: next?.heading ?? (here ? "This is the last screen of the page." : ""),
    };
  }

  close() {
    clearTimeout(this.later);
    this.sizes.disconnect();
    this.forget();
  }
}

export default mounted((data) => new Page(data));
