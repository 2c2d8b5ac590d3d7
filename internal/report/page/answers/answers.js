// The page of answers: opens one question at a time, renders Markdown, compares two answers word by word, and copies a
// text. Texts of others become nodes through textContent alone, never markup.
"use strict";
(() => {
  const items = [...document.querySelectorAll("article.item")];
  const said = document.getElementById("said");
  const state = { raw: false, comparing: false };
  const raws = new Map(); // the text of each .prose, as it was recorded
  const el = (name, text, cls) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  };
  const rawOf = (prose) => {
    if (!raws.has(prose)) raws.set(prose, prose.textContent);
    return raws.get(prose);
  };

  // Markdown. Every repetition is bounded, so that a hostile line takes time in proportion to its length.
  const span = /`([^`\n]{1,2000})`|\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__|~~([^~\n]{1,2000})~~|(?<![\p{L}\p{N}])\*([^*\s][^*\n]{0,2000})\*|(?<![\p{L}\p{N}])_([^_\s][^_\n]{0,2000})_(?![\p{L}\p{N}])|!?\[([^\[\]\n]{1,500})\]\(([^()\s]{1,2000})\)/gu;
  let spans = 0; // of the text that is rendered; beyond a bound, the rest stays as it is
  function inline(into, text, depth) {
    let at = 0;
    for (const m of depth > 2 ? [] : text.matchAll(span)) {
      if (++spans > 2000) break;
      into.append(text.slice(at, m.index));
      at = m.index + m[0].length;
      if (m[1] !== undefined) into.append(el("code", m[1]));
      else if (m[7] !== undefined) { // an address is shown, and not followed
        inline(into, m[7], depth + 1);
        into.append(" ", el("span", "(" + m[8] + ")", "hint"));
      } else {
        const bold = m[2] ?? m[3], gone = m[4], soft = m[5] ?? m[6];
        const e = el(bold !== undefined ? "strong" : gone !== undefined ? "s" : "em");
        inline(e, bold ?? gone ?? soft, depth + 1);
        into.append(e);
      }
    }
    into.append(text.slice(at));
    return into;
  }
  const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
  function render(text) {
    const out = document.createDocumentFragment(), lines = text.split("\n");
    let paragraph = [], list = null;
    spans = 0;
    const flush = () => {
      if (paragraph.length) out.append(inline(el("p"), paragraph.join("\n"), 0));
      paragraph = [];
      list = null;
    };
    for (let i = 0; i < lines.length; i++) {
      const line = lines[i];
      let m;
      if ((m = /^ {0,3}(```+|~~~+)/.exec(line))) {
        flush();
        const code = [];
        for (i++; i < lines.length && !lines[i].trim().startsWith(m[1]); i++) code.push(lines[i]);
        out.append(el("pre", code.join("\n")));
      } else if (!line.trim()) flush();
      else if ((m = /^ {0,3}(#{1,6})[ \t]+(.*)$/.exec(line))) {
        flush();
        out.append(inline(el("p", undefined, "head head" + m[1].length), m[2], 0));
      } else if (/^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/.test(line.slice(0, 200))) {
        flush();
        out.append(el("hr"));
      } else if ((m = /^([ \t]{0,12})(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)$/.exec(line))) {
        const kind = m[2] === undefined ? "UL" : "OL";
        if (list?.tagName !== kind) {
          flush();
          list = el(kind.toLowerCase());
          if (m[2] !== undefined) list.start = +m[2];
          out.append(list);
        }
        const entry = inline(el("li"), m[3], 0);
        if (m[1].length > 1) entry.style.marginLeft = Math.min(m[1].length, 8) + "ch";
        list.append(entry);
      } else if (list && /^[ \t]{2,}/.test(line)) inline(list.lastChild, "\n" + line.trim(), 0);
      else if (/^ {0,3}>/.test(line)) {
        flush();
        const quoted = [];
        for (; i < lines.length && /^ {0,3}>/.test(lines[i]); i++) quoted.push(lines[i].replace(/^ {0,3}> ?/, ""));
        i--;
        out.append(inline(el("blockquote"), quoted.join("\n"), 0));
      } else if (line.includes("|") && /^[\s|:-]{3,1000}$/.test(lines[i + 1] ?? "") && lines[i + 1].includes("-")) {
        flush();
        const table = el("table");
        for (let head = true; i < lines.length && lines[i].includes("|"); i++, head = false) {
          const row = el("tr");
          for (const c of cellsOf(lines[i]).slice(0, 100)) row.append(inline(el(head ? "th" : "td"), c, 0));
          table.append(row);
          if (head) i++;
        }
        i--;
        out.append(table);
      } else {
        if (list) flush();
        paragraph.push(line);
      }
    }
    flush();
    return out;
  }

  // Differences by words: Myers' algorithm within a bound, and between words that occur once in both texts beyond it.
  const words = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];
  function myers(a, b, most) { // returns the pairs of equal positions, or null if the texts differ by more than `most`
    const n = a.length, m = b.length, limit = Math.min(n + m, most), traces = [];
    let v = new Int32Array(2 * limit + 3);
    for (let d = 0; d <= limit; d++) {
      traces.push(v.slice(limit - d, limit + d + 3)); // the diagonals that the step reads: -d-1 to d+1
      for (let k = -d; k <= d; k += 2) {
        const at = limit + 1 + k;
        let x = k === -d || (k !== d && v[at - 1] < v[at + 1]) ? v[at + 1] : v[at - 1] + 1;
        while (x < n && x - k < m && a[x] === b[x - k]) x++;
        v[at] = x;
        if (x >= n && x - k >= m) return path(a, b, traces);
      }
    }
    return null;
  }
  function path(a, b, traces) {
    const pairs = [];
    let x = a.length, y = b.length;
    for (let d = traces.length - 1; d >= 0; d--) {
      const v = (k) => traces[d][k + d + 1], k = x - y;
      const from = k === -d || (k !== d && v(k - 1) < v(k + 1)) ? k + 1 : k - 1;
      const px = d ? v(from) : 0, py = d ? px - from : 0;
      while (x > px && y > py) pairs.push([--x, --y]);
      x = px;
      y = py;
    }
    return pairs.reverse();
  }
  function anchors(a, b) { // the longest chain of words that occur once in each
    const count = new Map();
    a.forEach((w, i) => { const c = count.get(w) ?? [0, 0, 0, 0]; c[0]++; c[2] = i; count.set(w, c); });
    b.forEach((w, j) => { const c = count.get(w); if (c) { c[1]++; c[3] = j; } });
    const found = [...count.values()].filter((c) => c[0] === 1 && c[1] === 1).map((c) => ({ i: c[2], j: c[3], before: null }));
    const tails = [];
    for (const p of found) {
      let low = 0, high = tails.length;
      while (low < high) { const mid = (low + high) >> 1; if (tails[mid].j < p.j) low = mid + 1; else high = mid; }
      p.before = tails[low - 1] ?? null;
      tails[low] = p;
    }
    const chain = [];
    for (let p = tails[tails.length - 1]; p; p = p.before) chain.push([p.i, p.j]);
    return chain.reverse();
  }
  // diff returns, for each text, which words the other has too. coarse: some parts were too different to be compared.
  function diff(a, b) {
    const same = [new Uint8Array(a.length), new Uint8Array(b.length)];
    let coarse = false, budget = 40e6; // steps over all parts
    const mark = (i, j) => { same[0][i] = same[1][j] = 1; };
    const part = (i, iEnd, j, jEnd, deep) => {
      while (i < iEnd && j < jEnd && a[i] === b[j]) mark(i++, j++);
      while (i < iEnd && j < jEnd && a[iEnd - 1] === b[jEnd - 1]) mark(--iEnd, --jEnd);
      if (i === iEnd || j === jEnd) return;
      const x = a.slice(i, iEnd), y = b.slice(j, jEnd), size = x.length + y.length;
      const most = Math.min(deep ? 400 : 1000, Math.floor(Math.sqrt(Math.max(0, budget))));
      const pairs = myers(x, y, most);
      budget -= Math.min(size, most) ** 2;
      if (pairs) { for (const [p, q] of pairs) mark(i + p, j + q); return; }
      const chain = deep ? [] : anchors(x, y);
      if (!chain.length) { coarse = true; return; }
      let [p, q] = [0, 0];
      for (const [s, t] of [...chain, [x.length, y.length]]) {
        part(i + p, i + s, j + q, j + t, true);
        if (s < x.length) mark(i + s, j + t);
        [p, q] = [s + 1, t + 1];
      }
    };
    part(0, a.length, 0, b.length, false);
    return { same, coarse };
  }
  function marked(tokens, same, tag) {
    const out = document.createDocumentFragment();
    for (let i = 0; i < tokens.length;) {
      let end = i;
      while (end < tokens.length && same[end] === same[i]) end++;
      const text = tokens.slice(i, end).join("");
      out.append(same[i] ? text : el(tag, text));
      i = end;
    }
    return out;
  }

  // One question at a time.
  let open = null;
  const proseOf = (section) => section.querySelector(".prose");
  function paint() {
    if (!open) return;
    const { item, bar } = open;
    item.classList.toggle("comparing", state.comparing && bar.ready);
    for (const section of item.querySelectorAll(".text")) {
      const prose = proseOf(section);
      section.classList.remove("compared");
      if (!prose) continue;
      prose.classList.toggle("rendered", !state.raw);
      prose.replaceChildren(state.raw ? rawOf(prose) : render(rawOf(prose)));
    }
    bar.note.textContent = "";
    if (state.comparing && bar.ready) compare(bar);
    bar.raw.setAttribute("aria-pressed", state.raw);
    bar.difference?.setAttribute("aria-pressed", state.comparing);
  }
  function compare(bar) {
    const sides = [bar.left, bar.right].map((s) => document.getElementById(s.value));
    sides.sort((x, y) => (x.compareDocumentPosition(y) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1)); // as they are shown
    for (const side of sides) side.classList.add("compared");
    const proses = sides.map(proseOf);
    if (sides[0] === sides[1]) { bar.note.textContent = "Choose two different answers."; return; }
    const [a, b] = proses.map((p) => words(rawOf(p)));
    const { same, coarse } = diff(a, b);
    proses[0].replaceChildren(marked(a, same[0], "del"));
    proses[1].replaceChildren(marked(b, same[1], "ins"));
    for (const p of proses) p.classList.remove("rendered");
    const lone = (w, s) => w.filter((t, i) => !s[i] && t.trim()).length;
    bar.note.textContent = `${lone(a, same[0])} words and marks only on the left (struck through), ${lone(b, same[1])} only on the right (underlined).` +
      (coarse ? " Some parts differ too much to be compared word by word, and are marked whole." : "");
  }
  const button = (text, does) => { const e = el("button", text); e.type = "button"; e.addEventListener("click", does); return e; };
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not permitted here: select the text in a field, and copy that
      const field = el("textarea");
      field.value = text;
      field.className = "unseen";
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      if (!done) { said.textContent = "The browser does not permit copying."; return; }
    }
    said.textContent = "Copied.";
  }
  function barOf(item) {
    const bar = { item, ready: false, node: el("div", undefined, "bar"), note: el("p", "", "hint") };
    const at = items.indexOf(item);
    const previous = button("← Previous", () => go(at - 1)), next = button("Next →", () => go(at + 1));
    previous.disabled = at === 0;
    next.disabled = at === items.length - 1;
    bar.raw = button("Raw text", () => { state.raw = !state.raw; paint(); });
    bar.node.append(previous, next, bar.raw);
    const answers = [...item.querySelectorAll(".answer")].filter(proseOf);
    if (answers.length > 1) {
      bar.ready = true;
      bar.difference = button("Differences", () => { state.comparing = !state.comparing; paint(); });
      bar.node.append(bar.difference);
      for (const [side, label, chosen] of [["left", "between", 0], ["right", "and", 1]]) {
        const select = el("select"), wrapped = el("label", label + " ");
        for (const a of answers) {
          const option = el("option", a.getAttribute("aria-label"));
          option.value = a.id;
          select.append(option);
        }
        select.selectedIndex = chosen;
        select.addEventListener("change", () => { state.comparing = true; paint(); });
        wrapped.append(select);
        bar[side] = select;
        bar.node.append(wrapped);
      }
    }
    bar.node.append(button("Back to the grid (Esc)", close));
    bar.note.setAttribute("role", "status");
    item.querySelector("h3").after(bar.node, bar.note);
    for (const section of item.querySelectorAll(".text")) {
      const prose = proseOf(section);
      if (!prose) continue;
      const name = section.getAttribute("aria-label"), b = button("Copy", () => copy(rawOf(prose)));
      b.classList.add("copy");
      b.setAttribute("aria-label", "Copy the text of " + name);
      section.append(b);
    }
    return bar;
  }
  const bars = new Map();
  function show(item, answer) {
    if (open && open.item !== item) open.item.classList.remove("open");
    if (!bars.has(item)) bars.set(item, barOf(item));
    open = { item, bar: bars.get(item) };
    item.classList.add("open");
    for (const a of item.querySelectorAll(".chosen")) a.classList.remove("chosen");
    if (answer && open.bar.ready && proseOf(answer)) {
      const { left, right } = open.bar;
      left.value = answer.id;
      if (left.selectedIndex > 0) { // with the first, which is the best
        right.value = answer.id;
        left.selectedIndex = 0;
      } else if (right.selectedIndex === 0) right.selectedIndex = 1;
    }
    answer?.classList.add("chosen");
    paint();
    item.focus({ preventScroll: true });
    item.scrollIntoView();
    if (answer && answer.getBoundingClientRect().bottom > innerHeight) answer.scrollIntoView();
  }
  function close() {
    if (!open) return;
    const link = document.querySelector(`.answers-grid a[href="#${open.item.id}"]`);
    open.item.classList.remove("open");
    open = null;
    history.replaceState(null, "", location.pathname + location.search);
    link.focus();
  }
  function go(to) { if (items[to]) location.replace("#" + items[to].id); }
  function follow() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const item = target && target.closest("article.item");
    if (item) show(item, target.closest(".answer"));
  }
  document.body.classList.add("scripted");
  addEventListener("hashchange", follow);
  addEventListener("click", (event) => { // the same link again
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.hash === location.hash) follow();
  });
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !open) return;
    if (event.target.closest?.("input, select, textarea, .scroll")) return;
    if (event.key === "Escape") { close(); return; }
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go(items.indexOf(open.item) + step);
  });
  follow();
})();
