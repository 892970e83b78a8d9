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
