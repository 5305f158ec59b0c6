// SPDX-License-Identifier: Apache-2.0
// ---- Tables ---------------------------------------------------------------------------------------------
const figureNames = { auc: 'AUC', accuracy_top1: 'accuracy', average_accuracy_top1: 'accuracy (averaged weights)', r2: 'R²' };
const figures = [...new Set(runs.map((run) => run.totals.figure).filter(Boolean))];
const figureName = figures.length === 1 ? figureNames[figures[0]] || figures[0] : 'figure';
const isShare = runs.some((run) => run.totals.is_share);
/** Of a share so many digits as its samples can tell. */
function figureText(value, run, digits = 5) {
  if (!run.totals.is_share || value === null) return number(value, digits);
  return `${run.totals.decimals === null ? number(100 * value, 5) : (100 * value).toFixed(run.totals.decimals)}\u202f%`;
}
const bestOf = (run) => run.totals.improvements.length ? run.totals.improvements.at(-1) : null;
let target = null;
{
  const best = runs.map((run) => bestOf(run) ? bestOf(run)[0] : null).filter((value) => value !== null);
  if (best.length) target = Math.floor(Math.min(...best) * 1000) / 1000;
}
/** The first validation that reached the target: [value, step, seconds, epochs, samples]. */
const reached = (run) => target === null ? null : run.totals.improvements.find((better) => better[0] >= target) || null;
const columns = [
  { title: 'Ended', text: true, of: (run) => run.totals.ending, show: (value) => value },
  { title: 'Workers', of: (run) => run.facts.workers || null, show: (v) => number(v) },
  { title: 'Steps', of: (run) => run.totals.step, show: (v) => number(Math.round(v), 9) },
  { title: 'Epochs', of: (run) => run.totals.epochs, show: (v) => number(v, 3) },
  { title: 'Time', of: (run) => run.totals.seconds, show: duration },
  { title: `Best ${figureName}`, figure: 1, of: (run) => bestOf(run) ? bestOf(run)[0] : null, show: figureText },
  { title: `Last ${figureName}`, figure: 1, of: (run) => run.totals.last_figure, show: figureText },
  { title: 'Generalization gap', help: 'by how much training was better than the last validation: mean of the reports between the last two',
    of: (run) => run.totals.gap, show: (v, run, digits) => run.totals.gap_of === 'loss' ? number(v, digits) : figureText(v, run, digits) },
  { title: 'Time to target', figure: -1, of: (run) => reached(run) ? reached(run)[2] : null, show: duration },
  { title: 'Best validation loss', best: -1, of: (run) => run.totals.best_loss, show: (v, run, digits) => number(v, digits) },
  { title: 'Last training loss', best: -1, of: (run) => run.totals.training_loss, show: (v, run, digits) => number(v, digits) },
  { title: 'Samples/s', best: 1, of: (run) => run.totals.samples_per_s, show: (v, run, digits = 4) => scaled(v, '', digits) },
  { title: 'Exposed comm.', best: -1, of: (run) => run.totals.exposed_share, show: (v, run, digits) => percent(v, digits) },
  { title: 'Sent by rank 0', best: -1, of: (run) => run.totals.sent_bytes, show: bytes },
  { title: 'Memory of rank 0', of: (run) => run.totals.memory_bytes || null, show: bytes },
].filter((column) => (!column.figure || figures.length) && (!column.help || runs.some((run) => column.of(run) !== null)));
/** The values of a column in the runs that have one. */
const valuesOf = (column, unit) => (unit.runs || [unit]).map(column.of).filter((value) => value !== null);
/** Of a group the mean, if all its runs reached the target where that is asked for; of texts how many have each. */
function valueOf(column, unit) {
  if (!unit.runs) return column.of(unit);
  const values = valuesOf(column, unit);
  if (column.text) {
    const kinds = [...new Set(values)];
    return kinds.length === 1 ? kinds[0] : kinds.map((kind) => `${values.filter((value) => value === kind).length} ${kind}`).join(', ');
  }
  if (!values.length || (column.title === 'Time to target' && values.length < unit.runs.length)) return null;
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
/** " ± 0.3 %": the standard deviation over the seeds; empty: there is none. */
function deviationText(column, unit) {
  const [values, mean] = [valuesOf(column, unit), valueOf(column, unit)];
  if (!unit.runs || column.text || mean === null || values.length < 2) return '';
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
  return deviation > 1e-12 * Math.abs(mean) ? `± ${column.show(deviation, unit, 2)}` : '';
}
const sorting = { column: null, down: false };

function sortBy(column) {
  const down = sorting.column === column ? !sorting.down : (column.best || column.figure) === 1;
  Object.assign(sorting, { column, down });
  drawResults();
}
/** Absent values come last in either direction. */
function sortedUnits() {
  if (!sorting.column) return units;
  const value = sorting.column === 'name' ? (unit) => unit.name : (unit) => valueOf(sorting.column, unit);
  const compare = (a, b) => typeof a === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a - b;
  return [...units].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return (sorting.down ? -1 : 1) * compare(x, y);
  });
}
function header(column, title, text) {
  const sorted = sorting.column === column;
  return html('th', { scope: 'col', title: column.help, class: text && 'text', 'aria-sort': sorted && (sorting.down ? 'descending' : 'ascending') },
    html('button', { type: 'button', onclick: () => sortBy(column) }, title + (sorted ? sorting.down ? ' ↓' : ' ↑' : '')));
}
const fails = (column, unit) => column.title === 'Ended' && valuesOf(column, unit).includes('failed');
/** "best", "tied" with others within the digits that are shown, or false. */
function markOf(column, unit) {
  const wanted = column.best || column.figure;
  const all = units.filter((each) => valueOf(column, each) !== null);
  if (!wanted || all.length < 2 || !all.includes(unit)) return false;
  const best = all.reduce((a, b) => wanted * (valueOf(column, b) - valueOf(column, a)) > 0 ? b : a);
  const shown = (each) => column.show(valueOf(column, each), each);
  if (shown(unit) !== shown(best)) return false;
  const equal = all.filter((each) => shown(each) === shown(best)).length;
  return equal === 1 ? 'best' : 2 * equal <= all.length && 'tied';
}
function resultCell(column, unit) {
  const mark = markOf(column, unit);
  const deviation = deviationText(column, unit);
  return html('td', { class: fails(column, unit) ? 'text fault' : column.text ? 'text' : mark,
    title: mark === 'tied' && 'equal to others within these digits' }, column.show(valueOf(column, unit), unit),
  deviation && html('small', {}, deviation));
}
/** Opens a group into its runs, or folds it; null for a run. */
const opener = (unit) => unit.runs ? html('button', { type: 'button', class: 'opener', 'aria-expanded': String(unit.open),
  title: unit.open ? 'fold into the mean' : 'show each run', onclick: () => {
    unit.open = !unit.open;
    drawLegend();
    drawResults();
    redraw();
  } }, `${unit.open ? '▾' : '▸'} ${unit.runs.length} seeds`) : null;
