// The ledger: choose what to see. Without this script the page is a plain table of everything.
(() => {
  const ready = (f) => document.readyState === 'loading' ? document.addEventListener('DOMContentLoaded', f) : f();
  ready(() => {
    const place = document.querySelector('.d2l-filter');
    if (!place) return;
    const rows = [...document.querySelectorAll('.d2l-ledger tbody tr')];
    const machines = place.dataset.machines.split('|');
    const each = (f) => [...new Set(rows.flatMap(f))].filter(Boolean).sort();
    const choices = [
      ['machine', machines], ['verdict', ['holds', 'fails', 'undecided', 'not testable here']],
      ['topic', each((r) => [r.dataset.topic])], ['condition', each((r) => r.dataset.needs.split('|'))]];
    for (const [name, values] of choices) {
      const label = document.createElement('label'), select = document.createElement('select');
      select.name = name;
      if (name !== 'machine') select.append(new Option('all', ''));
      values.forEach((v, i) => select.append(new Option(v, name === 'machine' ? i : v)));
      label.append(`${name} `, select);
      place.append(label);
    }
    const count = document.createElement('p');
    count.setAttribute('role', 'status');
    place.append(count);
    const show = () => {
      const want = Object.fromEntries([...place.querySelectorAll('select')].map((s) => [s.name, s.value]));
      let shown = 0;
      for (const r of rows) {
        const verdict = r.dataset.verdicts.split('|')[+want.machine];
        r.hidden = !((!want.verdict || verdict === want.verdict) && (!want.topic || r.dataset.topic === want.topic)
          && (!want.condition || r.dataset.needs.split('|').includes(want.condition)));
        shown += !r.hidden;
      }
      // A page of which no claim is shown steps back with its heading.
      for (const box of document.querySelectorAll('.d2l-ledger')) {
        const section = box.closest('section');
        section.hidden = ![...box.querySelectorAll('tbody tr')].some((r) => !r.hidden);
      }
      count.textContent = `${shown} of ${rows.length} claims`;
    };
    place.addEventListener('change', show);
    show();
  });
})();
