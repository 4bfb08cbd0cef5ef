// "Run this page": where make lab serves the pages, one click opens the notebook; read from a file, a line says how.
document.addEventListener('DOMContentLoaded', () => {
  const path = decodeURIComponent(location.pathname), found = path.match(/(chapters\/[^/]+\/[^/]+)\.html$/);
  const title = document.querySelector('.bd-article h1');
  if (!found || !title || !document.querySelector('.bd-article div.cell')) return;
  const notebook = `${found[1]}.ipynb`, served = path.match(/^(.*)\/static\/html\/chapters\//);
  const line = document.createElement('p');
  line.className = 'd2l-run';
  if (served && location.protocol !== 'file:') {
    const link = document.createElement('a');
    link.href = `${served[1]}/lab/tree/${notebook}`;
    link.textContent = 'Run this page';
    line.append(link);
  } else {
    const [command, file] = ['make lab', notebook].map((text) => {
      const code = document.createElement('code');
      code.textContent = text;
      return code;
    });
    line.append('Run this page: ', command, ', then open ', file);
  }
  title.after(line);
});
