"""Long sequences inside a snapshot."""

import json

import pytest

from proctor.agent.core.sequence import Later, Sequence32
from proctor.agent.driving.packing import packed, unpacked


def through_json(items, encode):
    return json.loads(json.dumps(packed(items, encode)))


@pytest.mark.parametrize("length", [0, 1, 32, 33, 64, 65, 1024, 1057, 40_000])
def test_it_comes_back(length):
    items = Sequence32.of([{"n": n, "text": f'"\\\N{SNOWMAN} {n}'} for n in range(length)])
    found = unpacked(through_json(items, dict), dict)
    assert len(found) == length
    assert found == items
    assert items == found
    assert [found[n]["n"] for n in range(length)] == list(range(length))
    assert found.span(30, 70) == items.span(30, 70)


def test_only_what_is_asked_for_is_made():
    made = []

    def decode(value):
        made.append(value)
        return value

    found = unpacked(through_json(Sequence32.of(range(1000)), int), decode)
    assert made == list(range(992, 1000))  # what is behind the whole blocks
    assert found[40] == 40
    assert found[41] == 41
    assert made[8:] == list(range(32, 64))
    changed = found.replace(41, -1).append(1000)
    assert changed[41] == -1
    assert found[41] == 41
    assert len(made) == 40
    assert list(changed) == [*range(41), -1, *range(42, 1001)]


def test_blocks_that_nobody_asked_for_are_packed_as_they_were():
    encoded = []

    def encode(value):
        encoded.append(value)
        return value

    found = unpacked(through_json(Sequence32.of(range(1000)), int), int).replace(41, -1)
    again = packed(found, encode)
    assert encoded == [*range(32, 41), -1, *range(42, 64), *range(992, 1000)]
    assert list(unpacked(again, int)) == list(found)


@pytest.mark.parametrize("place", [0, 7, 30])
def test_a_damaged_block_is_found_without_looking_into_it(place):
    body = through_json(Sequence32.of(range(1000)), int)
    block = body["blocks"][place]
    body["blocks"][place] = block[:5] + ("A" if block[5] != "A" else "B") + block[6:]
    with pytest.raises(ValueError, match="damaged"):
        unpacked(body, int)


@pytest.mark.parametrize("tail", [[], list(range(33))])
def test_a_sequence_of_no_such_shape_is_refused(tail):
    body = through_json(Sequence32.of(range(1000)), int)
    with pytest.raises(ValueError, match="blocks"):
        unpacked({**body, "tail": tail}, int)


def test_a_block_equals_one_of_the_same_items():
    block = Later("3", lambda text: tuple(range(int(text))))
    assert block == (0, 1, 2)
    assert block == Later("012", lambda text: tuple(map(int, text)))
    assert block != (0, 1)
    assert hash(block) == hash((0, 1, 2))
