// Keeps a page's numbers fresh from its twin under /api. Where the page's rows
// have changed, it is loaded again. Without this script the page reloads itself.
"use strict";
(() => {
  const every = 2000;
  const api = document.body.dataset.api;
  const away = document.getElementById("away");

  const at = (data, path) => path.split(".").reduce((value, key) => value?.[key], data);
  const words = (value) => typeof value === "number" ? value.toLocaleString("en-US") : String(value ?? "");
  const each = (name, change) => {
    const attribute = "data-" + name;
    for (const element of document.querySelectorAll("[" + attribute + "]")) {
      change(element, element.getAttribute(attribute));
    }
  };

  const show = (data) => {
    let same = true;
    each("same", (element, path) => { same &&= String(at(data, path)) === element.dataset.is; });
    if (!same) {
      location.reload();
      return;
    }
    const set = (element, name, value) => {
      if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    };
    each("live", (element, path) => {
      const text = words(at(data, path));
      if (element.textContent !== text) element.textContent = text;
    });
    each("live-width", (element, path) => set(element, "width", at(data, path) + "%"));
    each("live-x", (element, path) => set(element, "x", at(data, path) + "%"));
    each("live-label", (element, path) => set(element, "aria-label", at(data, path) + " percent"));
    each("live-hide", (element, path) => { element.hidden = !at(data, path); });
    each("live-status", (element, path) => {
      element.textContent = at(data, path);
      set(element, "data-status", at(data, path));
    });
  };

  const ask = async () => {
    try {
      const answer = await fetch(api, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(answer.statusText);
      const data = await answer.json();
      away.hidden = true;
      show(data);
    } catch {
      document.getElementById("since").textContent = document.querySelector("[data-live=now]").textContent;
      away.hidden = false;
    }
    setTimeout(ask, every);
  };
  setTimeout(ask, every);
})();
