// The presenter view: one component over the whole window, large enough for the last row, and a second window with notes for whoever speaks.
// Both windows are this page's own: the keys of either move both, and no server is asked.

import { withParameters } from "./address.js";
import { h, say } from "./dom.js";
import { isElsewhere, listenToKeys } from "./keys.js";

const LAYOUT = { width: 1038, height: 584, edge: 20 }; // px; on a window of 1920 by 1080 each is drawn as 1.85, so 13 px stand as 24
const NOTES = "specviz-notes"; // name of the second window, and of what this tab remembers of it
const EVERY = 200; // ms between two looks at what the notes must say
const NO_KEYS = "(pointer: coarse), (max-width: 640px)"; // a phone leaves by a button
const LEAVE = { position: "fixed", top: "4px", right: "4px", width: "44px", height: "44px", zIndex: "1000001", border: "0", background: "none", color: "inherit", font: "24px/1 system-ui, sans-serif", cursor: "pointer" };
const STYLE = `body { margin: 0; padding: 24px 28px; font: 20px/1.45 system-ui, sans-serif; background: #14181d; color: #e9edf2; }
main { display: grid; gap: 20px; max-width: 44rem; } h2 { margin: 0 0 4px; font-size: 14px; font-weight: 600; color: #a9b3be; } p { margin: 0; overflow-wrap: anywhere; }
.ask { font-size: 26px; line-height: 1.35; } .next { color: #c3ccd6; } .top { display: flex; justify-content: space-between; align-items: baseline; gap: 20px; color: #c3ccd6; }
button { font: inherit; font-variant-numeric: tabular-nums; color: inherit; background: none; border: 1px solid #59636e; border-radius: 8px; padding: 2px 12px; cursor: pointer; }`;

/** How many pixels of the window one pixel of the layout is, where a component begins, and what it may fill. The scale is at least 1: a small window scrolls. */
export function planPresentation(width, height, layout = LAYOUT) {
  const scale = Math.max(1, Math.min(width / layout.width, height / layout.height));
  const { edge } = layout;
  return { scale, left: edge * scale, top: edge * scale, width: width / scale - 2 * edge, height: height / scale - 2 * edge };
}

