// The reader's framework: chosen once at the top of any page, for the whole book. Next and Previous, the
// contents, tables of pages, exercises and paths obey it; addresses and the search reach everything. Plain
// script; works from file://. Without it each page has the links of both frameworks' reading orders, and
// everything is shown.
(() => {
  const KEY = 'd2l-framework';
  const QUERY = 'framework'; // QUERY: carries the choice where the browser keeps nothing
  const NAMES = { pytorch: 'PyTorch', mxnet: 'MXNet', all: 'both' };
  const root = document.documentElement;
  const known = (name) => Object.hasOwn(NAMES, name);
  let refused = false;

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      refused = true;
      return null;
    }
  }
  function keep(name) {
    try {
      localStorage.setItem(KEY, name);
      refused = false;
    } catch {
      refused = true;
    }
  }
  const of = (href) => (href.match(/_(pytorch|mxnet)\.html(?:[#?]|$)/) || [])[1]; // the framework of a page
  const mine = of(location.pathname);

  const asked = new URLSearchParams(location.search).get(QUERY);
  const old = stored();
  root.dataset.framework = [asked, old].find(known) || 'pytorch'; // most readers use it
  if (known(asked)) keep(asked);

  const make = (tag, attributes = {}, ...children) => {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...children);
    return e;
  };

  // Hides parts of a page that are of the other framework alone, and says at their place that there are some.
  const PAGES = /\/(index|paths|intro)\.html$/; // with tables of pages and exercises
  const PATHS = /\/paths\.html$/;
  function list(table, chosen) {
    let hidden = 0;
    for (const row of table.tBodies[0]?.rows || []) {
      const named = [...row.querySelectorAll('a[href]')]
        .map((a) => of(a.getAttribute('href')))
        .filter(Boolean);
      row.hidden = chosen !== 'all' && named.length > 0 && !named.includes(chosen);
      hidden += row.hidden;
    }
    const other = chosen === 'pytorch' ? NAMES.mxnet : NAMES.pytorch;
    say(
      table,
      hidden && `${hidden} ${hidden === 1 ? 'row' : 'rows'} about ${other} alone `,
      hidden === 1 ? 'is' : 'are',
    );
  }
  function path(section, chosen) {
    const other = section.id === 'with-mxnet' ? 'mxnet' : 'pytorch';
    const away = chosen !== 'all' && chosen !== other && location.hash !== `#${section.id}`;
    for (const e of [...section.children].slice(1)) e.hidden = away;
    say(section.firstElementChild, away && `The path with ${NAMES[other]} `, 'is');
  }
  function say(place, what, verb) {
    if (place.nextElementSibling?.matches('.d2l-elsewhere')) place.nextElementSibling.remove();
    if (what) {
      place.after(
        make(
          'p',
          { class: 'd2l-elsewhere' },
          `${what}${verb} not shown. `,
          button('Show both frameworks', 'all'),
        ),
      );
    }
  }
  function button(text, name) {
    const b = make('button', { type: 'button' }, text);
    b.addEventListener('click', () => choose(name));
    return b;
  }

  // An exercise: the solution in the reader's framework comes first; one that only the other has says so.
  function exercise(box, chosen) {
    const links = [...box.querySelectorAll('a[href*="_solutions_"]')].filter(
      (a) => a.textContent === NAMES[of(a.getAttribute('href'))],
    );
    const [first, second] = links;
    if (second && of(second.getAttribute('href')) === chosen) {
      const gap = document.createTextNode('');
      first.before(gap);
      second.before(first);
      gap.replaceWith(second);
    }
    box.querySelector('.d2l-only')?.remove();
    const named = links.map((a) => of(a.getAttribute('href')));
    if (chosen !== 'all' && named.length && !named.includes(chosen)) {
      box
        .querySelector('.admonition-title')
        .append(make('small', { class: 'd2l-only' }, ` in ${NAMES[named[0]]} alone`));
    }
  }

  function note(chosen) {
    const title = document.querySelector('.bd-article h1');
    document.querySelector('.d2l-other')?.remove();
    if (!title || !mine || chosen === 'all' || chosen === mine) return;
    title.after(
      make(
        'p',
        { class: 'd2l-other' },
        `This page uses ${NAMES[mine]}; you read the book with ${NAMES[chosen]}, and so does `,
        make('em', {}, 'Next'),
        '. ',
        button(`Read with ${NAMES[mine]}`, mine),
      ),
    );
  }

  let select = null;
  function obey() {
    const chosen = root.dataset.framework;
    select.value = chosen;
    note(chosen);
    const paths = PATHS.test(location.pathname)
      ? [...document.querySelectorAll('#with-pytorch, #with-mxnet')]
      : [];
    paths.forEach((section) => path(section, chosen));
    const tables = PAGES.test(location.pathname) ? [...document.querySelectorAll('.bd-article table')] : [];
    tables
      .filter((table) => !paths.some((section) => section.contains(table)))
      .forEach((table) => list(table, chosen));
    document.querySelectorAll('.exercise.admonition').forEach((box) => exercise(box, chosen));
  }
  function choose(name) {
    keep(name);
    root.dataset.framework = name;
    obey();
    select.focus(); // what was pressed may be gone
  }

  function start() {
    const place = document.querySelector('.header-article-items__start');
    select = make(
      'select',
      { 'aria-label': 'Framework', title: 'Next, contents, exercises and paths obey it' },
      ...Object.entries(NAMES).map(([name, text]) => make('option', { value: name }, text)),
    );
    if (place) place.append(make('div', { class: 'header-article-item d2l-framework' }, select));
    select.addEventListener('change', () => choose(select.value));
    obey();
    window.addEventListener('hashchange', obey);
    window.addEventListener('storage', () => {
      // chosen in another window
      const name = stored();
      if (known(name)) {
        root.dataset.framework = name;
        obey();
      }
    });
    document.addEventListener('click', (event) => {
      const a = event.target instanceof Element && event.target.closest('a[href]');
      const inside =
        a && a.protocol === location.protocol && a.host === location.host && a.pathname !== location.pathname;
      if (!refused || !inside || !a.pathname.endsWith('.html')) return;
      const query = new URLSearchParams(a.search);
      query.set(QUERY, root.dataset.framework);
      a.search = query;
    });
  }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
