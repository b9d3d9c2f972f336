// Keeps the counts of the page fresh while it is looked at. Without this script
// they are as of loading the page.
"use strict";
(() => {
  const pause = 10000;
  const cells = document.querySelectorAll("[data-count]");
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/relay/counts", { credentials: "omit", cache: "no-store" });
      if (!answer.ok) return;
      const counts = await answer.json();
      for (const cell of cells) {
        const value = counts[cell.dataset.count];
        if (Number.isFinite(value)) cell.textContent = String(value);
      }
    } catch {
      // The server is away; the next time may do.
    }
  };
  setInterval(refresh, pause);
  document.addEventListener("visibilitychange", refresh);
})();
