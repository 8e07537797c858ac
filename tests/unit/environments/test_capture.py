import random

import pytest

from proctor.environments.capture import BoundedCapture


def captured(data: bytes, limit: int, chunk: int):
    capture = BoundedCapture(limit)
    for start in range(0, len(data), chunk):
        capture.feed(data[start : start + chunk])
    return capture.result()


def test_everything_is_kept_up_to_the_limit():
    for size in (0, 1, 9, 10):
        data = bytes(97 + n for n in range(size))
        for chunk in (1, 3, 10):
            kept = captured(data, 10, chunk)
            assert (kept.text, kept.dropped_bytes, kept.raw) == (data.decode(), 0, None)


def test_head_and_tail_with_the_number_of_dropped_bytes():
    data = b"a" * 50 + b"b" * 1_000 + b"c" * 50
    for chunk in (1, 7, 64, 5_000):
        kept = captured(data, 100, chunk)
        assert kept.text == "a" * 50 + "\n[… 1000 bytes dropped …]\n" + "c" * 50
        assert kept.dropped_bytes == 1_000


def test_limits_of_nothing_and_of_one_byte():
    assert captured(b"abc", 0, 1).text == "\n[… 3 bytes dropped …]\n"
    assert captured(b"abc", 1, 3).text == "a\n[… 2 bytes dropped …]\n"
    with pytest.raises(ValueError, match="negative"):
        BoundedCapture(-1)


def test_bytes_that_are_no_text_are_replaced_and_kept_raw():
    kept = captured(b"fo\x80\xffo", 100, 2)
    assert kept.text == "fo\ufffd\ufffdo"
    assert kept.raw == b"fo\x80\xffo"


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_the_cut_never_breaks_a_character(character):
    size = len(character.encode())
    for offset in range(size):
        data = b"x" * offset + character.encode() * 500
        kept = captured(data, 101, 64)
        assert "\ufffd" not in kept.text
        assert kept.raw is None
        head, _, tail = kept.text.partition("\n[… ")
        assert set(head) <= {"x", character}
        assert set(tail.partition("…]\n")[2]) == {character}
        kept_bytes = len(head.encode()) + len(tail.partition("…]\n")[2].encode())
        assert kept.dropped_bytes == len(data) - kept_bytes
        assert kept_bytes > 101 - 2 * size


def test_any_split_gives_the_same_result():
    rng = random.Random(7)
    for _ in range(300):
        data = rng.randbytes(rng.randrange(0, 400))
        limit = rng.randrange(0, 200)
        whole = captured(data, limit, 1_000)
        assert captured(data, limit, rng.randrange(1, 50)) == whole


def test_memory_is_bounded_by_the_limit():
    capture = BoundedCapture(1_000)
    for _ in range(2_000):
        capture.feed(b"z" * 4_096)
        assert len(capture._head) + len(capture._tail) <= 500 + 2 * 500
    assert capture.result().dropped_bytes == 2_000 * 4_096 - 1_000
