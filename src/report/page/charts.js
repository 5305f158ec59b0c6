// SPDX-License-Identifier: Apache-2.0
// ---- Scales ---------------------------------------------------------------------------------------------
function niceTicks(from, to, count) {
  const raw = Math.max(to - from, 1e-12 * Math.max(Math.abs(from), Math.abs(to))) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}
function logTicks(from, to) {
  const ticks = [];
  const wide = Math.log10(to / from) > 2.5;
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); ++power)
    for (const factor of wide ? [1] : [1, 2, 5])
      if (factor * 10 ** power >= from * 0.999 && factor * 10 ** power <= to * 1.001) ticks.push(factor * 10 ** power);
  return ticks.length > 1 || wide ? ticks : niceTicks(from, to, 4).filter((tick) => tick > 0);
}
/** The frame of a chart: scales, grid, labels. `range`: of the values; `format`: of ticks. */
function frame(root, { width, height, range, log, unit, format }) {
  const f = { left: 62, right: width - 14, top: unit ? 24 : 12, bottom: height - 38, log };
  let [low, high] = range;
  if (log) [low, high] = [Math.log10(low), Math.log10(high)];
  f.x = (value) => f.left + (value - view.from) / (view.to - view.from) * (f.right - f.left);
  f.atX = (pixel) => view.from + (pixel - f.left) / (f.right - f.left) * (view.to - view.from);
  f.y = (value) => f.bottom - ((log ? Math.log10(value) : value) - low) / (high - low) * (f.bottom - f.top);
  const clip = `clip-${root.id}`;
  f.plot = svg('g', { 'clip-path': `url(#${clip})` });
  root.append(svg('clipPath', { id: clip },
    svg('rect', { x: f.left - 5, y: f.top - 5, width: f.right - f.left + 10, height: f.bottom - f.top + 10 })));
  for (const tick of log ? logTicks(...range) : niceTicks(...range, Math.max(3, (f.bottom - f.top) / 42))) {
    root.append(svg('line', { class: 'gridline', x1: f.left, x2: f.right, y1: f.y(tick), y2: f.y(tick) }),
      svg('text', { x: f.left - 7, y: f.y(tick) + 4, 'text-anchor': 'end' }, format(tick)));
  }
  const [scale, timeName] = view.axis.name === 'time' ? timeUnit(view.to) : [1, ''];
  for (const tick of niceTicks(view.from / scale, view.to / scale, Math.max(2, (f.right - f.left) / 85))) {
    const x = f.x(tick * scale);
    root.append(svg('line', { class: 'base', x1: x, x2: x, y1: f.bottom, y2: f.bottom + 4 }),
      svg('text', { x, y: f.bottom + 17, 'text-anchor': 'middle' },
        view.axis.column > 0 && view.axis.column < 3 ? number(tick) : scaled(tick, '', 4)));
  }
  f.cursor = svg('line', { class: 'cursor', y1: f.top, y2: f.bottom, visibility: 'hidden' });
  root.append(f.cursor, svg('line', { class: 'base', x1: f.left, x2: f.right, y1: f.bottom, y2: f.bottom }),
    svg('text', { x: (f.left + f.right) / 2, y: f.bottom + 33, 'text-anchor': 'middle' },
      view.axis.label + (timeName ? ` (${timeName})` : '')), f.plot);
  if (unit) root.append(svg('text', { x: 6, y: 12 }, unit));
  return f;
}
/** Limits with room around the values; equal ones are spread. */
function limits(low, high, fromZero, log) {
  if (!(low <= high)) return null;
  if (log) return high > low * 1.01 ? [low / 1.1, high * 1.1] : [low / 2, high * 2];
  if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.06 : 1];
  const room = high > low ? 0.05 * (high - low) : Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

