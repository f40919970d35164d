"""The best pairs of rows and columns, each used once: the assignment problem, in numpy."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def best_assignment(gains: Floats) -> list[int | None]:
    """For each row its column, or None, so that the sum of the gains is the largest.

    A row may go without a column at no gain, so no pair of a negative gain is made. By shortest
    augmenting paths with potentials (Hungarian method), O(rows^2 columns).
    """
    n_rows, n_columns = gains.shape
    # A column of its own for each row, at no cost, stands for nobody.
    costs = np.concatenate([-gains, np.where(np.eye(n_rows), 0.0, np.inf)], axis=1)
    rows_of = np.full(costs.shape[1], -1)
    at_row, at_column = np.zeros(n_rows), np.zeros(costs.shape[1])
    for row in range(n_rows):
        least = np.full(costs.shape[1], np.inf)
        before = np.full(costs.shape[1], -1)
        done = np.zeros(costs.shape[1], bool)
        here, column, distance = row, -1, 0.0
        while True:
            reach = distance + costs[here] - at_row[here] - at_column
            nearer = ~done & (reach < least)
            least[nearer], before[nearer] = reach[nearer], column
            column = int(np.argmin(np.where(done, np.inf, least)))
            distance, done[column] = least[column], True
            if rows_of[column] < 0:
                break
            here = int(rows_of[column])
        inside = done & (least < distance)
        at_row[row] += distance
        at_row[rows_of[inside]] += distance - least[inside]
        at_column[inside] -= distance - least[inside]
        while column >= 0:  # turn the path round
            previous = int(before[column])
            rows_of[column] = row if previous < 0 else rows_of[previous]
            column = previous
    found: list[int | None] = [None] * n_rows
    for place, owner in enumerate(rows_of[:n_columns].tolist()):
        if owner >= 0 and gains[owner, place] > 0:
            found[owner] = place
    return found
