// Why it is exact without a server: the distributions that the address asks for.

import token from "../one_token/main.js";
import { drawComponent, explainLeftOut, readData, prepare, readQuery } from "./frame.js";
import { readState } from "./links.js";

const { css, data, settings } = readData();
const asked = readQuery();
const { state, said } = readState(asked, data.payload.presets, data.payload.positions.map(({ id }) => id));
const notices = [...said, ...explainLeftOut(asked, ["preset", "from", "p", "q"], settings)];
drawComponent("one_token", token, css, { ...data, state, notices });
prepare();

export default null;
