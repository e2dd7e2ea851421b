// Where one is: `#search?corpus=code&query=…`. The address is all the state that a view needs to be shown again.

/** The view's name and its values, all strings. */
export function read(hash = location.hash) {
  const [view, rest = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  return { view, values: Object.fromEntries(new URLSearchParams(rest)) };
}

/** The address of a view; empty values are left out. */
export function address(view, values = {}) {
  const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

/** Go there; going where one is shows it anew. */
export function go(view, values) {
  const hash = address(view, values);
  if (hash === location.hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/** Have the address say so without going anywhere, unless one has left that view; `noted` tells that it changed. */
export function note(view, values) {
  if (read().view !== view) return;
  history.replaceState(null, "", address(view, values));
  window.dispatchEvent(new Event("noted"));
}
