// The differing rows: filtered among all, drawn by the hundred. Values are text nodes, never HTML.
(() => {
  const byId = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const body = byId("diff-rows");
  if (!body) return;
  const ABSENT = 0, MASKED = 1, PAGE = 100;
  const { models, rows } = JSON.parse(byId("facts").textContent);
  const haystacks = rows.map(([model, change, key, cells]) => [models[model], change, ...key.flat(), ...cells.flat()]
    .filter((part) => typeof part === "string").join(" ").toLowerCase());
  const search = byId("search"), byModel = byId("by-model"), byChange = byId("by-change"), byColumn = byId("by-column");
  const option = (select, value, text) => { const made = make("option", "", text); made.value = value; select.append(made); };
  const counts = new Map();
  for (const [model] of rows) counts.set(model, (counts.get(model) ?? 0) + 1);
  for (const [model, count] of counts) option(byModel, model, `${models[model]} (${count.toLocaleString("en")})`);
  const differs = (cell) => cell[3];

  const columns = () => {
    const known = new Map();
    for (const [model, , , cells] of rows) {
      if (byModel.value !== "" && model !== Number(byModel.value)) continue;
      for (const cell of cells) if (differs(cell)) known.set(cell[0], (known.get(cell[0]) ?? 0) + 1);
    }
    const chosen = byColumn.value;
    byColumn.replaceChildren();
    option(byColumn, "", "all columns");
    for (const [name, count] of [...known].sort((a, b) => b[1] - a[1])) option(byColumn, name, `${name} (${count.toLocaleString("en")})`);
    byColumn.value = known.has(chosen) ? chosen : "";
  };

  const value = (tag, given) => {
    if (given === MASKED) return make(tag, "none", "masked");
    if (given === null) return make(tag, "none", "NULL");
    return make(tag, given === "" ? "none" : "val", given === "" ? "empty" : given);
  };
  const pair = ([name, before, after, differ]) => {
    const line = make("div", "pair");
    line.append(make("span", "col", name));
    if (!differ) line.append(value("span", before));
    else {
      if (before !== ABSENT) line.append(value("del", before));
      if (after !== ABSENT) line.append(value("ins", after));
    }
    return line;
  };
  const TAGS = { added: "good", removed: "bad", changed: "warn" };
  const drawn = ([model, change, key, cells]) => {
    const row = document.createElement("tr");
    const cell = (label, ...parts) => { const made = make("td"); made.dataset.label = label; made.append(...parts); row.append(made); };
    cell("change", make("span", `tag ${TAGS[change]}`, change));
    cell("model", make("div", "name", models[model]));
    const keys = make("div", "keys"), values = make("div");
    keys.append(...key.map(([name, given]) => pair([name, given, given, false])));
    values.append(...cells.map(pair));
    cell("key", keys);
    cell("columns", values);
    return row;
  };

  let found = [], shown = 0;
  const more = byId("diff-more");
  const next = () => {
    body.append(...found.slice(shown, shown + PAGE).map((i) => drawn(rows[i])));
    shown = Math.min(shown + PAGE, found.length);
    more.hidden = shown >= found.length;
    more.textContent = `Show more: ${(found.length - shown).toLocaleString("en")} left`;
  };
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const model = byModel.value === "" ? null : Number(byModel.value), change = byChange.value, column = byColumn.value;
    found = [];
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      if (model !== null && row[0] !== model) continue;
      if (change && row[1] !== change) continue;
      if (column && !row[3].some((cell) => cell[0] === column && differs(cell))) continue;
      if (!words.every((word) => haystacks[i].includes(word))) continue;
      found.push(i);
    }
    shown = 0;
    body.replaceChildren();
    next();
    byId("diff-count").textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  search.addEventListener("input", apply);
  byChange.addEventListener("input", apply);
  byColumn.addEventListener("input", apply);
  byModel.addEventListener("input", () => { columns(); apply(); });
  byId("diff-tools").addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", next);
  for (const link of document.querySelectorAll("a[data-model]")) {
    link.addEventListener("click", () => { byModel.value = link.dataset.model; columns(); apply(); });
  }
  columns();
  apply();
})();
