// Eight questions without a server.

import questions from "../questions/main.js";
import { drawn, leftOut, pageData, prepare, query } from "./frame.js";

const { css, data, settings } = pageData();
const asked = query();
drawn("questions", questions, css, { ...data, question: asked.question ?? null, ending: ".html", notices: leftOut(asked, ["question"], settings) });
prepare();

export default null;