function rowsOf(unit) {
  const row = (each, name) => html('tr', { class: each !== unit && 'member' }, name, ...columns.map((column) => resultCell(column, each)));
  return [row(unit, cell(swatch(unit.color), unit.name, opener(unit))),
    ...(unit.open ? unit.runs : []).map((run) => row(run, cell(run.name)))];
}
/** The figure of a run that counts most: where it has no validations, its loss. */
const headlineColumn = (unit) => columns.find((column) => (column.figure === 1 ||
  ['Best validation loss', 'Last training loss'].includes(column.title)) && valueOf(column, unit) !== null);
function headline(unit) {
  const column = headlineColumn(unit);
  if (!column) return null;
  const best = column.figure && !unit.runs && bestOf(unit);
  const about = best ? `, at step ${number(best[1], 9)} after ${duration(best[2])}` : unit.runs ? `, ${unit.runs.length} seeds` : '';
  return html('div', { class: `headline ${markOf(column, unit) || ''}` }, runs.length > 1 && html('h3', {}, swatch(unit.color), unit.name),
    html('strong', {}, column.show(valueOf(column, unit), unit), unit.runs && html('small', {}, ` ${deviationText(column, unit)}`)),
    html('span', {}, column.title.replace(/^./, (letter) => letter.toLowerCase()) + about));
}
function drawResults() {
  const content = runs.length === 1
    ? html('dl', { class: 'tiles' }, ...columns.filter((column) => column !== headlineColumn(runs[0])).map((column) =>
      html('div', { class: 'tile' }, html('dt', { title: column.help }, column.title),
        html('dd', { class: fails(column, runs[0]) && 'fault' }, column.show(column.of(runs[0]), runs[0])))))
    : html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-labelledby': 'results-title' },
      html('table', {}, html('thead', {}, html('tr', {}, header('name', 'Run', true),
        ...columns.map((column) => header(column, column.title, column.text)))),
      html('tbody', {}, ...sortedUnits().flatMap(rowsOf))));
  byId('results-body').replaceChildren(html('div', { class: 'headlines' }, ...units.map(headline)), content);
  if (content.className === 'scroll') cue(content);
}
function addTarget() {
  if (target === null) return;
  const scale = isShare ? 100 : 1;
  byId('results').append(html('p', { class: 'target' }, html('label', {}, `Target ${figureName}: `,
    html('input', { type: 'number', step: isShare ? 0.1 : 0.001, value: Number((scale * target).toPrecision(6)), oninput: (event) => {
      target = event.target.value === '' ? null : Number(event.target.value) / scale;
      drawResults();
    } }), isShare ? ' %' : ''), ' reached in a validation; times count running only, from the first step.'));
}
/** Shows by a shadow at which sides a box holds more than is seen. */
function cue(box) {
  const update = () => {
    box.classList.toggle('more-left', box.scrollLeft > 1);
    box.classList.toggle('more-right', box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
  };
  box.addEventListener('scroll', update, { passive: true });
  new ResizeObserver(update).observe(box);
}
function table(into, titles, rows) {
  byId(into).hidden = rows.length === 0;
  byId(into).querySelector('.scroll').append(html('table', {}, html('thead', {}, html('tr', {},
    ...titles.map((title) => html('th', { scope: 'col', class: 'text' }, title)))), html('tbody', {}, ...rows)));
}
/** Accuracy of each class, worst first, and the confusion matrix, as an evaluation of the run found them. */
function classesOf(run) {
  const { checkpoint, data: samples, step, classes, confusion } = run.evaluation;
  const share = (part, all) => all ? `${(100 * part / all).toFixed(1)}\u202f%` : '–';
  const shade = (color, part) => `background:color-mix(in srgb, var(--${color}) ${Math.round(60 * part)}%, transparent)`;
  const later = run.totals.step > step && html('span', { class: bestOf(run)?.[1] === step ? '' : 'fault' },
    bestOf(run)?.[1] === step ? ', the best one' : `, the run went on to step ${number(run.totals.step, 9)}: evaluate again`);
  const box = (title, head, rows) => html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
    html('table', {}, html('thead', {}, html('tr', {}, ...head.map((text) => html('th', { scope: 'col', class: title.startsWith('Conf') && 'count' }, text)))), html('tbody', {}, ...rows)));
  classes.forEach((one, i) => {
    const others = (confusion[i] || []).map((count, k) => k === i ? 0 : count);
    one.confused = Math.max(0, ...others);
    one.with = one.confused && classes[others.indexOf(one.confused)].name;
  });
  const worstFirst = [...classes].sort((a, b) => a.correct * b.samples - b.correct * a.samples);
  return [html('p', { class: 'hint' }, `${runs.length > 1 ? `${run.name}: ` : ''}${checkpoint} (step ${number(step, 9)}`, later, `) on ${samples}`),
    html('div', { class: 'grid' },
      box('Accuracy of each class', ['Class', 'Accuracy', 'Precision', 'Samples', 'Most often taken for'], worstFirst.map((one) => html('tr', {},
        cell(one.name), html('td', { style: `background:linear-gradient(90deg, var(--hover) ${100 * one.correct / one.samples}%, transparent 0)` },
          share(one.correct, one.samples)), cell(share(one.correct, one.predicted)), cell(number(one.samples, 9)),
        cell(one.confused ? `${one.with} (${number(one.confused, 9)})` : '–')))),
      confusion.length > 0 && box('Confusion matrix', ['True ↓ predicted →', ...classes.map((one) => one.name)], confusion.map((row, i) => html('tr', {},
        cell(classes[i].name), ...row.map((count, k) => html('td', { class: 'count', title: `${classes[i].name} taken for ${classes[k].name}`,
          style: count > 0 && shade(i === k ? 'accent' : 'fault', i === k ? count / classes[i].samples : Math.min(1, 0.15 + 4 * count / classes[i].samples)) },
        count || '·')))))) ];
}
function addClasses() {
  const evaluated = runs.filter((run) => run.evaluation?.classes.length);
  const [{ folder, totals }] = runs;
  byId('classes').hidden = !evaluated.length && !(runs.length === 1 && totals.figure.endsWith('accuracy_top1') && !runs[0].evaluation);
  byId('classes').append(...evaluated.length ? evaluated.flatMap(classesOf) : [html('p', { class: 'hint' }, 'Accuracy of each class and the confusion matrix appear here after ',
    html('code', {}, `flotilla evaluate ${folder} --json --output ${folder}/evaluation.json`))]);
}
function addTables() {
  table('differences', ['Key', ...units.map((unit) => unit.name)], data.differences.map((row) =>
    html('tr', {}, cell(html('code', {}, row.key)), ...row.values.map((value) => cell(value || '–')))));
  const events = runs.flatMap((run) => run.marks.filter((mark) => mark.kind !== 'checkpoint').map((mark) => [run, mark]));
  const kinds = ['fault', 'straggler', 'resume'].map((kind) => [kind, events.filter(([, mark]) => mark.kind === kind).length]);
  byId('events-count').replaceChildren(...kinds.filter(([, count]) => count).map(([kind, count]) =>
    html('span', { class: kind }, `${count} ${kind}${count === 1 ? '' : 's'}`)), events.length > 200 ? 'the first 200 are listed' : '');
  table('events', ['Run', 'Step', 'What', ''], events.slice(0, 200).map(([run, mark]) => html('tr', {},
    cell(swatch(run.color), run.name), cell([...new Set([mark.step, mark.until])].map((step) => number(step, 9)).join(' – ')),
    html('td', { class: mark.kind === 'fault' ? 'text fault' : 'text' }, mark.kind), html('td', { class: 'text' }, mark.text))));
  byId('decks').hidden = runs.every((run) => !run.deck);
  for (const unit of units)
    if (unit.deck) byId('decks').append(html('details', {}, html('summary', {}, nameOf(unit) + (unit.runs ? `: that of ${unit.runs[0].name}` : '')),
      html('pre', {}, unit.deck)));
  const warnings = runs.flatMap((run) => run.warnings);
  if (warnings.length) Object.assign(byId('problem'), { hidden: false, textContent: warnings.join('\n') });
}

