// The front page without a server: the recorded race, and the day's game. A link to a round, which stood here before, leads to it.

import front from "../front/main.js";
import { drawComponent, prepare, readData, readQuery } from "./frame.js";

const ROUND = ["at", "tour"]; // places of a round; its settings are those of a run

const { css, data, settings } = readData();
if (Object.keys(readQuery()).some((key) => ROUND.includes(key) || settings.includes(key))) {
  window.location.replace(`one_round.html${window.location.search}`);
} else {
  drawComponent("front", front, css, data);
  prepare();
}

export default null;
