"""The plain Markdown of the notebooks becomes what Sphinx needs, and nothing is lost on the way."""

import posixpath
import re

import pytest

from tools import markup, source
from tools.source import ROOT

PAGE = 'chapters/hybridization/some_notebook'
BOX = '> <a id="some-sol"></a>**Solution to [A model you know](exercises.md#hyb-ex-lenet)**'


def made(text):
    return markup.for_sphinx(text, PAGE, 'cell-07')


def test_a_solution_is_a_directive_and_ends_with_its_block_quote():
    assert made(f'## 4\n\n{BOX}\n>\n> It is $k$.\n>\n> - one\n>   line\n\nAfter it.') == (
        '## 4\n\n```{solution} hyb-ex-lenet\n:label: some-sol\nIt is $k$.\n\n- one\n  line\n```\n\nAfter it.')
    assert made(f'{BOX}\n>\n> ````python\n> 1\n> ````') == (
        '`````{solution} hyb-ex-lenet\n:label: some-sol\n````python\n1\n````\n`````')
    two = made(f'{BOX}\n>\n> One.\n\n{BOX}\n>\n> Two.\n')
    assert two.count('{solution}') == 2 and '>' not in two


def test_links_to_exercises_and_sources():
    assert made('See [*this*](exercises.md#hyb-ex-lenet) and [that](../memory/exercises.md#mem-ex-w-root).'
                ) == 'See [*this*](project:#hyb-ex-lenet) and [that](project:#mem-ex-w-root).'
    assert made(r'As in [\[Touvron et al. 2023\]](../reference/bibliography.md#touvron2023llama), or '
                '([Dao\net al. 2022](../reference/bibliography.md#dao2022flashattention)).') == (
        'As in {cite}`touvron2023llama`, or ({cite}`dao2022flashattention`).')


@pytest.mark.parametrize('text', [
    'The [exercise](exercises.md).', '[6.0×](#hyb-pt-chain)', '[words](#claim-hyb-pt-chain)',
    '> **Note.** A quote.', '[code](https://a.b/exercises#x)', '```{solution} hyb-ex-lenet\nOld.\n```',
    '[all sources](../reference/bibliography.md)', 'x[0](1)', '[a page](index.md#exercises)'])
def test_all_else_stays_as_it_is(text):
    assert made(text) == text


@pytest.mark.parametrize(('text', 'error'), [
    (BOX.replace('lenet', 'alexnet'), "no exercise 'hyb-ex-alexnet' in chapters/hybridization/exercises.md"),
    ('[x](exercises.md#mem-ex-w-root)', "no exercise 'mem-ex-w-root' in chapters/hybridization/exercises.md"),
    ('[x](../nowhere/exercises.md#a)', "no exercise 'a' in chapters/nowhere/exercises.md"),
    ('[x](../reference/bibliography.md#nobody1900)',
     "no source 'nobody1900' in chapters/reference/bibliography.md"),
    ('[x](bibliography.md#dao2022flashattention)', "in chapters/hybridization/bibliography.md"),
    (BOX.replace('A model', 'The model'), "is called 'A model you know', not 'The model you know'"),
    (f'{BOX}\n>\n> Text.\nThat goes on.', 'no blank line ends it'),
    (BOX.replace('<a id="some-sol"></a>', ''), 'begins no solution')])
def test_what_leads_nowhere_is_an_error_that_says_where(text, error):
    with pytest.raises(ValueError, match=re.escape(error)) as e:
        made(text)
    assert str(e.value).startswith(f'{PAGE}.ipynb, cell-07: ')


def back(text, page):
    """Markdown again from what was made for Sphinx, but for the words of citations."""
    files = {label: (path, title) for path in (ROOT / 'chapters').glob('*/exercises.md')
             for label, title in markup.names(path.relative_to(ROOT).as_posix()).items()}

    def link(label, words=None):
        path, title = files[label]
        to = posixpath.relpath(path.relative_to(ROOT).as_posix(), posixpath.dirname(page))
        return f'[{words or title}]({to}#{label})'

    def quote(m):
        lines = [f'<a id="{m[3]}"></a>**Solution to {link(m[2])}**', '', *m[4].split('\n')]
        return '\n'.join(f'> {line}'.rstrip() for line in lines)
    text = re.sub(r'(?ms)^(`{3,})\{solution\} (\S+)\n:label: (\S+)\n(.*?)\n\1$', quote, text)
    return re.sub(r'\[([^\]]*)\]\(project:#([\w-]+)\)', lambda m: link(m[2], m[1]), text)


def test_nothing_is_lost_on_the_way():
    """For all cells of the book: what Sphinx gets leads back to what the notebook says."""
    solutions = sources = 0
    for path in source.notebooks():
        page = path.relative_to(ROOT).with_suffix('').as_posix()
        for cell in (c for c in source.read(path).cells if c.cell_type == 'markdown'):
            text = markup.for_sphinx(cell.source, page, cell.id)
            said = re.sub(r'\[(?:\\.|[^\[\]\\])*\]\((?:\.\./)+reference/bibliography\.md#([^)]+)\)',
                          r'{cite}`\1`',
                          cell.source)
            assert back(text, page) == said, (path.name, cell.id)
            solutions += text.count('{solution}')
            sources += text.count('{cite}')
    assert solutions >= 100 and sources >= 60
