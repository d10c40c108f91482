"use strict";
(() => {
  const copy = (text, button) => {
    const done = (words) => {
      const before = button.dataset.name;
      button.textContent = words;
      setTimeout(() => { button.textContent = before; }, 1500);
    };
    const byHand = () => {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "hidden";
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      button.focus();
      done(copied ? "Copied" : "Not copied");
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => done("Copied"), byHand);
    else byHand();
  };
  const button = (name, text) => {
    const made = document.createElement("button");
    made.type = "button";
    made.dataset.name = made.textContent = name;
    made.className = "copy";
    made.addEventListener("click", () => copy(text(), made));
    return made;
  };
  const cells = (row) => [...row.children].map((cell) => cell.textContent.trim()).join("\t");
  const key = (row, i) => {
    const cell = row.children[i];
    return "v" in cell.dataset ? Number(cell.dataset.v.replace("inf", "Infinity")) : cell.textContent;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, head, i) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => (up ? 1 : -1) * compare(key(a, i), key(b, i)));
    table.tBodies[0].append(...rows);
  };
  const hint = (table) => {
    const wide = table.parentElement;
    const made = document.createElement("p");
    made.className = "beyond";
    made.hidden = true;
    wide.before(made);
    const look = () => {
      const heads = [...table.tHead.rows[0].cells];
      const { left, right } = wide.getBoundingClientRect();
      const hidden = heads.filter((head) => {
        const box = head.getBoundingClientRect();
        return box.right > right + 1 || box.left < left - 1;
      }).length;
      made.hidden = wide.scrollWidth <= wide.clientWidth;
      made.textContent = `\u2194 Scroll the table sideways: ${hidden} of ${heads.length} columns are not in full view.`;
    };
    new ResizeObserver(look).observe(wide);
    wide.addEventListener("scroll", look, { passive: true });
  };
  for (const table of document.querySelectorAll("table")) {
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = "sort";
      made.textContent = head.textContent;
      made.title = "Sort by " + head.textContent;
      made.addEventListener("click", () => sort(table, head, i));
      head.replaceChildren(made);
    });
    const text = () => [...table.rows].map(cells).join("\n") + "\n";
    table.parentElement.before(button("Copy table", text));
    hint(table);
  }
  for (const pre of document.querySelectorAll("pre.command")) {
    pre.before(button("Copy command", () => pre.textContent));
  }
  const run = document.getElementById("run");
  if (run) document.getElementById("copy-run").append(" ", button("Copy run file", () => run.textContent));
})();
