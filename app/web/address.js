// The address of a view, such as `#search?corpus=code&query=…`. It holds all the state needed to show the view again.

/** Return the name of the view and its values, all strings. */
export function read(hash = location.hash) {
  const [view, rest = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return { view, values: Object.fromEntries(new URLSearchParams(rest)) };
}

/** Return the address of a view, without empty values. */
export function address(view, values = {}) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

/** Go to a view; the current view is shown anew. */
export function go(view, values) {
  const hash = address(view, values);
  if (hash !== location.hash) {
    location.hash = hash;
    return;
  }
  history.replaceState(null, "");
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Change the address without navigating, if the view is still shown; dispatches the event `noted`. */
export function note(view, values) {
  if (read().view !== view) return;
  history.replaceState(null, "", address(view, values));
  window.dispatchEvent(new Event("noted"));
}
