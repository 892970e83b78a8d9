// One round without a server: the recorded run at the place that the address names.

import oneRound from "../one_round/main.js";
import { drawComponent, explainLeftOut, showNotices, readData, prepare, readQuery } from "./frame.js";
import { readCursor } from "./links.js";

const { css, data, own, settings } = readData();
const asked = readQuery();
const cursor = readCursor(asked.at);
const said = explainLeftOut(asked, ["at", "tour"], settings, own);
const { rounds } = data.payload;
if (asked.at !== undefined && !rounds[cursor?.round]?.steps[cursor.step]) said.push("The link's position was left out: there is no such step here.");
drawComponent("one_round", oneRound, css, { ...data, notices: [], plays: asked.at === undefined && asked.tour === undefined, cursor: cursor ?? data.cursor });
showNotices(said);
prepare();

export default null;
