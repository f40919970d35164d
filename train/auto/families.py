"""The two ways to train that "auto" chooses between, every value in one place.

FEW: nothing is trained by steps; LDA, PLDA and offsets come from shrunk covariances, calibration
from people and places held out in turn (egs/recordings/conf/joint.toml, docs/robustness.md).
MANY: the paper's joint training, shorter, with a running average and a calibration from domains
held out in turn (egs/simulated/RESULTS.md).
"""

from typing import Any

MANY_PEOPLE = 400
"""People from which on joint training is better; docs/training.md has the measurement."""

LDA_SHARE = 0.6
"""LDA directions as a share of the embedding's: the paper's 300 of 512."""
MOST_LDA_DIM = 300
"""Most LDA directions without training by steps: all there are, since shrinkage weighs them."""
SCARCE = 1.5
"""Scarcity from which on every fifth of the people is held out in turn."""
LEAST_VALUES = 100
"""Scarcity is values per person; embeddings of fewer values count as so many."""
FEW_FOLDS = 5
LDA_SHRINKAGE, SHRINKAGE, BETWEEN = 64.0, 3.0, 1.0
"""With no more people than values; less in proportion where people are more."""
TINY = 2.0
"""Scarcity from which on it is itself the least shrinkage: scores come near cosines, and a global
calibration is all that can be learnt."""
FEW_TURNS, MANY_TURNS = (3, 4), (2, 6)
"""Parts held out in turn, of people and of domains; five of people where these are scarce."""
IN_SESSIONS = 30
"""People with several utterances of a session from which on a joint model learns a calibration of
its own from them; of fewer it would be rough, as every figure is (not measured)."""
LARGE = 30_000
"""Utterances from which on the few turns are enough for models without steps, too."""

FEW: dict[str, Any] = {
    "init.balance": "even",
    "init.classes": "identity",
    "init.domain_offsets": True,
    "init.shared_offset": 1.0,
    "init.copy_offset": 1.0,
    "init.subset": "all",
    "init.em_iterations": 0,
    "init.lda_scale": "within",
    "init.calibration_domains": 0.5,
    "init.duration_start": "fitted",
    "objective.prior": 0.1,
    "averaging.average": "none",
}

MANY: dict[str, Any] = {
    "model.side_info_dim": 6,
    "model.side_activation": "log-softmax",
    "model.joint": False,
    "model.recordings": False,
    "init.balance": "domain",
    "init.classes": "speaker",
    "init.domain_offsets": False,
    "init.shared_offset": 0.0,
    "init.copy_offset": 0.0,
    "init.em_iterations": 50,
    "init.lda_shrinkage": 0.0,
    "init.lda_scale": "total",
    "init.shrinkage": 0.0,
    "init.calibration_folds": 0,
    "init.calibration_domains": 0.0,
    "init.duration_start": "global",
    "objective.prior": 0.1,
    "stage1.rate": 1e-3,
    "stage2.steps": 400,
    "stage2.rate": 1e-3,
    "stage3.steps": 0,
    "averaging.average": "ema",
    "averaging.ema_decay": 0.99,
}
STAGE1_STEPS, MOST_STEPS = 500, 8_000
"""Steps before the running average begins, for 3000 people; more people, more steps."""
BATCH, MOST_BATCH = 600, 2048

BORDER = (250, 400)
"""People between which both ways are tried where a contest is held. Models without a part see half
of the people, which speaks against steps: above, the rule for steps is not put to that question."""
LDA_SHARES = (0.4, 0.8)
"""Other LDA sizes that joint training tries."""
STEP_SHARES, LONGER = (0.2, 0.6), 1.6
"""Other numbers of steps, as shares of the rule's: shorter ones are met on the way."""
MOST_SIZES = 1_500
"""People from which on joint training tries no other sizes: that takes as long as everything else
together, and the rule was measured there."""
MOST_WORK = 1e9
"""Utterances times squared values from which on models without steps try nothing; 2.8e8 took 45 s
of a core."""
