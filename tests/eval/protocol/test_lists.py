"""Trials that nobody has to correct: sessions apart, people alike, the same for the same seed."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from trial_rules import Labels, check_balance, check_trials

from dcaplda.eval.protocol.enrolment import Register
from dcaplda.eval.protocol.lists import KINDS, Design, Part, parts
from dcaplda.eval.protocol.utterances import Utterances


def utterances(rows: list[tuple[str, str, str, int]]) -> Utterances:
    """Utterances of (person, domain, session, number of utterances)."""
    speaker, session, domain = {}, {}, {}
    for person, where, sitting, count in rows:
        for number in range(count):
            name = f"{person}-{where}-{sitting}-{number}-{len(speaker)}"
            speaker[name], session[name], domain[name] = person, f"{person}-{sitting}", where
    return Utterances("world", speaker, session, domain, frozenset(speaker))


@st.composite
def worlds(draw) -> Utterances:
    """Up to seven people in up to three domains; a session may be in several (copies)."""
    rows = []
    for person in range(draw(st.integers(2, 7))):
        for where in draw(st.sets(st.sampled_from("abc"), min_size=1)):
            for sitting in draw(st.sets(st.integers(0, 4), min_size=1)):
                rows.append((f"p{person}", where, str(sitting), draw(st.integers(1, 4))))
    return utterances(rows)


def made(world: Utterances, kind: str, design: Design) -> tuple[list[Part], dict[str, list[str]]]:
    register = Register(world.speaker)
    found = list(parts(world.people(), kind, design, register))
    lines = [line.split() for lines in register.maps().values() for line in lines]
    return found, {name: names for name, *names in lines}


DESIGNS = st.builds(
    Design,
    seed=st.integers(0, 3),
    models=st.integers(1, 7),
    multi_models=st.integers(1, 4),
    enroll_utterances=st.integers(2, 4),
    max_trials=st.integers(1, 9),
    nontargets_per_target=st.floats(0.3, 6.0),
    min_models=st.integers(1, 3),
)


@settings(max_examples=150, deadline=None)
@given(worlds(), st.sampled_from(KINDS), DESIGNS)
def test_no_shared_session_right_labels_and_balance(
    world: Utterances, kind: str, design: Design
) -> None:
    found, enrolled = made(world, kind, design)
    trials = [trial for part in found for trial in part.trials()]
    labels = Labels(world.speaker, world.session, world.domain)
    check_trials(trials, enrolled, labels, kind.endswith("_cross"))
    check_balance(trials, enrolled, labels)
    assert {model for model, _, _ in trials} == set(enrolled)
    size = design.enroll_utterances if kind.startswith("multi") else 1
    assert all(len(names) == size for names in enrolled.values())
    for part in found:
        assert part.models or part.notes, "nothing made, and no reason"
        if part.models:
            assert {target for *_, target in part.trials()} == {True, False}


@settings(max_examples=100, deadline=None)
@given(worlds(), st.sampled_from(KINDS), DESIGNS)
def test_every_model_has_all_its_targets_up_to_the_cap(
    world: Utterances, kind: str, design: Design
) -> None:
    found, enrolled = made(world, kind, design)
    for part in found:
        targets = Counter(model for model, _, target in part.trials() if target)
        for model in {model for model, _, _ in part.trials()}:
            used = {world.session[name] for name in enrolled[model]}
            person = world.speaker[enrolled[model][0]]
            possible = [
                name
                for name, who in world.speaker.items()
                if who == person
                and world.domain[name] == part.test
                and world.session[name] not in used
            ]
            assert targets[model] == min(design.max_trials, len(possible)) > 0


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from(KINDS), DESIGNS)
def test_whoever_can_be_enrolled_is(world: Utterances, kind: str, design: Design) -> None:
    """Of one utterance: everybody with two sessions, one of them in the tests' domain."""
    if kind.startswith("multi") or design.min_models > 1:
        return
    people = world.people()
    for part in made(world, kind, design)[0]:
        own, tests = people[part.enroll], people[part.test]
        able = [p for p in own.keys() & tests.keys() if len(own[p].keys() | tests[p].keys()) > 1]
        assert part.people == (len(able) if len(tests) > 1 else 0)


@settings(max_examples=40, deadline=None)
@given(worlds(), st.sampled_from(KINDS), DESIGNS, st.randoms())
def test_the_order_of_tables_changes_nothing(
    world: Utterances, kind: str, design: Design, random
) -> None:
    names = list(world.speaker)
    random.shuffle(names)
    mixed = Utterances(
        world.place,
        *({name: t[name] for name in names} for t in (world.speaker, world.session, world.domain)),
        world.usable,
    )
    assert made(world, kind, design) == made(mixed, kind, design)


def even(people: int, sessions: int, count: int, domains: str = "a") -> Utterances:
    return utterances(
        [
            (f"p{person:02}", where, str(sitting), count)
            for person in range(people)
            for where in domains
            for sitting in range(sessions)
        ]
    )


def test_counts_where_everybody_has_enough() -> None:
    """30 people, 5 sessions of 6: 24 tests of other sessions, 6 models, 60 nontargets each."""
    design = Design(nontargets_per_target=2.5)
    (part,), _ = made(even(30, 5, 6), "single", design)
    targets = sum(target for *_, target in part.trials())
    assert (part.people, len(part.models), targets) == (30, 180, 180 * 24)
    assert len(list(part.trials())) - targets == 180 * 60
    assert not part.notes


def test_as_many_nontargets_lead_to_each_person_as_from_each() -> None:
    world = even(7, 4, 5)
    (part,), _ = made(world, "single", Design(models=5, nontargets_per_target=0.7))
    met = Counter(world.speaker[test] for _, test, target in part.trials() if not target)
    assert len(set(met.values())) == 1 and len(met) == 7
    used = Counter(test for _, test, target in part.trials() if not target)
    assert max(used.values()) - min(used[name] for name in world.speaker) <= 1


