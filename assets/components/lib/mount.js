// How the page calls a component: again and again with the same element, at every change of data.

/** The default export of a component. ``make(element, data)`` gives a view with update(component) and close(). */
export function mounted(make) {
  const views = new WeakMap();
  return (component) => {
    const { parentElement, data } = component;
    let view = views.get(parentElement);
    if (!view) views.set(parentElement, (view = make(parentElement, data)));
    view.update(component);
    return () => {
      view.close();
      views.delete(parentElement);
    };
  };
}
