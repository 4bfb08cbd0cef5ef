"""The pages: the notebooks' outputs, the verdicts beside the sentences, the ledger, and Jupyter Book."""

import ast
import contextlib
import copy
import itertools
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import nbformat
import yaml

import live_figures
from tested_results import claims, predictions
from tested_results.claims import Claim
from tools import (
    cards,
    exercises,
    figures,
    ledger,
    ledger_page,
    live,
    markup,
    quotations,
    quoting,
    runs,
    source,
    terms,
)
from tools.ledger import Ledger
from tools.source import ROOT
from tools.theme import draw

BUILD = ROOT / '_build'
COPIED = ('.md', '.svg', '.png')
SHOWN = ('.css', '.js', '.svg', '.woff2')         # of the theme
# What the theme and the extensions put into a page and nobody needs: a live kernel, whose script is
# declared twice; half a megabyte that draws icons which the style sheet shows as well, and fonts ahead
# of their use, an error where the pages are files; ids that stand more than once; roles that ask for
# others.
SURPLUS = re.compile(r'''(?xs)
    <script>const\ THEBE_JS_URL.*?</script> | <(?:script|link)[^>]*sphinx-thebe[^>]*>(?:</script>)?
    | <script\ type="text/x-thebe-config">.*?</script>
    | <script\ src="[^"]*/fontawesome/[^"]*"></script>
    | <link\ rel="preload"\ as="font"[^>]*>
    | \ id="(?:exercise|solution)-content" | \ role="doc-biblioentry" | (?<=<div)\ role="list"''')
FIGURE = re.compile(r'```\{figure\} (\S+)\n:alt: (.*)')
SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
MOVED = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>This page has moved</title>'
         '<script>location.replace("{0}" + location.hash)</script>'
         '<meta http-equiv="refresh" content="1; url={0}"/>'
         '</head><body><p>This page <a href="{0}">has moved</a>.</p></body></html>\n')
MADE = 'made'          # in a source tree: its pages stand as they are


def put(path: Path, text: str) -> bool:
    """Write a file if it would change; tell if it did.

    Where no source changed, the pages stand (:data:`MADE`). Else :func:`make` makes all of them anew.
    """
    if path.exists() and path.read_text() == text:
        return False
    source.put_whole(path, text)
    return True


def not_run_note(path: Path, nb: nbformat.NotebookNode, entries: list[ledger_page.Entry]) -> None:
    """Say below the title that a page shows stored outputs, from which machine, and why."""
    reason = source.missing(source.framework(path))
    what, kind = ('Not re-run here', 'warning') if reason else ('Not measured here yet', 'note')
    why = f'{reason}.' if reason else '`make book` replaces them by those of your machine.'
    where = f' of {ledger_page.machines(entries)}' if entries else ''
    first = nb.cells[0]
    head, _, rest = first.source.partition('\n')
    first.source = (f'{head}\n\n```{{admonition}} {what}\n:class: {kind}\nThe outputs on this page '
                    f'are stored ones{where}: {why}\n```\n{rest}')


def measured_note(path: Path, nb: nbformat.NotebookNode, entries: list[ledger_page.Entry]) -> None:
    """Say below the title that the numbers on a page are this machine's, and when they were measured."""
    kept = runs.EXECUTED / path.relative_to(ROOT)
    if not entries or not kept.exists():
        return
    when = time.strftime('%Y-%m-%d', time.localtime(kept.stat().st_mtime))
    head, _, rest = nb.cells[0].source.partition('\n')
    nb.cells[0].source = (f'{head}\n\n<p class="d2l-whose">The numbers on this page were measured on this '
                          f'machine, {when}: {escape(ledger_page.machines(entries))}.</p>\n{rest}')


