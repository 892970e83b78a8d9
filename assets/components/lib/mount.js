// How the page calls a component: again and again with the same element, at every change of data.

import { Presenter } from "./present.js";

/** The default export of a component. ``make(data)`` gives a view with node, update(component), resize() and close().
The page's presenter view shows its node, or the node that it names as ``presented``; null where another view of the page is presented. Data may say so too.
*/
export function mounted(make) {
  const known = new WeakMap();
  return (component) => {
    const { parentElement, data } = component;
    if (!known.has(parentElement)) {
      const view = make(data);
      parentElement.append(view.node); // the style sheet stands beside it
      const sizes = new ResizeObserver(() => view.resize());
      sizes.observe(view.node);
      known.set(parentElement, { view, sizes, presenter: null });
    }
    const one = known.get(parentElement);
    const { view, sizes } = one;
    view.update(component);
    const shown = data.presented === false ? null : view.presented === undefined ? view.node : view.presented;
    if (shown) (one.presenter ??= new Presenter(view, shown)).update();
    return () => {
      one.presenter?.close();
      view.close();
      sizes.disconnect();
      view.node.remove();
      known.delete(parentElement);
    };
  };
}
