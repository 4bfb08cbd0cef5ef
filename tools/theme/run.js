// Ways from a page to notebooks: "Run this page", and from an exercise to its stub. Where make lab serves the
// pages, one click opens the notebook; read from a file, a line says how.
document.addEventListener('DOMContentLoaded', () => {
  const path = decodeURIComponent(location.pathname);
  const found = path.match(/(chapters\/[^/]+\/[^/]+)\.html$/);
  const title = document.querySelector('.bd-article h1');
  const frameworks = { pytorch: 'PyTorch', mxnet: 'MXNet' };
  if (!found || !title) return;
  const match = path.match(/^(.*)\/static\/html\/chapters\//);
  const served = location.protocol !== 'file:' && match ? match[1] : null;

  const code = (text) => {
    const e = document.createElement('code');
    e.textContent = text;
    return e;
  };
  const link = (notebook, words) => {
    const e = document.createElement('a');
    e.href = `${served}/lab/tree/${notebook}`;
    e.textContent = words;
    return e;
  };
  const line = (...inside) => {
    const e = document.createElement('p');
    e.className = 'd2l-run';
    e.append(...inside);
    return e;
  };

  if (document.querySelector('.bd-article div.cell')) {
    const notebook = `${found[1]}.ipynb`;
    title.after(
      served !== null
        ? line(link(notebook, 'Run this page'))
        : line('Run this page: ', code('make lab'), ', then open ', code(notebook)),
    );
  }

  // Whether JupyterLab has a file; where it does not say, it has.
  const asked = new Map();
  function there(file) {
    if (!asked.has(file)) {
      asked.set(
        file,
        fetch(`${served}/api/contents/${file}?content=0`).then(
          (answer) => answer.status !== 404,
          () => true,
        ),
      );
    }
    return asked.get(file);
  }
  async function solve(name) {
    const file = `exercises/${name}.ipynb`;
    const framework = name.split('_').pop();
    const place = line('Solve it in a notebook: ');
    place.dataset.framework = framework;
    if (served === null) {
      place.append(code('make exercises'), ' and ', code('make lab'), ', then open ', code(file));
    } else if (await there(file)) {
      place.replaceChildren('Solve it: ', link(file, `open the notebook with ${frameworks[framework]}`));
    } else {
      place.append(code('make exercises'), ' writes ', code(file));
    }
    return place;
  }
  document.querySelectorAll('.d2l-solve').forEach(async (place) => {
    place.append(...(await Promise.all(place.dataset.notebooks.split(' ').map(solve))));
  });
});
