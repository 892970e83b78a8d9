// A page of words alone: only its way to the live app moves.

import { prepare } from "./frame.js";

prepare();

export default null;
