"""The pages: the notebooks' outputs, the verdicts beside the sentences, the ledger, and Jupyter Book."""

import ast
import copy
import itertools
import os
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

import nbformat
import yaml

from d2l_local import claims, machine, predictions, timing
from tools import drawing, exercises, ledger, ledgers, live, notebooks, prose, terms
from tools.ledgers import Ledger
from tools.notebooks import ROOT

BUILD = ROOT / '_build'
COPIED = ('.md', '.svg', '.png')
THEBE = re.compile(r'<script>const THEBE_JS_URL.*?</script>|<script[^>]*sphinx-thebe[^>]*></script>|'
                   r'<script type="text/x-thebe-config">.*?</script>|<link[^>]*sphinx-thebe[^>]*>',
                   re.DOTALL)
MADE = 'made'          # in a source tree: its pages stand as they are


def put(path: Path, text: str) -> bool:
    """Write a file if it would change, so that Sphinx re-reads only what did; tell if it did."""
    if path.exists() and path.read_text() == text:
        return False
    notebooks.put_whole(path, text)
    return True


def not_run_note(path: Path, nb: nbformat.NotebookNode, entries: list[ledger.Entry]) -> None:
    """Say below the title that a page shows stored outputs, from which machine, and why."""
    reason = notebooks.missing(notebooks.framework(path))
    what, kind = ('Not re-run here', 'warning') if reason else ('Not measured here yet', 'note')
    why = f'{reason}.' if reason else '`make book` replaces them by those of your machine.'
    where = f' of {ledger.machines(entries)}' if entries else ''
    first = nb.cells[0]
    head, _, rest = first.source.partition('\n')
    first.source = (f'{head}\n\n```{{admonition}} {what}\n:class: {kind}\nThe outputs on this page '
                    f'are stored ones{where}: {why}\n```\n{rest}')


def link_claims(text: str, page: str, entries: dict[str, ledger.Entry], said: dict[str, str],
                elsewhere: dict[str, str]) -> str:
    """Turn links to claims into links with the verdict beside them.

    Args:
        said: for each claim the page that names it first; those of this text are added.
        elsewhere: for claims on which machines disagree, how many they hold on.
    """
    def replace(m: re.Match) -> str:
        words, id = m[1], m[2]
        if id not in entries:
            return words
        e = entries[id]
        anchor = '' if id in said else f' id="said-{id}"'
        said.setdefault(id, page)
        c = e.claim
        decided = c['verdict'] in ('holds', 'fails')
        figure = c['figure'].split(',')[0].split(' (')[0] if decided else ''
        badge = f'{ledger.MARKS[c["verdict"]]} {figure or c["verdict"]}'
        return (f'<a class="d2l-said"{anchor} href="{e.link(page)}" title="{c["verdict"]}; bound: '
                f'{ledger.html.escape(c["bound"])}">{words}<span class="d2l-badge '
                f'{ledger.css(c["verdict"])}">{badge}</span></a>'
                + (f'<a class="d2l-badge d2l-differs" href="{"../" * page.count("/")}ledger.html">'
                   f'{elsewhere[id]}</a>' if id in elsewhere else ''))
    return prose.CLAIM_LINK.sub(replace, text)


def between_runs(claim: dict, here: Ledger | None) -> str:
    """The interval that covers the spread between runs, where some of such a machine are stored."""
    old = here and here.same(claim)
    if not old or claim['low'] is None or len(old['runs']) < 2:
        return ''
    low, high = ledgers.published(old, here.typical)
    show = timing.show_figure
    return f' · {len(old["runs"])} runs of such a machine: {show(low)}–{show(high)}'


def point_back(nb: nbformat.NotebookNode, page: str, said: dict[str, str], here: Ledger | None) -> None:
    """Lead from each claim to the sentence that makes it, and show the spread between runs."""
    for out in (out for cell in nb.cells for out in cell.get('outputs', [])):
        if data := out.get('metadata', {}).get(claims.METADATA_KEY):
            source = said.get(data['id'], page)
            file = '' if source == page else '../' * page.count('/') + source + '.html'
            out.data['text/html'] = claims.Claim(**data).html(
                between_runs(data, here)
                + f' · <a href="{file}#said-{data["id"]}">where the text says so</a>')


