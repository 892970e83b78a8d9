// Keys, playing, and the link.

const BUSY_WITH = "input, textarea, select, [contenteditable=''], [contenteditable='true'], [role=slider], [role=tab], [role=radio], [role=combobox], [role=listbox], [role=menu]";

/** Keys that belong to something else: a field that is typed in, a focused widget, a shortcut of the browser. */
function isElsewhere(event, range) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const target = event.composedPath()[0];
  if (target === range) return false;
  if (target instanceof Element && target.closest(BUSY_WITH)) return true;
  return event.key === "Enter" && target instanceof Element && Boolean(target.closest("button, a, summary, [role=button]"));
}

function listenToKeys(stage) {
  const acts = {
    ArrowRight: () => stage.step(1),
    ArrowLeft: () => stage.step(-1),
    Home: () => stage.goTo(stage.at.round, 0),
    End: () => stage.goTo(stage.at.round, Infinity),
    p: () => stage.play(!stage.playing),
    P: () => stage.play(!stage.playing),
    Enter: (event) => !event.repeat && stage.nextRound(),
  };
  const onKey = (event) => {
    const act = acts[event.key];
    if (!act || !stage.payload || isElsewhere(event, stage.bar.range)) return;
    event.preventDefault();
    act(event);
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

/** How long a motion stays while playing: time to read its sentence. */
function patience(sentence) {
  return Math.min(10000, 1100 + 38 * sentence.length);
}

/** Puts ``at=ROUND.MOTION`` (both from 1) into the address, all else kept, without a new history entry. */
function mirrorCursor(stage) {
  clearTimeout(stage.mirror);
  const { round, motion } = stage.at;
  stage.mirror = setTimeout(() => {
    const address = new URL(window.location.href);
    address.searchParams.set("at", `${round + 1}.${motion + 1}`);
    window.history.replaceState(window.history.state, "", address);
  }, 120);
}
