"""The card of a result: what a link in the text shows on hover, focus and tap, as HTML."""

from html import escape

from tested_results import ledgers, machine, numbers
from tested_results.claims import MARKS, MEASURED, Claim
from tested_results.ledgers import Ledger
from tools import ledger_page

BUSY = 0.1              # of the cores: if others took more, it is said
# What to do where a condition did not hold, by its name.
REMEDIES = {
    'two free cores': 'Close other programs and run the cell again; a virtual machine may do better at '
                      'another hour.',
    'free cores': 'Close other programs and run the cell again.',
    'quiet': 'Run the cell again when nothing else runs, or the book several times: make repeat N=3.',
    'a C++ compiler': 'Install g++ or clang++, with the headers of Python.',
    'links': 'It needs Linux, and leave to make network namespaces.',
    'a GPU': 'It needs a GPU that the framework supports.',
    'two GPUs': 'It needs two GPUs.',
}


def hints(c: Claim, others: list[Claim]) -> list[str]:
    """Why a result may fail or be undecided on its machine, and the next experiment.

    Args:
        others: the same result on other kinds of machines.
    """
    if c.verdict in ('holds', MEASURED):
        return []
    said, here = [], c.where
    holding = [o for o in others if o.verdict == 'holds']
    if c.lacked:
        said.append(REMEDIES.get(c.lacked, f'It needs {c.lacked}.'))
    if c.others > BUSY * here['cores']:
        said.append(f'Other processes took {c.others:.1f} of {here["cores"]} cores meanwhile: close them.')
    if c.set_aside:
        said.append(f'{c.set_aside} of {c.set_aside + c.windows} windows were disturbed and do not count.')
    if c.verdict == 'fails':
        if holding and all(o.where['cores'] > here['cores'] for o in holding):
            said.append(f'It holds where there are more cores than {here["cores"]}.')
        if here.get('vectors') == 'none':
            said.append('This processor names no vector instructions.')
        elif holding and here.get('vectors') and here['vectors'] != 'AVX-512':
            said.append(f'This processor has {here["vectors"]}; wider vectors may change the outcome.')
        if here.get('virtual'):
            said.append('This is a virtual machine: its processors may be halves of one core, and the host '
                        'may take them away.')
        other = sorted({o.where['processor'] for o in holding} - {here['processor']})
        if other:
            said.append(f'It holds on {" and ".join(other)}.')
        said.append('Next: run the cell again in a fresh kernel. If it fails again, vary the size in the '
                    'cell and see where the outcome turns over.')
    elif c.verdict == 'undecided':
        said.append('Next: vary the size in the cell; close to the bound, no measurement decides.')
    return said


def outcome(c: Claim, others: list[Claim]) -> str:
    """On how many kinds of machines it holds, this one included: ``holds on 3 of 3 kinds of machines``."""
    if not c.bounded or not any(o.decided for o in (c, *others)):
        return ''
    return f'{ledger_page.outcome([o.verdict for o in (c, *others)])} kinds of machines'


def elsewhere(c: Claim, machines: list[Ledger]) -> list[Claim]:
    """The same result on other kinds of machines."""
    here = ledgers.kind(c.where)
    return [led.records[c.id].result for led in machines if led.kind != here and c.id in led.records]


def between(c: Claim, machines: list[Ledger]) -> str:
    """The interval between runs on such a machine with this one's releases, where several are stored."""
    here, ours = ledgers.kind(c.where), machine.machine()
    led = next((m for m in machines if m.kind == here and ledgers.same_releases(m.machine, ours)), None)
    record = led.records.get(c.id) if led else None
    if record is None or len(record.runs) < 2:
        return ''
    ends = ledgers.interval_between_runs(record, led.typical)
    if ends is None:
        return ''
    low = numbers.counted(ends[0], c.unit)
    high = numbers.counted(ends[1], c.unit)
    return f'{len(record.runs)} runs of such a machine: {low}–{high}'