def folded(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A code cell in two: what it does, and the claims at its end, whose calls one click opens.

    The reader of a page sees a claim's sentence, figure and verdict; in the notebook it stays code.
    """
    return parted(cell, 'claim', claims.METADATA_KEY, {'tags': ['hide-input'], 'mystnb': {
        'code_prompt_show': 'How it was tested', 'code_prompt_hide': 'Hide the test'}})


def asking(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A code cell in two: what it does, and the questions at its end; a page hides their calls."""
    return parted(cell, 'predict', predictions.METADATA_KEY, {'tags': ['remove-input']})


def parted(cell: nbformat.NotebookNode, name: str, key: str,
           metadata: dict) -> list[nbformat.NotebookNode]:
    """A code cell, and a second one with these metadata for the calls of ``name`` at its end.

    Args:
        key: where the outputs of these calls have their data; they go with them.
    """
    if cell.cell_type != 'code' or cell.source.startswith('%%'):
        return [cell]
    statements = reversed(notebooks.tree(cell.source).body)
    tail = list(itertools.takewhile(
        lambda s: isinstance(s, ast.Expr) and prose.claimed(s.value, name), statements))
    if not tail:
        return [cell]
    ids, lines = {prose.claimed(s.value, name) for s in tail}, cell.source.split('\n')
    code, test = copy.deepcopy(cell), copy.deepcopy(cell)
    first = tail[-1].lineno - 1
    code.source, test.source = '\n'.join(lines[:first]).rstrip(), '\n'.join(lines[first:])
    test.outputs = [o for o in cell.outputs if o.get('metadata', {}).get(key, {}).get('id') in ids]
    code.outputs = [o for o in cell.outputs if o not in test.outputs]
    test.id += f'-{name}'
    test.metadata = nbformat.from_dict(metadata)
    return [code, test] if code.source or code.outputs else [test]


def ask(nb: nbformat.NotebookNode, page: str, entries: dict[str, ledger.Entry]) -> list[str]:
    """Give each question the figure that ``predict.js`` compares a guess with; returns rows of a table.

    Without that script, or where nothing was measured, the question stands before its result.
    """
    rows = []
    for out in (out for cell in nb.cells for out in cell.get('outputs', [])):
        if not (data := out.get('metadata', {}).get(predictions.METADATA_KEY)):
            continue
        id, question = data['id'], escape(data['question'])
        c = entries[id].claim if id in entries else {}
        more = '' if not c.get('value') else ''.join(f' data-{k}="{escape(str(v))}"' for k, v in {
            'value': c['value'], 'figure': c['figure'], 'unit': ' '.join(c['bound'].split()[2:]),
            'topic': page.split('/')[-2], 'up': '../' * page.count('/')}.items())
        out.data['text/html'] = (f'<div class="d2l-predict" id="ask-{id}" data-claim="{id}"{more}>'
                                 f'<p><b>Guess first.</b> {question}</p></div>')
        rows.append(f'<tr data-claim="{id}"><td><a href="{page}.html#ask-{id}">{question}</a></td></tr>')
    return rows


def guesses(rows: list[str]) -> str:
    """All questions of the book; ``predict.js`` puts what the reader guessed beside them."""
    return ('<div class="d2l-guesses d2l-ledger"><table class="table"><thead><tr>'
            '<th scope="col">question</th></tr></thead><tbody>\n' + '\n'.join(rows)
            + '\n</tbody></table></div>')


def disagreements(entries: dict[str, ledger.Entry], machines: list[Ledger]) -> dict[str, str]:
    """Claims on which this run and the stored ledgers do not agree, with how many they hold on."""
    found = {}
    for id, e in entries.items():
        verdicts = [e.claim['verdict'], *(old['verdict'] for m in machines if (old := m.same(e.claim)))]
        if {'holds', 'fails'} <= set(verdicts):
            found[id] = ledger.outcome(verdicts)
    return found


def prepare(shown: dict, old: set[Path], source: Path) -> tuple[str, str]:
    """Write the source tree that Jupyter Book reads; returns the ledger's line and its JSON.

    Args:
        shown: the notebooks with the outputs to show.
        old: those of them that were not run here.
    """
    entries = [e for path, nb in shown.items()
               for e in ledger.collect(nb, ledger.page_name(path), path in old)]
    by_id = {e.claim['id']: e for e in entries}
    summary = ledger.line(entries, sum(e.claim['seconds'] for e in entries if not e.stored))
    machines = ledgers.all_ledgers()
    elsewhere = disagreements(by_id, machines)
    here = next((m for m in machines if entries and m.kind == ledgers.kind(machine.machine())), None)
    said: dict[str, str] = {}
    asked: list[str] = []
    found = live.Measurements({ledger.page_name(p): nb for p, nb in shown.items()},
                              {ledger.page_name(p) for p in old})
    wanted, same = {source / MADE}, (source / MADE).exists()
    # Notebooks first: a claim's own page is where its sentence stands, if it stands there.
    for path, nb in shown.items():
        name = ledger.page_name(path)
        if path in old:
            not_run_note(path, nb, [e for e in entries if e.page == name])
        asked += ask(nb, name, by_id)
        seen: set[str] = set()
        for cell in nb.cells:
            if cell.cell_type == 'markdown':
                cell.source = link_claims(terms.link(cell.source, seen), name, by_id, said, elsewhere)
    files = [*(ROOT / name for name in ('_config.yml', '_toc.yml', 'references.bib')),
             *(p for p in prose.pages() if p.suffix == '.md'),
             *(p for p in (ROOT / 'chapters').rglob('*') if p.suffix in COPIED[1:]),
             *(ROOT / 'tools' / 'theme').glob('*')]
    for path in files:
        to = source / (path.relative_to(ROOT / 'tools') if path.parent.name == 'theme' else
                       path.relative_to(ROOT))
        wanted.add(to)
        if path.suffix == '.png':
            to.parent.mkdir(parents=True, exist_ok=True)
            same = same and to.exists() and to.read_bytes() == path.read_bytes()
            shutil.copy2(path, to)
            continue
        text = published(path.read_text()) if path.name == '_config.yml' else path.read_text()
        if path.suffix == '.md':
            linked = text if path.stem == 'glossary' else terms.link(text, set())
            text = link_claims(linked, ledger.page_name(path), by_id, said, elsewhere)
        for mark, made in (('<!-- ledger -->', lambda: ledger.page(entries, summary, machines)),
                           ('<!-- refuted -->', lambda: ledger.refuted(machines)),
                           ('<!-- history -->', ledger.history),
                           ('<!-- guesses -->', lambda: guesses(asked)),
                           ('<!-- exercises -->', exercises.index)):
            text = text.replace(mark, made()) if mark in text else text
        if live.MARK.search(text):
            text = live.insert(text, drawing.load(path.parent.name, 'live').LIVE, found)
        changed = put(to, text)
        same = same and not changed
        if changed and path.suffix in ('.yml', '.bib', '.css', '.js'):      # every page shows these
            shutil.rmtree(source / '_build', ignore_errors=True)
    for path, nb in shown.items():
        point_back(nb, ledger.page_name(path), said, here)
        nb.cells = [part for cell in nb.cells for half in asking(cell) for part in folded(half)]
        wanted.add(source / path.relative_to(ROOT))
        same = not put(source / path.relative_to(ROOT), nbformat.writes(nb)) and same
    for stale in source.rglob('*'):
        if stale.is_file() and stale not in wanted and '_build' not in stale.parts[len(source.parts):]:
            stale.unlink()
            same = False
    if not same:
        (source / MADE).unlink(missing_ok=True)
    return summary, ledger.as_json(entries, summary)


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
    """A page without faults of the theme: a live kernel that this book does not use, whose script is
    declared twice; and a side bar that is no landmark."""
    page = THEBE.sub('', page)
    return page.replace('<div class="bd-sidebar-primary ',
                        '<div role="complementary" aria-label="The book" class="bd-sidebar-primary ')


def jupyter_book(source: Path, *args: str) -> None:
    """Run Jupyter Book on a source tree; a warning ends the program."""
    program = 'import tools; from jupyter_book.cli.main import main; main()'        # it has no __main__
    done = subprocess.run([sys.executable, '-c', program, 'build', str(source), '-n', '-W',
                           '--keep-going', '-q', *args], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': str(ROOT), 'NO_COLOR': '1'})
    if done.returncode:
        sys.exit(done.stdout + done.stderr + '\nThe pages were not rebuilt: see the warnings above.')


def make(shown: dict, old: set[Path], source: Path, html: Path) -> str:
    """Make the pages of these notebooks, if they would differ; returns the ledger's line.

    Warnings are errors. The old pages give way to the new ones when these are complete.
    """
    summary, json_text = prepare(copy.deepcopy(shown), old, source)
    new, gone = html.with_name(html.name + '.new'), html.with_name(html.name + '.old')
    if gone.exists() and not html.exists():         # stopped in the moment of changing places
        gone.rename(html)
    if (source / MADE).exists() and html.exists():
        return summary
    built = source / '_build'
    whole = built / 'whole'             # else a page in it may be half-written, and Sphinx would keep it
    if not whole.exists():
        shutil.rmtree(built, ignore_errors=True)
    whole.unlink(missing_ok=True)
    jupyter_book(source)
    whole.touch()
    for folder in (new, gone):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(built / 'html', new)
        (new / 'ledger.json').write_text(json_text)
        for path in new.rglob('*.html'):
            path.write_text(mended(path.read_text()))
        if html.exists():
            html.rename(gone)
        new.rename(html)
    finally:
        if gone.exists() and not html.exists():
            gone.rename(html)
        for folder in (new, gone):
            shutil.rmtree(folder, ignore_errors=True)
    (source / MADE).touch()
    return summary
