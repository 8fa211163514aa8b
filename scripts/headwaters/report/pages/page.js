"use strict";
// The common script of both pages: filters and sorting of tables, a lineage, links into folded details.
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  for (const table of all("table[data-sorts]")) {
    for (const [index, head] of all("thead th", table).entries()) {
      if (!head.textContent.trim() || head.dataset.sort === "no") continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending" ||
          (head.getAttribute("aria-sort") === null && head.classList.contains("num"));
        for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => {
          const cell = row.cells[index];
          return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
        };
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [value(row), row]);
        rows.sort(([a], [b]) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
        if (down) rows.reverse();
        body.append(...rows.map(([, row]) => row));
      });
    }
  }

  for (const tools of all("[data-filters]")) {
    const table = document.getElementById(tools.dataset.filters);
    const text = tools.querySelector("input"), choice = tools.querySelector("select"), count = tools.querySelector("output");
    const rows = [...table.tBodies[0].rows];
    const haystacks = rows.map((row) => row.textContent.toLowerCase());
    const apply = () => {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        const fits = words.every((word) => haystacks[i].includes(word)) && (!choice || !choice.value || row.dataset.state === choice.value);
        row.hidden = !fits;
        shown += fits;
      });
      count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    };
    for (const input of [text, choice]) input?.addEventListener("input", apply);
    apply();
  }

  for (const node of all(".graph [data-id]")) {
    const edges = all(".graph .edge").filter(
      (edge) => edge.dataset.source === node.dataset.id || edge.dataset.target === node.dataset.id);
    const light = (on) => edges.forEach((edge) => edge.classList.toggle("lit", on));
    for (const [event, on] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) {
      node.addEventListener(event, () => light(on));
    }
  }

  const open = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (target?.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView({ block: "start" });
      target.querySelector("summary").focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", open);
  open();

  addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const first = document.getElementById("search") ?? document.querySelector("[data-filters] input");
      if (first) { event.preventDefault(); first.focus(); first.select(); }
    } else if (event.key === "Escape" && event.target.type === "search" && event.target.value) {
      event.target.value = "";
      event.target.dispatchEvent(new Event("input", { bubbles: true }));
      event.preventDefault();
    }
  });
})();
