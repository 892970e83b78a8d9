// Break it: the list of mistakes, the samples of the chosen one.

import { Histogram } from "../lib/histogram.js";
import { mounted } from "../lib/mount.js";
import { List } from "./list.js";

const VIEWS = { list: List, samples: Histogram };

export default mounted(({ view }) => new VIEWS[view]());
