// How the page calls a component: again and again with the same element, at every change of data.

import { Presenter } from "./present.js";

export const SCREEN = "specviz-screen"; // a page that is presented as a whole tells what stands on it how large a screen is; null: it is not presented

/** The default export of a component. ``make(data)`` gives a view with node, update(component), resize() and close().
The page's presenter view shows its node, or the node that it names as ``presented``; false where another view of the page is presented.
Data that say ``within`` put it on a page that is presented as a whole.
*/
export function mounted(make) {
  const known = new WeakMap();
  return (component) => {
    const { parentElement, data } = component;
    if (!known.has(parentElement)) {
      const view = make(data);
      parentElement.append(view.node); // the style sheet stands beside it
      const fit = () => view.resize();
      const sizes = new ResizeObserver(fit);
      sizes.observe(view.node);
      document.fonts.addEventListener("loadingdone", fit); // words were placed, and lines broken, by another font's widths
      known.set(parentElement, { view, fit, sizes, presenter: null });
    }
    const one = known.get(parentElement);
    const { view, fit, sizes } = one;
    view.update(component);
    if (data.within) one.within ??= followScreens(view);
    else if (view.presented !== false) (one.presenter ??= new Presenter(view, view.presented)).update();
    return () => {
      one.presenter?.close();
      one.within?.();
      view.close();
      sizes.disconnect();
      document.fonts.removeEventListener("loadingdone", fit);
      view.node.remove();
      known.delete(parentElement);
    };
  };
}

/** While its page is presented, the view knows the height of a screen, which its style may fill; returns what ends that. */
function followScreens(view) {
  const fill = ({ detail: room }) => {
    view.room = room;
    view.node.classList.toggle("presenting", Boolean(room));
    view.node.classList.toggle("within", Boolean(room));
    view.node.style.setProperty("--room", room ? `${room.height}px` : "auto");
    view.resize();
  };
  window.addEventListener(SCREEN, fill);
  return () => window.removeEventListener(SCREEN, fill);
}
