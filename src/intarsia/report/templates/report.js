"use strict";
(() => {
  let charts = null;
  const places = [...document.querySelectorAll(".plot[data-chart]")];
  const drawn = new Set();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => !printing && innerWidth < 640;
  const PAGE = 690; // a printed page, in pixels
  let printing = false;

  /* The chart library travels compressed, which saves three megabytes; so do the data if there are many. */
  async function unpacked(text) {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  async function loadData() {
    const text = document.getElementById("charts").textContent;
    charts = JSON.parse(text.startsWith("{") ? text : await unpacked(text));
    for (const details of document.querySelectorAll("details.behind[open]")) fill(details);
  }

  async function loadLibrary() {
    const script = document.createElement("script");
    script.textContent = await unpacked(document.getElementById("library").textContent);
    document.head.append(script);
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  /* A chart's data are the report's; its colours are the page's. */
  function themed(figure) {
    const copy = structuredClone(figure);
    const { data, layout } = copy;
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line") };
    layout.paper_bgcolor = "rgba(0,0,0,0)";
    layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = {
      color: colour("ink"), size: narrow() ? 10 : 12,
      family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink") } };
    for (const name of ["xaxis", "yaxis"]) layout[name] = { ...axis, ...layout[name] };
    if (narrow()) {
      layout.dragmode = false;
      if (layout.xaxis.visible === false) layout.xaxis.range = [-2.2, 2.2]; // names beside the graph need room
    }
    for (const trace of data) {
      if (trace.type === "heatmap") paint(trace, layout);
      if (trace.type === "sankey") trace.textfont = { color: colour("ink"), size: narrow() ? 9 : 12 };
    }
    return copy;
  }

  function paint(trace, layout) {
    trace.colorscale = trace.colorscale.length === 3
      ? [[0, colour("down")], [0.5, colour("middle")], [1, colour("up")]]
      : [[0, colour("pale")], [1, colour("deep")]];
    for (const side of ["xaxis", "yaxis"]) layout[side].showgrid = false;
    if (narrow()) trace.showscale = false;
  }

  function draw(place) {
    const { data, layout } = themed(charts[place.dataset.chart].figure);
    layout.width = printing ? PAGE : place.clientWidth;
    drawn.add(place);
    try {
      Plotly.react(place, data, layout, { displaylogo: false, displayModeBar: false, scrollZoom: false });
    } catch (problem) {
      instead(place, problem);
    }
  }

  /* One chart that cannot be drawn must not take the others with it. */
  function instead(place, problem) {
    console.warn("a chart cannot be drawn:", problem);
    drawn.delete(place);
    place.classList.add("broken");
    place.textContent = charts
      ? "This browser cannot draw the chart; the table has the same figures."
      : "This browser cannot unpack the charts; intarsia report --json has the same figures.";
  }

  function redraw() {
    if (window.Plotly) for (const place of drawn) draw(place);
  }

  /* The table behind a chart is made when it is opened: the first rows, a search box, and all rows on request. */
  const FIRST = 100;
  const FOR_PRINT = 1000;
  function fill(details, first = FIRST) {
    const place = details.querySelector(".table-place");
    if (!charts || place.childElementCount) return;
    const { head, rows } = charts[details.dataset.table].table;
    const view = document.createElement("table");
    view.createCaption().textContent = `${rows.length.toLocaleString("en")} rows`;
    const titles = view.createTHead().insertRow();
    for (const text of head) titles.append(cellOf("th", text, "col"));
    const body = view.createTBody();
    const more = document.createElement("button");
    more.type = "button";
    let words = "";
    const show = (most) => {
      const found = words ? rows.filter((row) => row.some((cell) => String(cell).toLowerCase().includes(words))) : rows;
      body.replaceChildren(...found.slice(0, most).map(lineOf));
      more.hidden = found.length <= most;
      more.textContent = `Show all ${found.length.toLocaleString("en")} rows`;
    };
    more.addEventListener("click", () => show(Infinity));
    if (rows.length > 12) {
      const label = document.createElement("label");
      const input = document.createElement("input");
      label.className = "search";
      input.type = "search";
      input.addEventListener("input", () => { words = input.value.trim().toLowerCase(); show(FIRST); });
      label.append("Search ", input);
      place.before(label);
    }
    place.append(view, more);
    show(first);
  }

  function lineOf(row) {
    const line = document.createElement("tr");
    line.append(...row.map((value, k) => cellOf(k ? "td" : "th", value, k ? null : "row")));
    return line;
  }

  function cellOf(kind, value, scope) {
    const cell = document.createElement(kind);
    const mark = document.createElement("bdi"); // names may run from right to left
    mark.textContent = typeof value === "number" ? value.toLocaleString("en") : value;
    if (scope) cell.scope = scope;
    if (typeof value === "number") cell.className = "n";
    cell.append(mark);
    return cell;
  }

  for (const details of document.querySelectorAll("details.behind")) {
    details.addEventListener("toggle", () => { if (details.open) fill(details); });
  }
  for (const input of document.querySelectorAll("input[data-search]")) {
    input.addEventListener("input", () => {
      const words = input.value.trim().toLowerCase();
      for (const item of document.querySelectorAll(input.dataset.search)) {
        item.hidden = !item.textContent.toLowerCase().includes(words);
        if (words && !item.hidden) item.open = true;
      }
    });
  }
  for (const button of document.querySelectorAll("button.unfold")) {
    button.addEventListener("click", () => {
      for (const row of button.parentElement.querySelectorAll(".folded")) row.classList.remove("folded");
      button.remove();
    });
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const source = document.querySelector(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected: copy it with the keyboard";
      }
    });
  }

  /* On paper everything is there: all charts, all clusters, in light colours and as wide as a page. */
  const FOLDED = "details.card:not([open]), details.for-print:not([open])";
  function print(on) {
    if (printing === on) return;
    printing = on;
    for (const details of document.querySelectorAll(on ? FOLDED : "details[data-opened]")) {
      if (details.matches(".for-print")) fill(details, FOR_PRINT);
      details.open = on;
      details.toggleAttribute("data-opened", on);
    }
    for (const row of document.querySelectorAll(on ? ".folded" : "[data-folded]")) {
      row.classList.toggle("folded", !on);
      row.toggleAttribute("data-folded", on);
    }
    if (window.Plotly) for (const place of places) if (drawn.has(place) || (on && !place.matches(".broken"))) draw(place);
  }
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));

  let waiting = null;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
  dark.addEventListener("change", redraw);

  loadData().then(loadLibrary).then(() => {
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watch.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "400px" });
    for (const place of places) watch.observe(place);
    document.documentElement.dataset.ready = "charts";
  }).catch((problem) => {
    for (const place of places) instead(place, problem);
    document.documentElement.dataset.ready = "tables";
  });
})();
