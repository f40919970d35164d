"""Worlds small enough to check the oracle by brute force."""

from dcaplda.simulate.config import WorldConfig, world_from_dict
from dcaplda.simulate.world import World, build_world


def small_values(dim: int = 3, speaker_axes: int = 2) -> dict:
    """A parsed world file: two qualities, two factors, one domain of each role."""
    return {
        "space": {
            "dim": dim,
            "speaker_axes": speaker_axes,
            "speaker_first": 2.0,
            "speaker_last": 0.7,
            "chunk_seconds": 8.0,
        },
        "sets": {
            "chunks": 3,
            "heldout_speakers": 6,
            "nontargets": 60,
            "multi_nontargets": 40,
            "cohort": 5,
        },
        "qualities": {
            "gender": {"values": ["female", "male"], "size": 0.8},
            "tongue": {"values": ["a", "b", "c"], "size": 0.5},
        },
        "factors": {
            "noise": {"shift": 0.8, "scale": 0.7, "axes": 0.67, "chunk": 0.5},
            "distance": {"shift": 0.6, "scale": 0.9, "axes": 0.34, "chunk": 0.2},
        },
        "domains": {
            "home": {
                "role": "train",
                "speakers": 8,
                "recordings": 2,
                "full_seconds": [10, 60],
                "conditions": [{"p": 0.6}, {"p": 0.4, "noise": 1}],
                "qualities": {"tongue": {"a": 0.7, "b": 0.3}},
            },
            "street": {
                "role": "dev",
                "speakers": 6,
                "full_seconds": [5, 20],
                "offset": 0.3,
                "conditions": [{"p": 0.5, "noise": 2}, {"p": 0.5, "noise": 1, "distance": 1}],
            },
            "hall": {
                "role": "eval",
                "speakers": 6,
                "full_seconds": [20, 40],
                "offset": 0.3,
                "conditions": [{"p": 0.25}, {"p": 0.75, "distance": 2}],
                "qualities": {"gender": {"female": 1.0}},
            },
        },
    }


def small_config(dim: int = 3, speaker_axes: int = 2) -> WorldConfig:
    return world_from_dict(small_values(dim, speaker_axes))


def small_world(dim: int = 3, speaker_axes: int = 2, seed: int = 5) -> World:
    return build_world(small_config(dim, speaker_axes), seed)
