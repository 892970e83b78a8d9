// Why it is exact without a server: the distributions that the address asks for.

import token from "../one_token/main.js";
import { drawn, leftOut, pageData, prepare, query } from "./frame.js";
import { readState } from "./links.js";

const { css, data, settings } = pageData();
const asked = query();
const { state, said } = readState(asked, data.payload.presets, data.payload.positions.map(({ id }) => id));
const notices = [...said, ...leftOut(asked, ["preset", "from", "p", "q"], settings)];
drawn("one_token", token, css, { ...data, state, notices });
prepare();

export default null;