// ---- The page -------------------------------------------------------------------------------------------
function card(id, title, buttons) {
  const root = svg('svg', { class: 'chart', id, tabindex: 0, role: 'img', 'aria-label': title });
  const figure = html('figure', { class: 'card' }, html('figcaption', {}, html('h3', {}, title), ...buttons), root);
  return { card: figure, svg: root, title };
}
const charts = data.charts.map((description) => {
  const button = html('button', { type: 'button', 'aria-pressed': 'false', title: 'Logarithmic vertical axis' }, 'log');
  const note = html('button', { type: 'button', class: 'note', hidden: true });
  const chart = { ...description, ...card(`chart-${description.name}`, description.title, [note, button]), note, log: false };
  chart.bounds = [chart.bounds[0] ?? -Infinity, chart.bounds[1] ?? Infinity];
  chart.clips = true;
  note.addEventListener('click', () => {
    chart.clips = !chart.clips;
    drawChart(chart);
    panels.forEach(drawPhases); // they follow the time of a step
  });
  chart.format = formats[chart.unit] || number;
  chart.label = ['s', 'bytes', 'fraction'].includes(chart.unit) ? '' : chart.unit; // their ticks have units
  button.addEventListener('click', () => {
    chart.log = !chart.log;
    button.setAttribute('aria-pressed', chart.log);
    drawChart(chart);
  });
  const labels = chart.curves.filter((curve) => curve.label);
  const areas = [units.some((unit) => unit.runs) && ['deviation', 'mean ± standard deviation of the seeds'],
    chart.has_stragglers && runs.some((run) => run.marks.some((mark) => mark.kind === 'straggler')) && ['stragglers', 'a worker was late']];
  chart.svg.before(html('div', { class: 'keys' }, ...labels.map((curve) => html('span', {}, svg('svg', { width: 26, height: 10, class: 'chart', style: 'width:26px' },
      svg('path', { class: `curve${curve.thin ? ' thin' : ''}${curve.band ? ' band' : ''}`, d: 'M0,5H26', stroke: 'currentColor',
        'stroke-dasharray': curve.series.includes('average_') ? '5 3' : undefined }),
      curve.thin ? null : svg('path', { d: shapes[0](13, 5, 3.2), fill: 'currentColor' })), curve.label)),
  ...areas.filter(Boolean).map(([kind, text]) => html('span', { class: `of-${kind}` }, html('span', { class: `swatch ${kind}` }), text))));
  return chart;
});
const panels = withRuns.filter((run) => run.phases[0].length).map((run) =>
  ({ run, ...card(`phases-${withRuns.indexOf(run)}`, runs.length > 1 ? nameOf(run) : 'A step of rank 0', []) }));

