// One round without a server: the recorded run at the place that the address names.

import oneRound from "../one_round/main.js";
import { drawn, leftOut, notice, pageData, prepare, query } from "./frame.js";
import { readCursor } from "./links.js";

const { css, data, own, settings } = pageData();
const asked = query();
const cursor = readCursor(asked.at);
const said = leftOut(asked, ["at", "tour"], settings, own);
const { rounds } = data.payload;
if (asked.at !== undefined && !rounds[cursor?.round]?.steps[cursor.step]) said.push("The link's position was left out: there is no such step here.");
drawn("one_round", oneRound, css, { ...data, notices: [], cursor: cursor ?? data.cursor });
notice(said);
prepare();

export default null;
