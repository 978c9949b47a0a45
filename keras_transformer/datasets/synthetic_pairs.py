"""Made-up sentence pairs of any number and length, with one right translation."""

import random

from keras_transformer.ops.checks import check_integer

DIRECTIONS = ("to_digits", "to_words")
MAX_DIGITS = 16

_NUMERALS = ("", "일", "이", "삼", "사", "오", "육", "칠", "팔", "구")
_SMALL_UNITS = ("", "십", "백", "천")
_LARGE_UNITS = ("", "만", "억", "조")
# Korean noun, its counter with the particle of the object; English noun.
_THINGS = (
    ("사과", "개를", "apple"),
    ("고양이", "마리를", "cat"),
    ("꽃", "송이를", "flower"),
    ("나무", "그루를", "tree"),
    ("자동차", "대를", "car"),
    ("책", "권을", "book"),
    ("표", "장을", "ticket"),
    ("편지", "통을", "letter"),
)
# Korean verb before another clause and at the end; English verb.
_VERBS = (
    ("보고", "보았다", "saw"),
    ("사고", "샀다", "bought"),
    ("세고", "세었다", "counted"),
    ("잃고", "잃었다", "lost"),
    ("찾고", "찾았다", "found"),
    ("팔고", "팔았다", "sold"),
)


def synthetic_pairs(
    seed: int,
    count: int,
    *,
    clauses: int | tuple[int, int] = (1, 4),
    digits: int = 4,
    direction: str = "to_digits",
) -> list[tuple[str, str]]:
    """Make sentence pairs whose translation follows from rules.

    A Korean list of clauses, numbers in words and verbs last, and the same in
    English, numbers in digits and verbs first:

    `"사과 삼백이십 개를 사고, 책 십이 권을 팔았다"`,
    `"bought 320 apples, sold 12 books"`

    The numbers must be read and written digit by digit, and the order changes, so
    that a model has to look at the right place of a source of any length. Short
    sentences come more than once; `split` keeps equal ones together.

    Args:
        seed: Equal seeds give equal pairs; a smaller `count` gives the first ones
            of a larger.
        count: Number of pairs.
        clauses: Number of clauses in a sentence, or the smallest and the largest,
            which are drawn with all between equally often.
        digits: The most digits of a number, 1 to 16; each number of digits is
            drawn equally often.
        direction: `"to_digits"` (Korean to English) or `"to_words"`.

    Returns:
        A list of (source, target).

    Raises:
        ValueError: A number out of range, an unknown direction.

    Example:

    >>> pairs = synthetic_pairs(seed=0, count=1000, clauses=(1, 4))
    >>> longer = synthetic_pairs(seed=1, count=100, clauses=8)
    """
    low, high = clauses if isinstance(clauses, (tuple, list)) else (clauses, clauses)
    check_integer("seed", seed, 0)
    check_integer("count", count, 0)
    check_integer("the smallest of `clauses`", low, 1)
    check_integer("the largest of `clauses`", high, low)
    check_integer("digits", digits, 1, MAX_DIGITS)
    if direction not in DIRECTIONS:
        raise ValueError(
            f"`direction` must be one of {', '.join(map(repr, DIRECTIONS))}. "
            f"Received: direction={direction!r}."
        )
    rng = random.Random(seed)
    pairs = [_pair(rng, rng.randint(low, high), digits) for _ in range(count)]
    if direction == "to_words":
        pairs = [(english, korean) for korean, english in pairs]
    return pairs


def number_words(number: int) -> str:
    """Return a number of at most 16 digits in Korean words.

    Args:
        number: 0 up to 10**16 - 1.

    Raises:
        ValueError: The number is out of range.

    Example:

    >>> words = number_words(20317)  # 이만 삼백십칠
    """
    check_integer("number", number, 0, 10**MAX_DIGITS - 1)
    if number == 0:
        return "영"
    groups = []
    for unit in _LARGE_UNITS:
        number, group = divmod(number, 10_000)
        if group:
            # Ten thousand is 만; a hundred million is 일억.
            words = "" if group == 1 and unit == "만" else _group_words(group)
            groups.append(words + unit)
    return " ".join(reversed(groups))


def _group_words(group):
    """Return a number below 10,000 in words; a unit says its one itself."""
    words = ""
    for power in (3, 2, 1, 0):
        numeral = group // 10**power % 10
        if numeral:
            alone = numeral == 1 and power > 0
            words += ("" if alone else _NUMERALS[numeral]) + _SMALL_UNITS[power]
    return words


def _pair(rng, clauses, digits):
    korean, english = [], []
    for index in range(clauses):
        noun, counter, english_noun = rng.choice(_THINGS)
        linked, final, english_verb = rng.choice(_VERBS)
        size = rng.randint(1, digits)
        number = rng.randint(10 ** (size - 1), 10**size - 1)
        verb = final if index == clauses - 1 else linked
        korean.append(f"{noun} {number_words(number)} {counter} {verb}")
        plural = "" if number == 1 else "s"
        english.append(f"{english_verb} {number} {english_noun}{plural}")
    return ", ".join(korean), ", ".join(english)
