// Not a module: it runs before anything is painted, so that a chosen theme does not flash.
"use strict";
try {
  const chosen = localStorage.getItem("purlin-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is off: the system's theme it is.
}
