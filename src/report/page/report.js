// SPDX-License-Identifier: Apache-2.0
'use strict';

// What went wrong is shown in the page: who opens it from a file share sees no console.
window.addEventListener('error', (event) => {
  const box = document.getElementById('problem');
  box.hidden = false;
  box.textContent += 'The page could not be drawn completely: ' + event.message + '\n';
  document.documentElement.dataset.errors = Number(document.documentElement.dataset.errors || 0) + 1;
});

(() => {
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
    element.append(...children.filter((child) => child !== null));
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
  const percent = (value) => value === null ? '–' : `${number(100 * value, 3)}\u202f%`;
  /** "1 h 03 min", "45.2 s", "3.1 ms". */
  function duration(s) {
    if (s === null || Number.isNaN(s)) return '–';
    for (const [unit, size, part, of] of [['d', 86400, 'h', 3600], ['h', 3600, 'min', 60], ['min', 60, 's', 1]])
      if (s >= size) return `${Math.floor(s / size)} ${unit} ${String(Math.floor(s % size / of)).padStart(2, '0')} ${part}`;
    const [scale, unit] = s >= 1 || s === 0 ? [1, 's'] : s >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
    return `${number(scale * s, 3)} ${unit}`;
  }
  const formats = { bytes, s: duration, steps: (v) => number(v, 6), 'samples/s': (v) => scaled(v, '', 4) };

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
  runs.forEach((run, i) => {
    run.color = `var(--c${i % 8})`;
    run.dash = dashes[Math.floor(i / 8) % 4];
    run.shape = shapes[i % 4];
    run.shown = true;
  });
  const shownRuns = () => runs.filter((run) => run.shown);

  /** The points of a curve of a run that has it, on the present axis: [xs, ys]. */
  const placed = new Map();
  function pointsOf(run, name) {
    const key = `${runs.indexOf(run)} ${view.axis.name} ${name}`;
    const [steps, ys] = run.series[name];
    if (!placed.has(key)) placed.set(key, steps.map((step) => place(run, step)));
    return [placed.get(key), ys];
  }
  const lastStep = (run) => Math.max(run.totals.step, ...run.marks.map((mark) => mark.until));
  const wholeRange = () => [0, Math.max(...shownRuns().map((run) => place(run, lastStep(run))), 1e-9)];

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
      return { run, curve, xs, ys };
    })).sort((a, b) => Boolean(b.curve.band) - Boolean(a.curve.band)); // bands below all lines
  }
  function drawChart(chart) {
    const root = chart.svg;
    root.replaceChildren();
    const width = chart.card.clientWidth - 14;
    const height = 250;
    root.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const curves = curvesOf(chart);
    let [low, high] = [Infinity, -Infinity];
    for (const { xs, ys } of curves) {
      const [begin, end] = visible(xs);
      for (let i = begin; i < end; ++i) {
        if (ys[i] === null || (chart.log && ys[i] <= 0)) continue;
        low = Math.min(low, ys[i]);
        high = Math.max(high, ys[i]);
      }
    }
    const range = limits(low, high, chart.from_zero, chart.log);
    chart.frame = null;
    if (!range) {
      root.append(svg('text', { class: 'empty', x: width / 2, y: height / 2, 'text-anchor': 'middle' }, 'no values here'));
      return;
    }
    const f = chart.frame = frame(root, { width, height, range, log: chart.log, unit: chart.label, format: chart.format });
    if (view.marks) drawMarks(f, shownRuns());
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
  }
  /** Checkpoints as ticks on the axis, resumes and faults as lines, stragglers as bands. */
  function drawMarks(f, ofRuns) {
    for (const run of ofRuns)
      for (const mark of run.marks) {
        const x = f.x(place(run, mark.step));
        const until = f.x(place(run, mark.until));
        if (until < f.left || x > f.right) continue;
        const title = svg('title', {}, `${run.name}, step ${number(mark.until, 9)}: ${mark.text}`);
        if (mark.kind === 'checkpoint')
          f.plot.append(svg('path', { d: `M${x},${f.bottom - 7}l4,7h-8Z`, fill: run.color, 'fill-opacity': .8 }, title));
        else if (mark.kind === 'straggler')
          f.plot.append(svg('rect', { class: 'span', x, y: f.top, width: Math.max(1.5, until - x),
            height: f.bottom - f.top, fill: 'var(--p0)' }, title));
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
    return top || 1;
  }
  const sumOfPhases = (run, i) => run.phases.slice(1).reduce((sum, phase) => sum + phase[i], 0);
  function drawPhases(panel) {
    const { run, svg: root } = panel;
    panel.card.hidden = !run.shown;
    panel.frame = null;
    if (!run.shown) return;
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
    return curvesOf(chart).map(({ run, curve, xs, ys }) => {
      const i = nearest(xs, x);
      const step = run.series[curve.series][0][i];
      const name = [runs.length > 1 ? run.name : '', curve.label].filter(Boolean).join(', ') || chart.title;
      return html('tr', {}, cell(swatch(run.color), name), cell(chart.format(ys[i])), cell(`step ${number(step, 9)}`));
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

  // ---- Tables ---------------------------------------------------------------------------------------------
  const figureNames = { auc: 'AUC', accuracy_top1: 'accuracy', average_accuracy_top1: 'accuracy (averaged weights)', r2: 'R²' };
  const figures = [...new Set(runs.map((run) => run.totals.figure).filter(Boolean))];
  const figureName = figures.length === 1 ? figureNames[figures[0]] || figures[0] : 'figure';
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
    { title: 'Workers', of: (run) => run.facts.workers || null, show: number },
    { title: 'Steps', of: (run) => run.totals.step, show: (v) => number(v, 9) },
    { title: 'Epochs', of: (run) => run.totals.epochs, show: (v) => number(v, 3) },
    { title: 'Time', of: (run) => run.totals.seconds, show: duration },
    { title: `Best ${figureName}`, figure: 1, of: (run) => bestOf(run) ? bestOf(run)[0] : null, show: (v) => number(v, 5) },
    { title: `Last ${figureName}`, figure: 1, of: (run) => run.totals.last_figure, show: (v) => number(v, 5) },
    { title: 'Time to target', figure: -1, of: (run) => reached(run) ? reached(run)[2] : null, show: duration },
    { title: 'Best validation loss', best: -1, of: (run) => run.totals.best_loss, show: number },
    { title: 'Last training loss', best: -1, of: (run) => run.totals.training_loss, show: number },
    { title: 'Samples/s', best: 1, of: (run) => run.totals.samples_per_s, show: (v) => scaled(v, '', 4) },
    { title: 'Exposed comm.', best: -1, of: (run) => run.totals.exposed_share, show: percent },
    { title: 'Sent by rank 0', best: -1, of: (run) => run.totals.sent_bytes, show: bytes },
    { title: 'Memory of rank 0', of: (run) => run.totals.memory_bytes || null, show: bytes },
  ].filter((column) => !column.figure || figures.length);
  const sorting = { column: null, down: false };

  function sortBy(column) {
    const down = sorting.column === column ? !sorting.down : (column.best || column.figure) === 1;
    Object.assign(sorting, { column, down });
    drawResults();
  }
  /** Absent values come last in either direction. */
  function sortedRuns() {
    if (!sorting.column) return runs;
    const value = sorting.column === 'name' ? (run) => run.name : sorting.column.of;
    const compare = (a, b) => typeof a === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a - b;
    return [...runs].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return (sorting.down ? -1 : 1) * compare(x, y);
    });
  }
  function header(column, title, text) {
    const sorted = sorting.column === column;
    return html('th', { scope: 'col', class: text && 'text', 'aria-sort': sorted && (sorting.down ? 'descending' : 'ascending') },
      html('button', { type: 'button', onclick: () => sortBy(column) }, title + (sorted ? sorting.down ? ' ↓' : ' ↑' : '')));
  }
  const fails = (column, run) => column.title === 'Ended' && run.totals.ending === 'failed';
  function resultCell(column, run) {
    const value = column.of(run);
    const all = runs.map(column.of).filter((each) => each !== null);
    const wanted = column.best || column.figure;
    const isBest = wanted && runs.length > 1 && value !== null && value === Math[wanted > 0 ? 'max' : 'min'](...all);
    return html('td', { class: fails(column, run) ? 'text fault' : column.text ? 'text' : isBest && 'best' }, column.show(value));
  }
  function drawResults() {
    const content = runs.length === 1
      ? html('dl', { class: 'tiles' }, ...columns.map((column) => html('div', { class: 'tile' },
        html('dt', {}, column.title), html('dd', { class: fails(column, runs[0]) && 'fault' }, column.show(column.of(runs[0]))))))
      : html('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-labelledby': 'results-title' },
        html('table', {}, html('thead', {}, html('tr', {}, header('name', 'Run', true),
          ...columns.map((column) => header(column, column.title, column.text)))),
        html('tbody', {}, ...sortedRuns().map((run) => html('tr', {}, cell(swatch(run.color), run.name),
          ...columns.map((column) => resultCell(column, run)))))));
    byId('results-body').firstChild?.remove();
    byId('results-body').prepend(content);
  }
  function addTarget() {
    if (target === null) return;
    byId('results-body').append(html('p', { class: 'target' }, html('label', {}, `Target ${figureName}: `,
      html('input', { type: 'number', step: 0.001, value: target, oninput: (event) => {
        target = event.target.value === '' ? null : Number(event.target.value);
        drawResults();
      } })), ' reached in a validation; times count running only, from the first step.'));
  }
  function table(into, titles, rows) {
    byId(into).hidden = rows.length === 0;
    byId(into).querySelector('.scroll').append(html('table', {}, html('thead', {}, html('tr', {},
      ...titles.map((title) => html('th', { scope: 'col', class: 'text' }, title)))), html('tbody', {}, ...rows)));
  }
  function addTables() {
    table('differences', ['Key', ...runs.map((run) => run.name)], data.differences.map((row) =>
      html('tr', {}, cell(html('code', {}, row.key)), ...row.values.map((value) => cell(value || '–')))));
    const events = runs.flatMap((run) => run.marks.filter((mark) => mark.kind !== 'checkpoint').map((mark) => [run, mark]));
    table('events', ['Run', 'Step', 'What', ''], events.slice(0, 200).map(([run, mark]) => html('tr', {},
      cell(swatch(run.color), run.name), cell([...new Set([mark.step, mark.until])].map((step) => number(step, 9)).join(' – ')),
      html('td', { class: mark.kind === 'fault' ? 'text fault' : 'text' }, mark.kind), html('td', { class: 'text' }, mark.text))));
    byId('decks').hidden = runs.every((run) => !run.deck);
    for (const run of runs)
      if (run.deck) byId('decks').append(html('details', {}, html('summary', {}, run.name), html('pre', {}, run.deck)));
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
    const chart = { ...description, ...card(`chart-${description.name}`, description.title, [button]), log: false };
    chart.format = formats[chart.unit] || number;
    chart.label = ['s', 'bytes'].includes(chart.unit) ? '' : chart.unit; // their ticks have units
    button.addEventListener('click', () => {
      chart.log = !chart.log;
      button.setAttribute('aria-pressed', chart.log);
      drawChart(chart);
    });
    const labels = chart.curves.filter((curve) => curve.label);
    if (labels.length)
      chart.svg.before(html('div', { class: 'keys' }, ...labels.map((curve) => html('span', {}, svg('svg', { width: 26, height: 10, class: 'chart', style: 'width:26px' },
        svg('path', { class: `curve${curve.thin ? ' thin' : ''}${curve.band ? ' band' : ''}`, d: 'M0,5H26', stroke: 'currentColor',
          'stroke-dasharray': curve.series.includes('average_') ? '5 3' : undefined }),
        curve.thin ? null : svg('path', { d: shapes[0](13, 5, 3.2), fill: 'currentColor' })), curve.label))));
    return chart;
  });
  const panels = runs.filter((run) => run.phases[0].length).map((run) =>
    ({ run, ...card(`phases-${runs.indexOf(run)}`, runs.length > 1 ? run.name : 'A step of rank 0', []) }));

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
  function show(run, shown) {
    run.shown = shown;
    if (view.zoomed) draw();
    else showAll();
  }
  function addControls() {
    byId('axis').append(...axes.map((axis) => html('label', {}, html('input', { type: 'radio', name: 'axis',
      id: `x-${axis.name}`, onchange: () => setAxis(axis) }), axis.name)));
    byId('legend').hidden = runs.length < 2;
    byId('legend').append(...runs.map((run) => html('label', { title: run.folder },
      html('input', { type: 'checkbox', checked: true, onchange: (event) => show(run, event.target.checked) }), symbol(run),
      html('span', {}, run.name))));
    byId('marks').addEventListener('change', (event) => { view.marks = event.target.checked; draw(); });
    byId('share').addEventListener('change', (event) => { shares = event.target.checked; panels.forEach(drawPhases); });
    byId('reset').addEventListener('click', showAll);
    byId('theme').addEventListener('click', () => document.documentElement.classList.toggle('dark'));
    byId('phases-legend').append(...data.phases.map((name, i) => html('span', {}, swatch(`var(--p${i})`), name)));
  }
  function addHeader() {
    const title = runs.length === 1 ? runs[0].name : `${runs.length} runs`;
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
  addTables();
  byId('charts').append(...charts.map((chart) => chart.card));
  byId('phases').append(...panels.map((panel) => panel.card));
  byId('phases-section').hidden = panels.length === 0;
  byId('phases').classList.toggle('grid', panels.length > 1);
  [...charts, ...panels].forEach(listen);
  setAxis(axes.find((axis) => location.hash.includes(`x=${axis.name}`)) || axes[0]);
  addEventListener('resize', draw);
})();
