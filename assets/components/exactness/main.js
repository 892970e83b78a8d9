// Exactness test: samples of a decoder, of the control, and p-values, each as a histogram that fills.

import { Histogram } from "../lib/histogram.js";
import { mounted } from "../lib/mount.js";

export default mounted(() => new Histogram());
