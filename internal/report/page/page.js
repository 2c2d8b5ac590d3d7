/* Tables are sorted by a click on a head, long ones can be searched, and the contents mark the section in view. Without
   this script the page is the same with its tables as they are. Reports contain it, and the pages of a fleet load it:
   there, an element that was written anew says so by the event "renewed", and its tables keep their order. */
"use strict";
(() => {
  const long = 15;
  const units = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, k: 1e3, M: 1e6, G: 1e9, T: 1e12, kB: 1e3, MB: 1e6, GB: 1e9 };

  /* The number that a cell begins with; null if it begins with none, undefined if it has no value. */
  const number = (text) => {
    if (text === "" || text === "–" || text === "unknown") return undefined;
    const found = /^([<>≥≈]?)\s*([+−-]?)\$?([\d,]*\.?\d+)(?![\d:-])(?:\s(ms|s|min|h|d|kB|MB|GB|k|M|G|T)\b)?/.exec(text);
    if (!found) return null;
    const [, bound, sign, digits, unit] = found;
    const size = Number(digits.replaceAll(",", "")) * (units[unit] ?? 1);
    return (sign && sign !== "+" ? -size : size) + (bound === "<" ? -1e-9 : bound === ">" ? 1e-9 : 0);
  };

  const words = new Intl.Collator("en", { numeric: true });
  const textOf = (row, column) => row.cells[column]?.textContent.trim() ?? "";

  /* The rows in the order of a column. Rows without a value come last, and equal ones keep the page's order. */
  const order = new Map();
  const sorted = (rows, column, before) => {
    for (const row of rows) if (!order.has(row)) order.set(row, order.size);
    const keys = new Map(rows.map((row) => [row, number(textOf(row, column))]));
    const numeric = [...keys.values()].some((key) => key !== undefined) && ![...keys.values()].includes(null);
    const descending = before ? before === "ascending" : numeric && column > 0;
    const compare = (x, y) => numeric ? keys.get(x) - keys.get(y) : words.compare(textOf(x, column), textOf(y, column));
    const signed = (x, y) => (descending ? compare(y, x) : compare(x, y)) || order.get(x) - order.get(y);
    const known = rows.filter((row) => keys.get(row) !== undefined), rest = rows.filter((row) => keys.get(row) === undefined);
    return { rows: [...known.sort(signed), ...rest], descending };
  };

  /* Rows that the page folds away become rows of the table itself. */
  const unfold = (table) => {
    const folded = table.closest(".scroll")?.nextElementSibling;
    if (!folded?.matches("details[data-rest]")) return;
    table.tBodies[0].append(...folded.querySelectorAll("tbody tr"));
    folded.remove();
  };

  /* The column and the direction of each table that was sorted, by its label. */
  const chosen = new Map();
  const label = (table) => table.parentElement.getAttribute("aria-label");

  const sortBy = (table, head) => {
    unfold(table);
    const body = table.tBodies[0];
    const { rows, descending } = sorted([...body.rows], head.cellIndex, head.getAttribute("aria-sort"));
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    if (label(table)) chosen.set(label(table), { column: head.cellIndex, descending });
  };

  const search = (table) => {
    const label = document.createElement("label"), input = document.createElement("input"), found = document.createElement("span");
    const line = document.createElement("p");
    line.className = "find";
    input.type = "search";
    found.setAttribute("role", "status");
    label.append("Search this table ", input);
    line.append(label, " ", found);
    input.addEventListener("input", () => {
      unfold(table);
      const wanted = input.value.trim().toLowerCase(), rows = [...table.tBodies[0].rows];
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      found.textContent = wanted ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
    });
    table.closest(".scroll").before(line);
  };

  const prepare = (table) => {
    if (table.tBodies.length !== 1 || table.tHead?.rows.length !== 1 || table.closest("details[data-rest]")) return;
    const rows = [...table.tBodies[0].rows], folded = table.parentElement.nextElementSibling;
    if (rows.length < 2 || rows.some((row) => [...row.cells].some((cell) => cell.colSpan > 1))) return;
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.title = "Sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sortBy(table, head));
    }
    const more = folded?.matches("details[data-rest]") ? folded.querySelectorAll("tbody tr").length : 0;
    if (rows.length + more >= long) search(table);
  };

  const tables = ".scroll > table:not([data-fixed])";
  document.querySelectorAll(tables).forEach(prepare);
  document.addEventListener("renewed", (event) => {
    for (const table of event.target.querySelectorAll(tables)) {
      prepare(table);
      const before = chosen.get(label(table)), head = before && table.tHead.rows[0].cells[before.column];
      if (!head?.querySelector(".sort")) continue;
      head.setAttribute("aria-sort", before.descending ? "ascending" : "descending"); // sortBy turns it
      sortBy(table, head);
    }
  });

  const links = new Map([...document.querySelectorAll("nav a[href^='#']")].map((link) => [link.hash.slice(1), link]));
  const mark = () => {
    let now;
    for (const [id, link] of links) {
      link.removeAttribute("aria-current");
      if (document.getElementById(id)?.getBoundingClientRect().top < innerHeight / 3) now = link;
    }
    now?.setAttribute("aria-current", "location");
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
})();
