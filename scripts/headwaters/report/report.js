// A served page reloads when its server has a newer state, and keeps the reader's choices.
(() => {
  const state = document.getElementById("content").dataset.state;
  if (!state) return;
  const KEY = "headwaters report", EVERY = 10_000;
  const fields = () => [...document.querySelectorAll("[data-filters] input, [data-filters] select")];
  const folds = () => [...document.querySelectorAll("details")];
  const regions = () => [...document.querySelectorAll(".scroll.tall, .graph")];

  const keep = () => sessionStorage.setItem(KEY, JSON.stringify({
    fields: fields().map((field) => field.value),
    folds: folds().map((fold) => fold.open),
    scrolls: [scrollY, ...regions().map((region) => region.scrollTop)],
  }));
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  sessionStorage.removeItem(KEY);
  if (kept) {
    fields().forEach((field, i) => {
      field.value = kept.fields[i] ?? "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    folds().forEach((fold, i) => { fold.open = kept.folds[i] ?? fold.open; });
    regions().forEach((region, i) => { region.scrollTop = kept.scrolls[i + 1] ?? 0; });
    scrollTo({ top: kept.scrolls[0], behavior: "instant" });
  }

  const live = document.getElementById("live");
  const isBusy = () => document.hidden || /^(INPUT|SELECT)$/.test(document.activeElement?.tagName) || !getSelection().isCollapsed;
  setInterval(async () => {
    if (isBusy()) return;
    try {
      const answer = await fetch("/state", { cache: "no-store" });
      if (answer.ok && (await answer.text()) !== state) {
        keep();
        location.reload();
      } else live.textContent = "current";
    } catch {
      live.textContent = "the server does not answer";
    }
  }, EVERY);
})();