/** Minutes and seconds since a moment, as 7:05. */
export function formatLapse(ms) {
  const whole = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Whether an address asks for the presenter view. */
export function asksToPresent(address) {
  return new URL(address).searchParams.get("present") === "1";
}

/** Lets a view be presented: F for the view, S for the notes, B or . for black, Esc to leave. A view with ``notes()`` says {place, now, ask, next}.

While it is presented, ``view.room`` has height and scale of what it may fill. A view may have a ``layout`` of its own.
*/
export class Presenter {
  constructor(view, node = view.node) {
    Object.assign(this, { view, node });
    this.on = false;
    this.black = h("div", { "aria-hidden": "true" });
    Object.assign(this.black.style, { position: "fixed", inset: "0", background: "#000", zIndex: "1000001" });
    this.behind = h("div", { class: "stage behind", "aria-hidden": "true" });
    this.leave = h("button", { type: "button", "aria-label": "leave the presenter view" }, "×");
    Object.assign(this.leave.style, LEAVE);
    this.leave.addEventListener("click", () => this.show(false));
    this.fit = () => this.place();
    const toggle = () => this.show(!this.on), notes = () => this.openNotes();
    const dark = () => (this.black.isConnected ? this.black.remove() : document.body.append(this.black));
    this.forget = [
      listenToKeys({ f: toggle, F: toggle, s: notes, S: notes }),
      listenToKeys({ b: dark, B: dark, ".": dark, Escape: () => this.show(false) }, { ready: () => this.on }),
    ];
    this.again = (event) => !isElsewhere(event) && readOpen() && !this.notes && this.openNotes(); // after a reload; a browser opens windows for a person's key alone
    document.addEventListener("keydown", this.again, true); // before the key is taken
    this.gone = () => this.notes && say(this.notes.now, "The presentation was closed or is being loaded again. Press a key there.");
    window.addEventListener("pagehide", this.gone);
    if (asksToPresent(window.location.href)) this.show(true);
  }

  /** The page gave the view new data; it may have written its own address. */
  update() {
    if (this.on && !asksToPresent(window.location.href)) this.write();
  }

  show(on) {
    if (on === this.on) return;
    this.on = on;
    const { node } = this;
    if (on) node.before(this.behind);
    else this.behind.remove();
    if (on && window.matchMedia(NO_KEYS).matches) node.after(this.leave);
    else this.leave.remove();
    document.documentElement.style.overflow = on ? "hidden" : "";
    this.black.remove();
    if (on) window.addEventListener("resize", this.fit);
    else window.removeEventListener("resize", this.fit);
    this.write();
    this.place();
    if (on) node.focus({ preventScroll: true });
  }

  write() {
    window.history.replaceState(window.history.state, "", withParameters(window.location.href, { present: this.on ? "1" : null }));
  }

  place() {
    const { node } = this;
    const plan = planPresentation(window.innerWidth, window.innerHeight, this.view.layout);
    this.view.room = this.on ? plan : null;
    node.classList.toggle("presenting", this.on);
    for (const side of ["left", "top", "width", "height"]) node.style[side] = this.on ? `${plan[side]}px` : "";
    node.style.transform = this.on ? `scale(${plan.scale})` : "";
    node.style.setProperty("--scale", this.on ? plan.scale : 1);
    this.view.resize();
  }

  openNotes() {
    if (!this.view.notes) return;
    const other = window.open("", NOTES, "popup,width=960,height=640");
    if (!other) return; // refused: the browser says so itself
    saveOpen(true);
    clearInterval(this.timer);
    this.notes = this.fill(other);
    this.timer = setInterval(() => this.tell(other), EVERY);
    this.tell(other);
  }

  /** The second window's nodes. It is empty before, and of this page's origin. */
  fill(other) {
    const { document: page } = other;
    const style = new other.CSSStyleSheet();
    style.replaceSync(STYLE);
    page.adoptedStyleSheets = [style];
    page.title = "Notes · specviz";
    page.documentElement.lang = "en";
    const [now, ask, next, place] = ["now", "ask", "next", "place"].map((name) => h("p", { class: name }));
    const clock = h("button", { type: "button", title: "start the clock at 0:00" });
    let began = Date.now();
    clock.addEventListener("click", () => { began = Date.now(); });
    const part = (title, node) => h("section", {}, h("h2", {}, title), node);
    page.body.replaceChildren(h("main", {}, h("div", { class: "top" }, place, clock), part("Ask or say", ask), part("On the screen", now), part("Next", next)));
    if (!page.listens) {
      page.listens = true;
      page.addEventListener("keydown", (event) => this.pass(event));
    }
    return { now, ask, next, place, clock, time: () => formatLapse(Date.now() - began) };
  }

  /** A key pressed in the second window is pressed in this one. */
  pass(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key === "Enter" && event.target.closest("button"))) return;
    event.preventDefault();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, shiftKey: event.shiftKey, repeat: event.repeat, bubbles: true, cancelable: true }));
  }

  tell(other) {
    if (other.closed) {
      clearInterval(this.timer);
      this.notes = null;
      return saveOpen(false);
    }
    const { place = "", now = "", ask = "", next = "" } = this.view.notes() ?? {};
    for (const [name, text] of Object.entries({ place, now, ask, next })) say(this.notes[name], text);
    const hour = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    say(this.notes.clock, `${hour} · ${this.notes.time()}`);
  }

  close() {
    this.show(false);
    clearInterval(this.timer);
    this.forget.forEach((end) => end());
    document.removeEventListener("keydown", this.again, true);
    window.removeEventListener("pagehide", this.gone);
  }
}

function readOpen() {
  try { return window.sessionStorage.getItem(NOTES) === "open"; } catch { return false; }
}

function saveOpen(open) {
  try { if (open) window.sessionStorage.setItem(NOTES, "open"); else window.sessionStorage.removeItem(NOTES); } catch { /* a browser that keeps nothing: S opens the notes again */ }
}