def lines(c: Claim, stored: bool, machines: list[Ledger], number: str = '') -> list[str]:
    """What a card says, as plain lines.

    Args:
        number: the machine whose number stands in the text, where this one has none.
    """
    others = elsewhere(c, machines)
    tried = c.value is not None or c.decided
    said = [title(c)]
    if c.bounded:
        said.append(f'{MARKS[c.verdict]} {c.tested}')
    else:
        said.append('not tested against a bound')
    if c.times:
        said.append(f'times: {c.times}')
    said += [between(c, machines), c.evidence]
    if c.needs:
        said.append(f'conditions: {", ".join(c.needs)}')
    said.append(outcome(c, others))
    if stored:
        where = 'a stored run on'
    elif tried:
        where = 'measured here, on'
    else:
        where = 'not tested here, on'
    said.append(f'{where} {c.machine}')
    if number:
        said.append(f'the number in the text is that of a stored run on {number}')
    if not tried:
        said += [f'{o.machine}: {o.reading}' for o in others if o.value is not None]
    said += hints(c, others)
    return [line for line in said if line]


def title(c: Claim) -> str:
    """What came out, behind the names of a comparison's variants; never an internal name."""
    if c.names:
        return c.readout
    if c.kind == 'fact' and c.decided:
        return 'it is so' if c.verdict == 'holds' else 'it is not so'
    return c.reading or f'{c.verdict}: {c.reason}'


def mark(c: Claim) -> str:
    """The mark of a tested result as HTML; empty for a plain measurement."""
    return (f'<span class="d2l-mark" role="img" aria-label="{c.verdict}">{MARKS[c.verdict]}</span>'
            if c.verdict in MARKS else '')


def card(said: list[str], cell: str, book: str) -> str:
    """The card as HTML.

    Args:
        said: its lines, see :func:`lines`.
        cell, book: addresses of the cell that measured it, and of the ledger.
    """
    first, *rest = said
    body = ''.join(f'<span>{escape(s)}</span>' for s in rest)
    return (f'<b>{escape(first)}</b>{body}<span><a href="{cell}">To the cell</a> · '
            f'<a href="{book}">all results</a></span>')


def link(words: str, c: Claim, href: str, stored: bool, machines: list[Ledger], book: str,
         anchor: str = '', asked: str = '', number: str = '') -> str:
    """A quotation of a result in the text: its words, the mark, and the card for ``card.js``.

    Args:
        words: HTML, with the number of the run that is shown.
        anchor: an id for the link, where it is the first to quote the result.
        asked: the address of the question, where the book asks for a guess at this result.
        number: see :func:`lines`.
    """
    said = lines(c, stored, machines, number)
    extra = (f' id="{anchor}"' if anchor else '') + (f' data-asked="{escape(asked)}"' if asked else '')
    return (f'<a class="d2l-said d2l-{c.verdict.split()[0]}"{extra} data-id="{c.id}" href="{href}" '
            f'title="{escape("; ".join(said))}" '
            f'data-card="{escape(card(said, href, book))}">{words}{mark(c)}</a>')


def box(c: Claim, stored: bool, machines: list[Ledger], source: str, words: str = '') -> str:
    """The result at its cell: one line that opens to what a card says.

    Args:
        source: the address of the sentence that quotes it.
        words: that sentence, for a result whose variants have no names.
    """
    said = escape(title(c))
    if words and not c.names:
        said = f'{ledger_page.as_html(words)} <span class="d2l-figure">{said}</span>'
    body = ''.join(f'<li>{escape(s)}</li>' for s in lines(c, stored, machines)[1:])
    return (f'<details class="d2l-claim d2l-{c.verdict.split()[0]}" id="{c.id}"><summary>{mark(c)} '
            f'{said}</summary><ul>{body}'
            f'<li><a href="{source}">where the text says so</a> · <code>{c.id}</code></li></ul></details>')

