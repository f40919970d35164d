"""Stand-ins for Kaldi's run.pl, queue.pl, slurm.pl and retry.pl: they run lines as those do.

`cmd.pl [--option value ...] [JOB=1:N] log command...`: JOB is replaced in the log's name and in the
command, whose words are joined into a line for bash; a word with a blank is quoted, another is not.
The number of a job is known to the shell alone where a scheduler starts it, and a job has no
variable but PATH.
"""

import sys
from pathlib import Path

COMMON = r'''#!{python}
import os, re, subprocess, sys

def parsed(words):
    """Options, numbers of jobs, log and command line."""
    options = {{}}
    while words[0].startswith("--"):
        options[words[0][2:].replace("-", "_")] = words[1]
        words = words[2:]
    found = re.fullmatch("([A-Za-z]+)=([0-9]+):([0-9]+)", words[0])
    jobs = None
    if found:
        assert int(found[2]) > 0, "start must be strictly positive"
        jobs = (found[1], int(found[2]), int(found[3]))
        words = words[1:]
    return options, jobs, words[0], " ".join(map(quoted, words[1:]))

def quoted(word):
    if re.fullmatch(r"\S+", word):
        return word
    return "'" + word + "'" if '"' in word else '"' + word + '"'

def line_of(text, log):
    """A job's shell script: the log has what was run, and how it ended."""
    end = "ret=$?\necho '# Ended (code '$ret')'\nexit $ret\n"
    return "exec > %s 2>&1\necho '# job'\n( %s )\n" % (log, text) + end

def failed(log, bad, count):
    sys.exit("%s: %d / %d failed, log is in %s" % (os.path.basename(sys.argv[0]), bad, count, log))
'''

RUN = r"""
options, jobs, log, line = parsed(sys.argv[1:])
name, first, last = jobs or ("JOB", 1, 1)
running = []
for job in range(first, last + 1):
    put = (lambda t: t.replace(name, str(job))) if jobs else (lambda t: t)
    running.append(subprocess.Popen(["bash", "-c", line_of(put(line), put(log))]))
bad = sum(child.wait() != 0 for child in running)
if bad:
    failed(log, bad, len(running))
"""

# Grid Engine: one script, whose number of the job is a variable.
QUEUE = r"""
options, jobs, log, line = parsed(sys.argv[1:])
name, first, last = jobs or ("JOB", 1, 1)
put = (lambda t: t.replace(name, "${SGE_TASK_ID}")) if jobs else (lambda t: t)
bad = 0
for job in range(first, last + 1):
    env = {"PATH": os.environ["PATH"], "SGE_TASK_ID": str(job)}
    bad += subprocess.call(["bash", "-c", line_of(put(line), put(log))], env=env) != 0
if bad:
    failed(log, bad, last - first + 1)
"""

# Slurm: the real sbatch, called as conf/slurm.conf says.
SLURM = r"""
options, jobs, log, line = parsed(sys.argv[1:])
command, rules, defaults = None, [], {}
for row in open(options.pop("config", "conf/slurm.conf")):
    kind, _, rest = row.split("#")[0].strip().partition(" ")
    if kind == "command":
        command = rest.split()
    elif kind == "option":
        rule, _, text = rest.partition(" ")
        rules.append((*rule.split("="), text))
    elif kind == "default":
        key, value = rest.split("=")
        defaults[key] = value
    else:
        assert not kind, row
for key, value in {**defaults, **options}.items():
    fitting = [t for k, v, t in rules if k == key and v == value] or [
        t for k, v, t in rules if k == key and v == "*"]
    assert fitting, "no rule for --" + key
    command += fitting[0].replace("$0", value).split()
name, first, last = jobs or ("JOB", 1, 1)
put = (lambda t: t.replace(name, "${SLURM_ARRAY_TASK_ID}")) if jobs else (lambda t: t)
script = log.replace(name, "all") + ".sh"
open(script, "w").write("#!/bin/bash\n" + line_of(put(line), put(log)))
command += ["--array=%d-%d" % (first, last)] if jobs else []
if subprocess.call([*command, "--output=/dev/null", "--wait", script]):
    failed(log, 1, last - first + 1)
"""

RETRY = r"""
words = sys.argv[1:]
tries = 2
if words[0] == "--num-tries":
    tries, words = int(words[1]), words[2:]
for _ in range(tries):
    status = subprocess.call(words)
    if status == 0:
        break
sys.exit(status)
"""


def write_commands(folder: Path) -> None:
    """Put them all into a folder."""
    head = COMMON.format(python=sys.executable)
    bodies = {"run": RUN, "queue": QUEUE, "slurm": SLURM, "retry": RETRY}
    for name, body in bodies.items():
        path = folder / f"{name}.pl"
        path.write_text(head + body)
        path.chmod(0o755)
