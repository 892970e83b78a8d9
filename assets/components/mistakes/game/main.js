// Break it opens with the front page's game: the samples of a seed in place of the day's.

import { h } from "../../lib/dom.js";
import { Game } from "../../lib/game.js";
import { mounted } from "../../lib/mount.js";

const NARROW = 720; // px
const JUMP = 0.25; // s: a longer pause between two frames is not made up for

/** Samples of the next draw: about a quarter of those that are there. */
const countNext = (n) => (n < 100 ? 10 : n < 400 ? 50 : 100);

class SeedGame extends Game {
  makeNext() {
    const see = h("button", { type: "button", class: "draw" }, this.texts.look);
    see.addEventListener("click", () => this.view.send("chosen", this.game.id));
    const again = h("button", { type: "button", class: "older" }, this.texts.again);
    again.addEventListener("click", () => this.view.send("again", true));
    return [see, again];
  }
}

class GameView {
  constructor({ texts }) {
    this.aloud = h("p", { class: "aloud", role: "status" });
    this.all = h("button", { type: "button", class: "all" }, texts.bugs);
    this.all.addEventListener("click", () => this.send("chosen", ""));
    this.game = new SeedGame(this, texts, [countNext], [this.all]);
    this.node = h("section", { class: "stage play" }, this.game.node, this.aloud);
  }

  get still() { return window.matchMedia("(prefers-reduced-motion: reduce)").matches; }

  update({ data, setTriggerValue }) {
    this.send = setTriggerValue;
    const { game, wrong, first } = data.payload, dealt = JSON.stringify([game.id, wrong, first]);
    if (dealt === this.dealt) return;
    this.dealt = dealt;
    this.game.deal(game, wrong, first);
    this.game.paint();
  }

  /** Draws frames while samples come in. */
  run() {
    let last = null;
    const draw = (at) => {
      const passed = last === null ? 0 : Math.min(JUMP, (at - last) / 1000);
      last = at;
      this.frame = this.game.tick(passed) && requestAnimationFrame(draw);
    };
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(draw);
  }

  say(sentence) { this.aloud.textContent = sentence; }

  resize() { this.node.classList.toggle("narrow", this.node.clientWidth < NARROW); }

  close() { cancelAnimationFrame(this.frame); }
}

export default mounted((data) => new GameView(data));