// ---- Charts of curves -----------------------------------------------------------------------------------
/** The indices of the points in view, with one beyond on each side. */
const visible = (xs) => [Math.max(0, firstAbove(xs, view.from) - 1), Math.min(xs.length, firstAbove(xs, view.to) + 1)];
function pathOf(f, xs, ys, [begin, end]) {
  let [path, pen] = ['', 'M'];
  for (let i = begin; i < end; ++i) {
    const gap = ys[i] === null || (f.log && ys[i] <= 0);
    if (!gap) path += `${pen}${f.x(xs[i]).toFixed(1)},${f.y(ys[i]).toFixed(1)}`;
    pen = gap ? 'M' : 'L';
  }
  return path;
}
/** The curves to draw: of a reduced series, the band of its values and its mean. */
function curvesOf(chart) {
  return shownRuns().flatMap((run) => chart.curves.flatMap((curve) => {
    const mean = { ...curve, series: `mean ${curve.series}`, label: `${curve.label} mean`.trim() };
    return run.series[mean.series] ? [{ ...curve, band: true }, mean] : run.series[curve.series] ? [curve] : [];
  }).map((curve) => {
    const [xs, ys] = pointsOf(run, curve.series);
    return { run, curve, xs, ys, deviations: run.series[`deviation ${curve.series}`]?.[1] };
  })).sort((a, b) => Boolean(b.curve.band) - Boolean(a.curve.band)); // bands below all lines
}
/** The outline of a mean ± its standard deviation. */
function outlineOf(f, { xs, ys, deviations }, [begin, end], least) {
  const side = (sign) => Array.from({ length: end - begin }, (_, k) => begin + k).filter((i) => ys[i] !== null)
    .map((i) => `${f.x(xs[i]).toFixed(1)},${f.y(Math.max(least, ys[i] + sign * deviations[i])).toFixed(1)}`);
  return `M${[...side(1), ...side(-1).reverse()].join('L')}Z`;
}
function drawChart(chart) {
  const root = chart.svg;
  root.replaceChildren();
  const width = chart.card.clientWidth - 14;
  const height = 250;
  root.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const curves = curvesOf(chart);
  root.classList.toggle('many', shownRuns().length > 6);
  let [low, high] = [Infinity, -Infinity];
  for (const { xs, ys, deviations } of curves) {
    const [begin, end] = visible(xs);
    for (let i = begin; i < end; ++i) {
      if (ys[i] === null || (chart.log && ys[i] <= 0)) continue;
      const deviation = deviations && !chart.log ? deviations[i] : 0;
      low = Math.min(low, chart.from_zero && ys[i] >= 0 ? Math.max(0, ys[i] - deviation) : ys[i] - deviation);
      high = Math.max(high, ys[i] + deviation);
    }
  }
  const [least, most] = chart.clips && !chart.log ? chart.bounds : [-Infinity, Infinity];
  if (Math.max(low, least) <= Math.min(high, most)) // otherwise only outliers are in view
    [low, high] = [Math.max(low, least), Math.min(high, most)];
  const range = limits(low, high, chart.from_zero, chart.log);
  chart.frame = null;
  if (!range) {
    root.append(svg('text', { class: 'empty', x: width / 2, y: height / 2, 'text-anchor': 'middle' }, 'no values here'));
    return;
  }
  const f = chart.frame = frame(root, { width, height, range, log: chart.log, unit: chart.label, format: chart.format });
  if (view.marks) drawMarks(f, shownRuns(), chart.has_stragglers);
  for (const each of curves)
    if (each.deviations)
      f.plot.append(svg('path', { class: `deviation${each.curve.thin ? ' thin' : ''}`, fill: each.run.color,
        d: outlineOf(f, each, visible(each.xs), chart.log ? range[0] : -Infinity) }));
  for (const { run, curve, xs, ys } of curves) {
    const span = visible(xs);
    f.plot.append(svg('path', { class: `curve${curve.thin ? ' thin' : ''}${curve.band ? ' band' : ''}`,
      d: pathOf(f, xs, ys, span), stroke: curve.band ? `color-mix(in srgb, ${run.color} 35%, var(--card))` : run.color,
      'stroke-dasharray': run.dash || (curve.series.includes('average_') && '5 3') }));
    if (span[1] - span[0] > (curve.series.includes('step.') ? 1 : 40)) continue;
    for (let i = span[0]; i < span[1]; ++i)
      if (ys[i] !== null && !(f.log && ys[i] <= 0))
        f.plot.append(svg('path', { class: 'dot', d: run.shape(f.x(xs[i]), f.y(ys[i]), 3.6), fill: run.color }));
  }
  drawOutliers(chart, curves, range);
}
/** An arrow at the edge for each value in view that is beyond it, and a button that tells how many and shows them. */
function drawOutliers(chart, curves, [low, high]) {
  const f = chart.frame;
  let count = 0;
  for (const { run, curve, xs, ys } of chart.log ? [] : curves)
    for (let i = firstAbove(xs, view.from - 1e-9); i < xs.length && xs[i] <= view.to; ++i) {
      if (ys[i] === null || (ys[i] >= low && ys[i] <= high)) continue;
      ++count;
      arrow(f, f.x(xs[i]), ys[i] > high, run.color, `${run.name}, step ${number(run.series[curve.series][0][i], 9)}: ${chart.format(ys[i])}`);
    }
  chart.note.hidden = count === 0 && (chart.clips || chart.log);
  chart.note.textContent = count ? `⌃ ${count} ${count === 1 ? 'outlier' : 'outliers'} beyond the edge: show` : 'clip outliers';
}
/** Checkpoints as ticks on the axis, resumes and faults as lines, stragglers as bands where they explain the values. */
function drawMarks(f, ofRuns, withStragglers) {
  const bands = f.plot.appendChild(svg('g', { class: 'stragglers' })); // one layer: bands of several runs get no darker
  for (const run of ofRuns)
    for (const mark of run.marks) {
      const x = f.x(place(run, mark.step));
      const until = f.x(place(run, mark.until));
      if (until < f.left || x > f.right) continue;
      const title = svg('title', {}, `${run.name}, step ${number(mark.until, 9)}: ${mark.text}`);
      if (mark.kind === 'checkpoint')
        f.plot.append(svg('path', { d: `M${x},${f.bottom - 7}l4,7h-8Z`, fill: run.color, 'fill-opacity': .8 }, title));
      else if (mark.kind === 'straggler')
        withStragglers && bands.append(svg('rect', { x, y: f.top, width: Math.max(1.5, until - x), height: f.bottom - f.top }, title));
      else
        f.plot.append(svg('g', { class: 'moment', stroke: mark.kind === 'fault' ? 'var(--fault)' : run.color },
          svg('line', { x1: x, x2: x, y1: f.top, y2: f.bottom, 'stroke-dasharray': mark.kind === 'fault' ? undefined : '2 4' }),
          mark.kind === 'fault' ? svg('path', { d: `M${x - 4},${f.top}l8,8m0,-8l-8,8` }) : null, title));
    }
}

