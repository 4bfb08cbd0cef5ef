// Guess first: a form in front of a result. Until the guess is made, outputs up to the result are folded, and
// no sentence gives its number away; code and text always stand. On the page of guesses: how good they are.
// Plain script, no library; works from file://. Guesses stay in this browser, under KEY.
(() => {
  const KEY = 'd2l-guesses';
  const SHOWN = 'd2l-shown'; // SHOWN: ids shown without a guess; '*' for all
  const positive = (x) => typeof x === 'number' && x > 0 && Number.isFinite(x);
  const none = (x) => x === null || x === undefined;
  const sound = (e) =>
    e
    && positive(e.guess)
    && (none(e.measured) || positive(e.measured))
    && ((none(e.low) && none(e.high)) || (positive(e.low) && positive(e.high) && e.low < e.high));

  // The sound guesses in a text, by claim, and whether there is nothing else in it.
  function read(text) {
    let all;
    try {
      all = JSON.parse(text).guesses;
    } catch {
      all = null;
    }
    if (all === null || typeof all !== 'object' || Array.isArray(all)) return { guesses: {}, whole: false };
    const good = Object.entries(all).filter(([id, e]) => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(id) && sound(e));
    return { guesses: Object.fromEntries(good), whole: good.length === Object.keys(all).length };
  }
  const write = (guesses) => JSON.stringify({ guesses }, null, 1);

  // A number as a reader types it, 3 or 3×; NaN for anything else. 1,000 may be a thousand or one: it is
  // neither.
  function parse(text) {
    const number = text.trim().replace(/ ?[x×]$/i, '');
    return /^[+]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(number) ? Number(number) : NaN;
  }

  // What was typed as an entry, or a sentence that says what to mend.
  function entry(guess, low, high) {
    const [g, l, h] = [guess, low, high].map(parse);
    const has = (t) => t.trim() !== '';
    if (has(low) !== has(high)) return 'An interval has two ends: fill in both, or none.';
    if (has(low) && !(positive(l) && positive(h) && l < h)) {
      return 'The ends of the interval are numbers above zero, the smaller one first.';
    }
    if (!has(guess) && has(low)) return { guess: Math.exp((Math.log(l) + Math.log(h)) / 2), low: l, high: h };
    if (!positive(g)) {
      return (
        'A guess is a number above zero, such as 3 or 0.25, '
        + 'with a point for a fraction and without a unit; 50% is 0.5.'
      );
    }
    if (has(low) && !(l <= g && g <= h)) return 'Your guess lies outside your own interval.';
    return { guess: g, low: has(low) ? l : null, high: has(low) ? h : null };
  }

  const off = (e) => Math.min(1e300, Math.max(e.guess / e.measured, e.measured / e.guess));
  // As guess and factor in numbers.py write them.
  function number(x) {
    const rounded = Number(x.toPrecision(3));
    if (rounded < 1e-4 || rounded >= 1e9) return x.toExponential(2).replace(/\.?0*e\+?/, 'e');
    return String(rounded).replace(/^\d+/, (n) => n.replace(/\B(?=(\d{3})+$)/g, ','));
  }
  const times = (x) => (x < 10 ? x.toFixed(2) : number(x));
  const inside = (e) => e.low <= e.measured && e.measured <= e.high;
  const shown = (e) => number(e.guess) + (none(e.low) ? '' : ` (${number(e.low)}–${number(e.high)})`);
  const verdict = (e) =>
    `off by a factor of ${times(off(e))}`
    + (none(e.low) ? '' : inside(e) ? ', inside your interval' : ', outside your interval');

  // How good scored guesses are: the numbers of one row of the table.
  function summary(list) {
    const factors = list.map(off).sort((a, b) => a - b);
    const n = factors.length;
    const sure = list.filter((e) => !none(e.low));
    return {
      n,
      half: Math.sqrt(factors[(n - 1) >> 1]) * Math.sqrt(factors[n >> 1]),
      near: factors.filter((x) => x <= 2).length,
      low: list.filter((e) => e.guess < e.measured).length,
      sure: sure.length,
      held: sure.filter(inside).length,
    };
  }

  const api = { read, write, entry, off, summary, number, times };
  if (typeof module !== 'undefined') module.exports = api;
  if (typeof document === 'undefined') return;

  // What the browser keeps. What it refuses to keep counts on this page until the reader leaves it.
  const here = {};
  let notice = '';
  let stuck = false; // stuck: broken, and it cannot be set aside
  function load() {
    let text = null;
    try {
      text = localStorage.getItem(KEY);
    } catch {
      return { ...here };
    }
    if (text === null) return { ...here };
    const { guesses, whole } = read(text);
    if (!whole) {
      try {
        let n = 1;
        while (localStorage.getItem(`${KEY}-broken-${n}`) !== null) n += 1;
        localStorage.setItem(`${KEY}-broken-${n}`, text);
        localStorage.setItem(KEY, write(guesses));
        notice =
          'Your stored guesses were broken. '
          + `They are set aside as ${KEY}-broken-${n} in this browser's storage; `
          + `${Object.keys(guesses).length} of them could be read.`;
      } catch {
        stuck = true;
      }
    }
    return { ...guesses, ...here };
  }
  function keep(changes) {
    const all = { ...load(), ...changes };
    try {
      if (stuck) throw new Error('what is stored is broken and cannot be set aside');
      localStorage.setItem(KEY, write(all));
      return '';
    } catch {
      Object.assign(here, changes);
      return 'This browser refuses to keep it: it counts on this page until you leave it.';
    }
  }
  const skipped = () => {
    try {
      return JSON.parse(localStorage.getItem(SHOWN)) || [];
    } catch {
      return [];
    }
  };
  let muted = false; // no result is hidden on this page any more
  const skip = (ids) => {
    try {
      localStorage.setItem(SHOWN, JSON.stringify(ids));
    } catch {
      /* asked again then */
    }
  };

  const make = (tag, attributes = {}, ...children) => {
    const svg = ['svg', 'text', 'circle', 'line', 'rect', 'title'].includes(tag);
    const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [k, value] of Object.entries(attributes)) e.setAttribute(k, value);
    e.append(...children);
    return e;
  };

  // The book asks again then.
  function forget(id) {
    const all = load();
    delete all[id];
    delete here[id];
    try {
      localStorage.setItem(KEY, write(all));
    } catch {
      /* it was kept here alone */
    }
    skip(skipped().filter((other) => other !== id));
  }

  // What the cells after a question print, up to the end of the cell of its result, and what repeats its
  // figure further down. Code, text and other questions stand.
  function printed(start, end, figure) {
    const follows = (e, other) => other.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING;
    const between = (e) => !follows(e, end) || end.contains(e);
    const digits = figure.match(/^[\d.,]*/)[0]; // a shorter number means many things
    const repeats = (e) =>
      digits.replace(/\D/g, '').length > 2 && e.textContent.split(/[^\d.,]+/).includes(digits);
    return [...document.querySelectorAll('.cell_output > *')].filter(
      (e) => follows(e, start) && (between(e) || repeats(e)) && !e.querySelector('.d2l-predict'),
    );
  }

  const open = new Map(); // questions without an answer, by claim: what they fold, and their form
  // outputs with the result of an answered question: not folded by their neighbours
  const results = new Set();

  // Folds what the open questions hide, and says so at each cell, with a way to the question.
  function fold() {
    document.querySelectorAll('.d2l-held').forEach((e) => e.remove());
    document.querySelectorAll('.d2l-folded').forEach((e) => e.classList.remove('d2l-folded'));
    for (const [id, { list }] of open) {
      for (const output of list.filter((e) => !results.has(e))) {
        output.classList.add('d2l-folded');
        const first = !output.parentElement.querySelector(':scope > .d2l-held');
        if (first) output.before(held(id, output.parentElement));
      }
    }
    veil();
  }
  function held(id, outputs) {
    const what = outputs.querySelector('img')
      ? 'The figure'
      : outputs.querySelector('.d2l-claim')
        ? 'The result'
        : 'The output';
    return make(
      'p',
      { class: 'd2l-held' },
      `${what} is shown after `,
      make('a', { href: `#ask-${id}` }, 'your guess'),
      '.',
    );
  }
  function unfold(id) {
    if (!open.has(id)) return;
    results.add(open.get(id).result);
    open.delete(id);
    fold();
  }

  // What stands in place of a quotation: its words without the mark, and an ellipsis for the number. It leads
  // to the question.
  const NUMBER = /(^|[^\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?/;
  function stand(a, asked, every) {
    const link = make('a', { href: asked, class: 'd2l-asks' }, ...a.cloneNode(true).childNodes);
    link.querySelectorAll('.d2l-mark').forEach((e) => e.remove());
    const texts = document.createTreeWalker(link, NodeFilter.SHOW_TEXT);
    let found = false;
    while ((every || !found) && texts.nextNode()) {
      const before = texts.currentNode.data;
      texts.currentNode.data = before.replace(every ? new RegExp(NUMBER, 'g') : NUMBER, '$1…');
      found = found || texts.currentNode.data !== before;
    }
    if (found) link.append(' ', make('small', {}, 'guess'));
    return link;
  }

  // Quotations of results that are not guessed yet, on this page or another, and their rows of the ledger.
  const veiled = new Map(); // what is hidden, and what stands in its place
  let line = null; // says that something is hidden
  function veil() {
    const all = load();
    const seen = muted ? ['*'] : skipped();
    const places = new Set(
      [...document.querySelectorAll('.d2l-predict[data-claim]')].map((e) => e.dataset.claim),
    );
    const secret = (id) =>
      places.has(id) ? open.has(id) : !all[id] && !seen.includes(id) && !seen.includes('*');
    const hide = (e, id, substitute) => {
      if (secret(id) === veiled.has(e)) return;
      e.classList.toggle('d2l-veiled', secret(id));
      if (secret(id)) {
        veiled.set(e, substitute());
        e.after(veiled.get(e));
      } else {
        veiled.get(e).remove();
        veiled.delete(e);
      }
    };
    for (const a of document.querySelectorAll('a.d2l-said[data-asked]')) {
      hide(a, a.dataset.id, () => stand(a, a.dataset.asked));
    }
    for (const th of document.querySelectorAll('th[data-asked]')) {
      const { id, asked } = th.dataset;
      const a = th.querySelector('a');
      hide(a, id, () => stand(a, asked, true));
      const figure = th.parentElement.querySelector('.d2l-figure');
      hide(figure, id, () => make('span', { class: 'd2l-asks' }, '…'));
    }
    const first = open.size ? null : [...veiled.values()].find((e) => e.offsetParent); // a form offers it too
    if (!first && line) {
      line.remove();
      line = null;
    }
    if (!first || line) return;
    line = make(
      'p',
      { class: 'd2l-guess d2l-unasked' },
      'Results that you can guess are hidden until then. ',
      mute(),
    );
    const block = first.closest('section > *, article > *') || first;
    if (block.matches('.d2l-ledger')) block.before(line);
    else block.after(line);
  }

  // Shows all results, here and in the whole book.
  function mute() {
    const button = make('button', { type: 'button' }, 'Do not ask: show all results');
    button.addEventListener('click', () => {
      muted = true;
      skip([...skipped(), '*']);
      const up = (
        document.querySelector('[data-asked]')?.dataset.asked
        || document.querySelector('[data-up]').dataset.up
      ).split('chapters/')[0];
      const said = make(
        'p',
        { role: 'status', tabindex: -1, class: 'd2l-unasked' },
        'All results are shown, on every page. ',
        make('a', { href: `${up}chapters/reference/guesses.html` }, 'Ask me again'),
        ' is on the page of guesses.',
      );
      button.closest('.d2l-guess').after(said);
      for (const [id, { form }] of [...open]) {
        form.remove();
        unfold(id);
      }
      veil();
      said.focus();
    });
    return button;
  }

  function question(place, index) {
    const id = place.dataset.claim;
    const measured = Number(place.dataset.value);
    const claim = document.getElementById(place.dataset.claim);
    if (!positive(measured) || !claim) return;
    const said = make('p', { role: 'status', tabindex: -1, class: 'd2l-guess-said' });
    place.append(said);
    const start = place.closest('.cell') || place;
    const end = claim.closest('.cell') || claim;
    const result = claim.closest('.cell_output > *') || claim;
    const compare = (e) =>
      `You guessed ${shown(e)}. Measured: ${place.dataset.figure}. That is ${verdict({ ...e, measured })}.`;
    const old = load()[id];
    if (old) {
      results.add(result);
      if (none(old.measured)) keep({ [id]: { ...old, measured } });
      said.textContent = compare(old);
      return;
    }
    const seen = skipped();
    if (seen.includes(id) || seen.includes('*')) return;
    if (!(start.compareDocumentPosition(end) & Node.DOCUMENT_POSITION_FOLLOWING)) return;

    const field = (name, text) => {
      const input = make('input', {
        id: `d2l-guess-${index}-${name}`,
        type: 'text',
        inputmode: 'decimal',
        autocomplete: 'off',
        'aria-describedby': `d2l-guess-${index}`,
      });
      return [input, make('label', { for: input.id }, text)];
    };
    said.id = `d2l-guess-${index}`;
    const [guess, guessLabel] = field('guess', 'Your guess');
    const [low, lowLabel] = field('low', 'from');
    const [high, highLabel] = field('high', 'to');
    const link = make(
      'a',
      { href: `${place.dataset.up}chapters/reference/guesses.html` },
      'How well do you guess?',
    );
    const show = make('button', { type: 'button' }, 'Just show me');
    const form = make(
      'form',
      { class: 'd2l-guess', novalidate: '' },
      make(
        'div',
        {},
        guessLabel,
        ' ',
        guess,
        // a share is kept as such: 0.5, and shown as 50%
        place.dataset.unit === '%' ? ' as a share: 0.5 is half' : ` ${place.dataset.unit}`,
      ),
      make(
        'details',
        {},
        make('summary', {}, 'with an interval'),
        lowLabel,
        ' ',
        low,
        ' ',
        highLabel,
        ' ',
        high,
        ' so wide that you are 80% sure of it',
      ),
      make(
        'div',
        {},
        make('button', { type: 'submit' }, 'Lock it and show the result'),
        ' ',
        show,
        ' ',
        mute(),
        ' ',
        link,
      ),
    );
    open.set(id, { form, result, list: printed(start, end, place.dataset.figure) });
    const finish = (text) => {
      form.remove();
      unfold(id);
      said.textContent = text;
      said.focus();
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const before = load()[id];
      const made = before || entry(guess.value, low.value, high.value);
      for (const input of [guess, low, high]) input.setAttribute('aria-invalid', typeof made === 'string');
      if (typeof made === 'string') {
        said.textContent = made;
        return;
      }
      const refused = before
        ? 'It was made in another window, and the first guess counts.'
        : keep({ [id]: { ...made, measured, topic: place.dataset.topic } });
      finish([compare(made), refused, notice].filter(Boolean).join(' '));
    });
    show.addEventListener('click', () => {
      skip([...skipped(), id]);
      finish('Shown without a guess.');
    });
    said.before(form);
  }

  // A link to what is folded opens it.
  function opened() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return;
    }
    if (!target) return;
    const before = open.size;
    for (const [id, { list }] of [...open]) {
      if (list.some((e) => e.contains(target))) unfold(id);
    }
    if (open.size < before || veiled.has(target)) (veiled.get(target) || target).scrollIntoView();
  }

  // Each guess as a dot: how many times too low or too high, on a logarithmic axis, a row for each topic.
  function plot(groups) {
    // a guess that is off by more than a hundred lies on the edge
    const at = (log) => 216 + 50 * Math.max(-2, Math.min(2, log));
    const near = Math.log10(2);
    const rows = [...groups];
    const height = 22 * rows.length;
    const svg = make('svg', {
      viewBox: `0 0 330 ${height + 30}`,
      role: 'img',
      'aria-label':
        'Each guess divided by what was measured, on a logarithmic axis, by topic; '
        + 'the table has the numbers.',
    });
    svg.append(make('rect', { x: at(-near), y: 0, width: at(near) - at(-near), height }));
    for (const [power, text] of [
      [-2, '÷100'],
      [-1, '÷10'],
      [0, '1'],
      [1, '×10'],
      [2, '×100'],
    ]) {
      svg.append(
        make('line', { x1: at(power), x2: at(power), y1: 0, y2: height }),
        make('text', { x: at(power), y: height + 12, 'text-anchor': 'middle' }, text),
      );
    }
    svg.append(
      make(
        'text',
        { x: 216, y: height + 26, 'text-anchor': 'middle' },
        'guess ÷ measured; shaded: within a factor of 2',
      ),
    );
    rows.forEach(([topic, list], i) => {
      svg.append(make('text', { x: 108, y: 22 * i + 14, 'text-anchor': 'end' }, topic));
      for (const [id, e] of list) {
        svg.append(
          make(
            'circle',
            { cx: at(Math.log10(e.guess) - Math.log10(e.measured)).toFixed(1), cy: 22 * i + 11, r: 4 },
            make('title', {}, `${id}: ${shown(e)}, measured ${number(e.measured)}`),
          ),
        );
      }
    });
    return svg;
  }

  function overview(place) {
    const said = make('p', { role: 'status', tabindex: -1 });
    const result = make('div');
    const file = make('input', { type: 'file', accept: '.json,application/json', id: 'd2l-guess-file' });
    const button = (text, f) => {
      const b = make('button', { type: 'button' }, text);
      b.addEventListener('click', f);
      return b;
    };
    const ask = make('input', { type: 'checkbox', id: 'd2l-guess-ask' });
    ask.addEventListener('change', () => skip(ask.checked ? [] : ['*']));
    const save = button('Save them as a file', () => {
      const url = URL.createObjectURL(new Blob([write(load())], { type: 'application/json' }));
      const a = make('a', { href: url, download: 'guesses.json' });
      a.click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
    file.addEventListener('change', async () => {
      if (!file.files.length) return;
      let found = { guesses: {}, whole: false };
      try {
        found = read(await file.files[0].text());
      } catch {
        /* said below */
      }
      const mine = load();
      const added = Object.entries(found.guesses).filter(([id]) => !mine[id]);
      const old = Object.keys(found.guesses).length - added.length;
      const refused = added.length ? keep(Object.fromEntries(added)) : '';
      said.textContent = [
        !found.whole && !Object.keys(found.guesses).length
          ? 'That is no file of guesses. Nothing was changed.'
          : `${added.length} guesses are new. ${old} claims had one already, and the first counts.`
            + (found.whole ? '' : ' What else is in that file is no guess.'),
        refused.replace(' it', ' them'),
      ].join(' ');
      file.value = '';
      draw();
    });
    const erase = button('Erase all guesses', () => {
      if (!confirm('Erase all your guesses in this browser? This cannot be undone.')) return;
      try {
        for (const key of Object.keys(localStorage)) {
          if (key.startsWith(KEY) || key === SHOWN) localStorage.removeItem(key);
        }
      } catch {
        /* nothing is kept there then */
      }
      for (const id of Object.keys(here)) delete here[id];
      said.textContent = 'All guesses are erased.';
      draw();
    });

    function draw() {
      ask.checked = !skipped().includes('*');
      const all = load();
      const groups = new Map();
      const order = [...place.querySelectorAll('tr[data-claim]')].map((tr) => tr.dataset.claim);
      const done = Object.entries(all)
        .filter(([, e]) => !none(e.measured))
        .sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
      for (const [id, e] of done) {
        const topic = String(e.topic || 'other').replace(/_/g, ' ');
        groups.set(topic, [...(groups.get(topic) || []), [id, e]]);
      }
      const row = (name, list) => {
        const s = summary(list.map(([, e]) => e));
        return make(
          'tr',
          {},
          make('th', { scope: 'row' }, name),
          ...[
            s.n,
            `×${times(s.half)}`,
            `${s.near} of ${s.n}`,
            `${s.low} of ${s.n}`,
            s.sure ? `${s.held} of ${s.sure}` : '–',
          ].map((t) => make('td', {}, String(t))),
        );
      };
      const head = [
        'topic',
        'guesses',
        'half are within',
        'within a factor of 2',
        'too low',
        'intervals that hold it',
      ];
      result.replaceChildren(
        ...(!done.length
          ? [make('p', {}, 'No guess of yours has met its result yet.')]
          : [
              make(
                'div',
                { class: 'd2l-ledger' },
                make(
                  'table',
                  { class: 'table' },
                  make('thead', {}, make('tr', {}, ...head.map((t) => make('th', { scope: 'col' }, t)))),
                  make('tbody', {}, ...[...groups].map(([t, list]) => row(t, list)), row('all', done)),
                ),
              ),
              plot(groups),
            ]),
      );
      for (const tr of place.querySelectorAll('tr[data-claim]')) {
        const e = all[tr.dataset.claim];
        while (tr.children.length > 1) tr.lastChild.remove();
        const again =
          e
          && button('erase', () => {
            forget(tr.dataset.claim);
            said.textContent = 'The guess is erased, and the book asks for it again.';
            draw();
            said.focus();
          });
        if (again) again.setAttribute('aria-label', `Erase the guess: ${tr.cells[0].textContent}`);
        tr.append(
          ...(e
            ? [
                shown(e),
                none(e.measured) ? '–' : number(e.measured),
                none(e.measured) ? '–' : `×${times(off(e))}`,
              ]
            : ['', '', '']
          ).map((t) => make('td', {}, t)),
        );
        if (again) tr.cells[1].append(' ', again);
      }
      if (notice) {
        said.textContent = notice;
        notice = '';
      }
    }
    place
      .querySelector('thead tr')
      .append(...['guess', 'measured', 'off by'].map((t) => make('th', { scope: 'col' }, t)));
    document
      .querySelector('.d2l-guesses-own')
      .replaceChildren(
        make(
          'div',
          { class: 'd2l-guess' },
          result,
          make('div', {}, save, ' ', erase, ' ', make('label', { for: file.id }, 'Read a file '), file),
          make(
            'div',
            {},
            ask,
            ' ',
            make('label', { for: ask.id }, 'Ask me for a guess in front of a result'),
          ),
          said,
        ),
      );
    draw();
    window.addEventListener('storage', draw);
  }

  const start = () => {
    const attempt = (f) => {
      try {
        f();
      } catch (e) {
        console.error(e);
        open.clear();
      }
    };
    document
      .querySelectorAll('.d2l-predict[data-value]')
      .forEach((place, index) => attempt(() => question(place, index)));
    attempt(() => {
      fold();
      opened();
    });
    window.addEventListener('hashchange', opened);
    // guessed on another page, in another window or before the way back
    for (const name of ['storage', 'pageshow']) window.addEventListener(name, () => attempt(veil));
    document.querySelectorAll('.d2l-guesses').forEach((place) => attempt(() => overview(place)));
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