def quote(text: str, page: str, entries: dict[str, ledger_page.Entry], said: dict[str, str],
          machines: list[Ledger], asked: dict[str, str], kept: dict[str, Claim] | None = None) -> str:
    """Put the shown run's numbers into the links that quote results, with a mark and a card.

    Args:
        said: for each result the page that measures it if it quotes it, else the first that does; those
            of this text are added.
        machines: the ledgers of other machines.
        asked: for results that the book asks to guess, the address of the question from the root.
        kept: the results of the stored run, or of a ledger, whose number stands where this run has none.
    """
    kept = kept or {}
    up = '../' * page.count('/')

    def replace(m: re.Match) -> str:
        words, id, part = m[1], m[2], m[3] or ''
        if id not in entries:
            return words
        e = entries[id]
        old = kept.get(id)
        number = old.machine if old and old.value is not None and e.claim.value is None else ''
        here = id not in said or e.page == page != said[id]
        anchor = f'said-{id}' if here else ''
        if here:
            said[id] = page
        with contextlib.suppress(quoting.Misfit):       # a test names it; the page shows the source's
            words = quoting.rendered(words, e.claim, part)
        return cards.link(words, e.claim, e.link(page), e.stored, machines, f'{up}{ledger_page.HERE}.html',
                          anchor,
                          up + asked[id] if id in asked and e.claim.value else '', number)
    return quotations.LINK.sub(replace, text)


def point_back(nb: nbformat.NotebookNode, page: str, said: dict[str, str], stored: bool,
               machines: list[Ledger]) -> None:
    """Fold each result at its cell, and lead from it to the sentence that quotes it."""
    for out in (out for cell in nb.cells for out in cell.get('outputs', [])):
        if data := out.get('metadata', {}).get(claims.METADATA_KEY):
            where = said.get(data['id'], page)
            file = '' if where == page else '../' * page.count('/') + where + '.html'
            out.data['text/html'] = cards.box(Claim.of(data), stored, machines, f'{file}#said-{data["id"]}')


