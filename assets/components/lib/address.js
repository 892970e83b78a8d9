// What stands on the page, written into its address: a copied address shows the same.

const REST = 120; // ms of quiet before it is written; browsers allow only so many changes

/** An address with these parameters set, or taken out where they are null; all else is kept. */
export function withParameters(address, changes) {
  const changed = new URL(address);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) changed.searchParams.delete(key);
    else changed.searchParams.set(key, value);
  }
  return changed;
}

/** A writer of parameters into this page's address, without new entries in the browser's history. */
export function makeMirror() {
  let waiting, pending = {};
  const now = () => {
    window.history.replaceState(window.history.state, "", withParameters(window.location.href, pending));
    pending = {};
  };
  return {
    write(changes) {
      clearTimeout(waiting);
      Object.assign(pending, changes);
      waiting = setTimeout(now, REST);
    },
    close: () => clearTimeout(waiting),
  };
}

const OURS = "specvizPlace"; // key of what an entry of the browser's history holds

/** Places of a view in the browser's history, so that its Back goes back a place: {push(from, to, changes of the address), close()}. ``restore(place)`` is called when the browser goes to one. */
export function makeHistory(restore) {
  const path = window.location.pathname, mark = (place) => ({ ...window.history.state, [OURS]: place });
  const onPop = (event) => {
    const place = event.state?.[OURS];
    if (place === undefined || window.location.pathname !== path) return; // of the page around
    event.stopImmediatePropagation(); // which would draw itself anew
    restore(place);
  };
  window.addEventListener("popstate", onPop, true);
  return {
    push(from, to, changes) {
      try {
        window.history.replaceState(mark(from), "", window.location.href);
        window.history.pushState(mark(to), "", withParameters(window.location.href, changes));
      } catch { /* a browser allows only so many entries in a time: this place has none */ }
    },
    close: () => window.removeEventListener("popstate", onPop, true),
  };
}
