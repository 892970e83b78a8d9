// The front page: scenes below each other, one a screen. Each moves by itself while it is in view, and rests under reduced motion.

import { h, say } from "../lib/dom.js";
import { fill } from "../lib/fill.js";
import { listenToKeys } from "../lib/keys.js";
import { mounted } from "../lib/mount.js";
import { markTerms } from "../lib/terms.js";
import { makeDoors } from "./doors.js";
import { DailyGame } from "./game.js";
import { Overlap } from "./overlap.js";
import { Race } from "./race.js";

const NARROW = 720; // px
const JUMP = 0.25; // s: a longer pause between two frames is not made up for
const LATER = 1200; // ms without another sentence before one is spoken

class FrontView {
  constructor(data) {
    const { texts } = data;
    this.texts = texts;
    this.presented = false; // it is a page of screens itself
    this.here = 0;
    this.motion = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.aloud = h("p", { class: "aloud", role: "status" });
    const scenes = [["race", new Race(this, texts.race)], ["overlap", new Overlap(this, { ...texts.overlap, cost: data.cost })]];
    if (data.games) scenes.push(["game", new DailyGame(this.host(2), texts.game, data.games)]);
    scenes.push(["doors", makeDoors(texts.doors, data)]);
    this.scenes = scenes.map(([name, scene], i) => this.makeScene(name, scene, texts[name], i, data.meanings));
    this.scenes.forEach(({ node }, i) => i + 1 < this.scenes.length && node.append(this.makeWayOn(i + 1)));
    this.rail = h("nav", { class: "rail", "aria-label": texts.scenes });
    this.dots = this.scenes.map(({ title }, i) => {
      const dot = h("button", { type: "button", title, "aria-label": title });
      dot.addEventListener("click", () => this.goTo(i));
      return dot;
    });
    this.rail.append(...this.dots);
    this.node = h("div", { class: "stage front" }, ...this.scenes.map(({ node }) => node), this.rail, this.aloud);
    const forth = () => this.goTo(this.here + 1), back = () => this.goTo(this.here - 1);
    this.forgetKeys = listenToKeys({ ArrowDown: forth, PageDown: forth, " ": forth, ArrowUp: back, PageUp: back, Home: () => this.goTo(0), End: () => this.goTo(this.scenes.length - 1) });
    this.watch = new IntersectionObserver((entries) => {
      for (const { target, intersectionRatio } of entries) this.scenes[Number(target.dataset.n)].seen = intersectionRatio;
      this.settle();
    }, { threshold: [0, 0.25, 0.5, 0.75, 1] });
    for (const { node } of this.scenes) this.watch.observe(node);
    this.settle();
  }

  /** What comes below, at the lower edge of a scene. */
  makeWayOn(n) {
    const way = h("button", { type: "button", class: "onto" }, `${fill(this.texts.next, { title: this.scenes[n].title })} ↓`);
    way.addEventListener("click", () => this.goTo(n));
    return way;
  }

  makeScene(name, scene, texts, n, meanings) {
    const id = `front-${name}`;
    const over = texts.subject ? [h("h1", { class: "subject" }, texts.subject)] : [];
    const node = h("section", { class: `scene-${name} screen`, "aria-labelledby": id, "data-n": n }, h("div", { class: "inside" }, ...over,
      h("h2", { id }, texts.headline), ...(texts.lede ? [h("p", { class: "lede" }, ...markTerms(texts.lede, meanings))] : []), ...(texts.alternative ? [h("p", { class: "aloud" }, texts.alternative)] : []), scene.node));
    return { name, scene, node, title: texts.headline, seen: n === 0 ? 1 : 0 };
  }

  /** What scene ``n`` asks of its view. */
  host(n) {
    const view = this;
    return { get still() { return view.still; }, run: () => view.run(), say: (sentence) => view.say(n, sentence) };
  }

  /** Whether nothing moves by itself. */
  get still() { return this.motion.matches; }

  update({ data, setTriggerValue }) {
    for (const { scene } of this.scenes) scene.update?.(data, (event) => setTriggerValue("ask", event));
    this.run();
  }

  goTo(n) {
    const to = Math.min(this.scenes.length - 1, Math.max(0, n));
    this.scenes[to].node.scrollIntoView({ behavior: this.still ? "auto" : "smooth", block: "start" });
    if (!this.still) return;
    this.scenes.forEach((scene, i) => { scene.seen = i === to ? 1 : 0; }); // it is there: the next key need not wait for the observer
    this.settle();
  }

  /** The scene that fills most of the window is the one whose keys count. */
  settle() {
    this.here = this.scenes.reduce((best, { seen }, i) => (seen > this.scenes[best].seen ? i : best), 0);
    this.dots.forEach((dot, i) => {
      if (i === this.here) dot.setAttribute("aria-current", "step"); else dot.removeAttribute("aria-current");
    });
    this.run();
  }

  /** Draws frames while a scene in view has more to draw. The browser stops them in a tab that is hidden. */
  run() {
    if (this.frame || this.closed) return;
    let last = null;
    const draw = (at) => {
      const passed = last === null ? 0 : Math.min(JUMP, (at - last) / 1000);
      last = at;
      this.frame = 0;
      const moving = this.scenes.filter(({ seen, scene }) => seen > 0.2 && scene.tick?.(passed));
      if (moving.length && !this.closed) this.frame ||= requestAnimationFrame(draw);
    };
    this.frame = requestAnimationFrame(draw);
  }

  /** Speaks a sentence about scene ``n`` once nothing has changed for a moment, if it is the one in view. */
  say(n, sentence) {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => n === this.here && say(this.aloud, sentence), LATER);
  }

  resize() {
    this.node.classList.toggle("narrow", this.node.clientWidth < NARROW);
    const scroller = findScroller(this.node); // none in the static edition, whose bar scrolls away
    const top = Math.max(0, Math.round(this.node.getBoundingClientRect().top + (scroller?.scrollTop ?? window.scrollY)));
    this.node.style.setProperty("--bar", `${top}px`);
    this.node.style.setProperty("--stays", scroller ? `${top}px` : "0px");
    for (const { scene } of this.scenes) scene.resize?.();
  }

  close() {
    this.closed = true;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.speaking);
    this.watch.disconnect();
    this.forgetKeys();
    for (const { scene } of this.scenes) scene.close?.();
  }
}

/** The element that scrolls the page; null where the window does. */
function findScroller(node) {
  for (let at = node; at; at = at.parentElement ?? at.getRootNode().host) {
    if (at !== node && ["auto", "scroll"].includes(getComputedStyle(at).overflowY) && at.tagName !== "HTML" && at.tagName !== "BODY") return at;
  }
  return null;
}

export default mounted((data) => new FrontView(data));
