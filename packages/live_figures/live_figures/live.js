// Figures that readers can turn: sliders, curves or bars or a timeline, a sentence, a table. Plain script, no
// library; works from file://. render.py writes each figure's description and its model, a function, into the
// page as an entry of window.liveFigures; describe.py says what the parts mean. What stands in the page is
// its table.
(() => {
  // Numbers as numbers.py shows them; a kind of number comes from there with its unit, factor and scales.
  function number(x, digits) {
    if (x === 0 || !Number.isFinite(x)) return x === 0 ? '0' : '∞';
    const a = Math.abs(x);
    digits ??=
      Number.isInteger(x) || a >= 99.95
        ? 0
        : a >= 9.995
          ? 1
          : a >= 0.9995
            ? 2
            : Math.min(12, 2 - Math.floor(Math.log10(a)));
    x *= 1 + 1e-12;
    return x.toFixed(digits).replace(/^(-?\d+)/, (n) => n.replace(/\B(?=(\d{3})+$)/g, ','));
  }
  const withUnit = (text, { unit }) => text + (['', '%', '×'].includes(unit) ? '' : ' ') + unit;
  function show(x, { unit, factor = 1, scales = null }) {
    if (typeof x === 'string') return x;
    if (scales && Number.isFinite(x)) {
      const [, divisor, name] = scales.find(([least]) => Math.abs(x) >= least * (1 - 1e-9));
      return x ? `${number(x / divisor)} ${name}` : unit === 's' ? '0 s' : '0 bytes';
    }
    return withUnit(number(x / factor), { unit });
  }
  const far = ([, n], x, i) => Math.abs(n * i.factor - x);
  // of choices the nearest, for a number that was measured may lie between them
  const choice = (x, i) => i.choices.reduce((best, one) => (far(one, x, i) < far(best, x, i) ? one : best));
  const shown = (x, i) =>
    i.choices.length ? choice(x, i)[0] : number(x / i.factor, i.whole ? 0 : undefined);
  const round = (x) => Number(x.toPrecision(3));

  // What a slider can be set to, in the unit of its label.
  function stops({ low, high, log, whole }) {
    if (whole && high - low <= 120) return Array.from({ length: high - low + 1 }, (_, k) => low + k);
    const n = 120;
    const at = (k) =>
      k === 0
        ? low
        : k === n
          ? high
          : round(log ? low * (high / low) ** (k / n) : low + ((high - low) * k) / n);
    return [...new Set(Array.from({ length: n + 1 }, (_, k) => (whole ? Math.round(at(k)) : at(k))))];
  }
  const nearest = (list, x) =>
    list.reduce((best, y, k) => (Math.abs(y - x) < Math.abs(list[best] - x) ? k : best), 0);

  // The share of requests that find all slots busy: erlang_c in translate.py. Models call it.
  window.liveFiguresErlang = (slots, load) => {
    let lost = 1;
    for (let k = 1; k <= slots; k += 1) lost = (load * slots * lost) / (k + load * slots * lost);
    return lost / (1 - load * (1 - lost));
  };
  const run = (fig, values) => {
    const v = fig.count ? { i: values[fig.count] - 1, ...values } : values;
    return { ...v, ...fig.model(v) };
  };
  // All values along the curve.
  const along = (fig, values) => {
    const over = fig.inputs.find((i) => i.name === fig.over);
    return stops(over).map((x) => run(fig, { ...values, [fig.over]: x * over.factor }));
  };

  function sentence(fig, values, said) {
    const kinds = Object.fromEntries([...fig.outputs, ...fig.inputs].map((o) => [o.name, o]));
    const fill = (text, v) =>
      text
        .replace(/\{(\w+)\}/g, (_, name) => {
          const kind = kinds[name] || { unit: '' };
          return kind.choices ? withUnit(shown(v[name], kind), kind) : show(v[name], kind);
        })
        .replace(/(?<![\d.,])1 (step|server|worker|device|GPU)s\b/g, '1 $1');
    if (typeof said === 'string') return fill(said, run(fig, values));
    const { when, max, min, last, text, end = text, one = text, none = '' } = said;
    if (when) {
      const v = run(fig, values);
      return fill(v[when] ? text : none, v);
    }
    const all = along(fig, values);
    let i = -1;
    all.forEach((v, j) => {
      if (last ? v[last] >= 0 : i < 0 || (max ? v[max] > all[i][max] : v[min] < all[i][min])) i = j;
    });
    return i < 0 ? none : fill(i === all.length - 1 ? end : i === 0 ? one : text, all[i]);
  }

  function rows(fig, values) {
    const over = fig.inputs.find((i) => i.name === fig.over);
    if (!over) {
      const v = run(fig, values);
      return fig.outputs.map((o) => [o.label, show(v[o.name], o)]);
    }
    return fig.rows.map((x) => {
      const v = run(fig, { ...values, [over.name]: x * over.factor });
      return [shown(v[over.name], over), ...fig.outputs.map((o) => show(v[o.name], o))];
    });
  }

  const make = (tag, attributes = {}, ...children) => {
    const svg = ['svg', 'path', 'text', 'circle', 'line', 'rect', 'g'].includes(tag);
    const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [k, value] of Object.entries(attributes)) e.setAttribute(k, value);
    e.append(...children);
    return e;
  };

  // An axis from low to high on the way from a to b: the place of a value, and the values to name.
  function axis(low, high, a, b, log, most = 6) {
    const place = log
      ? (x) => a + ((b - a) * Math.log(x / low)) / Math.log(high / low)
      : (x) => a + ((b - a) * (x - low)) / (high - low);
    let ticks = [];
    if (log) {
      const first = Math.floor(Math.log10(low));
      const decades = Math.log10(high / low);
      const every = Math.max(1, Math.ceil(decades / most));
      const within = decades > 2.2 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 5];
      for (let d = first; 10 ** d <= high; d += every) ticks.push(...within.map((m) => m * 10 ** d));
    } else {
      const raw = (high - low) / (most - 1);
      const ten = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].find((m) => m * ten >= 0.7 * raw) * ten;
      for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k += 1) ticks.push(k * step);
    }
    return { place, ticks: ticks.filter((t) => t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9)) };
  }
  const tick = (x, kind) =>
    kind.scales
      ? show(x, kind)
          .replace(/\.0+(?= |$)/, '')
          .replace(/(\.\d*[1-9])0+(?= |$)/, '$1')
      : x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6)
        ? x.toExponential(0).replace('e+', 'e')
        : String(Number(x.toPrecision(3))).replace(/\B(?=(\d{3})+$)/g, ',');

  // A label below an axis; at the edges of the picture it stays inside.
  const below = (x, y, text) => {
    const half = 3.8 * text.length;
    return make(
      'text',
      { x, y, 'text-anchor': x < half ? 'start' : x > 340 - half ? 'end' : 'middle' },
      text,
    );
  };
  const LEFT = 52;
  const RIGHT = 322;
  const TOP = 22;
  const BOTTOM = 178;

  function curve(svg, fig, values) {
    const over = fig.inputs.find((i) => i.name === fig.over);
    const all = along(fig, values);
    const drawn = fig.drawn.map((name) => fig.outputs.find((o) => o.name === name));
    const unit = drawn[0];
    const up = unit.scales ? 1 : unit.factor;
    const now = run(fig, values);
    const points = fig.points.map((p) => ({ ...p, y: p.y / up }));
    const ys = [...all.flatMap((v) => drawn.map((o) => v[o.name] / up)), ...points.map((p) => p.y)].filter(
      (y) => Number.isFinite(y) && (y > 0 || !fig.log),
    );
    const top = Math.max(...ys);
    const least = Math.min(...ys);
    const first = over.low;
    const end = over.high;
    const low = fig.log ? Math.min(least * 0.9, top / 2) : Math.min(0, least);
    const high = top * (fig.log ? 1.15 : 1.06) || 1;
    const x = axis(first, end, LEFT, RIGHT, over.log, 5);
    const y = axis(low, high, BOTTOM, TOP, fig.log);
    const parts = [];
    for (const n of x.ticks) parts.push(below(x.place(n), BOTTOM + 15, tick(n, { unit: '' })));
    for (const n of y.ticks) {
      parts.push(
        make('line', { x1: LEFT, x2: RIGHT, y1: y.place(n), y2: y.place(n) }),
        make('text', { x: LEFT - 5, y: y.place(n) + 4, 'text-anchor': 'end' }, tick(n, unit)),
      );
    }
    const line = (list) =>
      list.map(([a, b], k) => `${k ? 'L' : 'M'}${x.place(a).toFixed(1)} ${y.place(b).toFixed(1)}`).join('');
    if (fig.ideal) {
      const to = Math.min(end, high);
      const from = Math.max(first, low);
      parts.push(
        make('path', {
          d: line([
            [from, from],
            [to, to],
          ]),
          class: 'ideal',
        }),
      );
    }
    const at = values[over.name] / over.factor;
    parts.push(make('line', { x1: x.place(at), x2: x.place(at), y1: TOP, y2: BOTTOM, class: 'now' }));
    drawn.forEach((o, k) => {
      const list = all
        .map((v) => [v[over.name] / over.factor, v[o.name] / up])
        .filter(([, b]) => Number.isFinite(b) && (b > 0 || !fig.log));
      parts.push(make('path', { d: line(list), class: `c${k}` }));
      const b = now[o.name] / up;
      if (Number.isFinite(b) && (b > 0 || !fig.log)) {
        parts.push(make('circle', { cx: x.place(at), cy: y.place(b), r: 4, class: `c${k}` }));
      }
    });
    const rises = all[all.length - 1][unit.name] > all[0][unit.name]; // labels keep clear of the curve
    for (const p of points) {
      const px = x.place(p.x);
      const left = px > (LEFT + RIGHT) / 2;
      parts.push(
        make('rect', { x: px - 3.5, y: y.place(p.y) - 3.5, width: 7, height: 7, class: 'point' }),
        make(
          'text',
          {
            x: px + (left ? -7 : 7),
            y: y.place(p.y) + (left || !rises ? -5 : 14),
            'text-anchor': left ? 'end' : 'start',
          },
          p.label,
        ),
      );
    }
    parts.push(
      make(
        'text',
        { x: (LEFT + RIGHT) / 2, y: BOTTOM + 32, 'text-anchor': 'middle' },
        over.label + (over.unit ? `, ${over.unit}` : ''),
      ),
      make(
        'text',
        { x: 4, y: 12 },
        (drawn.length === 1 ? drawn[0].label : '') + (up === 1 ? '' : `, ${unit.unit}`),
      ),
    );
    svg.setAttribute('viewBox', '0 0 340 216');
    svg.replaceChildren(...parts);
    return (
      `Curves over ${over.label}. Now, at ${withUnit(shown(values[over.name], over), over)}: `
      + drawn.map((o) => `${o.label} ${show(now[o.name], o)}`).join(', ')
    );
  }

  function bars(svg, fig, values) {
    const drawn = fig.drawn.map((name) => fig.outputs.find((o) => o.name === name));
    const now = run(fig, values);
    const some = drawn.map((o) => now[o.name]).filter((y) => y > 0 && Number.isFinite(y));
    const high = Math.max(...some, 1e-300);
    const low = fig.log ? 10 ** Math.floor(Math.log10(Math.min(...some)) - 0.2) : 0;
    const x = axis(low, high, 4, 336, fig.log, 5);
    const parts = [];
    const to = 10 + 38 * drawn.length;
    if (fig.log) {
      for (const n of x.ticks) {
        parts.push(
          make('line', { x1: x.place(n), x2: x.place(n), y1: 4, y2: to }),
          below(x.place(n), to + 14, tick(n, drawn[0])),
        );
      }
    }
    drawn.forEach((o, k) => {
      const y = now[o.name];
      const width = y > 0 ? Math.max(1, (Number.isFinite(y) ? x.place(y) : 336) - 4) : 0;
      parts.push(
        make('rect', { x: 4, y: 22 + 38 * k, width, height: 14, class: y === high ? 'bar most' : 'bar' }),
        make('text', { x: 4, y: 17 + 38 * k }, o.label),
        make('text', { x: 336, y: 17 + 38 * k, 'text-anchor': 'end' }, show(y, o)),
      );
    });
    svg.setAttribute('viewBox', `0 0 340 ${to + (fig.log ? 20 : 0)}`);
    svg.replaceChildren(...parts);
    return 'Bars: ' + drawn.map((o) => `${o.label} ${show(now[o.name], o)}`).join(', ');
  }

  function lanes(svg, fig, values) {
    const n = values[fig.count];
    const rounds = Array.from({ length: n }, (_, i) => run(fig, { ...values, i }));
    const ends = fig.lanes.flatMap(([, , end]) => rounds.map((v) => v[end]));
    const until = Math.max(...ends);
    const names = [...new Set(fig.lanes.map(([lane]) => lane))];
    const parts = [];
    const to = 6 + 34 * names.length;
    const now = fig.clock ? run(fig, values)[fig.clock] : until;
    const x = axis(0, until, 4, 336, false, 5);
    for (const t of x.ticks) {
      parts.push(
        make('line', { x1: x.place(t), x2: x.place(t), y1: 4, y2: to }),
        below(x.place(t), to + 14, tick(t, { unit: 's', scales: fig.times })),
      );
    }
    names.forEach((lane, k) => parts.push(make('text', { x: 4, y: 15 + 34 * k }, lane)));
    fig.lanes.forEach(([lane, start, end], s) =>
      rounds.forEach((v, i) => {
        const width = x.place(Math.min(v[end], now)) - x.place(v[start]);
        if (width > 1e-9) {
          parts.push(
            make('rect', {
              x: x.place(v[start]),
              y: 19 + 34 * names.indexOf(lane),
              height: 14,
              width: Math.max(0.4, width - (width > 3 ? 0.8 : 0)),
              class: `lane s${s % fig.kinds} ${i % 2 ? 'odd' : ''}`,
            }),
          );
        }
      }),
    );
    if (fig.clock) {
      parts.push(make('line', { x1: x.place(now), x2: x.place(now), y1: 4, y2: to, class: 'now' }));
    }
    svg.setAttribute('viewBox', `0 0 340 ${to + 20}`);
    svg.replaceChildren(...parts);
    return (
      `A timeline of ${n} rounds${fig.clock ? ` up to ${show(now, { unit: 's', scales: fig.times })}` : ''}: `
      + names.join(', ')
    );
  }

  // A number as somebody types it, with or without its unit; a comma stands before three digits alone. NaN
  // for anything else.
  function typed(text, unit) {
    let number = text.trim();
    if (unit && number.endsWith(unit)) number = number.slice(0, -unit.length).trim();
    const sound = /^[+-]?(\d{1,3}(,\d{3})+|\d+|(?=\.\d))(\.\d*)?(e[+-]?\d+)?$/i.test(number);
    return sound ? Number(number.replace(/,/g, '')) : NaN;
  }

  function build(fig) {
    const box = document.getElementById(`live-${fig.name}`);
    const values = {};
    const fields = {};
    const form = make('form', { 'aria-label': fig.title });
    const grid = make('div', { class: 'live-figure-inputs' });
    const folded = make('div', { class: 'live-figure-inputs' });
    for (const i of fig.inputs) {
      values[i.name] = i.start * i.factor;
      const id = `live-${fig.name}-${i.name}`;
      const label = make('label', { for: id }, i.label);
      if (i.measured) label.append(' ', make('span', { class: 'live-figure-how' }, '≈ measured'));
      if (i.choices.length) {
        const select = make('select', { id });
        for (const [text, n] of i.choices) select.append(make('option', { value: n }, text));
        select.addEventListener('change', () => set(i, Number(select.value)));
        fields[i.name] = {
          put: (x) => {
            select.value = choice(x * i.factor, i)[1];
          },
        };
        (i.more ? folded : grid).append(make('div', {}, label, select));
        continue;
      }
      const list = stops(i);
      const slider = make('input', { id, type: 'range', min: 0, max: list.length - 1, step: 1 });
      const exact = make('input', {
        type: 'text',
        inputmode: 'decimal',
        autocomplete: 'off',
        'aria-label': `${i.label}, as a number${i.unit ? `, ${i.unit}` : ''}`,
      });
      const refused = make('p', { role: 'alert' });
      slider.addEventListener('input', () => {
        pause();
        set(i, list[slider.value]);
      });
      exact.addEventListener('change', () => {
        const x = typed(exact.value, i.unit);
        const fits = x >= i.low && x <= i.high && !(i.whole && x % 1);
        if (fits) {
          set(i, x);
          return;
        }
        exact.setAttribute('aria-invalid', 'true');
        const comma =
          Number.isNaN(x) && exact.value.includes(',')
            ? ' A fraction is written with a point, as in 1.5.'
            : '';
        const kind = i.whole ? 'whole number' : 'number';
        const least = tick(i.low, { unit: '' });
        const most = withUnit(tick(i.high, { unit: '' }), i);
        refused.textContent = `${i.label}: please give a ${kind} from ${least} to ${most}.${comma}`;
      });
      fields[i.name] = {
        put: (x) => {
          slider.value = nearest(list, x);
          exact.value = shown(x * i.factor, i);
          exact.removeAttribute('aria-invalid');
          refused.textContent = '';
          slider.setAttribute('aria-valuetext', withUnit(exact.value, i));
        },
      };
      const control = make(
        'div',
        {},
        label,
        make('div', { class: 'live-figure-row' }, slider, exact, make('span', {}, i.unit)),
        refused,
      );
      if (i.play) control.append(player(i, list));
      (i.more ? folded : grid).append(control);
    }
    const presets = make('div', { class: 'live-figure-presets' });
    for (const [text, some] of Object.entries(fig.presets)) {
      const button = make('button', { type: 'button' }, text);
      button.addEventListener('click', () =>
        fig.inputs.forEach((i) => {
          if (i.name in some) set(i, some[i.name]);
        }),
      );
      presets.append(button);
    }
    const reset = make('button', { type: 'button' }, 'Start again');
    reset.addEventListener('click', () => {
      pause();
      fig.inputs.forEach((i) => set(i, i.start));
    });
    presets.append(reset);
    const said = make('p', { role: 'status' });
    const svg = make('svg', { role: 'img' });
    const body = box.querySelector('tbody');
    const legend = make('ul', { class: 'live-figure-legend' });
    if (fig.over && (fig.drawn.length > 1 || fig.ideal)) {
      fig.drawn.forEach((name, k) =>
        legend.append(
          make(
            'li',
            { class: `c${k}` },
            make(
              'svg',
              { viewBox: '0 0 26 6', 'aria-hidden': 'true' },
              make('path', { d: 'M0 3L26 3', class: `c${k}` }),
            ),
            fig.outputs.find((o) => o.name === name).label,
          ),
        ),
      );
    }
    if (fig.ideal) {
      legend.append(
        make(
          'li',
          {},
          make(
            'svg',
            { viewBox: '0 0 26 6', 'aria-hidden': 'true' },
            make('path', { d: 'M0 3L26 3', class: 'ideal' }),
          ),
          'all that is possible',
        ),
      );
    }

    // Two buttons: to the next value, from the last to the first; and from one to the next by themselves,
    // which is not announced.
    function player(i, list) {
      const step = make('button', { type: 'button' }, 'Step');
      const play = make('button', { type: 'button' }, 'Play');
      const next = () => {
        const k = nearest(list, values[i.name] / i.factor) + 1;
        set(i, list[k % list.length]);
        return k;
      };
      step.addEventListener('click', () => {
        pause();
        next();
      });
      play.addEventListener('click', () => {
        if (pause()) return;
        said.setAttribute('aria-live', 'off');
        play.textContent = 'Pause';
        let k = next();
        const timer = setInterval(() => {
          if (k === list.length - 1) pause();
          else k = next();
        }, 350);
        playing = () => {
          clearInterval(timer);
          play.textContent = 'Play';
          said.removeAttribute('aria-live');
        };
      });
      return make('div', { class: 'live-figure-presets live-figure-play' }, step, play);
    }
    let playing = null;
    function pause() {
      const was = playing;
      playing = null;
      was?.();
      return was !== null;
    }
    function set(i, x) {
      values[i.name] = x * i.factor;
      fields[i.name].put(x);
      update();
    }
    function update() {
      said.textContent = fig.say.map((s) => sentence(fig, values, s)).join(' ');
      svg.setAttribute(
        'aria-label',
        `${fig.title}. ${(fig.lanes.length ? lanes : fig.over ? curve : bars)(svg, fig, values)}.`,
      );
      body.replaceChildren(
        ...rows(fig, values).map(([first, ...rest]) =>
          make('tr', {}, make('th', { scope: 'row' }, first), ...rest.map((c) => make('td', {}, c))),
        ),
      );
      used.replaceChildren(
        ...fig.inputs.map((i) => make('li', {}, `${i.label}: ${withUnit(shown(values[i.name], i), i)}`)),
      );
    }
    const table = box.querySelector('.live-figure-table');
    const used = box.querySelector('.live-figure-used');
    const note = box.querySelector('.live-figure-note');
    table.setAttribute('tabindex', 0);
    table.setAttribute('role', 'group');
    table.setAttribute('aria-label', 'All values');
    const turn = make('div', { class: 'live-figure-turn' }, grid);
    if (folded.hasChildNodes()) turn.append(make('details', {}, make('summary', {}, 'More to set'), folded));
    turn.append(presets);
    form.append(turn, make('div', { class: 'live-figure-see' }, svg, legend, said));
    form.addEventListener('submit', (e) => e.preventDefault());
    for (const i of fig.inputs) fields[i.name].put(i.start);
    update();
    box.querySelector('.live-figure-title').after(form);
    const formulas = make('details', {}, make('summary', {}, 'The formulas'), make('pre', {}, fig.code));
    if (fig.call) formulas.append(make('p', {}, 'In a notebook: ', make('code', {}, fig.call)));
    note.before(make('details', {}, make('summary', {}, 'As a table'), table), formulas);
  }

  // A figure that fails leaves its table, which the page has without any script.
  const start = () =>
    (window.liveFigures || []).forEach((fig) => {
      try {
        build(fig);
      } catch (e) {
        console.error(e);
      }
    });
  window.liveFiguresTwin = { run, show }; // for the test that compares them with Python
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
