// A cost model that readers can turn: inputs, a table, a curve. Plain script, no library; works from file://.
// The page says what to compute, in a <script type="application/json" class="d2l-calculator">:
//   title    heading of the form
//   inputs   [{name, label, unit, value, scale}], or with choices [[text, number], …] in place of unit and scale
//   presets  [{label, set: {name: value, …}}], as buttons (optional)
//   over     {name, label, to}: what runs from 1 to the value of the input named by `to`
//   formulas [[name, formula], …] in order: numbers, names, + - * / ^ ( ) min() max()
//   columns  [{value, label, unit, scale}] of the table
//   curve    {value, label, unit, scale, ideal}: what is drawn over `over`; `ideal`: beside the diagonal
//   answers  [{max or last: formula, text, end, one, none}]: where a formula is largest, or not below zero for
//            the last time; `end` is said instead of `text` where that is the end of the range, `one` where it is its
//            start, `none` where there is no such place; {name} stands for a value there
// What follows the script inside the same parent is shown only without JavaScript.
(() => {
  const functions = { min: Math.min, max: Math.max };
  const own = (object, key) => Object.prototype.hasOwnProperty.call(object, key);

  // A formula as a function of its names; a small parser, so that no text of a page is ever run.
  function compile(text) {
    const tokens = text.match(/[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|\S/g) || [];
    let at = 0;
    const take = (wanted) => {
      if (tokens[at] !== wanted) throw new Error(`${wanted} expected in: ${text}`);
      at += 1;
    };
    const chain = (next, operators) => () => {
      let left = next();
      while (own(operators, tokens[at] || '')) {
        const f = operators[tokens[at++]], a = left, b = next();
        left = (v) => f(a(v), b(v));
      }
      return left;
    };
    const atom = () => {
      const token = tokens[at++];
      if (token === '(') { const inner = sum(); take(')'); return inner; }
      if (token === '-') { const inner = power(); return (v) => -inner(v); }
      if (/^\d/.test(token || '')) return () => Number(token);
      if (!/^[A-Za-z_]/.test(token || '')) throw new Error(`${token} does not belong in: ${text}`);
      if (tokens[at] === '(') {
        if (!own(functions, token)) throw new Error(`no function ${token}, in: ${text}`);
        at += 1;
        const list = [sum()];
        while (tokens[at] === ',') { at += 1; list.push(sum()); }
        take(')');
        return (v) => functions[token](...list.map((f) => f(v)));
      }
      return (v) => {
        if (!own(v, token)) throw new Error(`no value ${token}, in: ${text}`);
        return v[token];
      };
    };
    const power = () => {
      const base = atom();
      if (tokens[at] !== '^') return base;
      at += 1;
      const exponent = power();
      return (v) => base(v) ** exponent(v);
    };
    const product = chain(power, { '*': (a, b) => a * b, '/': (a, b) => a / b });
    const sum = chain(product, { '+': (a, b) => a + b, '-': (a, b) => a - b });
    const f = sum();
    if (at < tokens.length) throw new Error(`${tokens[at]} is too much in: ${text}`);
    return f;
  }

  // All values at x, by name.
  function model(config) {
    const formulas = config.formulas.map(([name, text]) => [name, compile(text)]);
    return (inputs, x) => {
      const v = { ...inputs, [config.over.name]: x };
      for (const [name, f] of formulas) v[name] = f(v);
      return v;
    };
  }

  const number = (x) => x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
  const starts = (config) => Object.fromEntries(config.inputs.map((i) => [i.name, i.value * (i.scale || 1)]));
  const rows = (to) => {
    const list = [];
    for (let x = 1; x <= to; x *= 2) list.push(x);
    return list[list.length - 1] === to ? list : [...list, to];
  };

  function answer(config, { max, last, text, end = text, one = text, none = '' }, all) {
    const f = compile(max || last), values = all.map(f);
    let i = -1;
    values.forEach((y, j) => { if (max ? i < 0 || y > values[i] : y >= 0) i = j; });
    if (i < 0) return none;
    return (i === all.length - 1 ? end : i === 0 ? one : text).replace(/\{(\w+)\}/g, (_, name) =>
      name === config.over.name ? all[i][name] : number(all[i][name]));
  }

  const api = { compile, model, number, starts, rows, answer };
  if (typeof module !== 'undefined') module.exports = api;
  if (typeof document === 'undefined') return;

  const make = (tag, attributes = {}, ...children) => {
    const svg = ['svg', 'path', 'text', 'circle', 'line'].includes(tag);
    const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [k, value] of Object.entries(attributes)) e.setAttribute(k, value);
    e.append(...children);
    return e;
  };

  // The curve, on logarithmic axes: equal factors are equal lengths.
  function draw(svg, config, all) {
    const { value, label, unit, scale = 1, ideal } = config.curve, x = config.over.name;
    const points = all.map((v) => [v[x], v[value] / scale]).filter(([, y]) => y > 0 && Number.isFinite(y));
    const right = Math.max(2, all[all.length - 1][x]);
    const edge = (round, extreme) => 2 ** round(Math.log2(extreme(...points.map(([, y]) => y))));
    const low = Math.min(ideal ? 1 : Infinity, edge(Math.floor, Math.min));
    const high = Math.max(ideal ? right : 2 * low, edge(Math.ceil, Math.max));
    const px = (n) => 34 + 274 * Math.log2(n) / Math.log2(right);
    const py = (n) => 164 - 148 * Math.log2(n / low) / Math.log2(high / low);
    const line = (list) => list.map(([a, b], i) => `${i ? 'L' : 'M'}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join('');
    const ticks = (from, to) => {
      const every = Math.max(1, Math.ceil(Math.log2(to / from) / 6)), list = [];
      for (let n = from; n <= to; n *= 2 ** every) list.push(n);
      return list;
    };
    svg.replaceChildren();
    for (const n of ticks(1, right)) svg.append(make('text', { x: px(n), y: 180, 'text-anchor': 'middle' }, String(n)));
    for (const n of ticks(low, high)) {
      svg.append(make('line', { x1: 34, x2: 308, y1: py(n), y2: py(n) }),
        make('text', { x: 29, y: py(n) + 4, 'text-anchor': 'end' }, n < 0.01 ? n.toExponential(0) : String(+n.toFixed(2))));
    }
    const best = points.reduce((a, b) => b[1] > a[1] ? b : a, points[0]);
    if (ideal) svg.append(make('path', { d: line([[1, 1], [right, right]]), class: 'ideal' }));
    svg.append(make('path', { d: line(points) }), make('circle', { cx: px(best[0]), cy: py(best[1]), r: 4 }),
      make('text', { x: 171, y: 196, 'text-anchor': 'middle' }, config.over.label),
      make('text', { x: 34, y: 10 }, `${label}${unit ? `, ${unit}` : ''}${ideal ? '; dashed: all that is possible' : ''}`));
    svg.setAttribute('aria-label', `${label} over ${config.over.label}: largest, ${number(best[1])}, at ${best[0]}.`);
  }

  function build(script, index) {
    const config = JSON.parse(script.textContent), at = model(config), fields = {};
    const form = make('form', { class: 'd2l-calc', 'aria-label': config.title });
    const grid = make('div', { class: 'd2l-calc-inputs' });
    for (const i of config.inputs) {
      const id = `d2l-calc-${index}-${i.name}`;
      const field = i.choices ? make('select', { id }) : make('input', {
        id, type: 'number', min: 0, step: 'any', inputmode: 'decimal', required: '' });
      for (const [text, n] of i.choices || []) field.append(make('option', { value: n }, text));
      field.value = i.value;
      fields[i.name] = field;
      grid.append(make('div', {}, make('label', { for: id }, i.unit ? `${i.label}, ${i.unit}` : i.label), field));
    }
    const presets = make('div', { class: 'd2l-calc-presets' });
    for (const p of config.presets || []) {
      const button = make('button', { type: 'button' }, p.label);
      button.addEventListener('click', () => {
        for (const [name, n] of Object.entries(p.set)) fields[name].value = n;
        show();
      });
      presets.append(button);
    }
    const said = make('p', { role: 'status' }), svg = make('svg', { viewBox: '0 0 320 200', role: 'img' });
    const head = make('tr', {}, make('th', { scope: 'col' }, config.over.label));
    for (const c of config.columns) head.append(make('th', { scope: 'col' }, c.unit ? `${c.label}, ${c.unit}` : c.label));
    const body = make('tbody');
    const table = make('div', { class: 'd2l-calc-table', tabindex: 0, role: 'group', 'aria-label': 'All values' },
      make('table', {}, make('thead', {}, head), body));
    const how = make('details', {}, make('summary', {}, 'The formulas'),
      make('pre', {}, config.formulas.map(([name, text]) => `${name} = ${text}`).join('\n')));

    function show() {
      const values = {};
      for (const i of config.inputs) {
        const field = fields[i.name], n = Number(field.value), ok = field.value !== '' && n >= (i.choices ? 0 : i.min ?? 1e-9);
        field.setAttribute('aria-invalid', !ok);
        if (!ok) { said.textContent = `${i.label}: please give a number${i.min ? ` of at least ${i.min}` : ' above zero'}.`; return; }
        values[i.name] = n * (i.scale || 1);
      }
      const to = Math.min(4096, Math.floor(values[config.over.to])), all = [];
      for (let x = 1; x <= to; x += 1) all.push(at(values, x));
      said.textContent = config.answers.map((a) => answer(config, a, all)).join(' ');
      body.replaceChildren(...rows(to).map((x) => make('tr', {}, make('th', { scope: 'row' }, String(x)),
        ...config.columns.map((c) => make('td', {}, number(all[x - 1][c.value] / (c.scale || 1)))))));
      draw(svg, config, all);
    }
    form.addEventListener('input', show);
    form.addEventListener('submit', (e) => e.preventDefault());
    form.append(make('p', { class: 'd2l-calc-title' }, config.title), presets, grid, said, svg, table, how);
    for (const other of [...script.parentElement.children]) if (other !== script) other.remove();
    script.after(form);
    show();
  }

  const start = () => document.querySelectorAll('script.d2l-calculator').forEach((script, index) => {
    const parent = [...script.parentElement.children];
    try { build(script, index); } catch (e) { console.error(e); script.parentElement.replaceChildren(...parent); }
  });
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start); else start();
})();
