// Exercises with figures or words for an answer, checked in the page: right, or a hint, another one at the
// next try. The rules and the hints are those of the checks in notebooks. What is solved is kept in this
// browser alone.
(() => {
  const KEY = 'd2l-solved';
  const LABEL = /^[a-z0-9]+(-[a-z0-9]+)*$/; // what is stored is not trusted

  function solved() {
    try {
      const labels = JSON.parse(localStorage.getItem(KEY));
      return Array.isArray(labels)
        ? labels.filter((label) => typeof label === 'string' && LABEL.test(label))
        : [];
    } catch {
      return [];
    }
  }
  function keep(label) {
    try {
      localStorage.setItem(KEY, JSON.stringify([...new Set([...solved(), label])]));
    } catch {
      /* it is not kept then */
    }
  }

  // A number as a reader types it, 1,000 or 1/4 or 2e9; NaN for anything else, such as 1/0.
  function number(text) {
    const one = String.raw`(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d*)?(?:e[+-]?\d+)?`;
    const found = text.trim().match(new RegExp(`^([+-]?${one})(?: ?/ ?(${one}))?$`, 'i'));
    if (!found) return NaN;
    const [top, bottom] = found
      .slice(1)
      .map((part) => (part === undefined ? 1 : Number(part.replace(/,/g, ''))));
    const x = top / bottom;
    return Number.isFinite(x) ? x : NaN;
  }

  // For each set of right values, whether this answer is one of it. A figure may be off by a share of the
  // larger one.
  function matches(part, answer) {
    if (part.choices) return part.right.map((word) => word === answer);
    const x = number(answer);
    return part.right.map((y, k) => Math.abs(x - y) <= part.within[k] * Math.max(Math.abs(x), Math.abs(y)));
  }

  const make = (name, attributes = {}, ...inside) => {
    const e = document.createElement(name);
    Object.entries(attributes).forEach(([key, value]) => e.setAttribute(key, value));
    e.append(...inside);
    return e;
  };

  function field(part, id) {
    if (!part.choices) return make('input', { id, type: 'text', autocomplete: 'off' });
    const options = part.choices.map((word) => make('option', { value: word }, word));
    return make('select', { id }, make('option', { value: '' }, '…'), ...options);
  }

  // What to say of these answers, and which of them are wrong.
  function judge(parts, answers, tries) {
    const given = parts.map((part, k) => answers[k].trim() !== '');
    if (!given.some(Boolean)) return { said: 'Fill in an answer.', wrong: [] };
    const odd = parts.findIndex((part, k) => given[k] && !part.choices && Number.isNaN(number(answers[k])));
    if (odd >= 0) {
      return {
        said: `${parts[odd].asks}: give a number without a unit, such as 0.25, 1/4 or 2e9.`,
        wrong: [odd],
      };
    }
    const held = parts.map((part, k) => (given[k] ? matches(part, answers[k].trim()) : null));
    const sets = parts[0].right.map((_, set) => set);
    if (sets.some((set) => held.every((h) => h && h[set]))) return { said: 'Right.', wrong: [], right: true };
    // Of the sets of values that are right together, the one that is nearest.
    const misses = sets.map((set) => parts.map((_, k) => k).filter((k) => held[k] && !held[k][set]));
    const wrong = misses.reduce((best, some) => (some.length < best.length ? some : best));
    if (!wrong.length) return { said: 'Right so far. Fill in the rest.', wrong };
    const { asks, hints, slips, choices } = parts[wrong[0]];
    const answer = answers[wrong[0]].trim();
    const slip = slips.find((one) => matches({ ...one, choices }, answer).some(Boolean));
    // What is behind a wrong answer, where that is known, and at the next try a hint too.
    let help = hints[tries % hints.length];
    if (slip) help = tries ? `${slip.said} ${hints[1]}` : slip.said;
    return { said: `Not yet: ${asks}. ${help}`, wrong };
  }

  // The folded answer stands below its exercise.
  function unfold(place) {
    const answer = place.closest('.exercise')?.nextElementSibling;
    if (answer?.matches('.solution.toggle-hidden')) answer.querySelector('button.toggle-button')?.click();
  }

  function build(place) {
    const parts = JSON.parse(
      new TextDecoder().decode(Uint8Array.from(atob(place.dataset.parts), (c) => c.charCodeAt(0))),
    );
    const label = place.dataset.exercise;
    const fields = parts.map((part, k) => field(part, `${label}-${k}`));
    const title = place.closest('.exercise')?.querySelector('.admonition-title')?.textContent ?? label;
    const said = make('p', { role: 'status' });
    const form = make('form', { 'aria-label': `Your answer: ${title}`, novalidate: '' });
    parts.forEach((part, k) =>
      form.append(make('div', {}, make('label', { for: `${label}-${k}` }, part.asks), fields[k])),
    );
    form.append(make('button', {}, 'Check'), said);
    if (solved().includes(label)) said.textContent = 'You have solved this one.';
    else if ('solved' in place.dataset) said.textContent = 'You have solved this one in a notebook.';
    let tries = 0;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const found = judge(
        parts,
        fields.map((f) => f.value),
        tries,
      );
      fields.forEach((f, k) => {
        if (found.wrong.includes(k)) f.setAttribute('aria-invalid', 'true');
        else f.removeAttribute('aria-invalid');
      });
      said.textContent = found.said;
      if (found.said.startsWith('Not yet')) tries += 1;
      if (found.right) {
        keep(label);
        unfold(place);
      }
    });
    place.append(form);
  }

  const start = () => document.querySelectorAll('.d2l-question').forEach(build);
  const api = { number, judge };
  if (typeof module !== 'undefined') module.exports = api;
  if (typeof document === 'undefined') return;
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