function draw() {
  charts.forEach(drawChart);
  panels.forEach(drawPhases);
  byId('reset').disabled = !view.zoomed;
  setCursor(null);
  Object.assign(document.documentElement.dataset, { charts: charts.filter((chart) => chart.frame).length,
    panels: panels.filter((panel) => panel.frame).length, from: view.from, to: view.to });
}
function setAxis(axis) {
  view.axis = axis;
  byId(`x-${axis.name}`).checked = true;
  showAll();
}
/** A run's line with its marker. */
function symbol(run) {
  return svg('svg', { width: 24, height: 12 }, svg('path', { d: 'M0,6H24', stroke: run.color, 'stroke-width': 2.5,
    'stroke-dasharray': run.dash || undefined }), svg('path', { d: run.shape(12, 6, 4), fill: run.color }));
}
const redraw = () => view.zoomed ? draw() : showAll();
function show(run, shown) {
  run.shown = shown;
  drawLegend();
  redraw();
}
function drawLegend() {
  const chip = (run) => html('label', { title: run.folder }, html('input', { type: 'checkbox', checked: run.shown,
    onchange: (event) => show(run, event.target.checked) }), symbol(run), html('span', {}, run.name));
  byId('legend').replaceChildren(...units.flatMap((unit) => !unit.runs ? [chip(unit)]
    : [html('span', { class: 'group' }, chip(unit), opener(unit), ...(unit.open ? unit.runs.map(chip) : []))]));
}
function addControls() {
  byId('axis').append(...axes.map((axis) => html('label', {}, html('input', { type: 'radio', name: 'axis',
    id: `x-${axis.name}`, onchange: () => setAxis(axis) }), axis.name)));
  byId('legend').hidden = runs.length < 2;
  drawLegend();
  byId('marks').addEventListener('change', (event) => { view.marks = event.target.checked;
    document.documentElement.classList.toggle('no-marks', !view.marks);
    draw();
  });
  byId('share').addEventListener('change', (event) => { shares = event.target.checked; panels.forEach(drawPhases); });
  byId('reset').addEventListener('click', showAll);
  byId('theme').addEventListener('click', () => document.documentElement.classList.toggle('dark'));
  byId('phases-legend').append(...data.phases.map((name, i) => html('span', {}, swatch(`var(--p${i})`), name)));
}
function addHeader() {
  const title = units.length === 1 ? nameOf(units[0]) : units.length < runs.length ? `${runs.length} runs, ${units.length} settings` : `${runs.length} runs`;
  document.title = `${title} – Flotilla report`;
  byId('title').textContent = title;
  const { workers, device, all_reduce: allReduce, parameters, global_batch: batch } = runs[0].facts;
  const last = new Date(1000 * Math.max(...runs.map((run) => run.totals.last_time))).toISOString();
  const facts = runs.length > 1 ? [] : [`${workers} ${workers === 1 ? 'worker' : 'workers'}`, device, allReduce,
    `${number(parameters, 9)} parameters`, `batch ${number(batch, 9)}`];
  byId('subtitle').textContent = [...facts, `up to ${last.slice(0, 16).replace('T', ' ')} UTC`].join(' · ');
  byId('footer').hidden = runs.every((run) => run.totals.lines <= 2048);
}

const dark = location.hash.includes('dark') || (matchMedia('(prefers-color-scheme: dark)').matches && !location.hash.includes('light'));
document.documentElement.classList.toggle('dark', dark);
addHeader();
addControls();
drawResults();
addTarget();
addClasses();
addTables();
byId('charts').append(...charts.map((chart) => chart.card));
byId('phases').append(...panels.map((panel) => panel.card));
byId('phases-section').hidden = panels.length === 0;
byId('phases').classList.toggle('grid', panels.length > 1);
[...charts, ...panels].forEach(listen);
document.querySelectorAll('main > section > .scroll, #classes .scroll, #events .scroll, pre').forEach(cue);
setAxis(axes.find((axis) => location.hash.includes(`x=${axis.name}`)) || axes[0]);
addEventListener('resize', draw);
