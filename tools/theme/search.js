// The search: sections, terms, exercises and results of all pages, with an excerpt, the best first. Plain
// script, no library; search-index.js calls d2lSearch with what tools/searching.py has found in the pages,
// from a file as well.
(() => {
  const SKIPPED = new Set(
    (
      'a an and are at be by can do does for from how i in is it my of on or that '
      + 'the to what when which who why with'
    ).split(' '),
  );
  // Words of readers, and those of the book.
  const ALSO = {
    idle: ['waits'],
    oom: ['memory'],
    slow: ['slower'],
    dataloader: ['loader'],
    underutilized: ['idle'],
    utilization: ['busy'],
  };
  const SYNONYM = 0.6;
  const TERM = 0.3; // what another word counts; a definition, beside the pages that explain and measure
  const COMPLAINT = /\b(why|my|slow|slower|hangs?|idle)\b/; // somebody has a problem: the symptoms come first
  const TITLE = 3;
  const PAGE_TITLE = 1.2;
  const PHRASE_IN_TITLE = 2.2;
  const PHRASE = 1.5;
  const SYMPTOM = 2;
  const OTHER_FRAMEWORK = 0.6;
  const SATURATION = 1.2;
  const LENGTH = 0.6; // of BM25: how soon repeating a word gains nothing; how much long texts lose
  const FIRST = 1e6;
  const FEW = 5; // points of what is meant; words of a sentence that are enough
  const PAGES = 30;
  const SECTIONS = 4;
  const EXCERPT = 170;

  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) || [];
  // Sharing, shared and shares are one word; so are cache and caches.
  const stem = (word) => {
    const cut =
      word.length > 4
        ? word.replace(/(ing|ed|es|s|e)$/, '')
        : word.length > 3
          ? word.replace(/([^s])s$/, '$1')
          : word;
    return cut.length > 2 ? cut : word;
  };
  const stems = (text) => words(text).map(stem);

  // Entries with their words counted, and how rare each word is.
  function prepared({ pages, entries }) {
    const inHow = new Map();
    const all = entries.map(([page, anchor, kind, title, text]) => {
      const inTitle = stems(title);
      const inText = stems(text);
      const counts = new Map();
      for (const word of inText) counts.set(word, (counts.get(word) || 0) + 1);
      for (const word of new Set([...inTitle, ...inText])) inHow.set(word, (inHow.get(word) || 0) + 1);
      return {
        page,
        anchor,
        kind,
        title,
        text,
        inTitle,
        counts,
        length: inText.length,
        phrase: ` ${inText.join(' ')} `,
        titlePhrase: ` ${inTitle.join(' ')} `,
      };
    });
    const mean = all.reduce((sum, e) => sum + e.length, 0) / Math.max(1, all.length);
    const titles = pages.map(([, title]) => new Set(stems(title)));
    const rare = (word) => Math.log(1 + all.length / (1 + (inHow.get(word) || 0)));
    return { pages, all, mean, titles, rare };
  }

  // How well an entry answers the wanted words, each of which may be said in several ways; 0 if none of them
  // is there.
  function score(entry, wanted, phrase, index) {
    let sum = 0;
    let found = 0;
    let total = 0;
    for (const ways of wanted) {
      const weight = index.rare(ways[0]);
      let best = 0;
      for (const word of ways) {
        const times = entry.counts.get(word) || 0;
        const inText = times / (times + SATURATION * (1 - LENGTH + (LENGTH * entry.length) / index.mean));
        const here =
          inText + TITLE * entry.inTitle.includes(word) + PAGE_TITLE * index.titles[entry.page].has(word);
        best = Math.max(best, here * (word === ways[0] ? 1 : SYNONYM));
      }
      sum += weight * best;
      total += weight;
      if (best > 0) found += weight;
    }
    if (!found) return 0;
    const together =
      wanted.length < 2
        ? 1
        : entry.titlePhrase.includes(phrase)
          ? PHRASE_IN_TITLE
          : entry.phrase.includes(phrase)
            ? PHRASE
            : 1;
    return sum * together * (found / total) ** 2;
  }

  // Pages that answer a query, best first, each with the sections that do. A result is found by its name, or
  // by most words of its sentence, and then comes first; an exercise by its title; a term of the glossary
  // comes second, behind the page that explains and measures most of it.
  function find(query, index, framework = 'all') {
    const asked = query.toLowerCase().trim();
    const said = words(asked).filter((word) => !SKIPPED.has(word));
    const plain = said.length ? said : words(asked);
    const also = (word) => (Object.hasOwn(ALSO, word) ? ALSO[word] : []);
    const wanted = plain.map((word) => [word, ...also(word)].map(stem));
    if (!wanted.length) return [];
    const phrase = ` ${plain.map(stem).join(' ')} `;
    const typed = words(asked);
    const complaint = COMPLAINT.test(asked);
    // whatever its quotes look like
    const named = (entry) => words(entry.title).join(' ') === typed.join(' ');
    const pages = new Map();
    for (const entry of index.all) {
      const name = index.pages[entry.page][0];
      const other = (name.match(/_(pytorch|mxnet)$/) || [])[1];
      let points = 0;
      if (entry.kind === 'result') {
        const mine = words(entry.title);
        const most = typed.length >= Math.min(FEW, mine.length);
        if (
          asked === entry.anchor
          || (most && typed.length > 2 && typed.every((word) => mine.includes(word)))
        ) {
          points = FIRST;
        }
      } else {
        points = score(entry, wanted, phrase, index) * (entry.kind === 'term' ? TERM : 1);
        if (entry.kind === 'exercise' && named(entry)) points += FIRST;
        if (complaint && name.startsWith('chapters/start/symptoms')) points *= SYMPTOM;
        if (other && framework !== 'all' && other !== framework) points *= OTHER_FRAMEWORK;
      }
      if (points > 0) pages.set(entry.page, [...(pages.get(entry.page) || []), { entry, points }]);
    }
    const found = [...pages]
      .map(([page, hits]) => {
        hits.sort((a, b) => b.points - a.points);
        return {
          name: index.pages[page][0],
          title: index.pages[page][1],
          points: hits[0].points,
          hits: hits.map((h) => h.entry),
        };
      })
      .sort((a, b) => b.points - a.points);
    const term = found.findIndex(({ hits }) => hits.some((e) => e.kind === 'term' && named(e)));
    if (term >= 0) found.splice(1, 0, ...found.splice(term, 1));
    return found;
  }

  // The sentences of a text that have most of the words, cut to a length.
  function excerpt(text, wanted) {
    const sentences = text.split(/(?<=[.?!:])\s+/);
    const has = (s) => new Set(stems(s).filter((w) => wanted.has(w))).size;
    let best = 0;
    sentences.forEach((s, i) => {
      if (has(s) > has(sentences[best])) best = i;
    });
    let said = sentences[best] || '';
    for (let i = best + 1; said.length < EXCERPT / 2 && i < sentences.length; i += 1) {
      said += ` ${sentences[i]}`;
    }
    return said.length > EXCERPT ? `${said.slice(0, EXCERPT).replace(/\s+\S*$/, '')} …` : said;
  }

  const api = { prepared, find, excerpt, stems };
  if (typeof module !== 'undefined') module.exports = api;
  if (typeof document === 'undefined') return;

  const make = (tag, attributes = {}, ...children) => {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...children);
    return e;
  };
  // A text with the found words marked.
  const marked = (text, wanted) =>
    text
      .split(/([\p{L}\p{N}_]+)/u)
      .map((part) => (wanted.has(stem(part.toLowerCase())) ? make('mark', {}, part) : part));
  const KINDS = { term: 'glossary: ', exercise: 'exercise: ', result: 'result: ', section: '' };

  function hit(page, entry, wanted) {
    const text = entry.kind === 'result' ? '' : excerpt(entry.text, wanted);
    return make(
      'li',
      {},
      make('a', { href: `${page.name}.html#${entry.anchor}` }, KINDS[entry.kind] + entry.title),
      make('p', { class: 'context' }, ...marked(text, wanted)),
    );
  }
  function show(place, query, found) {
    const wanted = new Set(stems(query).filter((word) => !SKIPPED.has(word)));
    const status = found.length
      ? `${found.length} ${found.length === 1 ? 'page has' : 'pages have'} it, the best first.`
      : 'No page has these words. Try fewer, or another spelling.';
    const list = found
      .slice(0, PAGES)
      .map((page) =>
        make(
          'section',
          {},
          make('h2', {}, make('a', { href: `${page.name}.html` }, page.title)),
          make('ul', {}, ...page.hits.slice(0, SECTIONS).map((entry) => hit(page, entry, wanted))),
        ),
      );
    place.replaceChildren(make('p', { role: 'status', class: 'search-summary' }, status), ...list);
  }

  window.d2lSearch = (data) => {
    const index = prepared(data);
    window.d2lFind = (query) => find(query, index, document.documentElement.dataset.framework);
    const start = () => {
      const place = document.getElementById('search-results');
      const query = new URLSearchParams(location.search).get('q') || '';
      for (const input of document.querySelectorAll('form.bd-search input[name="q"]')) input.value = query;
      if (place && query.trim()) show(place, query, window.d2lFind(query));
    };
    if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
    else start();
  };
})();
