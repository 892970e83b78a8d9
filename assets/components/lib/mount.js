// How the page calls a component: again and again with the same element, at every change of data.

/** The default export of a component. ``make(element, data)`` gives a room with update(component) and close(). */
export function mounted(make) {
  const rooms = new WeakMap();
  return (component) => {
    const { parentElement, data } = component;
    let room = rooms.get(parentElement);
    if (!room) rooms.set(parentElement, (room = make(parentElement, data)));
    room.update(component);
    return () => {
      room.close();
      rooms.delete(parentElement);
    };
  };
}
