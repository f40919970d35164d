"use strict";
/* Draws the records of eval/report/chart.py as SVG. Colours are CSS variables of the page. */
const SVG = "http://www.w3.org/2000/svg";
const UNITS = 2000;
const SHAPES = { square: [420, 400], wide: [460, 330], low: [460, 170] };
const MARGIN = { left: 56, right: 16, top: 22, bottom: 46 };
const SERIES = 8;

function svgElement(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* A colour by number or by name; when the colours start again, lines are thinner and dotted. */
function seriesStyle(series) {
  if (series === null) return { colour: "var(--faint)", again: 0 };
  if (typeof series === "string") return { colour: `var(--${series})`, again: 0 };
  return { colour: `var(--series-${series % SERIES + 1})`, again: Math.floor(series / SERIES) };
}

function drawAxes(svg, chart, box) {
  const [x0, y0, width, height] = box;
  const across = at => x0 + at / UNITS * width, up = at => y0 + height - at / UNITS * height;
  let grid = "";
  for (const [at] of chart.x.ticks) grid += `M${across(at).toFixed(1)} ${y0}v${height}`;
  for (const [at] of chart.y.ticks) grid += `M${x0} ${up(at).toFixed(1)}h${width}`;
  svg.append(svgElement("path", { d: grid, class: "grid" }));
  svg.append(svgElement("path", { d: `M${x0} ${y0}v${height}h${width}`, class: "axis" }));
  for (const [at, text] of chart.x.ticks)
    svg.append(svgElement("text", { x: across(at), y: y0 + height + 17, "text-anchor": "middle" }, text));
  for (const [at, text] of chart.y.ticks)
    svg.append(svgElement("text", { x: x0 - 6, y: up(at) + 4, "text-anchor": "end" }, text));
  const middle = y0 + height / 2;
  svg.append(svgElement("text", { x: x0 + width / 2, y: y0 + height + 38, "text-anchor": "middle", class: "label" }, chart.x.label));
  svg.append(svgElement("text", { x: 13, y: middle, "text-anchor": "middle", class: "label", transform: `rotate(-90 13 ${middle})` }, chart.y.label));
}

/* Thin lines across; those that stand upright are named above the chart, where no curve is. */
function drawRules(svg, chart, box) {
  const [x0, y0, width, height] = box;
  let free = -Infinity;
  for (const [axis, at, text] of [...chart.rules].sort((a, b) => a[1] - b[1])) {
    if (at < 0 || at > UNITS) continue;
    const place = axis === "x" ? x0 + at / UNITS * width : y0 + height - at / UNITS * height;
    const d = axis === "x" ? `M${place} ${y0}v${height}` : `M${x0} ${place}h${width}`;
    svg.append(svgElement("path", { d, class: "rule" }));
    if (!text) continue;
    const half = 3.7 * text.length;
    const x = Math.min(Math.max(place, x0 + half, free + half + 6), x0 + width + MARGIN.right - half);
    free = x + half;
    svg.append(svgElement("text", { x, y: y0 - 6, "text-anchor": "middle" }, text));
  }
}

function drawChart(chart, label) {
  const [width, height] = SHAPES[chart.shape];
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: `chart ${chart.shape}` });
  const box = [MARGIN.left, MARGIN.top, width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom];
  drawAxes(svg, chart, box);
  drawRules(svg, chart, box);
  /* An inner picture cuts off what leaves the chart, and counts in units. */
  const inner = svgElement("svg", { x: box[0], y: box[1], width: box[2], height: box[3], viewBox: `0 0 ${UNITS} ${UNITS}`, preserveAspectRatio: "none" });
  for (const [series, style, filled, d] of chart.lines) {
    const { colour, again } = seriesStyle(series);
    const line = svgElement("path", { d, class: `line ${style} again-${again}`, "data-series": series ?? "" });
    line.style.stroke = colour;
    if (filled) {
      line.style.fill = colour;
      line.style.fillOpacity = "0.16";
    }
    inner.append(line);
  }
  svg.append(inner);
  for (const [series, filled, x, y] of chart.marks) {
    const { colour } = seriesStyle(series);
    const mark = svgElement("circle", { cx: box[0] + x / UNITS * box[2], cy: box[1] + y / UNITS * box[3], r: 4, class: "mark", "data-series": series });
    mark.style.stroke = colour;
    mark.style.fill = filled ? colour : "var(--card)";
    svg.append(mark);
  }
  return svg;
}
