// The arrow keys go to the next and the previous pair, as its links do.
"use strict";
addEventListener("keydown", (event) => {
  const rel = { ArrowRight: "next", ArrowLeft: "prev" }[event.key];
  if (!rel || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest?.("input, select, textarea, .scroll")) return;
  document.querySelector(`a[rel="${rel}"]`)?.click();
});
