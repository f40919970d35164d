"""Backend: opens a bundle and turns embeddings and durations into log-likelihood ratios."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks, several, utterances, values, verification
from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.manifest import PREPARE, SEARCH, TILE, ModelInfo, read_info
from dcaplda.runtime.bundle.ones import find_ones
from dcaplda.runtime.bundle.sessions import Sessions
from dcaplda.runtime.decision import bayes_threshold
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.extractors.agreement import agree_on_extractor
from dcaplda.runtime.extractors.note import ExtractorNote, extractor_of
from dcaplda.runtime.familiarity import read_familiarity
from dcaplda.runtime.records.speaker import Speaker, short
from dcaplda.runtime.trials import planner
from dcaplda.runtime.trials.tiles import available_threads, run_jobs, tile_slices
from dcaplda.runtime.verification import Verification

if TYPE_CHECKING:
    import tempfile

    from dcaplda.runtime.evidence import Evidence
    from dcaplda.runtime.joint.rows import JointModel

Float32 = NDArray[np.float32]

VOICEPRINTS_AT_ONCE = 512
"""Rows per call of voiceprint.onnx."""


class Backend:
    """A scorer for one exported model; safe to use from many threads at once.

    >>> backend = Backend.load("exp/model")                           # doctest: +SKIP
    >>> llrs = backend.score(enroll, enroll_seconds, test, test_seconds)  # doctest: +SKIP
    """

    def __init__(self, directory: str | Path, info: ModelInfo, threads: int) -> None:
        self.info = info
        self.threads = threads
        self.familiarity = read_familiarity(info.manifest, f"{directory}/model.json")
        """What training saw, for the warnings of enrolments and verifications."""
        self.joint = _joint_of(directory, info)
        """The model of place, speaker and sample, of bundles trained for several utterances and
        places; else None."""
        self.extractor = extractor_of(info.manifest, f"{directory}/model.json")
        """Which extractor's embeddings it takes, where that is known; see Backend.load."""
        self.directory = directory
        """Where the bundle lies."""
        self._sessions = Sessions(directory, info)
        self._home: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        return f"Backend('{self.directory}', {self.info.variant}, {short(self.info.fingerprint)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled backend is loaded again, from the same place, where it arrives."""
        return _reload, (str(Path(self.directory).resolve()), self.threads, self.extractor)

    @classmethod
    def load(
        cls, directory: str | Path, *, threads: int | None = None, extractor: Any = None
    ) -> "Backend":
        """Open a model directory; `threads` (default: the cores at hand) serve large jobs.

        `extractor`, an Extractor of dcaplda.audio or its fingerprint, is the one whose embeddings
        will come: a model that was trained with another one is refused, and a model that does
        not tell gives a Python warning.

        Every file is checked against its sha256 here, so that a damaged bundle is found at
        once and not in the middle of a job.
        """
        if threads is not None:
            threads = values.whole(threads, "threads", 1)
        info = read_info(directory)
        # Only checked, not opened: `backend` is for other runtimes, others may not be needed.
        for graph in ("backend", *info.further_graphs):
            read_graph(directory, info, graph)
        backend = cls(directory, info, threads or available_threads())
        if extractor is not None:
            backend.extractor = agree_on_extractor(backend.extractor, extractor, str(directory))
        for graph in ("voiceprint", "compare", "pairs"):
            backend._sessions.open(graph)
        return backend

    def voiceprints(
        self,
        embeddings: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        extra: Mapping[str, ArrayLike] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Float32:
        """Voiceprints (n, K) of embeddings (n, D) and their seconds of speech (n,).

        With `groups`, numbers 0 to G-1 of each row, the inputs of a group's utterances are
        averaged before any second-order term and the result is (G, K). `extra` holds what
        info.voiceprint_inputs names, 1 for each row if left out. `ids` are used in error messages.
        """
        matrix = checks.embeddings(embeddings, "embeddings", self.info.embedding_dim, ids)
        count = len(matrix)
        times = checks.seconds(seconds, "durations", count, self.info.uses_durations, ids)
        inputs = {"embeddings": matrix, "durations": times, **self._extra_inputs(extra, count)}
        if groups is None:
            if count <= VOICEPRINTS_AT_ONCE:
                return checks.made_voiceprints(self.run_voiceprints(inputs), ids)
            starts = range(0, count, VOICEPRINTS_AT_ONCE)
            chunks = (slice(begin, begin + VOICEPRINTS_AT_ONCE) for begin in starts)
            whole = np.empty((count, self.info.voiceprint_dim), np.float32)

            def work(rows: slice) -> None:
                whole[rows] = self._rows(inputs, rows)

            for _ in run_jobs(work, chunks, self.threads):
                pass
        else:
            if not self.info.averages_groups:
                raise InputError("this model cannot average utterances; average scores instead")
            numbers = checks.group_numbers(groups, count)
            made = run_jobs(
                lambda rows: self._rows(inputs, rows, numbers[rows] - numbers[rows[0]]),
                _whole_groups(numbers),
                self.threads,
            )
            whole = np.concatenate(list(made))
        return checks.made_voiceprints(whole, ids if groups is None else None)

    def compare(self, enroll: ArrayLike, test: ArrayLike, *, out: Float32 | None = None) -> Float32:
        """LLR of every enrolment voiceprint (E, K) against every test voiceprint (T, K).

        `out`, a float32 array (E, T), is written to and returned: fresh memory for a large
        result costs as much time as a part of the comparison.
        """
        left, right = (
            self.checked_voiceprints(enroll, "enroll"),
            self.checked_voiceprints(test, "test"),
        )
        if several.both_several(self, left, right):
            exact = several.exact_llrs(self, left, right)
            if out is None:
                return exact
            np.copyto(out, exact)
            return out
        if out is None and len(left) == len(right) == 1:
            return self._pairs(left, right).reshape(1, 1)
        shape = len(left), len(right)
        if out is not None and (out.shape != shape or out.dtype != np.float32):
            raise InputError(f"out: expected float32 {shape}, found {out.dtype} {out.shape}")
        llrs = np.empty(shape, dtype=np.float32) if out is None else out

        def work(tile: tuple[slice, slice, Float32]) -> None:
            llrs[tile[:2]] = self.prepared_tile(tile[2], right[tile[1]])

        for _ in run_jobs(work, self._prepared_slices(left, len(right)), self.threads):
            pass
        return llrs

    def compare_blocks(
        self, enroll: ArrayLike, test: ArrayLike
    ) -> Iterator[tuple[slice, slice, Float32]]:
        """The same, a tile at a time: for matrices that do not fit in memory.

        Yields (enrolment rows, test rows, their LLRs) in order; tiles ahead of the consumer
        are bounded in number.
        """
        left, right = (
            self.checked_voiceprints(enroll, "enroll"),
            self.checked_voiceprints(test, "test"),
        )
        several.refuse_both(self, left, right)

        def work(tile: tuple[slice, slice, Float32]) -> tuple[slice, slice, Float32]:
            return *tile[:2], self.prepared_tile(tile[2], right[tile[1]])

        return run_jobs(work, self._prepared_slices(left, len(right)), self.threads)

    def _prepared_slices(
        self, enroll: Float32, n_test: int
    ) -> Iterator[tuple[slice, slice, Float32]]:
        """All tiles of a full comparison with their enrolments prepared, once for each row."""
        rows, ready = slice(0, 0), enroll[:0]
        for tile in tile_slices(len(enroll), n_test):
            if tile[0] != rows:
                rows, ready = tile[0], self.prepared(enroll[tile[0]])
            yield *tile, ready

    def compare_pairs(self, enroll: ArrayLike, test: ArrayLike) -> Float32:
        """LLR of each enrolment voiceprint against the test voiceprint in the same row."""
        left, right = (
            self.checked_voiceprints(enroll, "enroll"),
            self.checked_voiceprints(test, "test"),
        )
        if len(left) != len(right):
            raise InputError(f"pairs: {len(left)} enrolment rows but {len(right)} test rows")
        if several.both_several(self, left, right):
            return several.exact_pairs(self, left, right)
        step = planner.PAIRS_AT_ONCE
        if len(left) <= step:
            return self._pairs(left, right)
        chunks = (slice(begin, begin + step) for begin in range(0, len(left), step))
        made = run_jobs(lambda rows: self._pairs(left[rows], right[rows]), chunks, self.threads)
        return np.concatenate(list(made))

    def score(
        self,
        enroll_embeddings: ArrayLike,
        enroll_seconds: ArrayLike | None,
        test_embeddings: ArrayLike,
        test_seconds: ArrayLike | None,
    ) -> Float32:
        """LLR of every enrolment utterance against every test utterance, (E, T)."""
        return self.compare(
            self.voiceprints(enroll_embeddings, enroll_seconds),
            self.voiceprints(test_embeddings, test_seconds),
        )

    def enroll(
        self,
        embeddings: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        multi_enroll: str = "auto",
        sessions: ArrayLike | None = None,
    ) -> Speaker:
        """A speaker from one embedding (D,) or several (n, D) and their seconds of speech.

        Of several utterances, `joint` keeps one voiceprint whose LLR is that of all of them under
        the model, for bundles trained for it; `scores` keeps a voiceprint of each and averages the
        LLRs (the paper's way); `voiceprints` averages what goes into the voiceprint and keeps
        one. `auto` is `joint` where the bundle has it, else `scores`. `sessions` name the occasion
        of each utterance (joint): several of one tell less than as many of different ones, if the
        model was trained with init.sample_correlation above 0; without, all may be of one.

        >>> ann = backend.enroll(calls, seconds)
        >>> ann.warnings
        ()
        """
        return verification.enroll(self, embeddings, seconds, multi_enroll, sessions)

    def verify(
        self,
        speaker: Speaker | ArrayLike,
        embedding: ArrayLike,
        seconds: float | ArrayLike | None = None,
        *,
        prior: float,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
    ) -> Verification:
        """Does this utterance come from that speaker (or from the owner of voiceprints (n, K))?

        Several utterances (m, D) of one voice are taken together, if the bundle is joint.
        `prior` is the probability, before listening, that it does; the costs are those of
        rejecting the speaker and of accepting somebody else.

        >>> answer = backend.verify(ann, call, 21.0, prior=0.01, cost_miss=10)
        >>> answer.accept == (answer.llr >= answer.threshold)
        True
        >>> round(answer.threshold, 2)
        2.29
        """
        return verification.verify(self, speaker, embedding, seconds, prior, cost_miss, cost_fa)

    def evidence(
        self,
        speaker: Speaker | ArrayLike,
        *,
        prior: float,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
    ) -> "Evidence":
        """A running verification: segments are added one by one (joint bundles)."""
        from dcaplda.runtime.evidence import Evidence

        return Evidence(self, speaker, prior, cost_miss, cost_fa)

    def add_utterances(
        self,
        speaker: Speaker | ArrayLike,
        embeddings: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        sessions: ArrayLike | None = None,
    ) -> Speaker:
        """The speaker with more utterances, as if enrolled with all of them.

        `sessions` name occasions on which the speaker was not heard before; without, the new
        utterances may be of the largest session that is in the voiceprint.
        """
        return utterances.changed(self, speaker, embeddings, seconds, True, sessions)

    def remove_utterances(
        self,
        speaker: Speaker | ArrayLike,
        embeddings: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        sessions: ArrayLike | None = None,
    ) -> Speaker:
        """The speaker without utterances that are in it; the others' embeddings are not needed,
        unless it was enrolled by `voiceprints`.

        With `sessions` the utterances are all that there was of these.
        """
        return utterances.changed(self, speaker, embeddings, seconds, False, sessions)

    def adapted(
        self,
        embeddings: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        ids: Sequence[str] | None = None,
    ) -> "Backend":
        """This model for the place of unlabelled utterances (n, D) (docs/adaptation.md).

        It lives as long as the program; `adapt-backend`, or `adaptation.write_adaptation`, keeps
        it. Of no utterance at all it is this backend itself. The seconds of speech, where given,
        are noted in its manifest; all utterances count the same.
        """
        import tempfile

        from dcaplda.runtime.adaptation import adapt_bundle, is_empty, write_adaptation

        if is_empty(embeddings):
            return self
        names = None if ids is None else list(ids)
        made = adapt_bundle(self.directory, self.info, embeddings, names, seconds)
        home = tempfile.TemporaryDirectory(prefix="dcaplda-")
        write_adaptation(made, Path(home.name) / "bundle")
        backend = Backend.load(Path(home.name) / "bundle", threads=self.threads)
        backend.extractor = self.extractor
        backend._home = home
        return backend

    @staticmethod
    def threshold(prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0) -> float:
        """The LLR from which on accepting costs less than rejecting (eq. 3).

        >>> Backend.threshold(prior=0.5)
        0.0
        >>> round(Backend.threshold(prior=0.01), 3)
        4.595
        """
        return bayes_threshold(prior, cost_miss, cost_fa)

    def score_trials(
        self,
        enroll: ArrayLike,
        test: ArrayLike,
        enroll_index: ArrayLike,
        test_index: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        part: tuple[int, int] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Float32:
        """LLRs of a list of trials between voiceprints, in the order of the list.

        enroll_index and test_index hold a row number per trial. With `groups`, offsets
        (M + 1,) that cut the enrolment rows into M models, enroll_index numbers models and
        the LLR of a model is the mean over its rows. `part` = (begin, end) scores that slice
        of the list, bit for bit as the whole list would. `progress(done, total)` is called
        from time to time.
        """
        left, right = (
            self.checked_voiceprints(enroll, "enroll"),
            self.checked_voiceprints(test, "test"),
        )
        several.refuse_both(self, left, right)
        offsets = np.arange(len(left) + 1) if groups is None else _offsets(groups, len(left))
        trials = planner.TrialList(
            models=checks.indices(enroll_index, "enroll_index", len(offsets) - 1),
            tests=checks.indices(test_index, "test_index", len(right)),
            offsets=offsets,
        )
        count = len(trials.models)
        if count != len(trials.tests):
            raise InputError(f"trials: {count} enrolment but {len(trials.tests)} test numbers")
        begin, end = (values.whole(edge, "part") for edge in part or (0, count))
        if not begin <= end <= count:
            raise InputError(f"part = {part}: the list has {count} trials")
        scorers = planner.Scorers(self.prepared_tile, self._pairs, self.prepared)
        return planner.score_trials(
            scorers, left, right, trials, (begin, end), self.threads, progress
        )

    def tile(self, enroll: Float32, test: Float32) -> Float32:
        """LLRs (E, T) of checked float32 voiceprints, in one call of the graph on this thread.

        For those who cut and share out the work themselves; `compare` checks, cuts and shares.
        """
        return checks.finite_llrs(self._sessions.run("compare", {"enroll": enroll, "test": test}))

    def prepared(self, enroll: Float32) -> Float32:
        """Checked enrolment voiceprints (E, K) made ready for `prepared_tile`, to be used often."""
        if TILE not in self.info.further_graphs:
            return enroll
        return self._sessions.run(PREPARE, {"enroll": enroll})

    def prepared_tile(self, ready: Float32, test: Float32) -> Float32:
        """The same as `tile`, of prepared enrolments."""
        if TILE not in self.info.further_graphs:
            return self.tile(ready, test)
        return checks.finite_llrs(self._sessions.run(TILE, {"prepared": ready, "test": test}))

    def run_voiceprints(self, inputs: Mapping[str, NDArray[Any]]) -> Float32:
        """Voiceprints of checked inputs, in one call of the graph on this thread.

        With `groups` among them, of groups.
        """
        graph = self.info.averaging_graph if "groups" in inputs else "voiceprint"
        return self._sessions.run(graph, inputs)

    def checked_voiceprints(
        self, voiceprints: ArrayLike, what: str, ids: Sequence[str] | None = None
    ) -> Float32:
        """Rows (n, K) that can be voiceprints of this model; `what` names them in messages."""
        width = self.info.voiceprint_dim
        return checks.voiceprints(voiceprints, what, width, self.ones, ids, self.info.embedding_dim)

    @cached_property
    def ones(self) -> NDArray[np.int64]:
        """Columns of a voiceprint that always are 1."""
        found = find_ones(self.info, self.run_voiceprints)
        # Behind are the number of utterances and what follows from it, which is 1 only of one.
        return found if self.joint is None else found[found < self.joint.layout.tail]

    def search_tile(self, probe: Float32, rows: Float32) -> Float32:
        """The same of one voiceprint (1, K) against many (N, K): LLRs (1, N).

        Of bundles that have search.onnx (`info.further_graphs`).
        """
        return checks.finite_llrs(self._sessions.run(SEARCH, {"test": probe, "enroll": rows}))

    def _pairs(self, enroll: Float32, test: Float32) -> Float32:
        return checks.finite_llrs(self._sessions.run("pairs", {"enroll": enroll, "test": test}))

    def _extra_inputs(
        self, extra: Mapping[str, ArrayLike] | None, count: int
    ) -> dict[str, Float32]:
        given = dict(extra or {})
        unknown = sorted(set(given) - set(self.info.voiceprint_inputs))
        if unknown:
            raise InputError(f"'{unknown[0]}' is not an input of this model")
        inputs = {}
        for name in self.info.voiceprint_inputs:
            # A row is one utterance, unless somebody tells that it is a mean of several.
            told = given.get(name)
            told = np.ones(count, np.float32) if told is None else told
            inputs[name] = checks.counts(told, name, count)
        return inputs

    def _rows(
        self, inputs: dict[str, Float32], rows: Any, groups: NDArray[np.int64] | None = None
    ) -> Float32:
        """Voiceprints of some rows, or of the groups that they make up."""
        chosen: dict[str, NDArray[Any]] = {name: value[rows] for name, value in inputs.items()}
        if groups is not None:
            chosen["groups"] = groups
        return self.run_voiceprints(chosen)


def _joint_of(directory: str | Path, info: ModelInfo) -> "JointModel | None":
    """The joint model where there is one; others do not wait for the modules that read it."""
    if info.joint_file is None:
        return None
    from dcaplda.runtime.adaptation import joint_of

    return joint_of(directory, info)


def _reload(directory: str, threads: int, extractor: ExtractorNote | None) -> Backend:
    backend = Backend.load(directory, threads=threads)
    backend.extractor = extractor
    return backend


def _whole_groups(numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Row numbers, group after group, in chunks that cut no group in two."""
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))
    begin = 0
    while begin < len(order):
        fitting = np.searchsorted(ends, begin + VOICEPRINTS_AT_ONCE, side="right") - 1
        end = int(ends[max(fitting, np.searchsorted(ends, begin, side="right"))])
        yield order[begin:end]
        begin = end


def _offsets(groups: ArrayLike, rows: int) -> NDArray[np.int64]:
    offsets = checks.indices(groups, "groups", rows + 1)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != rows:
        raise InputError(f"groups: expected offsets from 0 to {rows}, the enrolment rows")
    if (np.diff(offsets) < 1).any():
        raise InputError("groups: a model has no enrolment row")
    return offsets
