/* What the page does: switches, sorting, and the details of a set where a reader opens it. */
const data = JSON.parse(document.getElementById("data").textContent);
const page = { prior: 0, number: "cllr", sort: null, grouped: true };
const NAMES = { cllr: "Cllr", lost: "lost cost", cost: "cost of decisions", eer: "EER in percent", diff: `Cllr minus that of ${data.baseline}` };
const TOO_FEW = 3;
const FIGURES = [["Cllr", "cllr"], ["min lin", "lin"], ["min PAV", "pav"], ["cost", "cost"], ["best threshold", "best"], ["lost", "lost"]];

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/* Numbers of a cell: [value, low, high] of what is asked for; no value at all is infinite. */
function numbersOf(cell, key) {
  if (key === "eer") return cell.eer;
  if (key === "diff") return cell.diff ? cell.diff[page.prior] : undefined;
  return cell.at[page.prior][key];
}

function numberText(value, key) {
  if (value === null) return "∞";
  if (key === "eer") return value.toFixed(value < 10 ? 2 : 1);
  if (key === "diff") return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
  return value < 10 ? value.toFixed(3) : value < 1e4 ? value.toFixed(1) : value.toExponential(0);
}

function clear(numbers) {
  return numbers.length > 2 && numbers[1] !== null && numbers[2] !== null && (numbers[1] > 0 || numbers[2] < 0);
}

function fillCell(td, cell) {
  if (!cell) {
    td.className = "none";
    td.textContent = "–";
    return;
  }
  const at = cell.at[page.prior], numbers = numbersOf(cell, page.number);
  td.className = `g${at.grade}`;
  td.style.setProperty("--t", Math.min(at.lost[0] / data.end, 1));
  td.title = [at.grade === TOO_FEW ? "too few trials to tell" : "", cell.counts ?? ""].filter(Boolean).join(": ");
  td.textContent = numbers ? numberText(numbers[0], page.number) + (page.number === "diff" && clear(numbers) ? " *" : "") : "–";
}

/* A condition's cell: EER, then Cllr, cost, lost cost and grade at each prior. */
function partCell(pair, system) {
  const numbers = pair.cells[system], [target, nontarget] = pair.n.map(n => n.toLocaleString("en"));
  if (!numbers) return null;
  const at = data.priors.map((_, prior) => {
    const [cllr, cost, lost, grade] = numbers.slice(1 + 4 * prior, 5 + 4 * prior);
    return { cllr: [cllr], cost: [cost], lost: [lost], grade };
  });
  return { eer: [numbers[0]], at, counts: `${target} target, ${nontarget} nontarget trials` };
}

/* Every heat cell that is shown knows its numbers, so that a switch changes all of them. */
const shownCells = new Map();
function heatCell(cell) {
  const td = element("td");
  fillCell(td, cell);
  shownCells.set(td, cell);
  return td;
}

function refresh() {
  for (const [td, cell] of shownCells) fillCell(td, cell);
  const number = document.getElementById("shown-number");
  if (number) {
    number.textContent = NAMES[page.number];
    document.getElementById("shown-prior").textContent = data.priors[page.prior];
  }
  for (const place of document.querySelectorAll("[data-figures]"))
    place.replaceChildren(figuresTable(data.rows[place.dataset.figures]));
  sortRows();
}

/* Sorting: first the worst, then the best, then the order of the file again. */
function sortValue(row, key) {
  if (key === "name") return row.name.toLowerCase();
  const numbers = numbersOf(row.cells[key], page.number);
  return !numbers ? -Infinity : numbers[0] === null ? Infinity : numbers[0];
}

function sortRows() {
  const table = document.getElementById("heat");
  if (!table) return;
  for (const th of table.tHead.rows[0].cells)
    th.setAttribute("aria-sort", page.sort && page.sort.key === th.dataset.sort ? page.sort.way : "none");
  const bodies = [...table.querySelectorAll("tbody.sets")];
  const rowOf = body => data.rows[body.dataset.row];
  const sign = page.sort && page.sort.way === "descending" ? -1 : 1;
  const compare = (a, b) => {
    if (page.sort) {
      const [x, y] = [sortValue(rowOf(a), page.sort.key), sortValue(rowOf(b), page.sort.key)];
      if (x !== y) return x < y ? -sign : sign;
    }
    return a.dataset.row - b.dataset.row;
  };
  bodies.sort(compare);
  for (const heading of headings) heading.hidden = !page.grouped;
  if (page.grouped && headings.length) {
    for (const heading of headings)
      table.append(heading, ...bodies.filter(body => headingOf.get(body) === heading));
  } else table.append(...bodies);
  for (const small of table.querySelectorAll("small.of-group")) small.hidden = page.grouped;
}

function sortBy(key) {
  const first = key === "name" ? "ascending" : "descending";
  const second = key === "name" ? "descending" : "ascending";
  const now = page.sort && page.sort.key === key ? page.sort.way : null;
  page.sort = now === second ? null : { key, way: now === first ? second : first };
  sortRows();
}

