// Not a module: it runs before the first paint, so that the chosen theme does not flicker.
"use strict";
try {
  const chosen = localStorage.getItem("purlin-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is off: the system's theme it is.
}
