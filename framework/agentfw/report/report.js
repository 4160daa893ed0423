/* Sorts a table by the column whose heading is clicked. */
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("th")], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending" ||
      (!head.hasAttribute("aria-sort") && head.classList.contains("number"));
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => {
      const value = row.cells[column].dataset.value;
      return value === undefined ? null : Number(value);
    };
    const order = (a, b) => {
      const x = key(a), y = key(b);
      const missing = value => value === null || Number.isNaN(value);
      if (!missing(x) && !missing(y)) return down ? y - x : x - y;
      if (missing(x) !== missing(y) && head.classList.contains("number")) return missing(x) ? 1 : -1;
      const words = row => row.cells[column].textContent;
      return words(a).localeCompare(words(b), undefined, {numeric: true}) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
  }));
}
