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


ASKS = '<a id="a-ex-b"></a>\n### How long?\n\nIt takes $n$.\n'
ASKED = '```{exercise} How long?\n:label: a-ex-b\nIt takes $n$.\n```\n'
ANSWER = '<details><summary>Answer</summary>\n\nTwo.\n\n</details>\n'
ANSWERED = '```{solution} a-ex-b\n:class: dropdown\nTwo.\n```\n'


@pytest.mark.parametrize(('text', 'wanted'), [
    (f'{ASKS}\n{ANSWER}\nText.\n', f'{ASKED}{ANSWERED}\nText.\n'),
    (f'# A\n\n{ASKS}\n{ASKS}\n## B\n', f'# A\n\n{ASKED}{ASKED}## B\n'),
    (ASKS, ASKED),
    (f'{ASKS}\n~~~python\n# no heading\n~~~\n', f'{ASKED[:-4]}\n~~~python\n# no heading\n~~~\n```\n'),
    ('<details><summary>Why *so*</summary>\n\nText.\n\n</details>\n',
     '```{admonition} Why *so*\n:class: dropdown\nText.\n```\n')])
def test_exercises_and_what_is_folded_away(text, wanted):
    assert markup.for_sphinx(text, 'chapters/a/exercises') == wanted


@pytest.mark.parametrize(('text', 'error'), [
    (f'{ASKS}\n```python\n1\n```\n', 'stands between ~~~ and ~~~: ```python'),
    (f'# A\n\n{ANSWER}', 'an answer stands before the first exercise'),
    (f'{ASKS}\n{ANSWER[:-12]}', 'or does not end: <details><summary>Answer'),
    (f'{ASKS}\n{ANSWER[:-12]}\n{ANSWER}', 'or does not end: <details><summary>Answer')])
def test_an_exercise_or_an_answer_that_cannot_be_read(text, error):
    with pytest.raises(ValueError, match='^chapters/a/exercises.md: ') as e:
        markup.for_sphinx(text, 'chapters/a/exercises')
    assert error in str(e.value)


def test_figures_anchors_and_terms():
    page = 'chapters/hardware/index'
    drawn = '<a id="fig-x"></a>\n![Two *boxes*](figures/x.svg)\n\n**Figure.** A core,\nand `x`.\n\nText.'
    assert markup.for_sphinx(drawn, page) == (
        '```{figure} figures/x.svg\n:alt: Two *boxes*\n:name: fig-x\nA core,\nand `x`.\n```\n\nText.')
    assert markup.for_sphinx('![Two boxes](figures/x.svg)', page) == '![Two boxes](figures/x.svg)'
    assert markup.for_sphinx('Text.\n\n<a id="some"></a>\n## Some', page) == 'Text.\n\n(some)=\n## Some'
    assert markup.for_sphinx('<!-- glossary -->\n**a.**\nOne\n[b](x.md).\n\n**b c.**\nTwo.\n\n'
                             '<!-- end of glossary -->', page) == (
        '```{glossary}\na\n  One\n  [b](x.md).\n\nb c\n  Two.\n```')
    words = 'As [the figure](data_sheets.md#fig-hw-core) and [registers](data_sheets.md#hw-caches) say.'
    assert markup.for_sphinx(words, page) == (
        'As {numref}`fig-hw-core` and [registers](project:#hw-caches) say.')
    with pytest.raises(ValueError, match="index.md: there is no anchor 'x' in .*/data_sheets.md"):
        markup.for_sphinx('[x](data_sheets.md#x)', page)


@pytest.mark.parametrize('text', [
    'The [exercise](exercises.md).', '[6.0×](#hyb-pt-chain)', '[words](#claim-hyb-pt-chain)',
    '> **Note.** A quote.', '[code](https://a.b/exercises#x)', '```{solution} hyb-ex-lenet\nOld.\n```',
    '[all sources](../reference/bibliography.md)', 'x[0](1)', '[a page](https://a.b/c/index.md#exercises)'])
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
