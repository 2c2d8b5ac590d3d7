// Keeps a page's numbers fresh from its twin under /api, which tells of changes
// for as long as the page is looked at. Parts whose rows have changed are taken
// from the page anew. Without this script a page shows its numbers, and stays so.
"use strict";
(() => {
  const silence = 30000; // after which nobody is there
  const first = 1000, longest = 60000; // before it is asked again
  const api = document.body.dataset.api;
  const away = document.getElementById("away");
  const time = document.getElementById("now");
  let source, timer, wait = first, renewing = false;

  const at = (data, path) => path.split(".").reduce((value, key) => value?.[key], data);
  const words = (value) => typeof value === "number" ? value.toLocaleString("en-US") : String(value ?? "");
  const each = (name, change) => {
    const attribute = "data-" + name;
    for (const element of document.querySelectorAll("[" + attribute + "]")) {
      change(element, element.getAttribute(attribute));
    }
  };
  const set = (element, name, value) => {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  };
  const write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  // Rows that came or went are the server's to write. What has the focus keeps it.
  const renew = async (parts) => {
    renewing = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts) {
        const fresh = page.getElementById(part.id);
        if (!fresh) continue;
        const focus = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
        part.replaceWith(document.adoptNode(fresh));
        fresh.dispatchEvent(new Event("renewed", { bubbles: true }));
        if (focus) fresh.querySelector(`[href="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
      }
    } catch {
      // The next event asks again.
    } finally {
      renewing = false;
    }
  };

  const show = (data) => {
    const parts = new Set();
    each("same", (element, path) => {
      if (String(at(data, path)) !== element.dataset.is) parts.add(element.closest("[data-part]"));
    });
    if (parts.size && !renewing) renew(parts);
    each("live", (element, path) => write(element, words(at(data, path))));
    each("live-width", (element, path) => set(element, "width", at(data, path) + "%"));
    each("live-x", (element, path) => set(element, "x", at(data, path) + "%"));
    each("live-value", (element, path) => set(element, "aria-valuenow", String(at(data, path))));
    each("live-hide", (element, path) => { element.hidden = !at(data, path); });
    each("live-status", (element, path) => {
      const status = at(data, path);
      if (element.dataset.status === status) return;
      write(element, status);
      set(element, "data-status", status);
      write(document.getElementById("said"), `${element.dataset.of} is ${status}`);
    });
  };

  const lost = (why) => {
    write(away, why + ". The numbers are of " + time.textContent + "; asking again.");
  };
  const heard = (event) => {
    clearTimeout(timer);
    timer = setTimeout(again, silence);
    if (event.type === "away") return lost(event.data);
    wait = first;
    write(away, "");
    write(time, event.lastEventId);
    if (event.type === "message") show(JSON.parse(event.data));
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
  };
  const again = () => {
    close();
    lost("No answer");
    timer = setTimeout(open, wait * (0.5 + Math.random()));
    wait = Math.min(2 * wait, longest);
  };
  const open = () => {
    close();
    timer = setTimeout(again, silence);
    source = new EventSource(api);
    for (const type of ["message", "same", "away"]) source.addEventListener(type, heard);
    source.onerror = again;
  };

  // A page in the background keeps no connection: a browser has few for a site.
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", () => { if (!document.hidden) open(); });
})();
