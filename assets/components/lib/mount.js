// How the page calls a component: again and again with the same element, at every change of data.

/** The default export of a component. ``make(data)`` gives a view with node, update(component), resize() and close(). */
export function mounted(make) {
  const known = new WeakMap();
  return (component) => {
    const { parentElement, data } = component;
    if (!known.has(parentElement)) {
      const view = make(data);
      parentElement.append(view.node); // the style sheet stands beside it
      const sizes = new ResizeObserver(() => view.resize());
      sizes.observe(view.node);
      known.set(parentElement, { view, sizes });
    }
    const { view, sizes } = known.get(parentElement);
    view.update(component);
    return () => {
      view.close();
      sizes.disconnect();
      view.node.remove();
      known.delete(parentElement);
    };
  };
}
