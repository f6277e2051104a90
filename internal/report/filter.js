"use strict";
(() => {
  const form = document.getElementById("filter");
  if (!form) return;
  const text = document.getElementById("filter-text");
  const state = document.getElementById("filter-state");
  const rows = Array.from(document.querySelectorAll("#files tbody tr"));
  const apply = () => {
    const wanted = text.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) shown++;
    }
    state.textContent = wanted === "" ? "" : shown + " of " + rows.length + " shown";
  };
  let timer;
  text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 150); });
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  form.hidden = false;
})();
