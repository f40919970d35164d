"""Many parts on many machines: one array on Slurm, processes here, or a script for any scheduler.

In: a tool's command line with `--cluster`. Out: that command once per part, tried again where it
fails, and the parts put together. `options.Cluster` and `whole.run_parts` are what tools use.
"""
