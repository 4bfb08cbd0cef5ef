// What this browser keeps of a reader: pages opened, exercises solved, guesses, the framework. The page of
// guesses saves all of it as a file, takes such a file in, and erases it. Nothing is sent anywhere. What
// another version has written is set aside.
(() => {
  const VERSION = 1;
  const OURS = 'd2l-'; // of the file; how the keys begin
  const strings = (x) => Array.isArray(x) && x.every((e) => typeof e === 'string');
  const object = (x) => x !== null && typeof x === 'object' && !Array.isArray(x);
  const union = (mine, theirs) => [...new Set([...mine, ...theirs])];
  // For each key, whether a value is sound, and what becomes of mine and of one from a file. Of two guesses
  // the first counts.
  const PARTS = {
    'd2l-framework': { sound: (x) => typeof x === 'string', merge: (mine) => mine },
    'd2l-read': {
      sound: (x) => object(x) && strings(x.pages),
      merge: (mine, theirs) => ({ ...mine, pages: union(mine.pages, theirs.pages) }),
    },
    'd2l-solved': { sound: strings, merge: union },
    'd2l-shown': { sound: strings, merge: union },
    'd2l-guesses': {
      sound: (x) => object(x) && object(x.guesses),
      merge: (mine, theirs) => ({ guesses: { ...theirs.guesses, ...mine.guesses } }),
    },
  };
  const known = (key) => Object.hasOwn(PARTS, key);

  // The value of a text; the framework is kept as a word.
  function value(key, text) {
    if (key === 'd2l-framework') return text;
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }
  const readable = (key, text) => PARTS[key].sound(value(key, text));
  const written = (x) => (typeof x === 'string' ? x : JSON.stringify(x));

  // Everything that is kept, by key; null where the browser refuses.
  function kept() {
    try {
      const keys = Object.keys(localStorage).filter((key) => key.startsWith(OURS));
      return Object.fromEntries(keys.map((key) => [key, localStorage.getItem(key)]));
    } catch {
      return null;
    }
  }

  // The texts of a file of state, or a sentence that says why it is none.
  function read(text) {
    const none = 'That is no file of what this book keeps. Nothing was changed.';
    let file;
    try {
      file = JSON.parse(text);
    } catch {
      return none;
    }
    if (!object(file) || !object(file.kept) || !('version' in file)) return none;
    if (file.version !== VERSION) {
      return (
        `That file was saved by another version of the book (${file.version}; this one reads ${VERSION}). `
        + 'Nothing was changed.'
      );
    }
    const sound = ([key, one]) =>
      key.startsWith(OURS) && typeof one === 'string' && (!known(key) || readable(key, one));
    return Object.entries(file.kept).every(sound) ? file.kept : none;
  }

  // A free name for what cannot be read.
  function aside(key, all) {
    let n = 1;
    while (`${key}-broken-${n}` in all) n += 1;
    return `${key}-broken-${n}`;
  }

  // What is kept after a file was taken in.
  function merged(mine, theirs) {
    const all = { ...mine };
    for (const [key, text] of Object.entries(theirs)) {
      if (!(key in mine)) {
        all[key] = text;
      } else if (known(key) && readable(key, mine[key])) {
        all[key] = written(PARTS[key].merge(value(key, mine[key]), value(key, text)));
      } else if (mine[key] !== text) {
        all[aside(key, all)] = text;
      }
    }
    return all;
  }

  const api = { read, merged };
  if (typeof module !== 'undefined') module.exports = api;
  if (typeof document === 'undefined') return;

  // Before the other scripts of the page read it: they take for empty what they cannot read, and write
  // over it.
  let notice = '';
  function setAside() {
    const all = kept() || {};
    for (const key of Object.keys(all)) {
      // Of guesses, predict.js saves what it can.
      if (!known(key) || key === 'd2l-guesses' || readable(key, all[key])) continue;
      const name = aside(key, all);
      try {
        localStorage.setItem(name, all[key]);
      } catch {
        continue;
      }
      localStorage.removeItem(key);
      all[name] = all[key];
      notice +=
        `What stood under ${key} was written by another version of the book. It is set aside as ${name}, `
        + 'and saved with the rest. ';
    }
  }

  // Puts all of it into the storage, or nothing.
  function put(all, before) {
    try {
      for (const [key, text] of Object.entries(all)) localStorage.setItem(key, text);
      return true;
    } catch {
      try {
        for (const key of Object.keys(all)) if (!(key in before)) localStorage.removeItem(key);
        for (const [key, text] of Object.entries(before)) localStorage.setItem(key, text);
      } catch {
        /* it refuses all */
      }
      return false;
    }
  }

  function described(all) {
    const of = (key, count) => (key in all && readable(key, all[key]) ? count(value(key, all[key])) : 0);
    const many = (n, one, more) => `${n} ${n === 1 ? one : more}`;
    const opened = of('d2l-read', (x) => x.pages.length);
    const solved = of('d2l-solved', (x) => x.length);
    const guesses = of('d2l-guesses', (x) => Object.keys(x.guesses).length);
    return (
      `This browser keeps ${many(opened, 'opened page', 'opened pages')}, `
      + `${many(solved, 'solved exercise', 'solved exercises')} and `
      + `${many(guesses, 'guess', 'guesses')} of yours.`
    );
  }

  function show(place) {
    const make = (tag, attributes, ...inside) => {
      const e = document.createElement(tag);
      Object.entries(attributes).forEach(([name, text]) => e.setAttribute(name, text));
      e.append(...inside);
      return e;
    };
    const now = make('p', {});
    const said = make('p', { role: 'status' });
    const button = (words, act) => {
      const e = make('button', { type: 'button' }, words);
      e.addEventListener('click', act);
      return e;
    };
    const REFUSES = 'This browser refuses to keep anything for these pages.';
    const draw = () => {
      const all = kept();
      now.textContent = all ? described(all) : REFUSES;
    };
    const changed = () => {
      window.dispatchEvent(new StorageEvent('storage')); // the scripts of this page look again
      draw();
    };
    const save = button('Save all as a file', () => {
      const all = kept();
      if (!all) {
        said.textContent = `${REFUSES} There is nothing to save.`;
        return;
      }
      const text = JSON.stringify({ version: VERSION, kept: all }, null, 1);
      const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
      make('a', { href: url, download: 'reader.json' }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
      said.textContent = 'Saved as reader.json, where this browser puts what it downloads.';
    });
    const file = make('input', { type: 'file', accept: '.json,application/json', id: 'd2l-state-file' });
    file.addEventListener('change', async () => {
      if (!file.files.length) return;
      const theirs = read(await file.files[0].text().catch(() => ''));
      const mine = kept();
      file.value = '';
      if (typeof theirs === 'string') {
        said.textContent = theirs;
      } else if (!mine) {
        said.textContent = `${REFUSES} Nothing was changed.`;
      } else if (!put(merged(mine, theirs), mine)) {
        said.textContent = 'This browser has no room for it. Nothing was changed.';
      } else {
        said.textContent = 'The file was taken in; what was here already stays.';
      }
      changed();
    });
    const erase = button('Erase all', () => {
      const question =
        'Erase all that this browser keeps of you: opened pages, solved exercises, guesses? '
        + 'This cannot be undone.';
      if (!confirm(question)) return;
      const all = kept();
      if (all) Object.keys(all).forEach((key) => localStorage.removeItem(key));
      said.textContent = all ? 'All is erased.' : `${REFUSES} There is nothing to erase.`;
      changed();
    });
    place.replaceChildren(
      make(
        'div',
        { class: 'd2l-guess' },
        now,
        make('div', {}, save, ' ', erase, ' ', make('label', { for: file.id }, 'Read a file '), file),
        said,
      ),
    );
    said.textContent = notice;
    draw();
  }

  setAside();
  const start = () => document.querySelectorAll('.d2l-state').forEach(show);
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