// ---- A step's phases, stacked ---------------------------------------------------------------------------
let shares = false;
/** Highest sum of phases in view over all runs, so that their panels compare. */
function phasesTop() {
  let top = 0;
  for (const run of shownRuns()) {
    const [begin, end] = visible(run.phases[0].map((step) => place(run, step)));
    for (let i = begin; i < end; ++i) top = Math.max(top, sumOfPhases(run, i));
  }
  const clipped = charts.find((chart) => chart.name === 'step_s' && chart.clips)?.bounds[1] ?? Infinity;
  return Math.min(top, clipped) || 1;
}
/** A mark that points out of the plot to a value that is beyond its edge. */
function arrow(f, x, up, color, text) {
  const [y, tip] = up ? [f.top + 7, -6] : [f.bottom - 7, 6];
  f.plot.append(svg('path', { class: 'beyond', d: `M${x - 4.5},${y}l4.5,${tip}l4.5,${-tip}`, stroke: color }, svg('title', {}, text)));
}
const sumOfPhases = (run, i) => run.phases.slice(1).reduce((sum, phase) => sum + phase[i], 0);
function drawPhases(panel) {
  const { run, svg: root } = panel;
  panel.card.hidden = !shownRuns().includes(run);
  panel.frame = null;
  if (panel.card.hidden) return;
  root.replaceChildren();
  const width = panel.card.clientWidth - 14;
  root.setAttribute('viewBox', `0 0 ${width} 230`);
  const f = panel.frame = frame(root, { width, height: 230, range: [0, shares ? 1 : phasesTop() * 1.04], log: false,
    unit: shares ? 'share of the step' : 'time of a step', format: shares ? (v) => percent(v) : (v) => v ? duration(v) : '0' });
  const xs = run.phases[0].map((step) => place(run, step));
  const [begin, end] = visible(xs);
  const base = new Float64Array(xs.length);
  const scale = (i) => shares ? 1 / (sumOfPhases(run, i) || 1) : 1;
  for (let phase = 1; phase < run.phases.length; ++phase) {
    let [upper, lower] = ['', ''];
    for (let i = begin; i < end; ++i) {
      const left = f.x(i > 0 ? xs[i - 1] : place(run, run.knots[0][0])).toFixed(1);
      const right = f.x(xs[i]).toFixed(1);
      const next = base[i] + run.phases[phase][i] * scale(i);
      upper += `${upper ? 'L' : 'M'}${left},${f.y(next).toFixed(1)}H${right}`;
      lower = `L${right},${f.y(base[i]).toFixed(1)}H${left}` + lower;
      base[i] = next;
    }
    f.plot.append(svg('path', { class: 'area', d: `${upper}${lower}Z`, fill: `var(--p${phase - 1})` }));
  }
  for (let i = begin; i < end; ++i)
    if (f.y(base[i]) < f.top) arrow(f, f.x(xs[i]), true, 'currentColor', `step ${number(run.phases[0][i], 9)}: ${duration(base[i])}`);
}

