// SPDX-License-Identifier: Apache-2.0
// What went wrong is shown in the page: who opens it from a file share sees no console.
window.addEventListener('error', (event) => {
  const box = document.getElementById('problem');
  box.hidden = false;
  box.textContent += 'The page could not be drawn completely: ' + event.message + '\n';
  document.documentElement.dataset.errors = Number(document.documentElement.dataset.errors || 0) + 1;
});

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const byId = (id) => document.getElementById(id);

// ---- Elements -------------------------------------------------------------------------------------------
/** An HTML element; children that are texts become text nodes, so that no name of a file is taken for markup. */
function html(name, attributes = {}, ...children) {
  return put(document.createElement(name), attributes, children);
}
function svg(name, attributes = {}, ...children) {
  return put(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}
function put(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter((child) => (child ?? false) !== false));
  return element;
}

// ---- Numbers --------------------------------------------------------------------------------------------
const number = (value, digits = 4) => {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9)) return value.toExponential(digits - 2);
  if (Math.abs(value) >= 10000) return Math.round(value).toLocaleString('en').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(digits)));
};
/** With a prefix of powers of 1000: "12.3 MB". */
function scaled(value, unit, digits = 3) {
  if (value === null || Number.isNaN(value)) return '–';
  const steps = ['', 'k', 'M', 'G', 'T', 'P'];
  const power = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.abs(value) || 1) / 3)));
  return `${Number((value / 1000 ** power).toPrecision(digits))}\u202f${steps[power]}${unit}`.replace(/\u202f$/, '');
}
const bytes = (value) => scaled(value, 'B');
const percent = (value, digits = 3) => value === null ? '–' : `${number(100 * value, digits)}\u202f%`;
/** "1 h 03 min", "45.2 s", "3.1 ms". */
function duration(s) {
  if (s === null || Number.isNaN(s)) return '–';
  for (const [unit, size, part, of] of [['d', 86400, 'h', 3600], ['h', 3600, 'min', 60], ['min', 60, 's', 1]])
    if (s >= size) return `${Math.floor(s / size)} ${unit} ${String(Math.floor(s % size / of)).padStart(2, '0')} ${part}`;
  const [scale, unit] = s >= 1 || s === 0 ? [1, 's'] : s >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return `${number(scale * s, 3)} ${unit}`;
}
const formats = { bytes, s: duration, fraction: (v) => v === null ? '–' : `${number(100 * v)}\u202f%`, steps: (v) => number(v, 6), 'samples/s': (v) => scaled(v, '', 4) };

// ---- The horizontal axis --------------------------------------------------------------------------------
const axes = [
  { name: 'step', label: 'step', column: 0 },
  { name: 'epoch', label: 'epoch', column: 2 },
  { name: 'time', label: 'time of running', column: 1 },
  { name: 'samples', label: 'samples', column: 3 },
];
const view = { axis: axes[0], from: 0, to: 1, zoomed: false, marks: true, cursor: null };

/** Where a run was at a step, on the present axis: between the places that are known, in proportion. */
function place(run, step) {
  const steps = run.knots[0];
  const values = run.knots[view.axis.column];
  if (view.axis.column === 0) return step;
  const after = firstAbove(steps, step);
  if (after === 0) return values[0];
  if (after === steps.length) return values[values.length - 1];
  const part = (step - steps[after - 1]) / (steps[after] - steps[after - 1]);
  return values[after - 1] + part * (values[after] - values[after - 1]);
}
/** The index of the first of ascending values that is above `value`. */
function firstAbove(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
/** Scale and unit for ticks of an axis up to `span` seconds. */
const timeUnit = (span) => [[4 * 86400, 86400, 'd'], [3 * 3600, 3600, 'h'], [300, 60, 'min'], [0, 1, 's']]
  .find(([from]) => span >= from).slice(1);

// ---- Runs and their curves ------------------------------------------------------------------------------
const dashes = ['', '7 3', '2 3', '9 3 2 3'];
const shapes = [
  (x, y, r) => `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`,
  (x, y, r) => `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  (x, y, r) => `M${x},${y - 1.3 * r}l${1.2 * r},${2.2 * r}h${-2.4 * r}Z`,
  (x, y, r) => `M${x},${y - 1.4 * r}l${1.4 * r},${1.4 * r}l${-1.4 * r},${1.4 * r}l${-1.4 * r},${-1.4 * r}Z`,
];
/** What is drawn and listed: a run, or the mean of runs that differ in the seed only, which opens into these. */
const units = data.groups.map((group) => group.members.length === 1 ? runs[group.members[0]]
  : Object.assign(group, { runs: group.members.map((member) => runs[member]), open: false }));
const withRuns = units.flatMap((unit) => [unit, ...unit.runs || []]);
units.forEach((unit, i) => {
  Object.assign(unit, { color: `var(--c${i % 8})`, dash: dashes[Math.floor(i / 8) % 4], shape: shapes[i % 4], shown: true });
  (unit.runs || []).forEach((run, k) =>
    Object.assign(run, { color: unit.color, dash: dashes[(k + 1) % 4], shape: shapes[(i + k) % 4], shown: true }));
});
/** "adam, 3 seeds" */
const nameOf = (unit) => unit.runs ? `${unit.name}, ${unit.runs.length} seeds` : unit.name;
const shownRuns = () => units.filter((unit) => unit.shown).flatMap((unit) => unit.open ? unit.runs.filter((run) => run.shown) : [unit]);

/** The points of a curve of a run that has it, on the present axis: [xs, ys]. */
const placed = new Map();
function pointsOf(run, name) {
  const key = `${withRuns.indexOf(run)} ${view.axis.name} ${name}`;
  const [steps, ys] = run.series[name];
  if (!placed.has(key)) placed.set(key, steps.map((step) => place(run, step)));
  return [placed.get(key), ys];
}
const lastStep = (run) => Math.max(run.totals.step, ...run.marks.map((mark) => mark.until));
const wholeRange = () => [0, Math.max(...shownRuns().map((run) => place(run, lastStep(run))), 1e-9)];
