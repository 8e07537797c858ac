import sys

sys.path.insert(0, "/task/src")
from rotation import rotate

items = [1, 2, 3, 4, 5]
assert rotate(items, 2) == [4, 5, 1, 2, 3]
assert rotate(items, -1) == [2, 3, 4, 5, 1]
assert rotate(items, 7) == [4, 5, 1, 2, 3]
assert rotate(items, 0) == items
assert rotate(items, 5) == items
assert rotate([], 3) == []
assert rotate(items, 0) is not items
