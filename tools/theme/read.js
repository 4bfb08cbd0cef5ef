// Which pages a reader has opened, kept in this browser alone; the first page says how many, and where to go
// on. Without storage it says nothing.
(() => {
  const KEY = 'd2l-read';
  const SOLVED = 'd2l-solved'; // SOLVED: of questions.js
  const PAGE = /(chapters\/[^/]+\/[^/]+)\.html$/;
  const NAME = /^chapters\/\w+\/\w+$/; // what is stored is not trusted

  function load() {
    try {
      const { pages, last, title } = JSON.parse(localStorage.getItem(KEY));
      if (!Array.isArray(pages) || !NAME.test(last)) return null;
      return { pages: pages.filter((name) => NAME.test(name)), last, title: String(title) };
    } catch {
      return null;
    }
  }
  function keep(read) {
    try {
      localStorage.setItem(KEY, JSON.stringify(read));
    } catch {
      /* it is not said then */
    }
  }

  // How many exercises are solved, in these pages or in notebooks, which the first page knows.
  function solved(place) {
    const inNotebooks = place.dataset.solved.split(' ').filter(Boolean);
    try {
      const labels = JSON.parse(localStorage.getItem(SOLVED));
      return new Set([...inNotebooks, ...(Array.isArray(labels) ? labels : [])]).size;
    } catch {
      return inNotebooks.length;
    }
  }

  function show(place, read) {
    const line = document.createElement('p');
    const link = document.createElement('a');
    const button = document.createElement('button');
    link.href = `../../${read.last}.html`;
    link.textContent = read.title;
    button.type = 'button';
    button.textContent = 'Forget this';
    button.addEventListener('click', () => {
      try {
        [KEY, SOLVED].forEach((key) => localStorage.removeItem(key));
      } catch {
        /* nothing is kept there */
      }
      line.remove();
    });
    const n = solved(place);
    const exercises = n ? `, and solved ${n} ${n === 1 ? 'exercise' : 'exercises'}` : '';
    const all = document.createElement('a');
    all.href = '../../chapters/reference/guesses.html#what-this-browser-keeps';
    all.textContent = 'Save it, or erase all';
    line.append(
      `You have opened ${read.pages.length} of ${place.dataset.pages} pages${exercises}. You were at `,
      link,
      '. ',
      button,
      ' ',
      all,
    );
    place.replaceChildren(line);
  }

  function start() {
    const place = document.querySelector('.d2l-continue');
    const read = load();
    if (place) {
      if (read) show(place, read);
      return;
    }
    const found = decodeURIComponent(location.pathname).match(PAGE);
    const title = document.querySelector('.bd-article h1');
    if (!found || !title) return;
    const words = title.cloneNode(true);
    words.querySelectorAll('.headerlink').forEach((e) => e.remove());
    const pages = [...new Set([...(read ? read.pages : []), found[1]])];
    keep({ pages, last: found[1], title: words.textContent });
  }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