// ---- The cursor and its values --------------------------------------------------------------------------
function nearest(xs, x) {
  const after = firstAbove(xs, x);
  if (after === 0) return 0;
  return after < xs.length && xs[after] - x < x - xs[after - 1] ? after : after - 1;
}
const cell = (...children) => html('td', {}, ...children);
const swatch = (color) => html('span', { class: 'swatch', style: `background:${color}` });
function rowsAt(chart, x) {
  if (chart.run) {
    const i = Math.min(firstAbove(chart.run.phases[0].map((step) => place(chart.run, step)), x), chart.run.phases[0].length - 1);
    const sum = sumOfPhases(chart.run, i) || 1;
    const rows = data.phases.map((name, phase) => html('tr', {}, cell(swatch(`var(--p${phase})`), name),
      cell(duration(chart.run.phases[phase + 1][i])), cell(percent(chart.run.phases[phase + 1][i] / sum))));
    return [...rows.reverse(), html('tr', {}, cell('step'), cell(duration(sum)))];
  }
  return curvesOf(chart).map(({ run, curve, xs, ys, deviations }) => {
    const i = nearest(xs, x);
    const step = run.series[curve.series][0][i];
    const name = [runs.length > 1 ? nameOf(run) : '', curve.label].filter(Boolean).join(', ') || chart.title;
    return html('tr', {}, cell(swatch(run.color), name), cell(chart.format(ys[i]) + (deviations ? ` ± ${chart.format(deviations[i])}` : '')), cell(`step ${number(step, 9)}`));
  });
}
/** Moves the cursor of all charts; the values are shown beside the one that has it. */
function setCursor(x, chart, clientX, clientY) {
  view.cursor = x;
  for (const each of [...charts, ...panels]) {
    if (!each.frame) continue;
    each.frame.cursor.setAttribute('visibility', x === null ? 'hidden' : 'visible');
    if (x !== null) for (const end of ['x1', 'x2']) each.frame.cursor.setAttribute(end, each.frame.x(x));
  }
  const tip = byId('tip');
  tip.hidden = x === null;
  if (x === null) return;
  const shown = view.axis.name === 'time' ? duration(x) : number(x, 6);
  tip.replaceChildren(html('table', {}, html('caption', {}, `${view.axis.label} ${shown}`), html('tbody', {}, ...rowsAt(chart, x))));
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(6, clientX + 18 + width > innerWidth ? clientX - width - 18 : clientX + 18)}px`;
  tip.style.top = `${Math.max(6, Math.min(clientY + 14, innerHeight - height - 6))}px`;
}

// ---- Zoom -----------------------------------------------------------------------------------------------
function zoomTo(from, to) {
  const [low, high] = wholeRange();
  from = Math.max(low, from);
  to = Math.min(high, to);
  if (!(to - from > (high - low) * 1e-7)) return;
  Object.assign(view, { from, to, zoomed: from > low || to < high });
  draw();
}
function showAll() {
  [view.from, view.to] = wholeRange();
  view.zoomed = false;
  draw();
}
function zoomAbout(x, factor) {
  zoomTo(x - (x - view.from) * factor, x + (view.to - x) * factor);
}
/** Pointer, wheel and keys of a chart. */
function listen(chart) {
  let begin = null;
  let selection = null;
  const root = chart.svg;
  const pixelOf = (event) => {
    const box = root.getBoundingClientRect();
    return (event.clientX - box.left) * root.viewBox.baseVal.width / box.width;
  };
  const inside = (pixel) => Math.min(chart.frame.right, Math.max(chart.frame.left, pixel));
  const endSelection = () => {
    if (selection) selection.remove();
    begin = selection = null;
  };
  root.addEventListener('pointerdown', (event) => {
    if (!chart.frame || event.button !== 0) return;
    begin = inside(pixelOf(event));
    root.setPointerCapture(event.pointerId);
  });
  root.addEventListener('pointermove', (event) => {
    if (!chart.frame) return;
    const at = inside(pixelOf(event));
    setCursor(chart.frame.atX(at), chart, event.clientX, event.clientY);
    if (begin === null || Math.abs(at - begin) < 4) return;
    selection = selection || root.appendChild(svg('rect', { class: 'selection', y: chart.frame.top }));
    selection.setAttribute('x', Math.min(at, begin));
    selection.setAttribute('width', Math.abs(at - begin));
    selection.setAttribute('height', chart.frame.bottom - chart.frame.top);
  });
  root.addEventListener('pointerup', (event) => {
    const chosen = selection && [begin, inside(pixelOf(event))].sort((a, b) => a - b).map(chart.frame.atX);
    endSelection();
    if (chosen) zoomTo(...chosen);
  });
  root.addEventListener('pointercancel', endSelection);
  root.addEventListener('pointerleave', () => begin === null && setCursor(null));
  root.addEventListener('dblclick', showAll);
  root.addEventListener('wheel', (event) => {
    if (!chart.frame || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoomAbout(chart.frame.atX(inside(pixelOf(event))), event.deltaY > 0 ? 1.25 : 0.8);
  }, { passive: false });
  root.addEventListener('blur', () => setCursor(null));
  root.addEventListener('keydown', (event) => {
    if (!chart.frame) return;
    const at = view.cursor === null ? (view.from + view.to) / 2 : view.cursor;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) {
      const x = Math.min(view.to, Math.max(view.from, at + move * (view.to - view.from) / (event.shiftKey ? 20 : 200)));
      const box = root.getBoundingClientRect();
      setCursor(x, chart, box.left + chart.frame.x(x) * box.width / root.viewBox.baseVal.width, box.top + 20);
    } else if (event.key === '+' || event.key === '=') zoomAbout(at, 0.7);
    else if (event.key === '-') zoomAbout(at, 1.4);
    else if (event.key === '0' || event.key === 'Escape') showAll();
    else return;
    event.preventDefault();
  });
}
