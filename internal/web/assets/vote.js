// Votes by keyboard, and sends each vote until the server has recorded it: also over a lost connection or a restart of
// the server, which records a vote that arrives twice once. Without this script, the buttons send forms.
"use strict";
(() => {
  const first = 500, longest = 8000; // milliseconds before another try
  const forms = { vote: document.getElementById("vote"), undo: document.getElementById("undo") };
  const state = document.getElementById("state");
  const note = document.getElementById("note");
  let sending = false;

  const tell = (text) => {
    state.textContent = text;
    state.hidden = !text;
  };
  const refused = (answer) => answer.status >= 400 && answer.status < 500 && ![401, 408, 429].includes(answer.status);

  const send = async (say) => {
    const form = say === "undo" ? forms.undo : forms.vote;
    if (!form || sending) return;
    sending = true;
    const headers = { Accept: "text/plain; charset=utf-8" };
    const body = new URLSearchParams(new FormData(form));
    body.set("say", say);
    for (let wait = first; ; wait = Math.min(2 * wait, longest)) {
      try {
        const answer = await fetch(form.action, { method: "POST", headers, body, redirect: "manual", signal: AbortSignal.timeout(30000) });
        if (refused(answer)) {
          const page = new DOMParser().parseFromString(await answer.text(), "text/html");
          tell("Not recorded: " + (page.querySelector("main p:not([id])")?.textContent || page.body.textContent).trim());
          sending = false;
          return;
        }
        const next = answer.ok ? await answer.text() : "";
        if (next.startsWith(new URL(form.action).pathname)) { // not, for example, the login page of a proxy
          location.replace(next);
          return;
        }
      } catch {
        // no connection, or no answer in time
      }
      tell("Not recorded yet, because the server does not answer. Keep this page open: it keeps trying.");
      await new Promise((done) => setTimeout(done, wait));
    }
  };

  for (const form of Object.values(forms)) {
    form?.addEventListener("submit", (event) => {
      event.preventDefault();
      send(event.submitter.value);
    });
  }

  const keys = { 1: "1", ArrowLeft: "1", 2: "2", ArrowRight: "2", 3: "tie", t: "tie", s: "skip", u: "undo" };
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
    if (event.target === note) {
      if (event.key === "Escape") note.blur();
      return;
    }
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "n" && note) {
      event.preventDefault();
      document.getElementById("noted").open = true;
      note.focus();
    } else if (Object.hasOwn(keys, key)) {
      event.preventDefault();
      send(keys[key]);
    }
  });
})();