def asking(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A code cell in two: what it does, and the questions at its end; a page hides their calls."""
    if cell.cell_type != 'code' or cell.source.startswith('%%'):
        return [cell]
    statements = reversed(source.tree(cell.source).body)
    tail = list(itertools.takewhile(
        lambda s: isinstance(s, ast.Expr) and quotations.claimed(s.value, ('predict',)), statements))
    if not tail:
        return [cell]
    ids, lines = {quotations.claimed(s.value, ('predict',)) for s in tail}, cell.source.split('\n')
    code, asked = copy.deepcopy(cell), copy.deepcopy(cell)
    first = tail[-1].lineno - 1
    code.source, asked.source = '\n'.join(lines[:first]).rstrip(), '\n'.join(lines[first:])
    asked.outputs = [o for o in cell.outputs
                     if o.get('metadata', {}).get(predictions.METADATA_KEY, {}).get('id') in ids]
    code.outputs = [o for o in cell.outputs if o not in asked.outputs]
    asked.id += '-predict'
    asked.metadata = nbformat.from_dict({'tags': ['remove-input']})
    return [code, asked] if code.source or code.outputs else [asked]


def ask(nb: nbformat.NotebookNode, page: str, entries: dict[str, ledger_page.Entry]) -> list[str]:
    """Give each question the figure that ``predict.js`` compares a guess with; returns rows of a table.

    Without that script, or where nothing was measured, the question stands before its result.
    """
    rows = []
    for out in (out for cell in nb.cells for out in cell.get('outputs', [])):
        if not (data := out.get('metadata', {}).get(predictions.METADATA_KEY)):
            continue
        id, question = data['id'], escape(data['question'])
        c = entries[id].claim if id in entries else None
        more = '' if c is None or not c.value else ''.join(f' data-{k}="{escape(str(v))}"' for k, v in {
            'value': c.value, 'figure': c.reading, 'unit': c.unit,
            'topic': page.split('/')[-2], 'up': '../' * page.count('/')}.items())
        out.data['text/html'] = (f'<div class="d2l-predict" id="ask-{id}" data-claim="{id}"{more}>'
                                 f'<p><b>Guess first.</b> {question}</p></div>')
        rows.append(f'<tr data-claim="{id}"><td>'
                    f'<a href="../../{page}.html#ask-{id}">{question}</a></td></tr>')
    return rows


def guesses(rows: list[str]) -> str:
    """All questions of the book; ``predict.js`` puts what the reader guessed beside them."""
    return ('<div class="d2l-guesses d2l-ledger"><table class="table"><thead><tr>'
            '<th scope="col">question</th></tr></thead><tbody>\n' + '\n'.join(rows)
            + '\n</tbody></table></div>')


def counted(entries: list[ledger_page.Entry]) -> str:
    """The ledger in one line, for the first page: how many tested statements have each verdict, and where."""
    counts = Counter(e.claim.verdict for e in entries if e.claim.bounded)
    badges = ' '.join(f'<span class="d2l-badge {ledger_page.css(v)}">{mark} {counts[v]} '
                      f'{v.removesuffix("s")}</span>' for v, mark in ledger_page.MARKS.items())
    return f'{badges} on {ledger_page.machines(entries)}.'


def wide(figure: Path) -> bool:
    """Whether a drawing fits a card: a tall one would be too small to see."""
    width, height = map(float, SIZE.search(figure.read_text()).groups())
    return width > 1.1 * height


def topics() -> str:
    """A card for each topic, in reading order, with the first wide figure of its first page."""
    cards = []
    for page in (p for p in source.toc() if p.endswith('/index')):
        folder, text = posixpath.dirname(page), (ROOT / f'{page}.md').read_text()
        title = text.partition('\n')[0].removeprefix('# ')
        figures = FIGURE.findall(text)
        figures = [f for f in figures if wide(ROOT / folder / f[0])] or figures
        image = ''.join(f':img-bottom: ../../{folder}/{figure}\n:img-alt: {alt}\n'
                        for figure, alt in figures[:1])
        cards.append(f':::{{grid-item-card}} {title}\n:link: /{page}\n:link-type: doc\n{image}:::\n')
    return '::::{grid} 1 2 2 2\n:gutter: 3\n\n' + '\n'.join(cards) + '::::'


def questions(nb: nbformat.NotebookNode, page: str) -> dict[str, str]:
    """The results that a page asks to guess, with the address of the question from the root."""
    return {data['id']: f'{page}.html#ask-{data["id"]}' for cell in nb.cells
            for out in cell.get('outputs', [])
            if (data := out.get('metadata', {}).get(predictions.METADATA_KEY))}


@dataclass
class Results:
    """What the text can quote, and what :func:`quote` needs to know of it; ``said`` as quoting goes on."""

    entries: dict[str, ledger_page.Entry]
    kept: dict[str, Claim]
    machines: list[Ledger]
    asked: dict[str, str]
    said: dict[str, str] = field(default_factory=dict)

    def put_into(self, text: str, page: str) -> str:
        """A page's text with these numbers."""
        return quote(text, page, self.entries, self.said, self.machines, self.asked, self.kept)


def prepare(shown: dict, old: set[Path], sphinx_source: Path) -> tuple[str, str]:
    """Write the source tree that Jupyter Book reads; returns the ledger's line and its JSON.

    Args:
        shown: the notebooks with the outputs to show.
        old: those of them that were not run here.
    """
    entries = [e for path, nb in shown.items()
               for e in ledger_page.collect(nb, ledger_page.page_name(path), path in old)]
    # A result that this run has not made is shown as it is stored.
    stored = [e for path in shown
              for e in ledger_page.collect(source.read(path), ledger_page.page_name(path), True)]
    summary = ledger_page.line(entries, sum(e.claim.seconds for e in entries if not e.stored))
    machines = ledger.all_ledgers()
    results = Results(
        {e.claim.id: e for e in [*stored, *entries]},
        ledger.completed({e.claim.id: e.claim for e in stored}, machines), machines,
        {id: where for path, nb in shown.items()
         for id, where in questions(nb, ledger_page.page_name(path)).items()})
    found = live.measured({ledger_page.page_name(p): nb for p, nb in shown.items()},
                              {ledger_page.page_name(p) for p in old})
    wanted, same, rows = {sphinx_source / MADE}, (sphinx_source / MADE).exists(), []

    # Notebooks first: a result's own page is where its sentence stands, if it stands there.
    for path, nb in shown.items():
        rows += quote_notebook(path, nb, entries, path in old, results)
    for path, to in sources(sphinx_source):
        wanted.add(to)
        if path.suffix in ('.png', '.woff2'):
            changed = not to.exists() or to.read_bytes() != path.read_bytes()
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
        else:
            content = published(path.read_text()) if path.name == '_config.yml' else path.read_text()
            if path.suffix == '.md':
                content = exercises.with_solutions(content)
                linked = content if path.stem == 'glossary' else terms.link(content, set())
                content = results.put_into(linked, ledger_page.page_name(path))
                content = filled_in(content, entries, summary, results, rows)
            if live.MARK.search(content):
                content = live.insert(content, figures.load(path.parent.name, 'live').LIVE, found)
            changed = put(to, content)
        same = same and not changed
    for path, nb in shown.items():
        point_back(nb, ledger_page.page_name(path), results.said, path in old, results.machines)
        nb.cells = [part for cell in nb.cells for part in asking(cell)]
        wanted.add(sphinx_source / path.relative_to(ROOT))
        same = not put(sphinx_source / path.relative_to(ROOT), nbformat.writes(nb)) and same
    for stale in sphinx_source.rglob('*'):
        if stale.is_file() and stale not in wanted and '_build' not in stale.parts[len(sphinx_source.parts):]:
            stale.unlink()
            same = False
    if not same:
        (sphinx_source / MADE).unlink(missing_ok=True)
    return summary, ledger_page.as_json(entries, summary)


def quote_notebook(path: Path, nb: nbformat.NotebookNode, entries: list[ledger_page.Entry], old: bool,
                   results: Results) -> list[str]:
    """Put notes, numbers and links into a notebook's text; returns its rows of the page of guesses."""
    name, seen = ledger_page.page_name(path), set()
    mine = [e for e in entries if e.page == name]
    not_run_note(path, nb, mine) if old else measured_note(path, nb, mine)
    rows = ask(nb, name, results.entries)
    for cell in nb.cells:
        if cell.cell_type == 'markdown':
            text = terms.link(markup.for_sphinx(cell.source, name, cell.id), seen)
            cell.source = results.put_into(text, name)
    return rows


def sources(to: Path) -> Iterator[tuple[Path, Path]]:
    """The files that Jupyter Book needs besides notebooks, and where in its tree they go."""
    theme = ROOT / 'tools' / 'theme'
    for path in (*(ROOT / n for n in ('_config.yml', '_toc.yml', 'chapters/reference/references.bib')),
                 *(p for p in source.pages() if p.suffix == '.md'),
                 *(p for p in (ROOT / 'chapters').rglob('*') if p.suffix in COPIED[1:])):
        yield path, to / path.relative_to(ROOT)
    for path in theme.iterdir():
        if path.suffix in SHOWN:
            yield path, to / path.relative_to(ROOT / 'tools')
    for path in (live_figures.SCRIPT, live_figures.STYLE):
        yield path, to / 'theme' / path.name


def filled_in(content: str, entries: list[ledger_page.Entry], summary: str, results: Results,
              rows: list[str]) -> str:
    """A Markdown page with what its comments ask for: the ledger, cards of the topics, tables."""
    for mark, made in (('<!-- ledger -->',
                        lambda: ledger_page.page(entries, summary, results.machines, results.asked)),
                       ('<!-- ledger: line -->', lambda: counted(entries)),
                       ('<!-- topics -->', topics),
                       ('<!-- refuted -->', lambda: ledger_page.refuted(results.machines, entries)),
                       ('<!-- history -->', ledger_page.history),
                       ('<!-- guesses -->', lambda: guesses(rows)),
                       ('<!-- exercises -->', exercises.index)):
        content = content.replace(mark, made()) if mark in content else content
    return content


def published(config: str) -> str:
    """The configuration, with buttons that lead to the repository if it names one."""
    settings = yaml.safe_load(config)
    if not settings.get('repository', {}).get('url'):
        return config
    buttons = ('use_repository_button', 'use_issues_button', 'use_edit_page_button')
    settings['html'] |= dict.fromkeys(buttons, True)
    settings['launch_buttons'] = {'binderhub_url': 'https://mybinder.org',
                                  'notebook_interface': 'jupyterlab'}
    return yaml.safe_dump(settings, sort_keys=False)


def mended(page: str) -> str:
    """A page without what is too much in it, with a mode of colours, and its side bar as a landmark."""
    page = SURPLUS.sub('', page).replace('getItem("mode") || ""', 'getItem("mode") || "auto"')
    head, field, rest = page.partition('id="search-input"')     # the page of results has a second one
    page = head + field + rest.replace('id="search-input"', 'id="search-again"')
    return page.replace('<div class="bd-sidebar-primary ',
                        '<div role="complementary" aria-label="The book" class="bd-sidebar-primary ')


def shared(page: str, address: str, title: str) -> str:
    """A page with what other sites show beside a link to it: its title and a picture."""
    heading = re.search(r'<title>(.*?)( &#8212; .*)?</title>', page)[1]
    said = {'og:type': 'website', 'og:site_name': escape(title), 'og:title': heading,
            'og:image': f'{address.rstrip("/")}/_static/social.png'}
    tags = ''.join(f'<meta property="{k}" content="{v}"/>\n' for k, v in said.items())
    card = '<meta name="twitter:card" content="summary_large_image"/>\n'
    return page.replace('</head>', f'{tags}{card}</head>', 1)


def searchable(index: str, found: list[dict]) -> str:
    """Sphinx's index for the search with an entry for each claim, which ``search.js`` looks up.

    Args:
        found: the claims, each with its page.
    """
    head, body, tail = re.fullmatch(r'(?s)(Search\.setIndex\()(.*)(\))', index.strip()).groups()
    data = json.loads(body)
    number = {name: k for k, name in enumerate(data['docnames'])}
    data['indexentries'] |= {f'{c["id"]}: {escape(c["sentence"], False)}':
                             [[number[c['page']], c['id'], True]] for c in found}
    return head + json.dumps(data, ensure_ascii=False, separators=(',', ':')) + tail


def jupyter_book(sphinx_source: Path, *args: str) -> None:
    """Run Jupyter Book on a source tree; a warning ends the program."""
    program = 'import tools; from jupyter_book.cli.main import main; main()'        # it has no __main__
    done = subprocess.run([sys.executable, '-c', program, 'build', str(sphinx_source), '-n', '-W',
                           '--keep-going', '-q', *args], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': str(ROOT), 'NO_COLOR': '1'})
    if done.returncode:
        sys.exit(done.stdout + done.stderr + '\nThe pages were not rebuilt: see the warnings above.')


def make(shown: dict, old: set[Path], sphinx_source: Path, html: Path) -> str:
    """Make the pages of these notebooks, if they would differ; returns the ledger's line.

    Warnings are errors. The old pages give way to the new ones when these are complete.
    """
    summary, json_text = prepare(copy.deepcopy(shown), old, sphinx_source)
    new, gone = html.with_name(html.name + '.new'), html.with_name(html.name + '.old')
    if gone.exists() and not html.exists():         # stopped in the moment of changing places
        gone.rename(html)
    if (sphinx_source / MADE).exists() and html.exists():
        return summary
    built = sphinx_source / '_build'
    # From the start: else Sphinx keeps pages that were half-written when it was stopped, and its search
    # knows terms and titles only of the pages that it makes anew.
    shutil.rmtree(built, ignore_errors=True)
    jupyter_book(sphinx_source)
    for folder in (new, gone):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(built / 'html', new)
        (new / 'ledger.json').write_text(json_text)
        for page in source.toc():        # where pages stood before they had folders
            moved = page.startswith(('chapters/start/', 'chapters/reference/'))
            if moved and (new / f'{page}.html').exists():
                (new / f'{posixpath.basename(page)}.html').write_text(MOVED.format(f'{page}.html'))
        index = new / 'searchindex.js'
        index.write_text(searchable(index.read_text(), json.loads(json_text)['claims']))
        config = yaml.safe_load((sphinx_source / '_config.yml').read_text())
        title, address = config['title'], config['html'].get('baseurl', '')
        if address:
            draw.social(new / '_static' / 'social.png', title)
        for path in new.rglob('*.html'):
            if path.parent == new and path.stem not in ('search', 'genindex'):
                continue                # it only leads to another page
            page = mended(path.read_text())
            path.write_text(shared(page, address, title) if address else page)
        if html.exists():
            html.rename(gone)
        new.rename(html)
    finally:
        if gone.exists() and not html.exists():
            gone.rename(html)
        for folder in (new, gone):
            shutil.rmtree(folder, ignore_errors=True)
    (sphinx_source / MADE).touch()
    return summary
