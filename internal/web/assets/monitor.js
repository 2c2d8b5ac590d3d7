// Tells why a button of asynqmon was refused, which asynqmon itself tells only the console.
"use strict";
(() => {
  const open = XMLHttpRequest.prototype.open;
  const tell = (text) => {
    document.getElementById("refusal")?.remove();
    const note = document.createElement("div");
    note.id = "refusal";
    note.setAttribute("role", "alert");
    note.textContent = text;
    note.style.cssText = "position:fixed;top:16px;left:50%;transform:translateX(-50%);z-index:2000;max-width:50vw;padding:8px 12px;" +
      "border-radius:6px;background:#fff;color:#a40e26;border:1px solid #a40e26;font:14px system-ui,sans-serif;cursor:pointer";
    note.title = "Close";
    note.addEventListener("click", () => note.remove());
    document.body.append(note);
  };
  XMLHttpRequest.prototype.open = function (method, ...rest) {
    if (method.toUpperCase() !== "GET") {
      document.getElementById("refusal")?.remove();
      this.addEventListener("loadend", () => {
        if (this.status < 200 || this.status >= 300) {
          tell(this.status === 0 ? "no answer" : `${this.status}: ${this.responseText.trim()}`);
        }
      });
    }
    return open.call(this, method, ...rest);
  };
})();
