// How the page calls a component: again and again with the same element, at every change of data.

import { Presenter } from "./present.js";

/** The default export of a component. ``make(data)`` gives a view with node, update(component), resize() and close().
A view that says ``presented`` false is not what the page's presenter view shows; another component of the page is.
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
    if (view.presented !== false) (one.presenter ??= new Presenter(view)).update();
    return () => {
      one.presenter?.close();
      view.close();
      sizes.disconnect();
      view.node.remove();
      known.delete(parentElement);
    };
  };
}
