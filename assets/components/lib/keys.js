// Which key presses belong to a component, and which to something else on the page.

const BUSY_WITH = ["input", "textarea", "select", "[contenteditable='']", "[contenteditable='true']",
  ...["slider", "tab", "grid", "gridcell", "radio", "combobox", "listbox", "menu"].map((role) => `[role=${role}]`)].join(", ");
const NO_PAGES = "[role=radio], [role=tab]"; // these take arrows, but the keys of a clicker mean nothing to them

/** Keys of something else: a field that is typed in, a focused widget, a shortcut of the browser. ``own`` are widgets whose keys are ours. */
export function isElsewhere(event, own = []) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const target = event.composedPath()[0];
  if (own.includes(target)) return false;
  if (typeof target?.closest !== "function") return false; // the document itself
  if (["PageDown", "PageUp"].includes(event.key) && target.closest(NO_PAGES)) return false;
  return Boolean(target.closest(BUSY_WITH)) || (["Enter", " "].includes(event.key) && Boolean(target.closest("button, a, summary, [role=button]")));
}

/** Acts on the page's key presses, ``acts`` being {key: function of the event}; returns what ends it. ``first``: before all others who listen. */
export function listenToKeys(acts, { own = [], ready = () => true, first = false } = {}) {
  const onKey = (event) => {
    if (!Object.hasOwn(acts, event.key) || !ready() || isElsewhere(event, own)) return;
    event.preventDefault();
    acts[event.key](event);
  };
  document.addEventListener("keydown", onKey, first);
  return () => document.removeEventListener("keydown", onKey, first);
}
