// The search finds results too, by id or by three words or more of the sentence: tools/pages.py has put both into the
// index that Sphinx makes. Sphinx's own results follow.
document.addEventListener('DOMContentLoaded', () => {
  if (typeof Search === 'undefined') return;            // on the page of results alone
  const others = Search._performSearch;
  Search._performSearch = (query, ...rest) => {
    const { docnames, filenames, titles, indexentries } = Search._index;
    const asked = query.toLowerCase().trim(), words = asked.split(/\s+/);
    const claims = Object.entries(indexentries).filter(([entry, [[, id]]]) => entry.startsWith(`${id}: `)    // no term
      && (asked === id || words.length > 2 && words.every((w) => entry.toLowerCase().includes(w))));
    return [...others(query, ...rest),                  // shown from the last to the first
      ...claims.map(([entry, [[file, id]]]) => [docnames[file], titles[file], `#${id}`, entry, 0, filenames[file]])];
  };
});
