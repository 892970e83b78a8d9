// Break it: the list of mistakes, the samples of the chosen one, and the game.

import { Histogram } from "../lib/histogram.js";
import { mounted } from "../lib/mount.js";
import { Game } from "./game.js";
import { List } from "./list.js";

const VIEWS = { list: List, samples: Histogram, game: Game };

export default mounted(({ view }) => new VIEWS[view]());