def test_another_seed_gives_other_models_and_other_trials() -> None:
    world = even(5, 4, 3)
    for kind in ("single", "multi"):
        (one, models), (other, others) = (
            made(world, kind, Design(seed=seed, models=2, max_trials=2)) for seed in (0, 1)
        )
        assert list(models.values()) != list(others.values())
        assert [list(part.trials()) for part in one] != [list(part.trials()) for part in other]
    everything = Design(models=12, max_trials=2), Design(models=12, max_trials=2, seed=1)
    one, other = ({t for t in made(world, "single", d)[0][0].trials() if t[2]} for d in everything)
    assert one != other, "all utterances are models, so that only the tests are drawn"


def test_models_of_several_take_as_many_sessions_as_leave_one() -> None:
    world = even(4, 3, 4)
    _, enrolled = made(world, "multi", Design())
    for names in enrolled.values():
        assert len({world.session[name] for name in names}) == 2


def test_tests_of_other_sessions_elsewhere_free_all_sessions_for_the_model() -> None:
    rows = [(p, "mic", str(s), 1) for p in ("p", "q") for s in range(3)]
    world = utterances([*rows, ("p", "tel", "9", 2), ("q", "tel", "8", 2)])
    at_home, _ = made(world, "multi", Design())
    assert [len(part.models) for part in at_home] == [0, 0]
    cross, enrolled = made(world, "multi_cross", Design())
    assert [(part.where, len(part.models)) for part in cross] == [
        ("mic to tel", 2),
        ("tel to mic", 0),
    ]
    assert all(len({world.session[name] for name in e}) == 3 for e in enrolled.values())


def test_a_session_of_both_domains_may_be_in_the_model_if_another_is_tested() -> None:
    rows = [(p, "mic", str(s), 1) for p in ("p", "q") for s in range(3)]
    copies = [(p, "tel", str(s), 1) for p in ("p", "q") for s in (2, 9)]
    cross, enrolled = made(utterances([*rows, *copies]), "multi_cross", Design())
    assert [len(part.models) for part in cross] == [2, 0]
    for model in cross[0].models:
        assert len(enrolled[model.name]) == 3 and len(model.targets) == 1


def test_a_domain_keeps_its_models_when_another_one_is_added() -> None:
    alone, with_other = even(4, 3, 3), even(4, 3, 3, "ab")
    one = made(alone, "single", Design(models=2))[1]
    both = made(with_other, "single", Design(models=2))[1]
    plain = {"-".join(name.split("-")[:4]) for name in one}
    assert plain <= {"-".join(name.split("-")[:4]) for name in both}


def test_who_has_one_session_is_an_impostor_only() -> None:
    world = utterances([("p", "a", "0", 2), ("p", "a", "1", 2), ("q", "a", "0", 3)])
    (part,), enrolled = made(world, "single", Design())
    assert {world.speaker[name] for name in enrolled} == {"p"}
    assert part.notes[0] == "1 of 2 people, such as 'q', have one session: no models"
    assert {world.speaker[test] for _, test, target in part.trials() if not target} == {"q"}


def test_the_poorest_sets_the_number_of_models_unless_left_out() -> None:
    rows = [("p", "a", str(s), 4) for s in range(3)] + [("q", "a", str(s), 4) for s in range(3)]
    world = utterances([*rows, ("r", "a", "0", 1), ("r", "a", "1", 1)])
    (part,), _ = made(world, "single", Design(models=4))
    assert len(part.models) == 6 and "'r' can give no more; --min-models=3" in part.notes[0]
    (part,), _ = made(world, "single", Design(models=4, min_models=3))
    assert (part.people, len(part.models)) == (2, 8)


def test_models_of_several_never_have_the_name_of_an_utterance() -> None:
    register = Register(["ann-m0", "x", "y"])
    assert register.name("ann", ("x", "y")) == "ann-m1"
    assert register.name("ann", ("x", "y")) == "ann-m1"
    assert register.maps() == {"enroll_single": [], "enroll_multi": ["ann-m1 x y"]}


def call(rows: dict[str, tuple[str, str]]) -> Utterances:
    """Utterances with their speaker and session."""
    speaker = {name: person for name, (person, _) in rows.items()}
    session = {name: sitting for name, (_, sitting) in rows.items()}
    return Utterances("calls", speaker, session, dict.fromkeys(rows, "a"), frozenset(rows))


def test_sides_of_one_call_are_not_compared() -> None:
    sides = {"a1": ("ann", "c1"), "a2": ("ann", "c2"), "b1": ("bob", "c1"), "b2": ("bob", "c3")}
    world = call(sides)
    (part,), _ = made(world, "single", Design())
    met = {(model, test) for model, test, target in part.trials() if not target}
    assert met == {
        ("a1", "b2"),
        ("a2", "b1"),
        ("a2", "b2"),
        ("b1", "a2"),
        ("b2", "a1"),
        ("b2", "a2"),
    }


def test_whose_calls_are_all_shared_have_no_nontargets_and_no_list() -> None:
    world = call({f"{p}{k}": (p, f"c{k}") for p in ("ann", "bob") for k in range(2)})
    people = world.people()
    people["a"]["bob"].pop("c1")
    for seed in range(6):
        register = Register(world.speaker)
        (part,) = parts(people, "single", Design(seed=seed, models=1), register)
        enrolled = register.maps()["enroll_single"]
        if enrolled:
            assert [model.name for model in part.models] == ["ann1"]
            assert part.models[0].nontargets == ["bob0"]
        else:
            assert not part.models and part.notes[-1].startswith("all other people share")