/* Details of a set */
function figuresTable(row) {
  const table = element("table", "figures"), head = element("tr");
  const titles = ["at prior " + data.priors[page.prior], ...FIGURES.map(f => f[0]), "EER %", "AUC"];
  const keys = [...FIGURES.map(f => f[1]), "eer"];
  if (data.baseline) titles.push(`Cllr − ${data.baseline}`);
  for (const title of titles) {
    const th = element("th", "", title);
    th.scope = "col";
    head.append(th);
  }
  table.append(element("thead", "", head));
  const body = element("tbody");
  row.cells.forEach((cell, number) => {
    const th = element("th", "name", dot(number), data.systems[number]);
    th.scope = "row";
    const tr = element("tr", "", th, ...keys.map(key => figureCell(numbersOf(cell, key), key)));
    tr.append(element("td", "", cell.auc === null ? "–" : cell.auc.toFixed(4)));
    if (data.baseline) tr.append(cell.diff ? figureCell(cell.diff[page.prior], "diff") : element("td", "", "–"));
    body.append(tr);
  });
  table.append(body);
  return table;
}

function figureCell(numbers, key) {
  const text = value => numberText(value, key);
  const td = element("td", "", text(numbers[0]) + (key === "diff" && clear(numbers) ? " *" : ""));
  if (numbers.length > 2) td.append(element("small", "", `${text(numbers[1])} to ${text(numbers[2])}`));
  return td;
}

function dot(number) {
  const made = element("span", "dot");
  made.style.background = seriesStyle(number).colour;
  return made;
}

function region(label, className, child) {
  const made = element("div", className, child);
  made.tabIndex = 0;
  made.setAttribute("role", "region");
  made.setAttribute("aria-label", label);
  return made;
}

function details(index, alone) {
  const row = data.rows[index], inner = element("div", "inner");
  const facts = element("p", "facts");
  for (const [name, value] of row.facts) facts.append(facts.childNodes.length ? " · " : "", `${name} `, element("b", "", value));
  const figures = element("div", "", figuresTable(row));
  figures.dataset.figures = index;
  inner.append(facts, region(`Figures of ${row.name}`, "plain", figures));
  if (row.mean) return inner;
  if (!alone) inner.append(verdicts(row));
  for (const condition of row.conditions) inner.append(conditionTable(row, condition));
  if (row.charts) inner.append(chartsOf(row));
  return inner;
}

/* Systems that need words have them; the others are named in one line. */
function verdicts(row) {
  const made = element("div"), cards = element("div", "cards"), usable = [];
  row.verdicts.forEach((verdict, number) => {
    if (verdict.grade === "yes") usable.push(data.systems[number]);
    else cards.append(element("article", `card verdict ${verdict.grade}`, element("h3", "", dot(number), data.systems[number]),
      element("strong", "", verdict.head), element("p", "", verdict.text)));
  });
  if (usable.length) made.append(element("p", "", `Usable as ${usable.length > 1 ? "they are" : "it is"}: ${usable.join(", ")}.`));
  made.append(cards);
  return made;
}

function conditionTable(row, condition) {
  const made = element("section", "conditions");
  const title = `By ${condition.kind}` + (condition.range ? `: ${condition.range}` : "");
  const axes = condition.grid ? element("p", "about", "Rows: enrolment; columns: test.") : "";
  made.append(element("h4", "", title), axes, condition.grid ? grids(condition) : region(`Results by ${condition.kind}`, "plain", pairList(condition)));
  return made;
}

function headCell(text, scope, className) {
  const th = element("th", className || "", text);
  th.scope = scope;
  return th;
}

/* A line for each pair of conditions, a column for each system. */
function pairList(condition) {
  const head = element("tr", "", headCell("enrolment", "col", "name"), headCell("test", "col", "name"),
    ...data.systems.map(name => headCell(name, "col")), headCell("targets", "col"), headCell("nontargets", "col"));
  const body = element("tbody");
  for (const pair of condition.pairs) {
    const tr = element("tr", "", headCell(pair.pair[0], "row", "name"), headCell(pair.pair[1], "row", "name"), ...pair.cells.map((_, number) => heatCell(partCell(pair, number))));
    for (const count of pair.n) tr.append(headCell(count.toLocaleString("en"), "row"));
    body.append(tr);
  }
  return element("table", "heat", element("thead", "", head), body);
}

/* A square of enrolment against test for each system. */
function grids(condition) {
  const edge = name => name.startsWith("<") ? 0 : parseFloat(name);
  const names = [...new Set(condition.pairs.flatMap(p => p.pair))].sort((a, b) => edge(a) - edge(b));
  const made = element("div", "grids");
  data.systems.forEach((system, number) => {
    const head = element("tr", "", element("td"), ...names.map(n => headCell(n, "col")));
    const body = element("tbody");
    for (const enrol of names) {
      const tr = element("tr", "", headCell(enrol, "row"));
      for (const test of names) {
        const pair = condition.pairs.find(p => p.pair[0] === enrol && p.pair[1] === test);
        tr.append(heatCell(pair ? partCell(pair, number) : null));
      }
      body.append(tr);
    }
    const caption = element("caption", "", dot(number), system);
    made.append(region(`${system} by ${condition.kind}`, "plain", element("table", "heat", caption, element("thead", "", head), body)));
  });
  return made;
}

