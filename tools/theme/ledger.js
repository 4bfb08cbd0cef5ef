// The ledger: choose what to see; the address keeps the choice, so that a link can lead to it. Without this
// script the page is a plain table of everything.
(() => {
  const VERDICTS = ['holds', 'fails', 'undecided', 'not testable here'];

  function ready() {
    const place = document.querySelector('.d2l-filter');
    if (!place) return;
    const body = document.querySelector('.d2l-one tbody');
    const rows = [...body.querySelectorAll('tr[data-verdicts]')];
    const machines = place.dataset.machines.split('|');
    const each = (values) => [...new Set(rows.flatMap(values))].filter(Boolean).sort();
    const choices = {
      verdict: VERDICTS,
      topic: each((row) => [row.dataset.topic]),
      condition: each((row) => row.dataset.needs.split('|')),
      machine: machines,
    };
    const selects = {};
    const asked = new URLSearchParams(location.search);
    for (const [name, values] of Object.entries(choices)) {
      const label = document.createElement('label');
      const select = (selects[name] = document.createElement('select'));
      select.name = name;
      if (name !== 'machine') select.append(new Option('all', ''));
      for (const value of values) select.append(new Option(value, value));
      if (values.includes(asked.get(name))) select.value = asked.get(name); // else an old or mistyped address
      label.append(`${name} `, select);
      place.append(label);
    }
    const count = document.createElement('p');
    count.setAttribute('role', 'status');
    place.append(count);

    function show() {
      const machine = machines.indexOf(selects.machine.value);
      let shown = 0;
      for (const row of rows) {
        const verdict = row.dataset.verdicts.split('|')[machine];
        const needs = row.dataset.needs.split('|');
        const right = [
          [selects.verdict, [verdict]],
          [selects.topic, [row.dataset.topic]],
          [selects.condition, needs],
        ].every(([select, mine]) => !select.value || mine.includes(select.value));
        row.hidden = !right;
        shown += right;
      }
      // A page of which no statement is shown steps back with its name.
      for (const name of body.querySelectorAll('.d2l-page')) {
        let row = name.nextElementSibling;
        while (row && row.hidden) row = row.nextElementSibling;
        name.hidden = !row || row.matches('.d2l-page');
      }
      count.textContent = `${shown} of ${rows.length} statements`;
    }
    function keep() {
      const query = new URLSearchParams(location.search);
      for (const [name, select] of Object.entries(selects)) {
        if (select.selectedIndex > 0) query.set(name, select.value);
        else query.delete(name);
      }
      const address = `${location.pathname}${query.size ? `?${query}` : ''}${location.hash}`;
      try {
        history.replaceState(null, '', address);
      } catch {
        /* this browser keeps the addresses of files */
      }
    }
    place.addEventListener('change', () => {
      show();
      keep();
    });
    show();
  }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', ready);
  else ready();
})();
