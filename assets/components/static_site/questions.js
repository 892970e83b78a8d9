// Eight questions without a server.

import questions from "../questions/main.js";
import { drawComponent, explainLeftOut, readData, prepare, readQuery } from "./frame.js";

const { css, data, settings } = readData();
const asked = readQuery();
drawComponent("questions", questions, css, { ...data, question: asked.question ?? null, ending: ".html", notices: explainLeftOut(asked, ["question"], settings) });
prepare();

export default null;