function figure(chart, title, caption) {
  return element("figure", "card", element("h4", "", title), drawChart(chart, title), caption ? element("figcaption", "", caption) : "");
}

/* Buttons that name the colours; pressing one hides or shows its lines. */
function legendOf(names, charts) {
  const made = element("div", "legend");
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", "Lines shown");
  names.forEach((name, number) => {
    const button = element("button", "", dot(number), name);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      for (const line of charts.querySelectorAll(`[data-series="${number}"]`)) line.style.display = on ? "" : "none";
    });
    made.append(button);
  });
  return made;
}

function chartsOf(row) {
  const charts = element("div", "charts");
  row.charts.forEach((chart, kind) => charts.append(figure(chart, ...data.words[kind])));
  const [title, caption] = data.words[row.charts.length];
  const panels = element("div", "panels");
  row.histograms.forEach((chart, number) => {
    const name = data.systems.length > 1 ? element("div", "", dot(number), data.systems[number]) : "";
    panels.append(element("div", "", name, drawChart(chart, `${title}: ${data.systems[number]}`)));
  });
  const several = row.histograms.length > 1 ? " all" : "";
  charts.append(element("figure", `card${several}`, element("h4", "", title), panels, element("figcaption", "", caption)));
  const made = element("section", "", element("h4", "", "Curves"));
  if (data.systems.length > 1) made.append(legendOf(data.systems, charts));
  made.append(charts);
  return made;
}

function toggle(body, button, show) {
  button.setAttribute("aria-expanded", String(show));
  const there = body.querySelector("tr.detail");
  if (show && !there) {
    const td = element("td", "", details(body.dataset.row, false));
    td.colSpan = data.systems.length + 1;
    const tr = element("tr", "detail", td);
    tr.id = `detail-${body.dataset.row}`;
    body.append(tr);
  } else if (there) there.hidden = !show;
}

/* Arrow keys go from set to set, as in any list. */
function moveFocus(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches("button.open")) return;
  const buttons = [...document.querySelectorAll("#heat button.open")];
  const next = buttons[buttons.indexOf(event.target) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

const headings = [], headingOf = new Map();
function setUpTable(table) {
  for (const th of table.tHead.rows[0].cells) {
    const button = element("button", "sort", ...th.childNodes);
    button.type = "button";
    button.addEventListener("click", () => sortBy(th.dataset.sort));
    th.append(button);
    th.setAttribute("aria-sort", "none");
  }
  let heading = null;
  for (const body of table.tBodies) {
    if (body.className === "heading") {
      heading = body;
      headings.push(body);
      continue;
    }
    const row = data.rows[body.dataset.row], th = body.rows[0].cells[0];
    const button = element("button", "open", ...th.childNodes);
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-controls", `detail-${body.dataset.row}`);
    button.addEventListener("click", () => toggle(body, button, button.getAttribute("aria-expanded") !== "true"));
    if (!row.mean) {
      if (heading) headingOf.set(body, heading);
      const group = element("small", "of-group", ` ${row.group}`);
      group.hidden = true;
      button.append(group);
      if (data.open) toggle(body, button, true);
    }
    th.append(button);
    row.cells.forEach((cell, number) => shownCells.set(body.rows[0].cells[number + 1], cell));
  }
  table.addEventListener("keydown", moveFocus);
  document.getElementById("hint").hidden = false;
}

/* A table that does not fit is marked at its edge; one that fits lets its head stay in view. */
function watchWidth(scroll) {
  const frame = scroll.parentElement;
  const look = () => {
    const beyond = scroll.scrollWidth - scroll.clientWidth;
    frame.classList.toggle("fits", beyond <= 1);
    frame.classList.toggle("cut", beyond > 1 && scroll.scrollLeft < beyond - 2);
  };
  new ResizeObserver(look).observe(scroll);
  scroll.addEventListener("scroll", look, { passive: true });
}

function setUp() {
  const table = document.getElementById("heat"), only = document.getElementById("only-set");
  if (table) {
    setUpTable(table);
    watchWidth(table.parentElement);
  }
  if (only) only.append(details(data.rows.length - 1, true));
  const controls = document.getElementById("controls");
  controls.hidden = false;
  controls.addEventListener("submit", event => event.preventDefault());
  controls.addEventListener("change", event => {
    const input = event.target;
    page[input.name] = input.name === "prior" ? Number(input.value) : input.name === "grouped" ? input.checked : input.value;
    refresh();
  });
  controls.reset();
  for (const place of document.querySelectorAll("details[data-model]"))
    place.addEventListener("toggle", () => {
      if (!place.open || place.dataset.drawn) return;
      place.dataset.drawn = "yes";
      const model = data.models[place.dataset.model], charts = element("div", "charts");
      for (const chart of model.charts) charts.append(figure(chart, chart.title, chart.caption));
      place.append(legendOf(model.legend, charts), charts);
    });
}
setUp();
