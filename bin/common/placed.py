"""Trials between places for score-trials: who was where, what was heard there, and the LLRs."""

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.likeness import judged_vectors, settle
from dcaplda.bin.common.option_groups import PlaceTables
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.place_bundles import read_bundles
from dcaplda.bin.common.trial_sides import Sides
from dcaplda.bin.common.utterances import Utterances
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import BundleError, InputError
from dcaplda.runtime.fields import Table
from dcaplda.runtime.places import PlacedSides, Places
from dcaplda.runtime.several import offsets_to_groups
from dcaplda.runtime.surveys.mistakes import Finding, look_at_place
from dcaplda.runtime.tables.text_tables import read_words
from dcaplda.runtime.tables.vectors import read_vectors

Index = NDArray[np.int64]


def placed_llrs(
    options: PlaceTables,
    backend: Backend,
    sides: Sides,
    trials: tuple[Index, Index],
    log: Log,
    sessions: Index | None = None,
) -> NDArray[np.float32]:
    """LLRs of trials (model numbers, test rows)."""
    place_of = read_words(options.places)
    bundles = read_bundles(options.place_bundles)
    strange = sorted(set(bundles) - set(place_of.values()))
    if strange:
        raise InputError(
            f"'{options.place_bundles}': no utterance of '{options.places}' is of "
            f"'{strange[0]}'; are the names the same?"
        )
    pools: dict[str, list[NDArray[np.float32]]] = {
        name: [] for name in sorted(set(place_of.values()) - set(bundles))
    }
    if options.pool:
        table = read_vectors(options.pool, options.scp_root)
        settle(options, judged_vectors(options.pool, table.matrix, backend.familiarity), log)
        for name, vector in zip(table.ids, table.matrix, strict=True):
            place = _place(name, place_of, options.places)
            if place in bundles:
                raise InputError(
                    f"'{options.pool}': '{name}' is of '{place}', which has the bundle "
                    f"{bundles[place]}; leave out one of the two"
                )
            pools[place].append(vector)
    places = Places(backend, {name: np.array(pool) for name, pool in pools.items()})
    heard = {name: len(pool) for name, pool in pools.items()}
    for name, directory in bundles.items():
        adapted = Backend.load(directory, threads=1)
        places.add(name, adapted)
        told = Table(adapted.info.manifest, f"{directory}/model.json", BundleError, "adapt again")
        adaptation = told.optional_table("adaptation")
        heard[name] = 0 if adaptation is None else adaptation.whole("utterances", 0)
    for name, model in zip(places.names, places.models, strict=True):
        known = 100 * model.scorer.known
        log.info(f"place {name}: {heard[name]} utterances heard, {known:.0f} % known")
    models = sides.models
    groups = offsets_to_groups(models.offsets)
    enroll = _placed(places, sides.enroll, place_of, options.places, models.rows, groups, sessions)
    test = _placed(places, sides.test, place_of, options.places)
    judged = _judged(sides.test.source.vectors, places, test)
    if sides.enroll is not sides.test:
        judged += _judged(sides.enroll.source.vectors, places, enroll)
    settle(options, judged, log)
    return places.llrs(enroll, test, *trials)


def _judged(table: str, places: Places, sides: PlacedSides) -> list[tuple[str, Finding | None]]:
    """Whether the sides of each place sound of there."""
    found: list[tuple[str, Finding | None]] = []
    for number, (name, model) in enumerate(zip(places.names, places.models, strict=True)):
        told = sides.sides.conditions[sides.place == number, -1]
        if len(told) and model.scorer.known > 0:
            found.append((table, look_at_place(told, model.scorer.known, name)))
    return found


def _placed(
    places: Places,
    utterances: Utterances,
    place_of: dict[str, str],
    table: str,
    rows: Index | None = None,
    groups: Index | None = None,
    sessions: Index | None = None,
) -> PlacedSides:
    chosen = np.arange(len(utterances.ids)) if rows is None else rows
    names = [_place(utterances.ids[row], place_of, table) for row in chosen]
    if groups is not None:
        _refuse_moved(names, [utterances.ids[row] for row in chosen], groups, table)
    seconds = None if utterances.seconds is None else utterances.seconds[chosen]
    return places.sides(utterances.matrix[chosen], seconds, names, groups, sessions)


def _refuse_moved(names: list[str], ids: list[str], groups: Index, table: str) -> None:
    """Raise if the utterances of a model are of two places."""
    first: dict[int, int] = {}
    for row, group in enumerate(groups.tolist()):
        before = first.setdefault(group, row)
        if names[before] != names[row]:
            raise InputError(
                f"'{table}': '{ids[before]}' and '{ids[row]}' of one model are of two places, "
                f"'{names[before]}' and '{names[row]}'; make two models of them"
            )


def _place(name: str, place_of: dict[str, str], table: str) -> str:
    if name not in place_of:
        raise InputError(f"'{table}': '{name}' has no place; add it")
    return place_of[name]
