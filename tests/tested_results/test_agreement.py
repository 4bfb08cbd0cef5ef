"""Whether two results hold the same numbers, and how much work they show."""

import numpy as np
import pytest

from tested_results import agreement


@pytest.mark.parametrize('same', [
    (None, None), (float('nan'), float('nan')), (1.0, 1.000001), ([1, (2, 3)], [1, (2, 3)])])
def test_variants_that_agree(same):
    agreement.check_agreement(*same)


@pytest.mark.parametrize('name', ['mxnet', 'torch'])
def test_arrays_of_both_frameworks_are_compared(name):
    pytest.importorskip(name)
    if name == 'mxnet':
        from mxnet import np as mnp
        one, two = mnp.array([1.0, 2.0]), mnp.array([1.0, 2.5])
    else:
        import torch
        one, two = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.5]).bfloat16()
    agreement.check_agreement([one, one], [one, np.array([1.0, 2.0])])
    assert agreement.amount([one, (two, two)]) == 6 and agreement.amount(one) == 2
    with pytest.raises(agreement.VariantError, match='differ by up to 0.5'):
        agreement.check_agreement([one], [two])


@pytest.mark.parametrize(('a', 'b', 'says'), [
    (np.array([True, False]), np.array([True, True]), 'differ by up to 1'),
    (np.array([1 + 1j]), np.array([1 + 2j]), 'differ by up to 1'),
    (np.uint8([3]), np.uint8([5]), 'differ by up to 2'),
    ('one', 'two', 'different things, of types str and str'), ({'a': 1}, ['a'], 'types dict and list'),
    ((x for x in 'ab'), None, 'a generator, whose work has not been done'),
    (map(int, '12'), map(int, '12'), 'a map, whose work has not been done')])
def test_results_of_other_kinds(a, b, says):
    with pytest.raises(agreement.VariantError, match=says):
        agreement.check_agreement(a, b)


@pytest.mark.parametrize('same', ['one', b'one', {'a': 1}, {1, 2}])
def test_texts_and_dictionaries_can_agree(same):
    agreement.check_agreement(same, type(same)(same))


def test_arrays_in_dictionaries_are_compared():
    one, same, other = ({'y': np.arange(3.0), 'n': n} for n in (1, 1, 2))
    agreement.check_agreement(one, dict(reversed(same.items())))
    for wrong, says in ((other, 'different numbers'), ({'y': np.arange(3.0)}, 'different keys'),
                        ({**one, 'y': np.arange(4.0)}, 'different shapes')):
        with pytest.raises(agreement.VariantError, match=says):
            agreement.check_agreement(one, wrong)


def test_text_beside_arrays_cannot_be_compared():
    with pytest.raises(agreement.VariantError, match='cannot be compared.*work='):
        agreement.check_agreement(('name', np.arange(3)), ('name', np.arange(3)))


def test_long_lists_that_differ_make_a_short_error():
    numbers = list(range(10_000))
    with pytest.raises(agreement.VariantError) as error:
        agreement.check_agreement([numbers, 'a'], [[str(n) for n in numbers], 'a'])
    assert len(str(error.value)) < 1000
    with pytest.raises(agreement.VariantError) as error:
        agreement.check_agreement([(n, n) for n in numbers], numbers)
    assert len(str(error.value)) < 1000


def test_complex_tensors_differ_in_their_imaginary_part():
    torch = pytest.importorskip('torch')
    with pytest.raises(agreement.VariantError, match='differ by up to 1'):
        agreement.check_agreement(torch.tensor([1 + 1j]), torch.tensor([1 + 2j]))
